"""The lines of a trace, whatever the engine: names of requests, what they were granted, steps, and what is unseen.

A table is written whole once and then as changes. Requests that go on by one token each and whose tables stay as they
are, but for a new page at the end, share a line: it is most of what an engine does, and has to cost next to nothing.
Cells that requests outside of the trace were granted or write are named on the next line as `unseen`: what lies there
is unknown to whoever judges.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from milepost_record.digests import Digests
from milepost_record.files import Files
from milepost_record.settings import Settings

FORMAT = 2
"""Of the trace: readers that know only 1 would take a line of changes for a whole table, and have to refuse it."""
VERSION = "0.1.0"
NULL = -1
"""No cell."""

Json = Any
UnseenCell = tuple[str, int]


text_of = json.JSONEncoder(separators=(",", ":")).encode
"""Returns a value as JSON; an encoder that is made once, as `json.dumps` would make one at each call."""


class Trace:
    """One recording of one cache. `on` turns false at the first error, and nothing is written after it."""

    def __init__(self, settings: Settings, name: str, header: dict[str, Json], partial: Iterable[str] = ()) -> None:
        self.on = True
        self.settings = settings
        self.digests = Digests(settings.salt)
        self.rotations = 0
        self._header, self._partial = header, list(partial)
        if settings.sample < 1:
            self._partial.append("sampled")
        self._files = Files(
            settings.folder, f"{name}-{os.getpid()}-{_serial()}", self._head, settings.file_bytes, settings.files
        )
        self._unseen: list[UnseenCell] = []
        self._step_unseen: list[UnseenCell] = []
        self._requests = self._steps = 0
        self._flights: dict[int, int] = {}
        self._going_on: list[Any] = []
        self.before_end: Callable[[], None] | None = None
        _open_traces.add(self)

    def _head(self, number: int) -> dict[str, Json]:
        partial = [*self._partial, *(["rotated"] if number else [])]
        share = self.settings.sample
        recorder = {"version": VERSION, "file": number, "sample": [share.numerator, share.denominator]}
        return {"trace": FORMAT, **self._header, "recorder": recorder, "partial": partial}

    # -- operations

    def new_request(self) -> str:
        """Return a name for a request that is opened."""
        self._requests += 1
        return f"r{self._requests}"

    def open(self, request: str, tokens: str, namespace: Json, length: int, table: Json) -> None:
        """Write a hit; `tokens` are digests as JSON."""
        spaces = f',"namespace":{text_of(namespace)}' if namespace else ""
        hit = f'{{"length":{length},"table":{text_of(table)}}}' if length else '{"length":0}'
        self._add(f'"op":"open","request":"{request}","tokens":{tokens}{spaces}', f'{{"hit":{hit}}}')

    def extend(
        self, request: str, length: int, said: str, table: str, frozen: str = "", initial: str = ""
    ) -> None:
        """Write a grant, all in JSON: `said` and `table` are members, `frozen` items, `initial` members of states."""
        frozen_text = f',"frozen":[{frozen}]' if frozen else ""
        states = f',"initial_state":{{{initial}}}' if initial else ""
        self._add(
            f'"op":"extend","request":"{request}","to":{length}{said}',
            f'{{"grant":{{"length":{length}{table}{frozen_text}{states}}}}}',
        )

    def go_on(self, request: str, length: int, told: str, cell: int = NULL) -> None:
        """Write that a request is granted one token more, so that it has `length`.

        `told` are digests, `cell` is its new page, NULL for none.
        """
        self._going_on += (request, length, told, cell)

    def refuse(self, request: str, to: int, said: str, changes: str) -> None:
        """Write an extend that was refused, and what it gave up all the same."""
        tables = f',"changes":{{"{request}":{changes}}}' if changes else ""
        got = f'{{"refused":{{"reason":"no-page"{tables}}}}}'
        self._add(f'"op":"extend","request":"{request}","to":{to}{said}', got)

    def launch(self, flight: int, phases: Json, changes: str = "") -> None:
        """Write a step; `flight` names it for `land`, `changes` are members by request as JSON."""
        self._write_going_on()
        self._steps += 1
        self._flights[flight] = self._steps
        moved = f',"phases":{text_of(phases)}' if phases else ""
        tables = f',"changes":{{{changes}}}' if changes else ""
        # What the unseen requests of the step write is unknown after it as before it.
        self._unseen, self._step_unseen = self._step_unseen, []
        self._add('"op":"launch"', f'{{"launch":{{"step":{self._steps}{moved}{tables}}}}}')

    def land(self, flight: int) -> None:
        """Write that a step's results are known; nothing for a step that is in no file or in an earlier one."""
        step = self._flights.pop(flight, 0)
        if step:
            self._add(f'"op":"land","step":{step}', '{"landing":{}}')
        self._files.flush_if_due()

    def publish(self, request: str, phases: Json, changes: str) -> None:
        """Write that a cache took what a request has computed; `changes` are members of its table as JSON."""
        moved = f',"phases":{text_of(phases)}' if phases else ""
        tables = f',"changes":{{"{request}":{{{changes}}}}}' if changes else ""
        got = f"{moved}{tables}"[1:]
        self._add(f'"op":"publish","request":"{request}"', f'{{"landing":{{{got}}}}}')

    def close(self, request: str, said: str) -> None:
        """Write the end of a request."""
        self._add(f'"op":"close","request":"{request}","keep":true{said}', '{"landing":{}}')

    def reset(self) -> None:
        """Write that everything published was forgotten."""
        self._add('"op":"reset"', '{"reset":{"done":true}}')

    def unseen(self, cells: Iterable[UnseenCell]) -> None:
        """Note cells that a request outside of the trace was granted or writes."""
        noted = list(cells)
        self._unseen += noted
        self._step_unseen += noted

    def said(self, tokens: Iterable[int]) -> str:
        """Return what an engine has learnt as a member of a line."""
        return f',"said":{self.digests.tokens(tokens)}'

    # -- files

    @property
    def full(self) -> bool:
        """True where a new file is due; only between two steps can one begin."""
        return self._files.full

    def rotate(self) -> None:
        """Begin a new file: nothing of what was open is known in it."""
        self._write_going_on()
        self._files.finish()
        self.rotations += 1
        self._flights.clear()
        self._unseen, self._step_unseen = [], []

    def fail(self, error: BaseException) -> None:
        """Switch off, and say so once: in the file and on standard error."""
        if not self.on:
            return
        self.on = False
        _open_traces.discard(self)
        try:
            self._write_going_on()
            sentence = f"{type(error).__name__}: {error}"[:300]
            print(f"milepost-record: switched off, the engine runs on: {sentence}", file=sys.stderr)
            self._files.finish(sentence)
        except Exception:  # the disk may be what failed
            pass

    def finish(self) -> None:
        """End the recording."""
        if not self.on:
            return
        try:
            if self.before_end is not None:
                self.before_end()
            if not self.on:
                return
            self.on = False
            self._write_going_on()
            self._files.finish()
        except Exception as error:
            self.on = False
            print(f"milepost-record: the trace could not be ended: {error}", file=sys.stderr)

    def _add(self, operation: str, got: str) -> None:
        if self._going_on:
            self._write_going_on()
        self._files.add(f'{{{operation}{self._take_unseen()},"got":{got}}}')

    def _write_going_on(self) -> None:
        if not self._going_on:
            return
        noted, self._going_on = self._going_on, []
        names, told, cells = '","'.join(noted[::4]), "],[".join(noted[2::4]), noted[3::4]
        members = f'"requests":["{names}"],"to":{noted[1::4]},"said":[[{told}]]'
        grown = f',"cells":{cells}' if any(cell != NULL for cell in cells) else ""
        self._files.add(f'{{"op":"go-on",{members}{grown}{self._take_unseen()}}}')

    def _take_unseen(self) -> str:
        if not self._unseen:
            return ""
        noted, self._unseen = self._unseen, []
        return f',"unseen":{text_of(noted)}'


_open_traces: set[Trace] = set()
"""Held until the process ends: a trace outlives its cache, and its file has to be ended."""

_traces = 0


def _serial() -> int:
    global _traces
    _traces += 1
    return _traces


@atexit.register
def _finish_all() -> None:
    for trace in list(_open_traces):
        trace.finish()
