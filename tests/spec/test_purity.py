"""The judge is a pure function of its state, an operation and an answer."""

from __future__ import annotations

from copy import deepcopy

import pytest

from milepost.conformance.driver import Driver
from milepost.conformance.generation import SeededSource
from milepost.conformance.outcome import Line
from milepost.reference.cache import make
from milepost.spec.answers import Grant
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.faults import Fault
from milepost.spec.operations import Extend
from milepost.spec.schedule import Schedule
from milepost.spec.state import State, initial
from milepost.spec.step import step

from .world import World, hybrid, legal


def capabilities_of(configuration: Configuration) -> Capabilities:
    return make(configuration).capabilities


def recorded(number: int) -> tuple[Capabilities, list[Line]]:
    """Return what the reference answered to a generated schedule."""
    schedule: Schedule = SeededSource(5, 30, (), capabilities_of).schedule(number)
    cache = make(schedule.header.configuration)
    outcome = Driver(cache).run(schedule)
    assert not outcome.failed
    return cache.capabilities, outcome.lines


def judged(state: State, line: Line) -> State:
    assert line.answer is not None
    return legal(step(state, line.operation, line.answer))


@pytest.mark.parametrize("number", range(8))
def test_a_state_is_never_changed_by_what_is_judged_after_it(number: int) -> None:
    declared, lines = recorded(number)
    state = initial(declared)
    for line in lines:
        before = deepcopy(state)
        after = judged(state, line)
        assert facts(state) == facts(before)
        state = after


@pytest.mark.parametrize("number", range(4))
def test_the_same_line_is_judged_the_same_way_again(number: int) -> None:
    declared, lines = recorded(number)
    state = initial(declared)
    for line in lines:
        once, again = judged(state, line), judged(state, line)
        assert facts(once) == facts(again)
        state = once


def facts(state: State) -> tuple[object, ...]:
    """Return what a state says, without the streams, which compare by identity."""
    claims = {name: (claim.length, claim.known, claim.table, claim.cells, claim.leases, claim.restoring,
                     claim.promised, claim.planned, claim.extended, claim.closed)
              for name, claim in state.claims.items()}
    digests = [(name, stream.digests) for name, stream in state.streams]
    return state.epoch, state.contents, claims, state.flights, digests, state.suspects, list(state.claims)


def test_a_fault_leaves_the_state_as_it_was() -> None:
    world = World()
    world.compute("r1", "abcdefgh", (0, 1), live=0)
    legal(world.open("r2", "zyxwvuts"))
    before = deepcopy(world.state)
    assert isinstance(step(world.state, Extend("r2", 4), Grant(4, hybrid((5, 0), live=1))), Fault)
    assert facts(world.state) == facts(before)
