"""The driver turns a schedule into calls: it clamps, implies, skips, plays the model runner, and tells who failed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from milepost.conformance.driver import Driver
from milepost.conformance.errors import AdapterError, EngineCrash, EngineHang, UsageError
from milepost.conformance.generation import SeededSource
from milepost.conformance.outcome import Broken, Line
from milepost.reference.cache import make
from milepost.spec.answers import Grant, Hit, Landing, Launched, Pages, Refused, Slots
from milepost.spec.capabilities import Configuration
from milepost.spec.faults import Fault
from milepost.spec.operations import (
    Close,
    Drain,
    Evict,
    Extend,
    Freeze,
    Land,
    Launch,
    Open,
    Operation,
    Preempt,
    Publish,
    Reset,
)
from milepost.spec.state import State
from milepost.spec.words import Namespace

from .endless import MORE, PAGED, TEXT, Endless, calls, drive, schedule

R1, R2 = Open("r1", TEXT, MORE), Open("r2", TEXT, MORE)

# -- steps


def test_an_extend_with_no_launch_after_it_launches_alone() -> None:
    assert calls([R1, R2, Extend("r1", 4), Extend("r2", 4)]) == [
        "open r1 8", "open r2 8", "extend r1 4", "launch r1", "extend r2 4", "launch r2", "land 1", "land 2",
    ]


def test_extends_before_a_launch_are_one_step() -> None:
    assert calls([R1, Extend("r1", 4), R2, Extend("r2", 8), Evict("kv"), Launch()]) == [
        "open r1 8", "extend r1 4", "open r2 8", "extend r2 8", "evict kv 1", "launch r1 r2", "land 1",
    ]


def test_a_batch_ends_where_something_needs_its_results() -> None:
    assert calls([R1, R2, Extend("r1", 4), Publish("r1"), Extend("r2", 4), Launch()]) == [
        "open r1 8", "open r2 8", "extend r1 4", "launch r1", "land 1", "publish r1", "extend r2 4", "launch r2",
        "land 2",
    ]


def test_a_second_extend_of_a_request_launches_the_first() -> None:
    assert calls([R1, Extend("r1", 4), Extend("r1", 8), Launch()]) == [
        "open r1 8", "extend r1 4", "launch r1", "extend r1 8", "launch r1", "land 1", "land 2",
    ]


def test_a_cache_without_batches_gets_a_step_for_each_extend() -> None:
    assert calls([R1, R2, Extend("r1", 4), Extend("r2", 8), Launch()], batched_steps=False) == [
        "open r1 8", "open r2 8", "extend r1 4", "launch r1", "extend r2 8", "launch r2", "land 1", "land 2",
    ]


@pytest.mark.parametrize("overlap", [0, 1])
def test_a_step_lands_before_a_launch_that_would_leave_too_many_unlanded(overlap: int) -> None:
    asked = calls([R1, *(Extend("r1", to) for to in (2, 4, 6, 8))], overlap=overlap)
    unlanded = [sum(one.startswith("launch") - one.startswith("land") for one in asked[:at])
                for at, call in enumerate(asked) if call.startswith("launch")]
    assert unlanded == [0, overlap, overlap, overlap]


@pytest.mark.parametrize("operation", [Publish("r1"), Freeze("r1"), Preempt("r1")])
def test_a_step_lands_before_its_request_publishes_freezes_or_is_preempted(operation: Operation) -> None:
    asked = calls([R1, Extend("r1", 4), operation], explicit_freeze=True)
    assert asked == ["open r1 8", "extend r1 4", "launch r1", "land 1", f"{operation.verb} r1"]


@pytest.mark.parametrize("operation", [Publish("r2"), Preempt("r2")])
def test_a_step_of_another_request_does_not_land_for_that(operation: Operation) -> None:
    asked = calls([R2, Extend("r2", 4), Land(), R1, Extend("r1", 4), operation])
    assert asked[-3:] == ["launch r1", f"{operation.verb} r2", "land 2"]


def test_a_close_never_forces_a_landing() -> None:
    assert calls([R1, Extend("r1", 4), Close("r1")])[-2:] == ["close r1", "land 1"]


def test_a_cache_without_aborts_is_closed_after_the_landing() -> None:
    assert calls([R1, Extend("r1", 4), Close("r1", keep=True)], aborts=False)[-2:] == ["land 1", "close r1 keep"]
    assert calls([R1, Extend("r1", 4), Drain()], aborts=False)[-2:] == ["land 1", "close r1"]


@pytest.mark.parametrize(
    ("operation", "drops", "launched"),
    [
        (Close("r1"), (), True), (Close("r1"), ("preempt",), True), (Close("r1"), ("close",), False),
        (Preempt("r1"), ("close",), True), (Preempt("r1"), ("preempt",), False),
    ],
)
def test_a_plan_is_dropped_only_by_what_is_declared_to_drop_plans(
    operation: Operation, drops: tuple[str, ...], launched: bool
) -> None:
    asked = calls([R1, Extend("r1", 4), operation, Launch()], drops_planned=drops)
    assert ("launch r1" in asked) == launched
    assert asked.index(f"{operation.verb} r1") > 1


def test_what_is_planned_at_the_end_is_launched_and_landed() -> None:
    outcome = drive(Endless(), [R1, Extend("r1", 4), Launch()])
    assert [(line.operation.verb, line.part) for line in outcome.lines] == [
        ("open", ""), ("extend", ""), ("launch", ""), ("land", "end"),
    ]


def test_a_landing_names_its_step_or_takes_the_oldest() -> None:
    operations: list[Operation] = [R1, R2, Extend("r1", 4), Extend("r2", 4)]
    for landing in (Land(1), Land()):
        assert calls([*operations, landing, Publish("r1")])[-4:] == ["launch r2", "land 1", "publish r1", "land 2"]
    assert calls([*operations, Land(7)])[-3:] == ["launch r2", "land 1", "land 2"]


def test_behind_an_ordered_queue_steps_land_in_order_and_elsewhere_as_the_schedule_says() -> None:
    batch: list[Operation] = [R1, R2, Extend("r1", 4), Launch(), Extend("r2", 4), Launch()]
    for ordered, expected in ((True, ["land 1", "land 2"]), (False, ["land 2", "land 1"])):
        cache = Endless(replace(PAGED, ordered_steps=ordered, overlap=2))
        drive(cache, [*batch, Land(2)])
        assert cache.calls[-2:] == expected


def test_the_short_form_and_the_long_form_ask_the_same() -> None:
    short: list[Operation] = [R1, Extend("r1", 4), Extend("r1", 8), Publish("r1"), Close("r1")]
    steps: list[Operation] = [Extend("r1", 4), Launch(), Extend("r1", 8), Launch(), Land(), Land()]
    long: list[Operation] = [R1, *steps, Publish("r1"), Close("r1")]
    assert calls(short) == calls(long)


# -- lengths and tokens


def test_lengths_are_clamped_to_what_there_is() -> None:
    assert calls([R1, Extend("r1", 100)], overlap=0)[-3:] == ["extend r1 12", "launch r1", "land 5"]


def test_an_extend_past_the_prompt_is_one_step_for_each_token_that_the_model_says() -> None:
    cache = Endless()
    drive(cache, [R1, Extend("r1", 10)])
    assert [call for call in cache.calls if call.startswith("extend")] == ["extend r1 8", "extend r1 9", "extend r1 10"]
    assert cache.learnt["r1"] == MORE[:3]


def test_sampled_tokens_are_learnt_at_the_landing_and_never_twice() -> None:
    cache = Endless()
    drive(cache, [R1, Extend("r1", 4), Land()])
    assert cache.learnt == {}
    drive(cache, [R2, Extend("r2", 8), Land(), Extend("r2", 12), Land()])
    assert cache.learnt["r2"] == MORE


def test_a_batched_extend_decodes_one_token() -> None:
    asked = calls([R1, Extend("r1", 8), Extend("r1", 12), Launch()], overlap=0)
    assert asked[-4:] == ["land 1", "extend r1 9", "launch r1", "land 2"]


def test_a_prompt_of_which_less_was_granted_is_left_to_the_schedule() -> None:
    assert calls([R1, Extend("r1", 8)], grain=3)[1:] == ["extend r1 8", "launch r1", "land 1"]
    assert "extend r1 9" in calls([R1, *[Extend("r1", 8)] * 2, Extend("r1", 9)], grain=4)


def test_a_refused_extend_is_the_end_of_that_extend() -> None:
    cache = Endless()
    cache.refusals = 2
    drive(cache, [R1, Extend("r1", 8), Extend("r1", 4)])
    assert cache.calls[1:] == ["extend r1 8", "extend r1 4", "launch r1", "land 1"]


def test_where_no_drafts_are_offered_none_are_driven_or_accepted() -> None:
    outcome = drive(Endless(), [R1, Extend("r1", 4, draft=2), Land(None, {"r1": 1})])
    assert outcome.skipped["drafts are not offered"] == 1
    assert calls([R1, Extend("r1", 4, draft=2), Land(None, {"r1": 1})])[1:] == ["extend r1 4", "launch r1", "land 1"]


SPEAKING = Open("r1", tuple(range(5)), tuple(range(5, 12)))


@pytest.mark.parametrize(("asked", "stands"), [(0, 0), (2, 2), (3, 3), (9, 3)])
def test_as_many_drafts_stand_as_a_landing_says_and_the_step_had(asked: int, stands: int) -> None:
    operations: list[Operation] = [SPEAKING, Extend("r1", 5, draft=3), Land(None, {"r1": asked})]
    cache = make(Configuration(speculates=3))
    outcome = Driver(cache).run(schedule(*operations))
    assert not outcome.failed and not outcome.skipped
    claim = outcome.state.claims["r1"]
    assert (claim.length, claim.known, cache.requests["r1"].length) == (5 + stands, 6 + stands, 5 + stands)


def test_only_the_last_step_behind_a_prompt_speculates_and_nothing_is_planned_before_it_lands() -> None:
    operations: list[Operation] = [SPEAKING, Extend("r1", 4, draft=3), Extend("r1", 8, draft=2), Extend("r1", 9)]
    outcome = Driver(make(Configuration(speculates=3))).run(schedule(*operations))
    asked = [(one.operation.to, one.operation.draft) for one in outcome.lines if isinstance(one.operation, Extend)]
    assert asked == [(4, 0), (5, 0), (6, 0), (7, 0), (8, 2), (9, 0)]
    verbs = [one.operation.verb for one in outcome.lines]
    assert verbs.index("land") < len(verbs) - 1 and not outcome.failed


def test_no_more_drafts_stand_than_the_model_says() -> None:
    operations: list[Operation] = [Open("r1", tuple(range(5)), (5, 6)), Extend("r1", 5, draft=3), Land(None, {"r1": 3})]
    outcome = Driver(make(Configuration(speculates=3))).run(schedule(*operations))
    assert not outcome.failed and outcome.state.claims["r1"].length == 7


# -- what cannot be is skipped and counted


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        ([Extend("r9", 4)], "the request is not open"),
        ([Close("r9")], "the request is not open"),
        ([Publish("r9")], "the request is not open"),
        ([Preempt("r9")], "the request is not open"),
        ([R1, R1], "the request is open already"),
        ([Open("r1", ())], "the prompt is empty"),
        ([Open("r1", TEXT, namespace=(("salt", "x"),))], "the namespace is not offered"),
        ([Open("r1", TEXT, content={2: "cat"})], "contents are not offered"),
        ([R1, Extend("r1", 8), Extend("r1", 4)], "the request is that long already"),
        ([R1, Publish("r1")], "nothing is computed yet"),
        ([Land()], "nothing is in flight"),
        ([R1, Freeze("r1")], "freeze is not offered"),
        ([Evict("state")], "evict is not offered"),
    ],
)
def test_what_cannot_be_is_skipped_and_counted(operations: list[Operation], reason: str) -> None:
    assert drive(Endless(), operations).skipped == {reason: 1}


@pytest.mark.parametrize(
    ("operation", "change"),
    [
        (Publish("r1"), {"explicit_publish": False}),
        (Preempt("r1"), {"preempts": False}),
        (Reset(), {"resets": "never"}),
        (Evict("kv"), {"evicts": False}),
    ],
)
def test_what_a_cache_does_not_offer_is_never_asked(operation: Operation, change: dict[str, object]) -> None:
    cache = Endless(replace(PAGED, **change))  # type: ignore[arg-type]
    outcome = drive(cache, [R1, Extend("r1", 4), operation])
    assert outcome.skipped == {f"{operation.verb} is not offered": 1}
    assert cache.calls == ["open r1 8", "extend r1 4", "launch r1", "land 1"]


def test_a_launch_with_nothing_planned_is_nothing() -> None:
    assert calls([Launch(), R1, Launch()]) == ["open r1 8"]


@pytest.mark.parametrize("number", range(12))
def test_every_subsequence_of_a_schedule_is_a_schedule(number: int) -> None:
    source = SeededSource(11, 40, (), lambda configuration: make(configuration).capabilities)
    whole = source.schedule(number)
    chance = random.Random(number)
    for _ in range(6):
        kept = tuple(one for one in whole.operations if chance.random() < chance.choice((0.3, 0.6, 0.9)))
        outcome = Driver(make(whole.header.configuration)).run(replace(whole, operations=kept), lambda driver: None)
        assert not outcome.failed


# -- preempted requests


def test_a_preempted_request_comes_back_with_all_its_tokens_so_far() -> None:
    cache = Endless(replace(PAGED, contents=True, overlap=0))
    placeholder = Open("r1", TEXT, MORE, content={2: "cat"})
    drive(cache, [placeholder, Extend("r1", 9), Preempt("r1"), Extend("r1", 10), R1, Extend("r1", 12)])
    assert cache.calls[0] == "open r1 8 (2, 'cat')"
    again = cache.calls.index("open r1 10 (2, 'cat')")
    assert cache.calls[again + 1 : again + 5] == ["extend r1 10", "launch r1", "land 3", "extend r1 11"]
    assert cache.learnt["r1"] == MORE


def test_extends_of_a_preempted_request_are_skipped() -> None:
    outcome = drive(Endless(), [R1, Extend("r1", 4), Preempt("r1"), Extend("r1", 8), Close("r1")])
    assert outcome.skipped == {"the request is not open": 2}


# -- opens that lease nothing


def test_an_open_that_leases_nothing_waits_for_its_first_extend() -> None:
    asked = calls([R1, Evict("kv"), R2, Extend("r2", 4), Extend("r1", 4)], leases_on_open=False)
    assert asked == [
        "evict kv 1", "open r2 8", "extend r2 4", "launch r2", "open r1 8", "extend r1 4", "launch r1", "land 1",
        "land 2",
    ]


def test_it_waits_inside_a_batch_too() -> None:
    asked = calls([R1, R2, Extend("r1", 4), Extend("r2", 4), Launch()], leases_on_open=False)
    assert asked == ["open r1 8", "extend r1 4", "open r2 8", "extend r2 4", "launch r1 r2", "land 1"]


def test_no_landing_comes_between_such_an_open_and_its_extend() -> None:
    asked = calls([R1, R2, Extend("r1", 4), Extend("r2", 4)], leases_on_open=False, overlap=0)
    assert asked == [
        "open r1 8", "extend r1 4", "launch r1", "land 1", "open r2 8", "extend r2 4", "launch r2", "land 2",
    ]


def test_such_an_open_is_extended_by_a_token_at_least() -> None:
    class Hitting(Endless):
        def open(
            self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: dict[int, str]  # type: ignore[override]
        ) -> Hit | Refused:
            super().open(request, tokens, namespace, content)
            if request == "r1":
                return Hit(0)
            self.pages[request], self.lengths[request] = self.pages["r1"], 4
            return Hit(4, {"kv": Pages(self.pages["r1"])})

    cache = Hitting(replace(PAGED, leases_on_open=False))
    drive(cache, [R1, Extend("r1", 4), R2, Extend("r2", 3)])
    assert cache.calls[-4:] == ["extend r2 5", "launch r2", "land 1", "land 2"]


def test_such_an_open_with_no_extend_is_asked_when_the_schedule_ends() -> None:
    outcome = drive(Endless(replace(PAGED, leases_on_open=False)), [R1, Extend("r1", 4), R2])
    assert [(line.operation.verb, line.part) for line in outcome.lines[-4:]] == [
        ("land", "end"), ("open", "end"), ("extend", "end"), ("launch", "end"),
    ]


def test_such_an_open_is_forgotten_by_a_close_or_a_drain() -> None:
    outcome = drive(Endless(replace(PAGED, leases_on_open=False)), [R1, R1, Publish("r1"), Close("r1")])
    assert outcome.lines == [] and outcome.skipped == {
        "the request is open already": 1, "the request is not open": 1, "the request was never extended": 1,
    }
    assert calls([R1, Drain()], leases_on_open=False) == []


def test_a_refused_first_extend_voids_it() -> None:
    cache = Endless(replace(PAGED, leases_on_open=False))
    cache.refusals = 2
    drive(cache, [R1, Extend("r1", 4), Extend("r1", 8), R1, Extend("r1", 8)])
    assert cache.calls == ["open r1 8", "extend r1 4", "open r1 8", "extend r1 8", "launch r1", "land 1"]


# -- who failed


class Failing(Endless):
    """Raises at a launch."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def launch(self) -> Launched:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "detail"),
    [
        (IndexError("pop from an empty list"), "crash", "IndexError: pop from an empty list at"),
        (AssertionError(), "crash", "AssertionError: no text at"),
        (EngineCrash("its program ended with 3"), "crash", "its program ended with 3"),
        (EngineHang("no answer in 2 s"), "hang", "no answer in 2 s"),
    ],
)
def test_what_an_engine_raises_is_its_fault(error: BaseException, code: str, detail: str) -> None:
    outcome = Driver(Failing(error)).run(schedule(R1, Extend("r1", 4), Close("r1")))
    assert outcome.code == code and outcome.fault is not None and outcome.fault.detail.startswith(detail)
    last = outcome.lines[-1]
    assert (last.index, last.operation, last.answer) == (2, Launch(), None)
    assert outcome.state.claims["r1"].length == 0


