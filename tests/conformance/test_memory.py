"""An engine's own memory: what the harness writes there and when, and what it reads back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from milepost.conformance.driver import Driver
from milepost.conformance.memory import Memory
from milepost.spec.answers import Frozen, Grant, Hit, Landing, Launched, Pages, Phase, Refused, Slots, Table
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.operations import Close, Extend, Freeze, Land, Open, Operation, Publish
from milepost.spec.payload import GARBAGE, ZERO, Content
from milepost.spec.words import Cell, GroupKind, Namespace

from .endless import TEXT, Endless, schedule
from .engine_memory import HYBRID, ONE_POOL, Engine, run, same

R1 = Open("r1", (*TEXT, 1, 2))


# -- the model runner writes


@pytest.mark.parametrize("capabilities", [HYBRID, ONE_POOL])
def test_a_step_is_written_as_the_forward_would(capabilities: Capabilities) -> None:
    engine = Engine(capabilities)
    same(engine, run(engine, R1, Extend("r1", 6), Extend("r1", 10), Open("r2", TEXT), Extend("r2", 8)))
    assert engine.tensors.log == [
        "write kv 0", "write kv 1", "write state 21", "write kv 1", "write kv 2", "write state 21", "write kv 3",
        "write kv 4", "write state 22",
    ]


def test_only_the_new_entries_of_a_page_are_written() -> None:
    engine = Engine()
    run(engine, R1, Extend("r1", 6))
    page = engine.tensors.cells["kv", 1]
    assert isinstance(page, tuple) and page[2:] == (GARBAGE, GARBAGE)


@pytest.mark.parametrize(
    ("operation", "flushed"),
    [
        (Open("r2", TEXT), True), (Land(), True), (Publish("r1"), True), (Freeze("r1"), True),
        (Close("r1"), False),
    ],
)
def test_a_step_is_held_back_until_the_engine_may_copy_or_the_landing(operation: Operation, flushed: bool) -> None:
    engine = Engine()
    run(engine, R1, Extend("r1", 8), operation)
    verb = next(at for at, call in enumerate(engine.calls) if call.startswith(operation.verb) and "r1 10" not in call)
    assert ("write kv 0" in engine.calls[:verb]) == flushed


def test_a_step_is_written_before_the_next_launch() -> None:
    engine = Engine()
    run(engine, R1, Open("r2", TEXT), Extend("r1", 8), Extend("r2", 8))
    assert engine.calls.index("write state 21") < engine.calls.index("launch r2")
    assert engine.calls.index("write state 21") > engine.calls.index("extend r2 8")


def test_a_grant_writes_nothing() -> None:
    engine = Engine()
    run(engine, R1, Extend("r1", 8))
    assert engine.calls == [
        "open r1 10", "extend r1 8", "launch r1", "write kv 0", "write kv 1", "write state 21", "land 1",
    ]


def test_reported_copies_are_not_carried_out_again() -> None:
    engine = Engine()
    same(engine, run(engine, R1, Extend("r1", 8), Freeze("r1"), Extend("r1", 10)))
    assert engine.tensors.log.count("write state 71") == 0 and ("state", 71) in engine.tensors.cells


# -- what is read back


class Forgetful(Engine):
    """Answers a freeze with a copy and does not carry it out."""

    def freeze(self, request: str) -> Frozen | Refused:
        kept = dict(self.tensors.cells)
        answer = super().freeze(request)
        self.tensors.cells = kept
        return answer


def test_memory_decides_where_a_reported_copy_was_not_carried_out() -> None:
    engine = Forgetful()
    outcome = run(engine, R1, Extend("r1", 8), Freeze("r1"))
    frozen = next(line.answer for line in outcome.lines if isinstance(line.answer, Frozen))
    assert frozen.readings == {("state", 71): GARBAGE}
    assert outcome.state.contents["state", 71] == GARBAGE


def test_a_reading_is_judged_by_the_next_read() -> None:
    class Offering(Forgetful):
        def freeze(self, request: str) -> Frozen | Refused:
            self.offer = Hit(8, {"kv": Pages((0, 1)), "state": Slots(source=71)})
            return super().freeze(request)

    outcome = run(Offering(), R1, Extend("r1", 8), Freeze("r1"), Open("r2", (*TEXT, 3)))
    assert outcome.code == "stale-state" and outcome.fault is not None and outcome.fault.cell == ("state", 71)


class Corrupting(Engine):
    """Overwrites something of its memory at the next publish, and says nothing."""

    victim: Cell = ("state", 21)

    def publish(self, request: str) -> Landing | Refused:
        content = self.tensors.cells[self.victim]
        self.tensors.cells[self.victim] = ("spoilt",) if content is None else (  # type: ignore[assignment]
            (GARBAGE, *content[1:]) if isinstance(content, tuple) else GARBAGE
        )
        return super().publish(request)


def test_an_effect_on_a_state_that_is_not_reported_is_seen() -> None:
    outcome = run(Corrupting(), R1, Extend("r1", 8), Publish("r1"), Extend("r1", 10))
    assert outcome.code == "stale-state" and outcome.fault is not None
    assert (outcome.fault.cell, outcome.fault.found) == (("state", 21), None)


def test_an_effect_on_a_page_that_is_not_reported_is_seen_by_the_next_step_that_reads_it() -> None:
    engine = Corrupting()
    engine.victim = ("kv", 0)
    outcome = run(engine, R1, Extend("r1", 8), Publish("r1"), Extend("r1", 10))
    assert outcome.code == "stale-kv" and outcome.fault is not None and outcome.fault.cell == ("kv", 0)


def test_an_effect_on_a_page_that_is_not_reported_is_seen_by_a_hit() -> None:
    class Offering(Corrupting):
        victim = ("kv", 1)

        def close(self, request: str, keep: bool) -> Landing:
            self.offer = Hit(8, {"kv": Pages((0, 1)), "state": Slots(source=21)})
            return super().close(request, keep)

    operations: list[Operation] = [R1, Extend("r1", 8), Land()]
    assert not run(Offering(), *operations, Close("r1"), Open("r2", (*TEXT, 3))).failed
    outcome = run(Offering(), *operations, Publish("r1"), Close("r1"), Open("r2", (*TEXT, 3)))
    assert outcome.code == "stale-kv" and outcome.fault is not None and outcome.fault.position == 4


def test_what_an_earlier_tenant_left_in_an_unwritten_cell_is_not_its_content() -> None:
    """The engine forgets to zero a live slot in which the right bytes happen to lie."""
    class Lazy(Engine):
        def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
            answer = super().extend(request, to, draft)
            return replace(answer, initial_state={"state": 21}) if isinstance(answer, Grant) else answer

    lazy = Lazy()
    lazy.tensors.cells[("state", 21)] = ZERO
    assert run(lazy, R1, Extend("r1", 8)).code == "uninitialized-read"


def test_a_restore_that_is_carried_out_and_not_reported_is_seen_in_memory() -> None:
    """The state is supplied from outside, at the open."""

    class Supplying(Engine):
        def close(self, request: str, keep: bool) -> Landing:
            self.kept = self.tensors.cells[("state", 21)]
            self.offer = Hit(8, {"kv": Pages((0, 1)), "state": Slots(22)})
            return super().close(request, keep)

        def open(
            self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
        ) -> Hit | Refused:
            answer = super().open(request, tokens, namespace, content)
            if self.offer is not None:
                self.tensors.cells[("state", 22)] = self.kept
                answer = replace(self.offer, phases=(Phase(zeros=(("state", 22),)),))
            return answer

    engine = Supplying()
    outcome = run(engine, R1, Extend("r1", 8), Land(), Close("r1"), Open("r2", (*TEXT, 3)), Extend("r2", 9))
    same(engine, outcome)


def test_entries_that_were_never_written_stay_so_whatever_a_copy_brings() -> None:
    engine = Engine()
    driver = Driver(engine)
    driver.run(schedule(R1, Extend("r1", 6)))
    state = driver.state
    engine.tensors.run((Phase((("kv", 1, 9),)),))
    answer = Landing(phases=(Phase((("kv", 1, 9),)),))
    assert driver.memory.differences(state, answer, {}) == {}
    engine.tensors.cells["kv", 9] = (GARBAGE,) * 4
    source = state.contents["kv", 1]
    assert isinstance(source, tuple) and source[2:] == (None, None)
    assert driver.memory.differences(state, answer, {}) == {("kv", 9): (GARBAGE, GARBAGE, None, None)}


def test_what_the_harness_holds_back_is_not_read_back() -> None:
    engine = Engine()
    same(engine, run(engine, R1, Extend("r1", 8), Close("r1"), Land()))


# -- groups that share a pool


def test_one_pool_is_read_through_the_group_that_a_table_gives_its_cells() -> None:
    other = Group("near", GroupKind.WINDOW, "cells", page_size=4, window=6, executes="engine")
    capabilities = replace(ONE_POOL, groups=(*ONE_POOL.groups, other))
    asked: list[str] = []

    class Two(Engine):
        def table(self, request: str) -> Table:
            pages = self.pages[request]
            return {**super().table(request), "near": Pages(tuple(one + 500 for one in pages))}

        def write(self, cell: Cell, group: str, content: Content) -> None:
            asked.append(f"{group} {cell[1]}")

        def read(self, cell: Cell, group: str) -> Content:
            asked.append(f"read {group} {cell[1]}")
            return None

    Driver(Two(capabilities)).run(schedule(R1, Extend("r1", 8), Land()))
    written = [one for one in asked if not one.startswith("read")]
    assert sorted(written) == ["kv 0", "kv 1", "near 500", "near 501", "state 21"]
    assert {one for one in asked if one.startswith("read")} <= {"read state 21"}


def test_a_cell_that_no_table_names_is_read_by_the_form_of_its_content() -> None:
    engine = Engine(ONE_POOL)
    driver = Driver(engine)
    driver.run(schedule(R1, Extend("r1", 8)))
    phases = engine.tensors.run((Phase((("cells", 0, 90), ("cells", 21, 91))),))
    assert driver.memory.differences(driver.state, Landing(phases=phases), {}) == {}
    engine.tensors.cells["cells", 91] = 5
    assert driver.memory.differences(driver.state, Landing(phases=phases), {}) == {("cells", 91): 5}


# -- shadow memory


def test_a_cache_in_shadow_memory_is_never_read_or_written() -> None:
    class Shadow(Engine):
        def read(self, cell: Cell, group: str) -> Content:
            raise AssertionError("read")

        def write(self, cell: Cell, group: str, content: Content) -> None:
            raise AssertionError("written")

    groups = tuple(replace(group, executes="shadow") for group in HYBRID.groups)
    outcome = run(Shadow(replace(HYBRID, groups=groups)), R1, Extend("r1", 8), Freeze("r1"), Extend("r1", 10))
    assert not outcome.failed


def test_memory_that_is_declared_must_be_within_reach() -> None:
    with pytest.raises(TypeError, match="no read and write"):
        Memory(Endless(), HYBRID)


def test_a_launch_reports_what_it_found() -> None:
    """Launched answers carry readings too: the live slot was never restored."""

    class Careless(Engine):
        def launch(self) -> Launched:
            answer = super().launch()
            return replace(answer, phases=(Phase((("state", 21, 22),)),)) if self.steps == 2 else answer

    engine = Careless()
    outcome = run(engine, R1, Extend("r1", 8), Land(), Open("r2", TEXT), Extend("r2", 8))
    launched = [line.answer for line in outcome.lines if isinstance(line.answer, Launched)][-1]
    assert launched.readings == {("state", 22): GARBAGE}
