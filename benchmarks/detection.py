"""How soon each class of public fault is found: operations and seconds until the first fault of its mutants.

Run `.venv/bin/python benchmarks/detection.py`. Each mutant of the reference is judged by generated schedules alone,
without the corpus, from several seeds; the clock starts at the first schedule and stops at the first fault with one of
the mutant's codes, everything included but the start of the interpreter. A promise that is judged by runs of its own is
timed as such a run of 60 schedules, processes included; a hang also waits for its limit.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass

from milepost.conformance.campaign import Options, run_campaign
from milepost.conformance.generation import SeededSource
from milepost.conformance.targets import resolve
from milepost.conformance.worker import Bench
from milepost.reference.mutants import MUTANTS

LONGEST_SEARCH = 4000
"""Schedules after which a search is given up and said to have found nothing."""

HANG_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Detection:
    """One search that ended: operations judged, and seconds, until the first fault."""

    operations: int
    seconds: float


def first_fault(name: str, seed: int) -> Detection | None:
    """Judge one mutant in this process until it is found out; None where it is not."""
    bench = Bench(resolve(f"mutant:{name}"))
    profile = MUTANTS[name].profile
    source = SeededSource(seed, 40, (), lambda configuration: bench.build(configuration).capabilities, profile)
    started, operations = time.perf_counter(), 0
    for number in range(LONGEST_SEARCH):
        outcome, _ = bench.run(source.schedule(number))
        operations += len(outcome.lines)
        if outcome.code in MUTANTS[name].codes:
            return Detection(operations, time.perf_counter() - started)
    return None


def whole_run(name: str, seed: int) -> Detection | None:
    """Judge one mutant in watched processes, promises included; None where nothing expected is reported."""
    options = Options(schedules=60, seed=seed, corpus=False, hang_seconds=HANG_SECONDS, shrunk_per_code=0)
    started = time.perf_counter()
    campaign = run_campaign(f"mutant:{name}", options, lambda phase, done, total: None)
    seconds = time.perf_counter() - started
    found = set(campaign.codes) | {finding.outcome.code for finding in campaign.findings}
    found |= {f"promise:{one.name}" for one in campaign.promises if one.result == "broken"}
    return Detection(campaign.operations, seconds) if found & set(MUTANTS[name].codes) else None


def search(name: str, seed: int) -> Detection | None:
    """Choose how a mutant is judged: what needs several runs or a watchdog cannot be seen from inside one."""
    alone = all(code.startswith("promise:") or code == "hang" for code in MUTANTS[name].codes)
    return whole_run(name, seed) if alone else first_fault(name, seed)


def measure(seeds: int) -> None:
    """Print a line for each class: medians over all searches of its mutants, and the slowest mutant's median."""
    by_class: dict[str, dict[str, list[Detection]]] = defaultdict(lambda: defaultdict(list))
    missed: list[str] = []
    for name, mutant in MUTANTS.items():
        for seed in range(1, seeds + 1):
            found = search(name, seed)
            if found is None:
                missed.append(f"{name} from seed {seed}")
            else:
                by_class[mutant.fault_class][name].append(found)
    print("| class | mutants | operations | seconds | seconds, slowest mutant |")
    print("| --- | --- | --- | --- | --- |")
    for fault_class in sorted(by_class, key=lambda one: int(one[1:])):
        print(line(fault_class, by_class[fault_class]))
    print(f"not found within {LONGEST_SEARCH} schedules: {', '.join(missed) or 'none'}")


def line(fault_class: str, found: dict[str, list[Detection]]) -> str:
    """Return one row of the table."""
    searches = [one for each in found.values() for one in each]
    operations = statistics.median(one.operations for one in searches)
    seconds = statistics.median(one.seconds for one in searches)
    slowest = max(statistics.median(one.seconds for one in each) for each in found.values())
    return f"| {fault_class} | {len(found)} | {operations:.0f} | {seconds:.2f} | {slowest:.2f} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    measure(parser.parse_args().seeds)
