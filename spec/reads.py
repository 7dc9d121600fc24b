"""What a reader must find, and which code names what it found instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from milepost.spec.answers import Pages, Slots, Table
from milepost.spec.capabilities import Group
from milepost.spec.faults import Fault
from milepost.spec.payload import GARBAGE, ZERO, Content, Entries, Provenance, find_provenance
from milepost.spec.resume import first_needed
from milepost.spec.state import Claim, State, Writes
from milepost.spec.words import NULL, Cell, GroupKind


class FaultFound(Exception):
    """Carries a fault out of the rules to `step`, which returns it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code)
        self.fault = fault


class Read(NamedTuple):
    """What a cell must hold for a reader: in entry `low` the first `lengths[0]` tokens, and so on; a state has one."""

    claim: Claim
    group: Group
    cell: Cell
    low: int
    lengths: range
    wanted: Entries


def entries_of(content: Content, count: int) -> Entries:
    """Return a cell's content as `count` page entries: a state has none, nor has a page of another group's form."""
    if isinstance(content, tuple):
        return content if len(content) == count else (GARBAGE,) * count
    return (content if content is None or content <= ZERO else GARBAGE,) * count


def cell_at(table: Table, group: Group, column: int) -> Cell:
    """Return the page that a table names in a column, NULL where it names none."""
    part = table.get(group.name)
    columns = part.columns if isinstance(part, Pages) else ()
    return group.pool, columns[column] if column < len(columns) else NULL


