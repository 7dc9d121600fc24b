"""What a run of one schedule leaves behind: its lines, and the fault or broken promise that ended it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from milepost.spec.answers import Answer
from milepost.spec.faults import Fault
from milepost.spec.operations import Operation
from milepost.spec.schedule import Schedule
from milepost.spec.state import State


@dataclass(frozen=True, slots=True)
class Line:
    """One judged operation.

    `index` counts the schedule's operations from 1. `part` tells why the line is there: '' for the operation itself,
    `implied` for a launch or landing that the short form leaves out, `drain` for what a drain expands to, `end` for
    what closes the schedule. An extend past the prompt has one line for each step. `answer` is None where the engine
    raised.
    """

    index: int
    operation: Operation
    answer: Answer | None
    part: str = ""


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that the cache declared and did not keep, with what was seen in one sentence."""

    promise: str
    sentence: str


@dataclass(slots=True)
class Outcome:
    """A schedule, everything that was asked and answered, and how it ended.

    `state` is the judge's state before the line that faulted, or after the last one.
    """

    schedule: Schedule
    state: State
    lines: list[Line] = field(default_factory=list)
    fault: Fault | None = None
    broken: Broken | None = None
    skipped: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    judging_seconds: float = 0.0
    engine_seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """True where a law or a promise was broken."""
        return self.fault is not None or self.broken is not None

    @property
    def code(self) -> str:
        """The fault's code, `promise:<name>` for a broken promise, '' where all is well."""
        if self.fault is not None:
            return self.fault.code
        return f"promise:{self.broken.promise}" if self.broken else ""
