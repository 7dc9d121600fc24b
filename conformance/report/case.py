"""One failed run as a report sees it: its history, and the names of operations, cells and prefixes in sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from milepost.conformance.outcome import Line, Outcome
from milepost.conformance.report.history import Event, History
from milepost.conformance.report.layout import count, listed, plain, shorten, span
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.faults import Fault
from milepost.spec.operations import Open
from milepost.spec.payload import GARBAGE, ZERO, Content, Stream
from milepost.spec.state import Claim, State
from milepost.spec.words import NULL, Cell

LONGEST_NAME = 24
MOST_CELLS = 6

SILENT = "'s output would be wrong and nothing would crash."
"""What follows from most faults, behind the name of a request."""


@dataclass(frozen=True, slots=True)
class Account:
    """What a report says of one fault: two sentences for the reader, the proof, and the rows that matter.

    `notes` annotate an operation's row: (index, text).
    """

    consequence: str
    mechanism: str
    proof: tuple[str, ...] = ()
    notes: tuple[tuple[int, str], ...] = ()


class Case:
    """An outcome with a fault, and how to speak of it."""

    def __init__(self, outcome: Outcome, fault: Fault) -> None:
        self.outcome = outcome
        self.fault = fault
        self.history = History(outcome)
        self.capabilities: Capabilities = outcome.state.capabilities

    @property
    def line(self) -> Line | None:
        """The line that faulted."""
        return self.outcome.lines[-1] if self.outcome.lines else None

    @property
    def before(self) -> State:
        """The judge's state before the line that faulted."""
        return self.history.last.before if self.history.last else self.outcome.state

    @property
    def after(self) -> State:
        """The judge's state after the line that faulted, as far as its effects could be run."""
        return self.history.last.after if self.history.last else self.outcome.state

    @property
    def white_box(self) -> bool:
        """True where the judge took every answer and an inventory showed the fault."""
        last = self.history.last
        return last is not None and last.line.answer is not None and not last.broke_law

    @property
    def at_open(self) -> bool:
        """True where the fault is in what an open offered, rather than in what a launched step read."""
        return self.line is not None and isinstance(self.line.operation, Open)

    @property
    def length(self) -> int:
        """The length of the fault's request before the line that faulted."""
        claim = self.before.claims.get(self.fault.request)
        return claim.length if claim else self.fault.position

    @property
    def where(self) -> str:
        """The operation that faulted, `op 6`."""
        return self.operation(self.line)

    def operation(self, line: Line | None) -> str:
        """Return how a sentence names a line's operation."""
        if line is None:
            return "the run"
        if line.part == "end":
            return "the end of the schedule"
        return f"op {line.index}"

    @property
    def name(self) -> str:
        """The request that the fault is about."""
        return self.short(self.fault.request) or "no request"

    @property
    def other(self) -> str:
        """The other request of the fault."""
        return self.short(self.fault.other) or "another request"

    def short(self, request: str) -> str:
        """Return a request's name, cut to what a sentence can carry."""
        return shorten(plain(request), LONGEST_NAME)

    def claim(self, request: str = "") -> Claim | None:
        """Return the claim of a request at the fault, the fault's own where none is named."""
        name = request or self.fault.request
        return self.after.claims.get(name) or self.before.claims.get(name)

    def stream(self, request: str) -> Stream | None:
        """Return the newest tokens of a request."""
        return next((stream for name, stream in reversed(self.after.streams) if name == request), None)

    # -- cells

    @property
    def group(self) -> Group | None:
        """The group that the fault names, or the only one of its pool."""
        groups = self.groups_of(self.fault.cell[0])
        named = [group for group in self.capabilities.groups if group.name == self.fault.group]
        return named[0] if named else groups[0] if len(groups) == 1 else None

    def groups_of(self, pool: str) -> list[Group]:
        """Return the groups that take their cells from a pool."""
        return [group for group in self.capabilities.groups if group.pool == pool]

    def noun(self, pool: str) -> str:
        """Return what a cell of a pool is called: page, state, or block where groups of both kinds share it."""
        groups = self.groups_of(pool)
        kinds = {group.kind.paged for group in groups}
        if len(kinds) != 1:
            return "block" if kinds else "cell"
        paged = kinds.pop()
        alike = {group.pool for group in self.capabilities.groups if group.kind.paged == paged}
        word = "page" if paged else "state"
        return word if len(alike) == 1 or plain(pool) == word else f"{shorten(pool, 12)} {word}"

    def cell(self, cell: Cell) -> str:
        """Return how a sentence names a cell: `page 7`, `state 2`."""
        return f"{self.noun(cell[0])} {cell[1]}" if cell[1] != NULL else f"no {self.noun(cell[0])}"

    def cells(self, cells: Iterable[Cell]) -> str:
        """Return how a sentence names several cells: `pages 9, 10 and 11`."""
        named: dict[str, list[str]] = {}
        for pool, index in sorted(cells):
            named.setdefault(self.noun(pool), []).append(str(index))
        parts = []
        for noun, numbers in named.items():
            more = [f"{len(numbers) - MOST_CELLS} more"] if len(numbers) > MOST_CELLS else []
            shown = numbers[:MOST_CELLS] + more
            parts.append(f"{noun}{'s' if len(numbers) > 1 else ''} {listed(shown)}")
        return " and ".join(parts)

    @property
    def cell_name(self) -> str:
        """The fault's cell."""
        return self.cell(self.fault.cell)

    def holds_state(self, cell: Cell) -> bool:
        """Tell whether a cell is a slot: from its pool, or from what was last written there."""
        groups = self.groups_of(cell[0])
        if groups and all(not group.kind.paged for group in groups):
            return True
        if groups and all(group.kind.paged for group in groups):
            return False
        if self.fault.cell == cell and self.group is not None:
            return not self.group.kind.paged
        return not isinstance(self.before.contents.get(cell), tuple)

    # -- contents

    def content(self, content: Content, page: int = 0) -> str:
        """Return what a cell holds, by request and tokens."""
        single = content[-1] if isinstance(content, tuple) else content
        if isinstance(content, tuple):
            single = next((one for one in reversed(content) if one is not None), None)
        if single is None:
            return "nothing that was written since its grant"
        if single == ZERO:
            return "zeros"
        origin = self.history.provenance(single)
        if single == GARBAGE or origin is None:
            return "bytes that no forward of this run wrote"
        if isinstance(content, tuple) or page:
            return f"{self.short(origin.request)}'s token {origin.length - 1}"
        return f"{self.short(origin.request)} after {count(origin.length, 'token')}"

    def written(self, event: Event) -> str:
        """Return what a write left in its cell: `r1 after 8 tokens`, `r1's tokens 4..7`, `zeros`."""
        if event.kind == "zeroed":
            return "zeros"
        if event.kind == "read back":
            return f"what memory really held, {self.content(self.after.contents.get(event.cell))}"
        if event.kind == "copied":
            after = f"{self.short(event.request)} after {count(event.length, 'token')}"
            content = f", {after}" if event.length else ""
            return f"a copy of {self.cell(event.source)}{content}" if not event.frozen else content[2:]
        if self.is_state(event):
            return f"{self.short(event.request)} after {count(event.length, 'token')}"
        return f"{self.short(event.request)}'s {span('token', event.first, event.length)}"

    def is_state(self, event: Event) -> bool:
        """Tell whether an event left a whole state; where pages and slots share a pool, the forward's role decides."""
        return event.state or event.kind == "copied"

    def becomes(self, event: Event) -> tuple[int, str]:
        """Return the annotation of a write's row."""
        return event.line.index, f"{self.cell(event.cell)} becomes: {self.written(event)}"

    def last_written(self, cell: Cell, position: int | None = None) -> tuple[str, Event | None]:
        """Return the clause about what filled a cell last, and that event; of one entry where `position` is given."""
        group = self.group
        page = group.page_size if group and group.kind.paged else 1
        entry = position % page if position is not None and group and group.kind.paged else None
        event = self.history.last_write(cell, entry, page)
        name = self.cell(cell)
        if event is None:
            return f"nothing in this run has written {name}", None
        place = self.operation(event.line)
        if event.kind == "zeroed":
            return f"{name} was last zeroed by {place}", event
        if event.kind == "copied" and not event.frozen:
            return f"{name} was last copied from {self.cell(event.source)} by {place}, at {event.length}", event
        if event.kind == "read back":
            return f"{name} was read back at {place} and holds {self.content(self.after.contents.get(cell))}", event
        if self.is_state(event):
            return f"{name} was last written by {place}, at {event.length}", event
        return f"{name} was last written by {place}, with {self.written(event)}", event