def page_reads(state: State, claim: Claim, start: int, stop: int) -> Iterator[Read]:
    """Yield the entries that queries at [start, stop) read in every paged group; a hit has start == stop."""
    for group in state.capabilities.groups:
        if group.kind.paged:
            page, stride = group.page_size, group.stride
            first = first_needed(group.kind, start, group.window)
            for column in range(first // page, -(-stop // page)):
                base = column * page
                low, high = max(first - base, 0) // stride, min(stop - base, page) // stride
                if low < high:
                    lengths = range(base + stride * (low + 1), base + stride * high + 1, stride)
                    wanted = claim.stream.digests[lengths.start : lengths.stop : stride]
                    yield Read(claim, group, cell_at(claim.table, group, column), low, lengths, wanted)


def state_read(claim: Claim, group: Group, index: int, length: int) -> Read:
    """Return the read of a slot that must hold the state of exactly `length` tokens."""
    wanted = claim.stream.digests[length] if length else ZERO
    return Read(claim, group, (group.pool, index), 0, range(length, length + 1), (wanted,))


def check(state: State, reads: Iterable[Read], at_open: bool, same_step: Writes | None = None) -> frozenset[Cell]:
    """Verify what is read; return the cells that are only promised.

    At open, what a planned step will write counts as promised; in the reader's own step it must be there. `same_step`
    are the writes of that step: entries of others among them are read only where the forward orders it so.
    """
    promised: set[Cell] = set()
    for read in reads:
        barred = {} if read.group.same_step_reads or same_step is None else same_step
        if _found(state, read) != read.wanted or _writer(state, read, barred, 0, len(read.lengths)) is not None:
            if not at_open or read.cell[1] == NULL or not any(_will_hold(claim, read) for claim in state.planned()):
                raise FaultFound(_misread(state, read, barred))
            if not state.capabilities.ordered_steps:
                raise FaultFound(_fault(read, "read-before-landing", _first_wrong(state, read, barred)))
            promised.add(read.cell)
    return frozenset(promised)


def _found(state: State, read: Read) -> Entries:
    content = state.contents.get(read.cell)
    if not read.group.kind.paged:
        return (GARBAGE,) if isinstance(content, tuple) else (content,)
    entries = entries_of(content, read.group.page_size // read.group.stride)
    return entries[read.low : read.low + len(read.lengths)]


def _writer(state: State, read: Read, barred: Writes, first: int, stop: int) -> str | None:
    """Return another request whose step has still to write some of these entries; '' where no table names the cell.

    Such steps are the reader's own where the forward does not order its writes, and all that are in flight where
    law 8 holds literally.
    """
    me, cell = read.claim.request, read.cell
    flights = () if state.capabilities.ordered_steps else state.flights
    for writes in (barred, *(flight.writes for flight in flights)):
        writer, low, high = writes.get(cell, (me, 0, 0))
        if writer != me and low < read.low + stop and read.low + first < high:
            return writer
    return next((flight.fills[cell] for flight in flights if flight.fills.get(cell, me) != me), None)


def _will_hold(other: Claim, read: Read) -> bool:
    """Tell whether another request's planned step leaves the wanted payload in the cell.

    Entries and snapshots up to its present length count too, since the coming launch's copies may fill them.
    """
    part, plan, digests = other.table.get(read.group.name), other.planned, other.stream.digests
    if plan is None or other.request == read.claim.request:
        return False
    if isinstance(part, Pages):
        column = (read.lengths[0] - 1) // read.group.page_size
        named = cell_at(other.table, read.group, column) == read.cell and read.lengths[-1] <= plan.length
        return named and read.wanted == digests[read.lengths.start : read.lengths.stop : read.lengths.step]
    slots = part if isinstance(part, Slots) else Slots()
    states = [(slots.live, plan.length), *((slot, at) for at, slot in slots.frozen if at <= other.length)]
    states += [(slot, at) for name, slot, at in plan.frozen if name == read.group.name]
    return any(slot == read.cell[1] and digests[at] == read.wanted[0] for slot, at in states)


def _misread(state: State, read: Read, barred: Writes) -> Fault:
    """Name a read that did not find the reader's own prefix, by the registry's precedence."""
    offset = _first_wrong(state, read, barred)
    found, writer = _found(state, read)[offset], _writer(state, read, barred, offset, offset + 1)
    origin = find_provenance(state.streams, found) if found and found > ZERO else None
    code = _absent(state, read, found, writer is not None) or _stale(read, read.lengths[offset], found, origin)
    return _fault(read, code, offset, origin, writer or "")


def _first_wrong(state: State, read: Read, barred: Writes) -> int:
    found = enumerate(_found(state, read))
    return next(i for i, one in found if one != read.wanted[i] or _writer(state, read, barred, i, i + 1) is not None)


def _absent(state: State, read: Read, found: int | None, late: bool) -> str:
    """Name a read of what is not there or not there yet, '' where something is."""
    if read.cell[1] == NULL:
        return {GroupKind.WINDOW: "window-gap", GroupKind.RECURRENT: "torn-hit"}.get(read.group.kind, "kv-gap")
    if late or read.cell in read.claim.promised:
        return "read-before-landing"
    return state.suspects.get(read.cell, "uninitialized-read" if found is None else "")


def _stale(read: Read, length: int, found: int | None, origin: Provenance | None) -> str:
    """Name a payload by how it is related to the reader's own first `length` tokens."""
    recurrent, stream = not read.group.kind.paged, read.claim.stream
    if found == ZERO and recurrent:
        return "torn-hit"
    shared = min(origin.length, length) if origin else 0
    if origin and shared and origin.stream.identities[:shared] == stream.identities[:shared]:
        if origin.stream.epoch != stream.epoch:
            return "reset-survivor"
        if origin.stream.namespace != stream.namespace:
            return "cross-namespace"
        if recurrent:
            return "torn-hit" if origin.length < length else "over-advanced"
    return "stale-state" if recurrent else "stale-kv"


def _fault(read: Read, code: str, offset: int, found: Provenance | None = None, other: str = "") -> Fault:
    claim, length = read.claim, read.lengths[offset]
    expected = Provenance(claim.request, claim.stream, length)
    position = length - read.group.kind.paged
    return Fault(code, claim.request, read.group.name, read.cell, position, expected, found, other)
