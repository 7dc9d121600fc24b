"""Drafts in an engine's own memory: what the harness writes at the launch, and what at the landing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from milepost.conformance.driver import Driver
from milepost.spec.answers import Grant, Landing, Refused, Slots, Table
from milepost.spec.operations import Close, Extend, Land, Open, Operation
from milepost.spec.payload import GARBAGE

from .endless import TEXT, schedule
from .engine_memory import HYBRID, Engine, run, same


class Drafting(Engine):
    """Has two draft slots for each request, and starts from the one that was accepted; `off` misses it."""

    off = 0

    def __init__(self) -> None:
        super().__init__(replace(HYBRID, speculates=2))
        self.drafts: dict[str, int] = {}
        self.stands: dict[str, int] = {}

    def columns(self, request: str) -> tuple[int, ...]:
        """Return the live slot of a request and those of its drafts."""
        return tuple(self.slot(request) + step for step in (0, 10, 20))

    def table(self, request: str) -> Table:
        live, *drafts = self.columns(request)
        return {**super().table(request), "state": Slots(live, drafts=tuple(drafts))}

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        stop = self.lengths[request]
        first = self.columns(request)[self.stands.pop(request, 0)]
        answer = super().extend(request, to + draft, 0)
        assert isinstance(answer, Grant)
        self.drafts[request], self.planned[request] = draft, to
        states = {"state": first if stop else None}
        return replace(answer, length=to, table=self.table(request), initial_state=states, draft=draft)

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        for request, count in accepted.items():
            self.lengths[request] += count
            self.stands[request] = count - self.off
        return super().land(step, accepted, sampled)


SPEAKING = Open("r1", TEXT, (1, 2, 3, 4, 5, 6, 7, 8))


@pytest.mark.parametrize("stands", [0, 1, 2])
def test_drafts_are_garbage_in_memory_until_the_landing_that_accepts_them(stands: int) -> None:
    engine = Drafting()
    operations: list[Operation] = [SPEAKING, Extend("r1", 8), Extend("r1", 9, draft=2)]
    driver = Driver(engine)
    driver.run(schedule(*operations, Land(), Land(None, {"r1": stands})))
    digests = driver.state.claims["r1"].stream.digests
    page, states = engine.read(("kv", 2), "kv"), [engine.read(("state", index), "state") for index in (21, 31, 41)]
    right = [digests[length] for length in range(9, 10 + stands)] + [GARBAGE] * (2 - stands)
    assert isinstance(page, tuple)
    assert [list(page[:3]), states] == [right, right]
    assert driver.state.claims["r1"].length == 9 + stands


def test_the_next_step_goes_on_from_the_accepted_draft_and_writes_over_those_that_were_not() -> None:
    engine = Drafting()
    steps: list[Operation] = [SPEAKING, Extend("r1", 8), Land()]
    for length, stands in ((9, 1), (11, 0), (12, 2)):
        steps += [Extend("r1", length, draft=2), Land(None, {"r1": stands})]
    same(engine, run(engine, *steps, Extend("r1", 15)))


def test_a_step_that_goes_on_from_another_draft_is_seen() -> None:
    engine = Drafting()
    engine.off = 1
    steps: list[Operation] = [SPEAKING, Extend("r1", 8), Land(), Extend("r1", 9, draft=2), Land(None, {"r1": 2})]
    outcome = run(engine, *steps, Extend("r1", 12))
    assert outcome.code == "torn-hit" and outcome.fault is not None and outcome.fault.cell == ("state", 31)


def test_a_rejected_draft_that_is_read_is_seen_in_memory() -> None:
    engine = Drafting()
    engine.off = -1
    steps: list[Operation] = [SPEAKING, Extend("r1", 8), Land(), Extend("r1", 9, draft=2), Land(None, {"r1": 1})]
    outcome = run(engine, *steps, Extend("r1", 11))
    assert outcome.code == "stale-state" and outcome.fault is not None and outcome.fault.cell == ("state", 41)


def test_drafts_of_a_request_that_was_aborted_are_not_written() -> None:
    engine = Drafting()
    steps: list[Operation] = [SPEAKING, Extend("r1", 8), Land(), Extend("r1", 9, draft=2), Close("r1")]
    outcome = run(engine, *steps, Land(None, {"r1": 2}))
    assert not outcome.failed and engine.read(("state", 31), "state") == GARBAGE
