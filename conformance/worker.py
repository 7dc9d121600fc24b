"""The child process that holds the engine: it builds caches, runs schedules, shrinks, and reports by messages.

The parent watches (see `supervisor`): a native loop ignores signals and a native crash takes its process along, so
nothing here is trusted to come back.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

from milepost.conformance import clock
from milepost.conformance.calls import describe
from milepost.conformance.corpus import load_corpus
from milepost.conformance.drain import Capacity, filler, fresh_capacity
from milepost.conformance.driver import Driver, Observer
from milepost.conformance.errors import KitError
from milepost.conformance.generation import SeededSource
from milepost.conformance.marks import MarkObserver
from milepost.conformance.outcome import Outcome
from milepost.conformance.promises import boundary_observer, inert_complaint
from milepost.conformance.shrinker import shrink
from milepost.conformance.targets import Target, build, resolve
from milepost.conformance.unaligned import UnalignedObserver, UnalignedState
from milepost.conformance.whitebox import accounting_observer, inventory_observer
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.schedule import Schedule
from milepost.spec.seam import Adapter


@dataclass(slots=True)
class Done:
    """What one schedule leaves for the parent; `outcome` only where it failed."""

    number: int
    code: str
    operations: int
    marks: Counter[str]
    skipped: Counter[str]
    unaligned: UnalignedState
    engine_seconds: float
    judging_seconds: float
    outcome: Outcome | None = None


@dataclass(slots=True)
class Bench:
    """Builds and runs: one target, its fresh capacity by configuration, the shared beat."""

    target: Target
    beat: Callable[[int, int], None]
    capacities: dict[str, Capacity] = field(default_factory=dict)

    def capacity(self, configuration: Configuration) -> Capacity:
        """Return what a fresh instance of these sizes grants, measured once."""
        key = repr(configuration)
        if key not in self.capacities:
            self.capacities[key] = fresh_capacity(lambda: build(self.target, configuration))
        return self.capacities[key]

    def run(self, schedule: Schedule, number: int = 0, observed: bool = True) -> tuple[Outcome, UnalignedState]:
        """Run one schedule on a fresh cache."""
        configuration = schedule.header.configuration
        adapter = build(self.target, configuration)
        marks = MarkObserver(adapter.capabilities, schedule.header.anchor)
        unaligned = UnalignedObserver(adapter.capabilities)
        observers: list[Observer] = [*_checks(adapter)]
        if observed:
            observers += [marks, unaligned]
        try:
            driver = Driver(adapter, observers, beat=lambda index: self.beat(number, index))
            outcome = driver.run(schedule, filler(lambda: self.capacity(configuration)))
        finally:
            close = getattr(adapter, "shutdown", None)
            if close is not None:
                close()
        outcome.marks = marks.counts
        return outcome, unaligned.result()


def _checks(adapter: Adapter) -> Iterator[Observer]:
    capabilities = adapter.capabilities
    if capabilities.inventories:
        yield inventory_observer(adapter, capabilities)
    if "exact-accounting" in capabilities.promises and capabilities.accounts:
        yield accounting_observer(adapter, capabilities)
    if "strict-boundaries" in capabilities.promises:
        yield boundary_observer(capabilities)


def task_hello(bench: Bench, configuration: Configuration | None) -> Iterator[Capabilities]:
    """Build one cache and send what it declares."""
    yield build(bench.target, configuration or _first_size(bench)).capabilities


def task_sizes(bench: Bench) -> Iterator[tuple[Configuration, ...]]:
    """Send the configurations that the target can be asked for; empty where it takes any."""
    yield bench.target.sizes


def task_run(bench: Bench, jobs: Iterable[tuple[int, Schedule]]) -> Iterator[Done]:
    """Run schedules that the parent has, and report each."""
    for number, schedule in jobs:
        yield _done(bench, number, schedule)


def task_generate(bench: Bench, seed: int, numbers: Iterable[int], length: int) -> Iterator[Done]:
    """Generate schedules by seed and number, run and report each."""
    source = SeededSource(seed, length, bench.target.sizes, _declare(bench))
    for number in numbers:
        yield _done(bench, number, source.schedule(number))


def _declare(bench: Bench) -> Callable[[Configuration], Capabilities]:
    @cache
    def declared(key: str) -> Capabilities:
        return build(bench.target, wanted[key]).capabilities

    wanted: dict[str, Configuration] = {}

    def declare(configuration: Configuration) -> Capabilities:
        key = repr(configuration)
        wanted[key] = configuration
        return declared(key)

    return declare


def _done(bench: Bench, number: int, schedule: Schedule) -> Done:
    outcome, unaligned = bench.run(schedule, number)
    return Done(
        number,
        outcome.code,
        len(outcome.lines),
        outcome.marks,
        outcome.skipped,
        unaligned,
        outcome.engine_seconds,
        outcome.judging_seconds,
        outcome if outcome.failed else None,
    )


def task_outcome(bench: Bench, schedule: Schedule) -> Iterator[Outcome]:
    """Run one schedule and send its whole outcome."""
    yield bench.run(schedule)[0]


def task_shrink(bench: Bench, schedule: Schedule, code: str, seconds: float) -> Iterator[Outcome]:
    """Shrink a failing schedule as long as it fails with the same code, and send the outcome of the smallest."""

    def fails(candidate: Schedule) -> bool:
        return bench.run(candidate, observed=False)[0].code == code

    yield bench.run(shrink(schedule, fails, seconds))[0]


def task_answers(bench: Bench, schedules: Iterable[Schedule]) -> Iterator[list[str]]:
    """Run schedules and send every line as text, for a comparison with another process."""
    for schedule in schedules:
        outcome, _ = bench.run(schedule, observed=False)
        yield [f"{line.operation} -> {line.answer}" for line in outcome.lines]


def task_inert(bench: Bench) -> Iterator[str | None]:
    """Try whether the second identical prompt of the smallest cacheable size hits; send a complaint or None."""
    yield inert_complaint(build(bench.target, _first_size(bench)))


def _first_size(bench: Bench) -> Configuration:
    return bench.target.sizes[0] if bench.target.sizes else Configuration()


def task_corpus(bench: Bench) -> Iterator[list[Schedule]]:
    """Send the schedules of the corpus that this target has the groups and sizes for."""
    declare, chosen = _declare(bench), []
    for schedule in load_corpus():
        try:
            capabilities = declare(schedule.header.configuration)
        except KitError:
            continue
        kinds = {group.kind.value for group in capabilities.groups}
        if set(schedule.header.needs) <= kinds:
            chosen.append(schedule)
    yield chosen


TASKS: dict[str, Callable[..., Iterator[Any]]] = {
    name.removeprefix("task_"): function for name, function in list(globals().items()) if name.startswith("task_")
}


def main(connection: Connection, beats: Any, target_name: str, jitter_seed: int | None) -> None:
    """Serve tasks until the parent hangs up. Messages: ('item', value), ('end',), ('error', exception)."""
    sys.stdout = sys.stderr  # an engine that prints must not disturb what the parent prints
    if jitter_seed is not None:
        clock.jitter(jitter_seed)

    def beat(number: int, index: int) -> None:
        beats[0] += 1
        beats[1], beats[2] = number, index

    bench: Bench | None = None
    while True:
        try:
            name, arguments = connection.recv()
        except (EOFError, OSError):
            os._exit(0)  # an engine's threads must not keep a finished child alive
        try:
            bench = bench or Bench(resolve(target_name), beat)
            for item in TASKS[name](bench, *arguments):
                connection.send(("item", item))
            connection.send(("end", None))
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)
        except KitError as error:
            connection.send(("error", error))
        except Exception as error:  # a bug of the kit itself must reach the person, with its place
            connection.send(("bug", describe(error)))
