"""What judging costs, as a ratio to the reference running bare.

Run `.venv/bin/python benchmarks/judging.py`. Every operation is timed in three parts in the same run (the cache's own
answer, the judge's `step`, and all the rest: generating, driving, marks, white box), so that a busy machine slows them
alike. Prints one line for each block of schedules and the totals.
"""

from __future__ import annotations

import argparse
import time

from milepost.conformance.generation import SeededSource
from milepost.conformance.targets import resolve
from milepost.conformance.worker import Bench
from milepost.reference.cache import make


def measure(schedules: int, seed: int, blocks: int) -> None:
    """Run the schedules of `milepost run reference --seed SEED` and print what each part took."""
    bench = Bench(resolve("reference"))
    source = SeededSource(seed, 40, (), lambda configuration: make(configuration).capabilities)
    totals = [0.0, 0.0, 0.0]
    operations = judged = 0
    print(f"{'schedules':>16} {'bare s':>8} {'judge s':>8} {'all s':>8} {'judge/bare':>11} {'all/bare':>9}")
    for block in range(blocks):
        parts = [0.0, 0.0, 0.0]
        numbers = range(block * schedules // blocks, (block + 1) * schedules // blocks)
        started = time.perf_counter()
        for number in numbers:
            schedule = source.schedule(number)
            outcome, _ = bench.run(schedule)
            operations += len(schedule.operations)
            judged += len(outcome.lines)
            parts[0] += outcome.engine_seconds
            parts[1] += outcome.judging_seconds
        parts[2] = time.perf_counter() - started
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
        show(f"{numbers.start}..{numbers.stop - 1}", parts)
    show("all", totals)
    print(f"{operations / schedules:.1f} operations a schedule, {judged / schedules:.1f} judged lines")


def show(name: str, parts: list[float]) -> None:
    """Print one line of the table."""
    bare, judge, everything = parts
    print(f"{name:>16} {bare:8.2f} {judge:8.2f} {everything:8.2f} {judge / bare:11.2f} {everything / bare:9.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--blocks", type=int, default=5)
    options = parser.parse_args()
    measure(options.schedules, options.seed, options.blocks)
