"""Which mutants die by the solver's schedules, and which by as many operations of random and of exhaustive ones.

    .venv/bin/python benchmarks/solver_kills.py --seeds 20

Every schedule runs in this process on a fresh mutant, with the white-box checks that the mutant offers; a mutant is
killed where a code of its own is reported. The exhaustive schedules are the shortest ones of the small scope first.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator

from milepost.conformance.corpus import load_corpus
from milepost.conformance.drain import Capacity, filler, fresh_capacity
from milepost.conformance.driver import Driver, Observer
from milepost.conformance.generation import SeededSource
from milepost.conformance.generator import USUAL_LENGTH, Chooser, every, generate_small
from milepost.conformance.whitebox import accounting_observer, inventory_observer
from milepost.reference.cache import make
from milepost.reference.mutants import MUTANTS, Mutant
from milepost.spec.capabilities import Configuration
from milepost.spec.schedule import Schedule

FIRST_SEED = 20261130
ELSEWHERE = {"hang", "promise:deterministic", "promise:not-inert", "promise:strict-boundaries"}
"""What takes a clock, a second process or a prompt of its own to see."""


class Kills:
    """Which mutants some schedules kill."""

    def __init__(self, mutants: Iterable[Mutant]) -> None:
        self.mutants = list(mutants)
        self._capacities: dict[tuple[str, str], Capacity] = {}

    def of(self, schedules: list[Schedule]) -> set[str]:
        """Return the names of the mutants that die."""
        return {
            one.name for one in self.mutants if any(self.code(one, schedule) in one.codes for schedule in schedules)
        }

    def code(self, mutant: Mutant, schedule: Schedule) -> str:
        """Return the code that one schedule gets from one mutant."""
        configuration = schedule.header.configuration
        adapter = mutant.make(configuration)
        capabilities = adapter.capabilities
        checks: list[Observer] = [inventory_observer(adapter, capabilities)] if capabilities.inventories else []
        if capabilities.accounts and "exact-accounting" in capabilities.promises:
            checks.append(accounting_observer(adapter, capabilities))
        fill = filler(lambda: self._capacity(mutant, configuration))
        return Driver(adapter, checks).run(schedule, fill).code

    def _capacity(self, mutant: Mutant, configuration: Configuration) -> Capacity:
        key = mutant.name, repr(configuration)
        if key not in self._capacities:
            self._capacities[key] = fresh_capacity(lambda: mutant.make(configuration))
        return self._capacities[key]


def operations(schedules: Iterable[Schedule]) -> int:
    """Count the operations of schedules."""
    return sum(len(schedule.operations) for schedule in schedules)


def as_many(source: Iterator[Schedule], wanted: int) -> list[Schedule]:
    """Take schedules until they have at least as many operations."""
    taken: list[Schedule] = []
    while operations(taken) < wanted:
        taken.append(next(source))
    return taken


def random(seed: int) -> Iterator[Schedule]:
    """Yield the schedules of a seed."""
    source = SeededSource(seed, USUAL_LENGTH, (), lambda sizes: make(sizes).capabilities)
    return (source.schedule(number) for number in range(1 << 30))


def exhaustive() -> Iterator[Schedule]:
    """Yield every schedule of the small scope, the shortest first."""
    sizes = Configuration(4, 8, {"kv": 8, "state": 3}, 4)
    capabilities = make(sizes).capabilities
    for length in range(1, 20):

        def build(chooser: Chooser, length: int = length) -> Schedule:
            return generate_small(chooser, capabilities, sizes, length)

        yield from every(build, 1 << 30)


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="How many random runs of equal size.")
    seeds = parser.parse_args().seeds
    solver = [schedule for schedule in load_corpus() if schedule.header.id.startswith("goal/")]
    kills = Kills(one for one in MUTANTS.values() if not set(one.codes) & ELSEWHERE)
    wanted = operations(solver)
    print(f"{len(kills.mutants)} mutants, {len(solver)} schedules of the solver, {wanted} operations")
    by_solver, by_small = kills.of(solver), kills.of(as_many(exhaustive(), wanted))
    by_chance = [kills.of(as_many(random(FIRST_SEED + seed), wanted)) for seed in range(seeds)]
    print(f"solver {len(by_solver)}, exhaustive {len(by_small)}, random {_spread([len(one) for one in by_chance])}")
    print("mutant, solver, exhaustive, random runs that kill it")
    for one in kills.mutants:
        hits = sum(one.name in killed for killed in by_chance)
        print(f"{one.name}, {_yes(one.name in by_solver)}, {_yes(one.name in by_small)}, {hits} of {seeds}")
    _summary(kills, by_solver, by_small, by_chance)


def _summary(kills: Kills, by_solver: set[str], by_small: set[str], by_chance: list[set[str]]) -> None:
    other = by_small | set().union(*by_chance)
    hits = Counter(name for killed in by_chance for name in killed)
    usually = {name for name, count in hits.items() if count * 2 > len(by_chance)}
    print("only by the solver:", ", ".join(sorted(by_solver - other)) or "none")
    print("by the solver, and not by half of the random runs nor exhaustively:",
          ", ".join(sorted(by_solver - usually - by_small)) or "none")
    print("not by the solver, but by half of the random runs:", ", ".join(sorted(usually - by_solver)) or "none")


def _spread(counts: list[int]) -> str:
    ordered = sorted(counts)
    return f"{ordered[0]} to {ordered[-1]}, median {ordered[len(ordered) // 2]}"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


if __name__ == "__main__":
    main()
