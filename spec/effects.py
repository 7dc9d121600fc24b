"""What an answer does to the judge's memory: tables change hands, phases copy and zero, a forward writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from milepost.spec.answers import Pages, Phase, Table, Tables, named_cells
from milepost.spec.capabilities import Group
from milepost.spec.faults import Fault
from milepost.spec.payload import ZERO, Content
from milepost.spec.reads import FaultFound, cell_at, entries_of
from milepost.spec.state import Claim, State, Writes
from milepost.spec.words import NULL, Cell


class Contradiction(ValueError):
    """An answer that contradicts the protocol or the declared capabilities: the adapter's error, not the engine's."""


def apply_tables(state: State, tables: Tables, granting: bool) -> None:
    """Replace the tables of the requests in `tables`; cells are given up before any is granted."""
    granted: list[tuple[str, list[Cell]]] = []
    for request, table in tables.items():
        claim = state.claims.get(request)
        if claim is None:
            raise Contradiction(f"the answer has a table for '{request}', which is not open")
        _check_form(state, request, table)
        granted.append((request, fresh_cells(state, claim, table)))
        cells = frozenset(named_cells(table, state.pools))
        state.claims[request] = replace(claim, table=table, cells=cells, leases=claim.leases & cells)
    for request, fresh in granted if granting else ():
        for cell in fresh:
            _grant(state, request, cell, fresh.count(cell))


def _check_form(state: State, request: str, table: Table) -> None:
    for name, part in table.items():
        if name not in state.pools:
            raise Contradiction(f"the table of '{request}' names an unknown group '{name}'")
        if isinstance(part, Pages) != state.capabilities.group(name).kind.paged:
            raise Contradiction(f"the table of '{request}' has the wrong form for group '{name}'")


def fresh_cells(state: State, claim: Claim, table: Table) -> list[Cell]:
    """Return the cells that a table newly names in roles that a grant fills, with repeats.

    These are the live slot, frozen and draft slots, and columns that reach past the request's length.
    """
    cells: list[Cell] = []
    for name, part in table.items():
        if isinstance(part, Pages):
            roles = part.columns[claim.length // state.capabilities.group(name).page_size :]
        else:
            written = (part.live, *(slot for _, slot in part.frozen), *part.drafts)
            roles = tuple(slot for slot in written if slot != part.source)
        cells.extend((state.pools[name], index) for index in roles if index != NULL)
    return [cell for cell in cells if cell not in claim.cells]


def _grant(state: State, request: str, cell: Cell, times: int) -> None:
    """Give a cell to a request: nobody else may hold, read or still write it. Its content becomes unwritten."""
    for other in state.claims.values():
        if other.request != request and (cell in other.leases or cell in other.restoring):
            raise FaultFound(Fault("evicted-while-leased", request, "", cell, other=other.request))
        if cell in other.cells and (other.request != request or times > 1):
            raise FaultFound(Fault("double-grant", request, "", cell, other=other.request))
    for flight in () if state.capabilities.ordered_steps else state.flights:
        writer = flight.writes[cell][0] if cell in flight.writes else flight.fills.get(cell, request)
        if writer != request:
            raise FaultFound(Fault("late-write", request, "", cell, other=writer or next(iter(flight.spans), "")))
    state.fill(cell, None)


def run_phases(
    state: State, phases: Iterable[Phase], readings: Mapping[Cell, Content], actors: Collection[str] = ()
) -> dict[Cell, str]:
    """Carry out copies and zeroings for `actors` in order; where memory was read back and differs, the reading decides.

    Return the destinations of queued phases, with the request that names each, '' where none does.
    """
    queued: dict[Cell, str] = {}
    for phase in phases:
        moves = {(pool, target): (pool, source) for pool, source, target in phase.copies}
        targets = {*moves, *phase.zeros}
        loads = {target: _load(state, phase, source, targets, queued) for target, source in moves.items()}
        for cell, (content, suspect) in (loads | dict.fromkeys(phase.zeros, (ZERO, ""))).items():
            owner = _guard_whole(state, cell, phase.at == "now", actors)
            if phase.at != "now":
                queued[cell] = owner
            elif cell in queued or _is_awaited(state, cell):
                content, suspect = state.contents.get(cell), "late-write"
            state.fill(cell, content, suspect)
    for cell, content in readings.items():
        state.fill(cell, content)
    return queued


def _load(
    state: State, phase: Phase, source: Cell, targets: Collection[Cell], queued: Collection[Cell]
) -> tuple[Content, str]:
    """Return what a copy moves, and the code that a wrong read of it gets."""
    if phase.at == "now" and (source in queued or _is_awaited(state, source)):
        return None, "read-before-landing"
    if phase.unordered and source in targets:
        return None, ""
    promised = any(source in claim.promised for claim in state.claims.values())
    return state.contents.get(source), "read-before-landing" if promised else state.suspects.get(source, "")


def _is_awaited(state: State, cell: Cell) -> bool:
    """Tell whether a step in flight has still to write a cell."""
    return any(cell in flight.writes or cell in flight.fills for flight in state.flights)


def _guard_whole(state: State, cell: Cell, now: bool, actors: Collection[str]) -> str:
    """Check that nobody else reads a cell that is copied over or zeroed; return the request that names it.

    What one of the `actors` holds alone is its own: it will be judged by what it reads there.
    """
    readers = [claim for claim in state.claims.values() if cell not in claim.promised]
    holders = [claim.request for claim in readers if cell in claim.cells]
    own = len(holders) == 1 and holders[0] in actors
    for claim in readers:
        leased = cell in claim.leases or cell in claim.restoring
        if (leased and not (own and holders == [claim.request])) or (cell in claim.cells and len(holders) > 1):
            raise FaultFound(Fault("write-to-published", claim.request, "", cell, other=claim.request))
    running = {flight.reads[cell] for flight in state.flights if now and cell in flight.reads}
    if any(claim.request in running for claim in state.open_claims()):
        raise FaultFound(Fault("write-to-published", "", "", cell, detail="a step in flight still reads it"))
    return holders[0] if holders else ""


def write_entries(
    state: State, claim: Claim, group: Group, start: int, stop: int, digests: Sequence[int] = ()
) -> Writes:
    """Write the KV of tokens [start, stop) as the request's forward does; return the entries by cell.

    `digests` name what is written for each length, where that is not the request's own text.
    """
    digests = digests or claim.stream.digests
    page, stride = group.page_size, group.stride
    written: Writes = {}
    for column in range(start // page, -(-stop // page)):
        base, cell = column * page, cell_at(claim.table, group, column)
        low, high = max(start - base, 0) // stride, min(stop - base, page) // stride
        if cell[1] == NULL or low >= high:
            continue
        _guard_write(state, claim, cell, low)
        entries = list(entries_of(state.contents.get(cell), page // stride))
        entries[low:high] = digests[base + stride * (low + 1) : base + stride * high + 1 : stride]
        state.fill(cell, tuple(entries))
        written[cell] = (claim.request, low, high)
    return written


def write_slot(state: State, claim: Claim, group: Group, index: int, content: int) -> Writes:
    """Write a state into a slot as the request's forward does."""
    cell = (group.pool, index)
    _guard_write(state, claim, cell, 0)
    state.fill(cell, content)
    return {cell: (claim.request, 0, 1)}


def _guard_write(state: State, claim: Claim, cell: Cell, first_entry: int) -> None:
    """A forward writes only what no other request may read: behind their entries in a page, never in their slots."""
    for other in state.claims.values():
        if other.request == claim.request or cell in other.promised or (
            other.closed and state.capabilities.ordered_steps
        ):
            continue
        if cell in other.restoring or (cell in other.cells and _may_read(state, other, cell, first_entry)):
            raise FaultFound(Fault("write-to-published", claim.request, "", cell, other=other.request))


def _may_read(state: State, claim: Claim, cell: Cell, first_entry: int) -> bool:
    """Tell whether a request may read a cell that it names from an entry on; of a slot it may read all."""
    pages = [
        (state.capabilities.group(name), part.columns.index(cell[1])) for name, part in claim.table.items()
        if isinstance(part, Pages) and state.pools[name] == cell[0] and cell[1] in part.columns
    ]
    lengths = ((claim.length - column * group.page_size) // group.stride for group, column in pages)
    return not pages or any(first_entry < length for length in lengths)
