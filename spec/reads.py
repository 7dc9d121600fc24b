"""What a reader must find, and which code names what it found instead."""

from __future__ import annotations

from milepost.spec.answers import Pages
from milepost.spec.capabilities import Group
from milepost.spec.faults import Fault
from milepost.spec.payload import ZERO, Content, Entries, Provenance, find_provenance
from milepost.spec.resume import first_needed
from milepost.spec.state import Claim, State
from milepost.spec.words import NULL, Cell, GroupKind


class FaultFound(Exception):
    """Carries a fault out of the rules to `step`, which returns it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code)
        self.fault = fault


def entries_of(content: Content, count: int) -> Entries:
    """Return a cell's content as `count` page entries: zeroed or unwritten memory is so in each of them."""
    return content if isinstance(content, tuple) else (content,) * count


def check_pages(state: State, claim: Claim, group: Group, first: int, stop: int, at_open: bool) -> frozenset[Cell]:
    """Verify the entries of tokens [first, stop) of a paged group; return the cells that are only promised.

    At open, entries that a planned step will write count as promised; in the reader's own step they must be there.
    """
    part = claim.table.get(group.name)
    columns = part.columns if isinstance(part, Pages) else ()
    page, stride = group.page_size, group.stride
    promised: set[Cell] = set()
    for column in range(first // page, -(-stop // page)):
        low = max(first - column * page, 0) // stride
        high = min(stop - column * page, page) // stride
        lengths = range(column * page + stride * (low + 1), column * page + stride * high + 1, stride)
        wanted = tuple(claim.stream.digests[length] for length in lengths)
        index = columns[column] if column < len(columns) else NULL
        cell = (group.pool, index)
        found = entries_of(state.contents.get(cell), page // stride)[low:high] if index != NULL else None
        if found == wanted and not _pending(state, claim, cell, low, high):
            continue
        if at_open and found is not None and wanted == _promise(state, claim, cell, group, column)[low:high]:
            if state.capabilities.ordered_steps:
                promised.add(cell)
                continue
            raise FaultFound(_fault(state, "read-before-landing", claim, group, cell, lengths[0] - 1, None))
        offset = 0 if found is None else next((i for i, one in enumerate(found) if one != wanted[i]), 0)
        raise FaultFound(misread(state, claim, group, cell, found[offset] if found else None, lengths[offset], index))
    return frozenset(promised)


def check_state(state: State, claim: Claim, group: Group, index: int, n: int, at_open: bool) -> bool:
    """Verify that a slot holds the state of exactly n tokens; True where that is only promised."""
    cell = (group.pool, index)
    wanted = claim.stream.digests[n] if n else ZERO
    found = state.contents.get(cell)
    if index != NULL and found == wanted and not _pending(state, claim, cell, 0, 1):
        return False
    if at_open and index != NULL and _promised_state(state, claim, cell, group, wanted):
        if state.capabilities.ordered_steps:
            return True
        raise FaultFound(_fault(state, "read-before-landing", claim, group, cell, n, None))
    single = found[-1] if isinstance(found, tuple) else found
    raise FaultFound(misread(state, claim, group, cell, single, n, index))


def check_all(state: State, claim: Claim, start: int, stop: int, at_open: bool) -> frozenset[Cell]:
    """Verify every page entry that queries at [start, stop) read, or that a hit at start == stop promises."""
    promised: frozenset[Cell] = frozenset()
    for group in state.capabilities.groups:
        if group.kind.paged and stop:
            first = first_needed(group.kind, start, group.window)
            promised |= check_pages(state, claim, group, first - first % group.stride, stop, at_open)
    return promised


def _pending(state: State, claim: Claim, cell: Cell, low: int, high: int) -> bool:
    """Tell whether another request's unlanded step writes these entries, where law 8 holds literally."""
    if state.capabilities.ordered_steps:
        return False
    for flight in state.flights:
        request, first, last = flight.writes.get(cell, (claim.request, 0, 0))
        if request != claim.request and first < high and low < last:
            return True
    return False


def _promise(state: State, claim: Claim, cell: Cell, group: Group, column: int) -> Entries:
    """Return the entries that the last planned step naming this cell in this column will leave there."""
    page, stride = group.page_size, group.stride
    entries: Entries = ()
    for other in state.planned():
        part = other.table.get(group.name)
        columns = part.columns if isinstance(part, Pages) and other.request != claim.request else ()
        if other.planned and columns[column : column + 1] == (cell[1],):
            lengths = range(column * page + stride, min(other.planned.length, (column + 1) * page) + 1, stride)
            entries = tuple(other.stream.digests[length] for length in lengths)
    return entries


def _promised_state(state: State, claim: Claim, cell: Cell, group: Group, wanted: int) -> bool:
    for other in state.planned():
        if other.request != claim.request and other.planned and cell in other.cells:
            written = [(slot, position) for name, slot, position in other.planned.frozen if name == group.name]
            live = getattr(other.table.get(group.name), "live", NULL)
            written.append((live, other.planned.length))
            if any(slot == cell[1] and other.stream.digests[position] == wanted for slot, position in written):
                return True
    return False


def misread(
    state: State, claim: Claim, group: Group, cell: Cell, found: int | None, length: int, index: int
) -> Fault:
    """Name a read that did not find the reader's own first `length` tokens, by the registry's precedence."""
    origin = find_provenance(reversed(state.streams), found) if found and found > ZERO else None
    return _fault(state, _code(state, claim, group, cell, found, origin, length, index), claim, group, cell,
                  length - group.kind.paged, origin)


def _code(state: State, claim: Claim, group: Group, cell: Cell, found: int | None, origin: Provenance | None,
          length: int, index: int) -> str:
    if index == NULL:
        return {GroupKind.WINDOW: "window-gap", GroupKind.RECURRENT: "torn-hit"}.get(group.kind, "kv-gap")
    if _pending(state, claim, cell, 0, group.page_size) or cell in state.unlanded_copies:
        return "read-before-landing"
    if cell in state.overtaken:
        return "late-write"
    if found is None:
        return "read-before-landing" if cell in claim.promised else "uninitialized-read"
    recurrent = group.kind is GroupKind.RECURRENT
    if found == ZERO and recurrent:
        return "torn-hit"
    if origin is not None:
        shared = min(origin.length, length)
        if origin.stream.identities[:shared] == claim.stream.identities[:shared] and shared:
            if origin.stream.epoch != claim.stream.epoch:
                return "reset-survivor"
            if origin.stream.namespace != claim.stream.namespace:
                return "cross-namespace"
            if recurrent and origin.length != length:
                return "torn-hit" if origin.length < length else "over-advanced"
    return "stale-state" if recurrent else "stale-kv"


def _fault(state: State, code: str, claim: Claim, group: Group, cell: Cell, position: int,
           found: Provenance | None) -> Fault:
    expected = Provenance(claim.request, claim.stream, position + group.kind.paged)
    return Fault(code, claim.request, group.name, cell, position, expected, found)
