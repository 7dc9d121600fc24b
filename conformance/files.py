"""Schedule and trace files: JSON lines, read one at a time and written whole or not at all.

Whatever is wrong with a file is a `FormatError` that names the line; `spec.schedule` says what the format promises.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from milepost.conformance.codec import (
    COUNT,
    HEADER,
    read_answer,
    read_capabilities,
    read_operation,
    write_answer,
    write_capabilities,
    write_operation,
)
from milepost.conformance.errors import FormatError
from milepost.conformance.lines import parse_json, read_lines, replacing
from milepost.conformance.recorded import PARTIAL, UNSEEN, Tables
from milepost.conformance.shapes import TEXT, TOKENS, ShapeError, many, member, one_of, read_object
from milepost.spec.answers import Answer
from milepost.spec.capabilities import Capabilities, complaints
from milepost.spec.operations import Operation
from milepost.spec.schedule import NEWEST, VERSION, Header, Schedule
from milepost.spec.words import Cell

FAILURES = ("crash", "hang")
"""What a trace has in place of an answer where the engine gave none."""

NumberedLines = Iterator[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """What a trace was recorded from: the schedule's header, what the cache declared, and the target's name.

    A file has one target; `target` goes before the one of `header`. `recorded` tells whether a recorder in a running
    engine wrote it, and `partial` why it does not show everything.
    """

    header: Header
    capabilities: Capabilities
    target: str = ""
    recorded: bool = False
    partial: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceLine:
    """One operation and what it got.

    `part` is '' for an operation of the schedule, else why it was added (`drain`, `implied`, `decode`, `end`): the
    schedule inside a trace is its lines without a part. Where the engine gave no answer, `got` is None, `failure` is
    `crash` or `hang`, and `text` says what was seen. `said` and `unseen` are a recorder's; `number` is the
    line's in its file.
    """

    operation: Operation
    got: Answer | None
    part: str = ""
    failure: str = ""
    text: str = ""
    said: tuple[int, ...] = ()
    unseen: tuple[Cell, ...] = ()
    number: int = field(default=0, compare=False)


def read_schedule(path: str | Path) -> Schedule:
    """Read a schedule file, or the schedule inside a trace file."""
    return _read_schedule(str(path), read_lines(path))


def parse_schedule(text: str, name: str = "schedule") -> Schedule:
    """Read a schedule, or the one inside a trace, from text; `name` stands for the file in errors."""
    numbered = enumerate(text.split("\n"), start=1)
    return _read_schedule(name, ((number, line) for number, line in numbered if line.strip()))


def _read_schedule(path: str, lines: NumberedLines) -> Schedule:
    number, first = _read_first(path, lines, ("schedule", "trace"))
    with _placed(path, number):
        header = HEADER.read(first, "")
    operations, tables = [], Tables() if "recorder" in first else None
    for number, line in _read_body(path, lines):
        with _placed(path, number):
            for one in (line,) if tables is None else tables.spread(line):
                if not one.get("in"):
                    operations.append(read_operation(one))
                if tables is not None and "got" in one:
                    tables.expand(one)
    return Schedule(header, tuple(operations))


def schedule_lines(schedule: Schedule) -> Iterator[str]:
    """Yield the lines of a schedule file, without line ends."""
    yield json.dumps({"schedule": VERSION, **_write_header(schedule.header)})
    yield from (json.dumps(write_operation(operation)) for operation in schedule.operations)
    yield json.dumps({"end": len(schedule.operations)})


def _write_header(header: Header) -> dict[str, Any]:
    """Sizes are written even at their defaults: a schedule that is read by a person should say them."""
    sizes = {"page_size": header.page_size, "chunk_size": header.chunk_size, "pools": header.pools}
    return {"id": header.id, **sizes, **HEADER.write(header)}


def write_schedule(path: str | Path, schedule: Schedule) -> None:
    """Write a schedule file; a failure leaves what was there."""
    with replacing(path) as file:
        file.writelines(f"{line}\n" for line in schedule_lines(schedule))


class TraceFile:
    """A trace file: its header is read at once, its lines one at a time and anew for each iteration.

    `stopped` says, once all lines are read, why a recorder switched itself off.
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self.stopped = str(path), ""
        self.header = _read_trace_header(self.path, read_lines(path))

    def __iter__(self) -> Iterator[TraceLine]:
        lines, tables = read_lines(self.path), Tables() if self.header.recorded else None
        _read_first(self.path, lines, ("trace",))
        end: dict[str, Any] = {}
        for number, line in _read_body(self.path, lines, end):
            spread = iter((line,)) if tables is None else tables.spread(line)
            while True:
                with _placed(self.path, number):
                    one = next(spread, None)
                    if one is None:
                        break
                    yielded = _read_trace_line(one, number, tables)
                yield yielded
        self.stopped = str(end.get("stopped", ""))


def read_trace(path: str | Path) -> TraceFile:
    """Open a trace; iterating raises FormatError where a line is wrong, or at the end of a file that is cut short."""
    return TraceFile(path)


