"""Each liberty is odd where a caller can see it, and nothing that it answers breaks a law."""

from collections.abc import Callable

import pytest

from milepost.conformance.driver import Driver
from milepost.conformance.generation import SeededSource
from milepost.reference.cache import make
from milepost.reference.liberties import LIBERTIES, LIBERTY_PROFILES
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.schedule import Schedule
from milepost.spec.seam import Adapter

SCHEDULES = 80
PROFILES = {"", *LIBERTY_PROFILES.values()}
SOURCES = {one: SeededSource(7, 50, (), lambda sizes: make(sizes).capabilities, one) for one in PROFILES}


def answers(maker: Callable[[Configuration], Adapter], schedule: Schedule) -> tuple[Capabilities, list[str]]:
    """Return what a cache declares and answers; it must be without fault."""
    adapter = maker(schedule.header.configuration)
    outcome = Driver(adapter).run(schedule, lambda driver: None)
    assert outcome.fault is None
    return adapter.capabilities, [f"{line.operation} {line.answer}" for line in outcome.lines]


@pytest.mark.parametrize("name", LIBERTIES)
def test_a_liberty_is_seen(name: str) -> None:
    for number in range(SCHEDULES):
        schedule = SOURCES[LIBERTY_PROFILES.get(name, "")].schedule(number)
        _, usual = answers(make, schedule)
        _, odd = answers(LIBERTIES[name], schedule)
        if usual != odd:
            return
    pytest.fail(f"{name} answered {SCHEDULES} schedules as the reference does")


@pytest.mark.parametrize("profile", sorted(PROFILES - {""}))
@pytest.mark.parametrize("name", LIBERTIES)
def test_a_liberty_is_one_with_any_groups(name: str, profile: str) -> None:
    for number in range(8):
        answers(LIBERTIES[name], SOURCES[profile].schedule(number))


OF_FORM = ("coarse-grid", "end-anywhere", "step-relative-grid", "one-pool", "reuse-behind-queue")
"""Liberties that a caller has to know of beforehand."""


@pytest.mark.parametrize("name", OF_FORM)
def test_a_liberty_of_form_is_declared(name: str) -> None:
    assert LIBERTIES[name](Configuration()).capabilities != make(Configuration()).capabilities
