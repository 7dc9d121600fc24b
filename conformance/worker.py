"""The child process that holds the engine: it builds caches, runs schedules, shrinks, and reports by messages.

The parent watches (see `supervisor`): a native loop ignores signals and a native crash takes its process along, so
nothing here is trusted to come back.
"""

from __future__ import annotations

import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

from milepost.conformance import child_process, clock
from milepost.conformance.calls import describe
from milepost.conformance.corpus import load_corpus
from milepost.conformance.drain import Capacity, filler, fresh_capacity
from milepost.conformance.driver import Driver, Observer
from milepost.conformance.errors import AdapterError, EngineCrash, EngineFailure, EngineHang, KitError, UsageError
from milepost.conformance.generation import SeededSource
from milepost.conformance.layouts import FIRST
from milepost.conformance.marks import MarkObserver
from milepost.conformance.outcome import Outcome
from milepost.conformance.promises import boundary_observer, inert_complaint
from milepost.conformance.shrinker import shrink
from milepost.conformance.targets import Target, build, resolve
from milepost.conformance.unaligned import UnalignedObserver, UnalignedState
from milepost.conformance.whitebox import accounting_observer, inventory_observer
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.faults import Fault
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
    """Builds and runs: one target, its fresh capacity by configuration, the shared beat.

    `current` is the schedule that is run, and stays so where an error ended it.
    """

    target: Target
    beat: child_process.Beat = field(default_factory=child_process.Beat)
    capacities: dict[str, Capacity] = field(default_factory=dict)
    current: Schedule | None = None

    def build(self, configuration: Configuration) -> Adapter:
        """Build one cache; what takes long or dies meanwhile is no operation."""
        with self.beat.building():
            return build(self.target, configuration)

    def capacity(self, configuration: Configuration) -> Capacity:
        """Return what a fresh instance of these sizes grants, measured once."""
        key = repr(configuration)
        if key not in self.capacities:
            self.capacities[key] = fresh_capacity(lambda: self.build(configuration), lambda _: self.beat.again())
        return self.capacities[key]

    def run(self, schedule: Schedule, number: int = 0, observed: bool = True) -> tuple[Outcome, UnalignedState]:
        """Run one schedule on a fresh cache."""
        self.current = schedule
        configuration = schedule.header.configuration
        adapter = self.build(configuration)
        self.beat(number, 0)
        marks = MarkObserver(adapter.capabilities, schedule.header.anchor)
        unaligned = UnalignedObserver(adapter.capabilities)
        observers: list[Observer] = [*_checks(adapter)]
        if observed:
            observers += [marks, unaligned]
        try:
            driver = Driver(adapter, observers, beat=lambda index: self.beat(number, index))
            outcome = _run(driver, schedule, filler(lambda: self.capacity(configuration)))
        finally:
            _shut_down(adapter)
        outcome.marks = marks.counts
        self.current = None
        return outcome, unaligned.result()


def _run(driver: Driver, schedule: Schedule, fill: Callable[[Driver], None]) -> Outcome:
    """Run a schedule; an engine that ends its process, or fails while it is looked into, has crashed too."""
    try:
        return driver.run(schedule, fill)
    except EngineFailure as error:
        code, text = error.code, str(error)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if isinstance(error, KitError) or not _passed_through(error, driver.adapter):
            raise
        code, text = "crash", describe(error)
    driver.outcome.state = driver.state
    driver.outcome.fault = Fault(code, "", detail=text)
    return driver.outcome


def _passed_through(error: BaseException, adapter: Adapter) -> bool:
    """Tell whether an exception came out of the adapter's own code, or of what that called."""
    module = type(adapter).__module__
    return any(frame.f_globals.get("__name__") == module for frame, _ in traceback.walk_tb(error.__traceback__))


def _shut_down(adapter: Adapter) -> None:
    """Let go of a cache that has something to let go of."""
    shutdown = getattr(adapter, "shutdown", None)
    if shutdown is None:
        return
    try:
        shutdown()
    except Exception as error:
        raise AdapterError(f"shutdown failed: {describe(error)}") from error


def _checks(adapter: Adapter) -> Iterator[Observer]:
    capabilities = adapter.capabilities
    if capabilities.inventories:
        yield inventory_observer(adapter, capabilities)
    if "exact-accounting" in capabilities.promises and capabilities.accounts:
        yield accounting_observer(adapter, capabilities)
    if "strict-boundaries" in capabilities.promises:
        yield boundary_observer(capabilities)


def task_hello(bench: Bench, configuration: Configuration | None, profile: str = "") -> Iterator[Capabilities]:
    """Build one cache, of any sizes that the profile allows where none are given, and send what it declares."""
    yield bench.build(configuration or _first_size(bench, profile)).capabilities


def task_sizes(bench: Bench) -> Iterator[tuple[Configuration, ...]]:
    """Send the configurations that the target can be asked for; empty where it takes any."""
    yield bench.target.sizes


def task_run(bench: Bench, jobs: Iterable[tuple[int, Schedule]]) -> Iterator[Done]:
    """Run schedules that the parent has, and report each."""
    for number, schedule in jobs:
        yield _done(bench, number, schedule)


def task_generate(bench: Bench, seed: int, numbers: Iterable[int], length: int, profile: str = "") -> Iterator[Done]:
    """Generate schedules by seed and number, run and report each."""
    source = SeededSource(seed, length, bench.target.sizes, _declare(bench), profile)
    for number in numbers:
        yield _done(bench, number, source.schedule(number))


def _declare(bench: Bench) -> Callable[[Configuration], Capabilities]:
    @cache
    def declared(key: str) -> Capabilities:
        return bench.build(wanted[key]).capabilities

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


def task_inert(bench: Bench, profile: str) -> Iterator[str | None]:
    """Try whether the second identical prompt of the smallest cacheable size hits; send a complaint or None."""
    yield inert_complaint(bench.build(_first_size(bench, profile)), lambda index: bench.beat(0, index))


def _first_size(bench: Bench, profile: str) -> Configuration:
    return bench.target.sizes[0] if bench.target.sizes else FIRST.get(profile, Configuration())


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


def main(
    connection: Connection, numbers: Any, target_name: str, jitter_seed: int | None, seconds: tuple[float, float]
) -> None:
    """Serve tasks until the parent hangs up. Messages are (kind, value, schedule that was run).

    Kinds: `item`, `end`, `error` with a KitError, and `bug` with a sentence. `seconds` are for an answer and for the
    start of a program behind `stdio:`.
    """
    child_process.settle(end_at_once=not target_name.startswith("stdio:"))
    if jitter_seed is not None:
        clock.jitter(jitter_seed)
    bench: Bench | None = None
    beat = child_process.Beat(numbers)
    try:
        while True:
            name, arguments = connection.recv()
            try:
                bench = bench or Bench(resolve(target_name, *seconds), beat)
                for item in TASKS[name](bench, *arguments):
                    connection.send(("item", item, None))
                connection.send(("end", None, None))
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:
                connection.send((*_blamed(error), bench.current if bench else None))
    except (EOFError, OSError, child_process.Ended):
        child_process.ignore_end()
        if bench is not None:
            bench.target.stop()
        os._exit(0)  # an engine's threads must not keep a finished child alive


def _blamed(error: Exception) -> tuple[str, Any]:
    """Return the kind and value of the message for an error: a plain one, whatever an adapter has made of it."""
    for culprit in (UsageError, AdapterError, EngineCrash, EngineHang):
        if isinstance(error, culprit):
            return "error", culprit(str(error))
    if os.environ.get("MILEPOST_DEBUG"):
        traceback.print_exception(error)
    return "bug", describe(error)
