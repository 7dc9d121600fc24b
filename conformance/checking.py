"""Judges a recorded trace line by line: only `step` and what was answered, no cache."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from milepost.conformance.errors import FormatError
from milepost.conformance.files import read_trace
from milepost.conformance.outcome import Line, Outcome
from milepost.spec.faults import Fault
from milepost.spec.operations import Operation
from milepost.spec.schedule import Schedule
from milepost.spec.state import initial
from milepost.spec.step import Contradiction, step


def check_trace(path: Path) -> Outcome:
    """Judge a trace up to its first fault; FormatError where a line contradicts the protocol or an earlier line."""
    trace = read_trace(path)
    state = initial(trace.header.capabilities)
    outcome = Outcome(Schedule(trace.header.header, ()), state)
    operations: list[Operation] = []
    for recorded in trace:
        if not recorded.part:
            operations.append(recorded.operation)
        line = Line(max(len(operations), 1), recorded.operation, recorded.got, recorded.part)
        outcome.lines.append(line)
        if line.answer is None:
            request = getattr(line.operation, "request", "")
            outcome.fault = Fault(recorded.failure, request, detail=recorded.text)
            break
        try:
            after = step(state, line.operation, line.answer)
        except Contradiction as error:
            raise FormatError(str(path), len(outcome.lines) + 1, 0, f"this cannot follow: {error}") from error
        except KeyError as error:
            raise FormatError(
                str(path), len(outcome.lines) + 1, 0, f"this cannot follow: {error} is not open"
            ) from error
        if isinstance(after, Fault):
            outcome.fault = after
            break
        state = after
    outcome.state = state
    outcome.schedule = replace(outcome.schedule, operations=tuple(operations))
    return outcome
