"""Runs schedules on two caches at once, until they part or enough operations were compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from milepost.cli.lockstep import Lockstep
from milepost.conformance.drain import Capacity, filler, fresh_capacity
from milepost.conformance.driver import Driver
from milepost.conformance.generation import SeededSource
from milepost.conformance.outcome import Outcome
from milepost.spec.capabilities import Configuration
from milepost.spec.schedule import Schedule

Make = Callable[[Configuration], Lockstep]
LENGTH = 40


@dataclass(slots=True)
class Compared:
    """How many operations and schedules were compared, and the first outcome that failed, None where none did."""

    operations: int = 0
    schedules: int = 0
    failed: Outcome | None = None

    @property
    def told(self) -> str:
        """What the failing outcome says, '' where none failed."""
        if self.failed is None:
            return ""
        if self.failed.fault:
            return f"{self.failed.fault.code}: {self.failed.fault.detail}"
        return str(self.failed.broken)


def generated(make: Make, seed: int, profile: str = "") -> Iterator[Schedule]:
    """Yield the generated schedules of a seed without end, for the groups of a profile where one is named."""
    source = SeededSource(seed, LENGTH, (), lambda configuration: make(configuration).capabilities, profile)
    number = 0
    while True:
        yield source.schedule(number)
        number += 1


def compare(
    make: Make, schedules: Iterator[Schedule], operations: int, make_empty: Make | None = None
) -> Compared:
    """Run schedules until that many operations were compared, or the first that fails; then verify the books.

    What an empty cache can hold, which drains are held to, is measured on one of `make_empty`, or else of `make`.
    """
    compared = Compared()
    capacities: dict[str, Capacity] = {}
    for schedule in schedules:
        configuration = schedule.header.configuration
        key = repr(configuration)

        def capacity(key: str = key, configuration: Configuration = configuration) -> Capacity:
            if key not in capacities:
                capacities[key] = fresh_capacity(lambda: (make_empty or make)(configuration))
            return capacities[key]

        pair = make(configuration)
        outcome = Driver(pair).run(schedule, filler(capacity))
        compared.operations += pair.operations
        compared.schedules += 1
        if outcome.failed:
            compared.failed = outcome
            return compared
        check = getattr(pair.cache, "check", None)
        if check:
            check()
        if compared.operations >= operations:
            return compared
    return compared
