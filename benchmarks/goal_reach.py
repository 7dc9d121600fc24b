"""How often random schedules reach the solver's goals, and kill the mutants that are wrong in such corners only.

    .venv/bin/python benchmarks/goal_reach.py --schedules 1500
"""

from __future__ import annotations

import argparse
from collections import Counter

from solver_kills import FIRST_SEED, Kills, random

from milepost.conformance.corpus import load_corpus
from milepost.conformance.driver import Driver
from milepost.conformance.goal_marks_pressure import GOAL_MARKS, GoalObserver
from milepost.reference.cache import make
from milepost.reference.mutants import MUTANTS
from milepost.spec.schedule import Schedule


def goals_of(schedule: Schedule) -> set[str]:
    """Return the goals that one schedule reaches on the reference."""
    adapter = make(schedule.header.configuration)
    observer = GoalObserver(adapter, adapter.capabilities)
    Driver(adapter, [observer]).run(schedule)
    return set(observer.counts)


def main() -> None:
    """Print schedules that reach each goal, and that kill each corner mutant."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--schedules", type=int, default=1500)
    count = parser.parse_args().schedules
    source = random(FIRST_SEED)
    schedules = [next(source) for _ in range(count)]
    operations = sum(len(schedule.operations) for schedule in schedules)
    print(f"{count} random schedules, {operations} operations")
    reached = Counter(goal for schedule in schedules for goal in goals_of(schedule))
    for goal in sorted(GOAL_MARKS, key=lambda goal: reached[goal]):
        print(f"{reached[goal]:5} reach {goal}")
    corners = [one for one in MUTANTS.values() if getattr(one.make, "__module__", "").endswith(".corners")]
    kills = Kills(corners)
    solver = [one for one in load_corpus() if one.header.id.startswith("goal/")]
    for one in corners:
        by_chance = sum(kills.code(one, schedule) in one.codes for schedule in schedules)
        by_solver = sum(kills.code(one, schedule) in one.codes for schedule in solver)
        print(f"{by_chance:5} random and {by_solver} of the solver's {len(solver)} kill {one.name}")


if __name__ == "__main__":
    main()
