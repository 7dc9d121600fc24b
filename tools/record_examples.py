"""Records the example traces in conformance/examples: public faults, re-created by mutants of the reference.

Run `.venv/bin/python tools/record_examples.py` after a change of a mutant or of the trace format; a test compares
what it writes with what is in the package.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from milepost.conformance.corpus import load_corpus
from milepost.conformance.drain import filler, fresh_capacity
from milepost.conformance.driver import Driver
from milepost.conformance.files import TraceHeader, TraceLine, write_trace
from milepost.conformance.outcome import Outcome
from milepost.reference.mutants import MUTANTS

EXAMPLES: dict[str, tuple[str, str]] = {
    "torn-hit": ("kv-outlives-state", "torn-hit/kv-outlives-state"),
    "over-advanced": ("final-state-is-floored", "over-advanced/final-state-is-floored"),
    "read-before-landing": ("published-at-launch", "read-before-landing/published-before-the-step-has-written"),
    "uninitialized-read": ("aborted-plan-stays-published", "uninitialized-read/aborted-producer-stays-published"),
    "cross-namespace": ("salt-and-adapter-share-a-key", "cross-namespace/salt-equals-an-adapter-name"),
    "double-grant": ("duplicate-is-freed-but-not-repointed", "double-grant/duplicate-freed-under-its-reader"),
    "evicted-while-leased": ("lock-skips-the-matched-node", "evicted-while-leased/lock-skips-the-matched-node"),
    "late-write": ("freed-while-in-flight", "late-write/blocks-freed-with-a-later-step-in-flight"),
    "reset-survivor": ("reset-is-answered-and-not-done", "reset-survivor/weights-updated-and-cache-kept"),
    "leak": ("aborted-hit-keeps-its-lease", "leak/abort-between-match-and-allocation"),
}
"""Example name -> (mutant, schedule of the corpus)."""


def record(mutant: str, schedule_id: str) -> Outcome:
    """Run a schedule of the corpus on a mutant; ValueError where it does not fault."""
    schedule = next(one for one in load_corpus() if one.header.id == schedule_id)
    make, configuration = MUTANTS[mutant].make, schedule.header.configuration
    capacity = fresh_capacity(lambda: make(configuration))
    outcome = Driver(make(configuration)).run(schedule, filler(lambda: capacity))
    if outcome.fault is None:
        raise ValueError(f"{schedule_id} does not fault on {mutant}")
    return outcome


def write_examples(folder: Path) -> None:
    """Write every example into a folder."""
    for name, (mutant, schedule_id) in EXAMPLES.items():
        outcome = record(mutant, schedule_id)
        header = replace(outcome.schedule.header, id=f"example/{name}")
        trace = TraceHeader(header, outcome.state.capabilities, f"mutant:{mutant}")
        answered = [line for line in outcome.lines if line.answer is not None]
        lines = [TraceLine(line.operation, line.answer, line.part) for line in answered]
        write_trace(folder / f"{name}.jsonl", trace, lines)


if __name__ == "__main__":
    write_examples(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "conformance/examples")