def test_an_error_of_the_kit_is_none_of_the_engine() -> None:
    with pytest.raises(UsageError):
        Driver(Failing(UsageError("no such file"))).run(schedule(R1, Extend("r1", 4)))


class Nonsense(Endless):
    """Answers whatever it was told to answer to an extend."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    "answer",
    [
        None, 7, Landing(), Grant("8"), Grant(8, {"kv": Slots(3)}), Grant(8, {"conv": Pages()}),  # type: ignore[arg-type]
        Grant(0), Grant(9), Grant(8, {"kv": None}), Grant(8, tables={"r9": {}}), Refused("out of luck"),  # type: ignore[dict-item]
    ],
)
def test_an_answer_that_makes_no_sense_is_the_adapters_error(answer: object) -> None:
    with pytest.raises(AdapterError, match="operation 2, extend: "):
        Driver(Nonsense(answer)).run(schedule(R1, Extend("r1", 8)))


def test_a_fault_ends_the_schedule_and_keeps_the_state_before_it() -> None:
    outcome = Driver(Nonsense(Grant(8))).run(schedule(R1, Extend("r1", 8), Close("r1")))
    assert outcome.code == "kv-gap" and [line.operation.verb for line in outcome.lines] == ["open", "extend", "launch"]
    assert outcome.state.claims["r1"].planned == Grant(8)


def test_an_observer_sees_every_line_and_may_end_the_run() -> None:
    seen: list[str] = []

    def watch(before: State, line: Line, after: State) -> Fault | Broken | None:
        seen.append(line.operation.verb)
        assert before is not after
        return Broken("not-inert", "it is") if line.operation.verb == "launch" else None

    outcome = Driver(Endless(), [watch]).run(schedule(R1, Extend("r1", 4), Close("r1")))
    assert seen == ["open", "extend", "launch"]
    assert (outcome.code, outcome.failed) == ("promise:not-inert", True)


def test_the_beat_tells_which_operation_is_asked() -> None:
    beats: list[int] = []
    Driver(Endless(), beat=beats.append).run(schedule(R1, Extend("r9", 4), Extend("r1", 4), Close("r1")))
    assert beats == [1, 3, 3, 4, 4]
