"""What happened to each cell, in order: a run's lines judged again, with grants, writes and copies as events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from milepost.conformance.outcome import Line, Outcome
from milepost.spec.answers import Evicted, Frozen, Grant, Hit, Pages, Phase, Refused, Slots, Table, Tables
from milepost.spec.effects import apply_tables, run_phases
from milepost.spec.faults import Fault
from milepost.spec.operations import Extend, Launch, Open
from milepost.spec.payload import ZERO, Content, Provenance, find_provenance, make_stream
from milepost.spec.reads import FaultFound
from milepost.spec.state import Claim, State, initial
from milepost.spec.step import Contradiction, step
from milepost.spec.words import NULL, Cell, GroupKind

WRITES = ("written", "copied", "zeroed", "read back")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a cell.

    `kind` is granted, offered, given up, written, copied, zeroed, read back, evicted or refused. A `written` event
    covers tokens [first, length) of `request` in a page, and the state of `length` tokens in a slot; a `copied` one
    names its `source`. `state` is true where a forward wrote a whole state, `frozen` for a snapshot, asked for or not.
    """

    line: Line
    kind: str
    cell: Cell
    request: str = ""
    first: int = 0
    length: int = 0
    source: Cell = ("", NULL)
    frozen: bool = False
    state: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A line with the judge's state before it and after it; after a faulting line, as far as its effects were run."""

    line: Line
    before: State
    after: State
    broke_law: bool = False


class History:
    """All lines of an outcome as moments, and all events in order."""

    def __init__(self, outcome: Outcome) -> None:
        self.moments = list(_moments(outcome))
        self.events = [event for moment in self.moments for event in _events(moment)]

    @property
    def last(self) -> Moment | None:
        """The moment at which the run ended, None where nothing was asked."""
        return self.moments[-1] if self.moments else None

    def of(self, cell: Cell, *kinds: str) -> list[Event]:
        """Return the events of a cell, of these kinds or of all."""
        return [event for event in self.events if event.cell == cell and (not kinds or event.kind in kinds)]

    def latest(self, cell: Cell, *kinds: str) -> Event | None:
        """Return the last such event of a cell, None where there is none."""
        return next(iter(reversed(self.of(cell, *kinds))), None)

    def last_write(self, cell: Cell, entry: int | None = None, page: int = 1) -> Event | None:
        """Return what filled a cell last, with no regard to grants since then; what filled one entry of a page.

        `entry` counts tokens within the page of `page` tokens.
        """
        return next((event for event in reversed(self.of(cell, *WRITES)) if _covers(event, entry, page)), None)

    def write_before(self, event: Event) -> Event | None:
        """Return what filled the cell of an event last before it."""
        earlier = self.events[: self.events.index(event)]
        return next((one for one in reversed(earlier) if one.cell == event.cell and one.kind in WRITES), None)

    def longest(self, request: str) -> int:
        """Return the greatest length that a request reached."""
        claims = (moment.after.claims.get(request) for moment in self.moments)
        return max((claim.length for claim in claims if claim), default=0)

    def freezes(self, request: str) -> list[Event]:
        """Return the snapshots that were written or copied for a request."""
        return [event for event in self.events if event.request == request and event.frozen and event.kind in WRITES]

    def provenance(self, content: Content) -> Provenance | None:
        """Return what the last entry of a content was computed from, as the first request that had it."""
        last = content[-1] if isinstance(content, tuple) else content
        if not self.moments or last is None or last <= ZERO:
            return None
        return find_provenance(self.moments[-1].after.streams, last)


def _covers(event: Event, entry: int | None, page: int) -> bool:
    if entry is None or event.kind != "written":
        return True
    start = event.first % page
    return start <= entry < start + event.length - event.first


def _moments(outcome: Outcome) -> Iterator[Moment]:
    state = initial(outcome.state.capabilities)
    for line in outcome.lines:
        moment = Moment(line, state, state) if line.answer is None else _judged(state, line)
        yield moment
        state = moment.after


def _judged(state: State, line: Line) -> Moment:
    assert line.answer is not None
    try:
        after = step(state, line.operation, line.answer)
    except (Contradiction, KeyError, TypeError, AttributeError):
        return Moment(line, state, state)
    if isinstance(after, Fault):
        return Moment(line, state, _as_far_as_run(state, line), broke_law=True)
    return Moment(line, state, after)