def _read_trace_header(path: str, lines: NumberedLines) -> TraceHeader:
    number, first = _read_first(path, lines, ("trace",))
    with _placed(path, number):
        capabilities = read_capabilities(first.get("capabilities"))
        if found := complaints(capabilities):
            raise ShapeError("capabilities", found[0])
        header = HEADER.read(first, "")
        partial = many(one_of(tuple(PARTIAL))).read(first.get("partial", []), "partial")
    return TraceHeader(header, capabilities, header.target, "recorder" in first, partial)


def _read_trace_line(line: dict[str, Any], number: int, tables: Tables | None) -> TraceLine:
    if "got" not in line:
        raise ShapeError("got", "is missing")
    operation, part = read_operation(line), TEXT.read(line.get("in", ""), "in")
    got = read_object(line["got"], "got") if tables is None else tables.expand(line)
    for failure in FAILURES:
        if failure in got:
            text = TEXT.read(got[failure], member("got", failure))
            return TraceLine(operation, None, part, failure, text, number=number)
    said, unseen = TOKENS.read(line.get("said", []), "said"), UNSEEN.read(line.get("unseen", []), "unseen")
    return TraceLine(operation, read_answer(got, "got"), part, said=said, unseen=unseen, number=number)


def _write_trace_line(line: TraceLine) -> dict[str, Any]:
    place = {"in": line.part} if line.part else {}
    got = {line.failure or FAILURES[0]: line.text} if line.got is None else write_answer(line.got)
    return {**write_operation(line.operation), **place, "got": got}


class TraceWriter:
    """Writes the lines of a trace as they come; see `writing_trace`."""

    def __init__(self, file: IO[str], header: TraceHeader) -> None:
        self._file, self._count = file, 0
        target = {"target": header.target} if header.target else {}
        declared = {"capabilities": write_capabilities(header.capabilities)}
        self._write({"trace": VERSION, **_write_header(header.header), **target, **declared})

    def add(self, line: TraceLine) -> None:
        """Write one line."""
        self._write(_write_trace_line(line))
        self._count += 1

    def finish(self) -> None:
        """Write the line that shows that nothing is missing."""
        self._write({"end": self._count})

    def _write(self, value: dict[str, Any]) -> None:
        self._file.write(json.dumps(value) + "\n")


@contextmanager
def writing_trace(path: str | Path, header: TraceHeader) -> Iterator[TraceWriter]:
    """Write a trace line by line; the file appears when the block ends well, and not at all otherwise."""
    with replacing(path) as file:
        writer = TraceWriter(file, header)
        yield writer
        writer.finish()


def write_trace(path: str | Path, header: TraceHeader, lines: Iterable[TraceLine]) -> None:
    """Write a whole trace."""
    with writing_trace(path, header) as writer:
        for line in lines:
            writer.add(line)


@contextmanager
def _placed(path: str, line: int) -> Iterator[None]:
    """Turn the error of a value into the error of a file."""
    try:
        yield
    except ShapeError as error:
        raise FormatError(path, line, 0, str(error)) from None


def _read_first(path: str, lines: NumberedLines, kinds: tuple[str, ...]) -> tuple[int, dict[str, Any]]:
    """Return the header line; FormatError where it is missing, of another kind, or of a newer version."""
    wanted = f'the first line has to be {{"{kinds[0]}": {VERSION}, ...}}'
    for number, text in lines:
        first = parse_json(text, path, number)
        kind = next((kind for kind in kinds if isinstance(first, dict) and kind in first), "")
        if not kind:
            other = next((kind for kind in ("schedule", "trace") if isinstance(first, dict) and kind in first), "")
            raise FormatError(path, number, 0, f"this is a {other}: {wanted}" if other else f"no header: {wanted}")
        with _placed(path, number):
            version = COUNT.read(first[kind], kind)
            if version > NEWEST[kind]:
                raise ShapeError("", f"{kind} format {version} is newer than {NEWEST[kind]}, the newest known here")
            if version < 1:
                raise ShapeError("", f"{kind} format {version} does not exist: versions start at 1")
        return number, first
    raise FormatError(path, 0, 0, f"the file is empty: {wanted}")


def _read_body(
    path: str, lines: NumberedLines, end: dict[str, Any] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines up to the end line; FormatError where it is missing, miscounts, or is not the last.

    What the end line says is put into `end`.
    """
    number = 1
    for count, (number, text) in enumerate(lines):
        with _placed(path, number):
            line = read_object(parse_json(text, path, number), "")
            if "op" not in line and "end" in line:
                if COUNT.read(line["end"], "end") != count:
                    raise ShapeError("end", f"counts {line['end']} operations, but there are {count}")
                if end is not None:
                    end.update(line)
                break
        yield number, line
    else:
        raise FormatError(path, number, 0, 'the file is cut short after this line: {"end": ...} is missing')
    for number, _ in lines:
        raise FormatError(path, number, 0, "text after the end line")
