"""One side of a comparison: a program that says, a line of JSON at a time, how long its cache takes for a named case.

It is asked `{"case": "match", "size": 1024, "repeat": 5, "seconds": 2, "collector": true}` and answers
`{"values": [8.1, ...]}`: microseconds for each repetition, or bytes where the case counts bytes; fewer than asked for
once the seconds are over. A case is prepared once and kept until another is asked for, so that a bench can ask several
sides in turns.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Measure = Callable[[], float | list[float]]
"""One repetition: nanoseconds, or bytes; a list where one repetition times many operations."""

Case = Callable[[int], Measure]
"""Prepares a case of a size; the docstring says in one sentence what is timed."""

Instant = tuple[int, int]
"""The thread's own time and the clock's, in nanoseconds."""

MILLISECOND = 1_000_000

BYTES = {"memory"}
"""Cases whose values are bytes."""


def now() -> Instant:
    """Return this instant; the clock is read last, for what begins."""
    return time.thread_time_ns(), time.perf_counter_ns()


def since(started: Instant) -> int:
    """Return the nanoseconds since an instant: the clock's below a millisecond, else the thread's own.

    On a machine with other work, whatever lasts longer than a slice of the scheduler's is interrupted by somebody, and
    the clock would say that the slower of two is slower still. The thread's time takes half a microsecond to ask.
    """
    taken = time.perf_counter_ns() - started[1]
    return taken if taken < MILLISECOND else time.thread_time_ns() - started[0]


def serve(versions: dict[str, str], cases: dict[str, Case]) -> None:
    """Introduce this side, then answer each line of standard input until it ends."""
    # Engines print what they like: only answers go where the bench listens.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _say(answers, {"versions": versions, "cases": {name: _sentence(case) for name, case in cases.items()}})
    measures: dict[tuple[str, int], Measure] = {}
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = _answer(question, cases, measures)
        except Exception as error:  # the bench decides what a case that cannot be measured means
            answer = {"error": f"{type(error).__name__}: {error}"}
            measures.clear()
        _say(answers, answer)


def _answer(question: dict[str, Any], cases: dict[str, Case], measures: dict[tuple[str, int], Measure]) -> Any:
    name, size = question["case"], question["size"]
    if (name, size) not in measures:
        measures.clear()
        gc.collect()
        measures[name, size] = cases[name](size)
        measures[name, size]()  # what only the first call pays belongs to the preparation
        gc.collect()
    (gc.enable if question.get("collector", True) else gc.disable)()
    values: list[float] = []
    ends = time.monotonic() + question.get("seconds", 60)
    for _ in range(question["repeat"]):
        value = measures[name, size]()
        values += value if isinstance(value, list) else [value]
        if time.monotonic() > ends:
            break
    gc.enable()
    return {"values": values if name in BYTES else [round(value / 1000, 3) for value in values]}


def _sentence(case: Case) -> str:
    """Return the first paragraph of a case's docstring on one line."""
    return " ".join((case.__doc__ or "").partition("\n\n")[0].split())


def _say(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def resident_bytes() -> int:
    """Return the memory that this process holds."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