def _as_far_as_run(state: State, line: Line) -> State:
    """Run the tables and phases of an answer that faulted, so that its copies can be told."""
    draft = state.copy()
    operation, answer = line.operation, line.answer
    if isinstance(operation, Open) and isinstance(answer, Hit) and operation.request not in draft.claims:
        tokens = operation.tokens + operation.samples
        stream = make_stream(operation.namespace, state.epoch, tokens, operation.content)
        draft = replace(draft, streams=(*draft.streams, (operation.request, stream)))
        prompt, length = len(operation.tokens), answer.length
        draft.claims[operation.request] = Claim(operation.request, stream, prompt, prompt, length, length)
    tables = {name: table for name, table in _tables(line).items() if name in draft.claims}
    try:
        apply_tables(draft, tables, granting=not isinstance(answer, Refused))
        run_phases(draft, getattr(answer, "phases", ()), getattr(answer, "readings", {}))
    except (FaultFound, Contradiction, KeyError):
        pass
    return draft


def _tables(line: Line) -> Tables:
    """Return every table in an answer, that of the asking request too."""
    tables: Tables = dict(getattr(line.answer, "tables", {}))
    own = getattr(line.answer, "table", None)
    if (own is not None and isinstance(line.operation, Open | Extend)) or isinstance(line.answer, Frozen):
        tables[getattr(line.operation, "request", "")] = own or {}
    return tables


def _events(moment: Moment) -> Iterator[Event]:
    line = moment.line
    yield from _table_events(moment)
    yield from _phase_events(line, getattr(line.answer, "phases", ()), moment)
    if isinstance(line.operation, Launch) and line.answer is not None:
        for claim in moment.before.planned():
            events = _forward_events(line, moment.before, claim)
            # A step that faulted had read its states and not yet written any.
            yield from (event for event in events if not (event.state and moment.broke_law))
    for cell in getattr(line.answer, "readings", {}):
        yield Event(line, "read back", cell)
    if isinstance(line.answer, Evicted):
        yield from (Event(line, "evicted", cell) for cell in line.answer.cells)


def _table_events(moment: Moment) -> Iterator[Event]:
    line, before, after = moment.line, moment.before.claims, moment.after.claims
    tables = _tables(line)
    for request in tables | before:
        held = before[request].cells if request in before else frozenset()
        holds = after[request].cells if request in after else frozenset()
        for cell in sorted(held - holds):
            yield Event(line, "given up", cell, request)
        for cell in sorted(holds - held):
            yield Event(line, _how_named(line, tables.get(request, {}), cell, moment.before), cell, request)


def _how_named(line: Line, table: Table, cell: Cell, state: State) -> str:
    """Tell whether a cell that a table newly names was granted, or offered with what it holds."""
    if isinstance(line.answer, Hit):
        lives = {(state.pools[name], part.live) for name, part in table.items()
                 if isinstance(part, Slots) and part.live != part.source}
        return "granted" if cell in lives else "offered"
    return "offered" if line.answer is None or getattr(line.answer, "tag", "") == "landing" else "granted"


def _phase_events(line: Line, phases: Iterable[Phase], moment: Moment) -> Iterator[Event]:
    frozen = isinstance(line.answer, Frozen)
    for phase in phases:
        for pool, source, target in phase.copies:
            origin = find_provenance(moment.before.streams, _single(moment.before.contents.get((pool, source))))
            request = getattr(line.operation, "request", "") or (origin.request if origin else "")
            length = origin.length if origin else 0
            yield Event(line, "copied", (pool, target), request, 0, length, (pool, source), frozen)
        for cell in phase.zeros:
            yield Event(line, "zeroed", cell)


def _single(content: Content) -> int:
    last = content[-1] if isinstance(content, tuple) else content
    return -1 if last is None or last <= ZERO else last


def _forward_events(line: Line, state: State, claim: Claim) -> Iterator[Event]:
    """Yield what a launched step of one request writes."""
    grant = claim.planned
    assert isinstance(grant, Grant)
    for group in state.capabilities.groups:
        part = claim.table.get(group.name)
        if isinstance(part, Pages) and group.kind.paged:
            for column in range(claim.length // group.page_size, -(-grant.length // group.page_size)):
                if column < len(part.columns) and part.columns[column] != NULL:
                    first = max(claim.length, column * group.page_size)
                    stop = min(grant.length, (column + 1) * group.page_size)
                    yield Event(line, "written", (group.pool, part.columns[column]), claim.request, first, stop)
    for name, slot, position in grant.frozen:
        yield Event(line, "written", (state.pools[name], slot), claim.request, 0, position, frozen=True, state=True)
    for group in state.capabilities.groups:
        part = claim.table.get(group.name)
        if group.kind is GroupKind.RECURRENT and isinstance(part, Slots) and part.live != NULL:
            yield Event(line, "written", (group.pool, part.live), claim.request, 0, grant.length, state=True)
