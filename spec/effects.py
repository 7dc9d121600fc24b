"""What an answer does to the judge's memory: tables change hands, phases copy and zero, a forward writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from milepost.spec.answers import Pages, Phase, Slots, Table, Tables, named_cells
from milepost.spec.capabilities import Group
from milepost.spec.faults import Fault
from milepost.spec.payload import ZERO, Content
from milepost.spec.reads import FaultFound, entries_of
from milepost.spec.state import Claim, State
from milepost.spec.words import NULL, Cell, GroupKind


class Contradiction(ValueError):
    """An answer that contradicts the protocol or the declared capabilities: the adapter's error, not the engine's."""


def apply_tables(state: State, tables: Tables, granting: bool) -> None:
    """Replace the tables of the requests in `tables`; cells are given up before any is granted."""
    granted: list[tuple[str, list[Cell]]] = []
    for request, table in tables.items():
        claim = state.claims.get(request)
        if claim is None:
            raise Contradiction(f"the answer has a table for '{request}', which is not open")
        _check_table(state, request, table)
        cells = frozenset(named_cells(table, state.pools))
        fresh = [cell for cell in _grantable(state, claim, table) if cell not in claim.cells]
        granted.append((request, fresh))
        leases = claim.leases & cells
        state.claims[request] = replace(claim, table=table, cells=cells, leases=leases)
    for request, fresh in granted if granting else ():
        for cell in fresh:
            grant(state, state.claims[request], cell, fresh.count(cell))


def _check_table(state: State, request: str, table: Table) -> None:
    for name, part in table.items():
        if name not in state.pools:
            raise Contradiction(f"the table of '{request}' names an unknown group '{name}'")
        recurrent = state.capabilities.group(name).kind is GroupKind.RECURRENT
        if isinstance(part, Slots) != recurrent:
            raise Contradiction(f"the table of '{request}' has the wrong form for group '{name}'")


def _grantable(state: State, claim: Claim, table: Table) -> list[Cell]:
    """Return the cells in roles that a grant fills: live, frozen, and columns that reach past the length."""
    cells: list[Cell] = []
    for name, part in table.items():
        pool = state.pools[name]
        if isinstance(part, Pages):
            kept = claim.length // state.capabilities.group(name).page_size
            cells.extend((pool, index) for index in part.columns[kept:] if index != NULL)
        else:
            roles = [part.live, *(slot for _, slot in part.frozen)]
            cells.extend((pool, index) for index in roles if index not in (NULL, part.source))
    return cells


def grant(state: State, claim: Claim, cell: Cell, times: int = 1) -> None:
    """Give a cell to a request: nobody else may hold, read or still write it. Its content becomes unwritten."""
    for other in state.claims.values():
        if other.request != claim.request:
            if cell in other.leases or cell in other.restoring:
                raise FaultFound(Fault("evicted-while-leased", claim.request, "", cell, other=other.request))
            if cell in other.cells:
                raise FaultFound(Fault("double-grant", claim.request, "", cell, other=other.request))
    if times > 1:
        raise FaultFound(Fault("double-grant", claim.request, "", cell, other=claim.request))
    if not state.capabilities.ordered_steps:
        for flight in state.flights:
            writer = flight.writes.get(cell, (claim.request, 0, 0))[0]
            if writer != claim.request:
                raise FaultFound(Fault("late-write", claim.request, "", cell, other=writer))
    state.contents[cell] = None
    _set_marks(state, cell, False, False)


def run_phases(state: State, phases: Iterable[Phase], readings: Mapping[Cell, Content]) -> None:
    """Carry out copies and zeroings in order; where memory was read back and differs, the reading decides."""
    for phase in phases:
        now = phase.at == "now"
        targets = {(pool, target) for pool, _, target in phase.copies}
        moved: list[tuple[Cell, Content, bool]] = []
        for pool, source, target in phase.copies:
            early = now and _in_flight_writes(state, (pool, source))
            lost = phase.unordered and (pool, source) in targets
            content = None if early or lost else state.contents.get((pool, source))
            moved.append(((pool, target), content, early or (pool, source) in state.unlanded_copies))
        moved += [(cell, ZERO, False) for cell in phase.zeros]
        for cell, content, early in moved:
            _guard_whole(state, cell, now)
            overtaken = now and _in_flight_writes(state, cell)
            if not overtaken:
                state.contents[cell] = content
            _set_marks(state, cell, overtaken, early)
    for cell, content in readings.items():
        state.contents[cell] = content


def _set_marks(state: State, cell: Cell, overtaken: bool, early: bool) -> None:
    object.__setattr__(state, "overtaken", state.overtaken | {cell} if overtaken else state.overtaken - {cell})
    copies = state.unlanded_copies
    object.__setattr__(state, "unlanded_copies", copies | {cell} if early else copies - {cell})


def _in_flight_writes(state: State, cell: Cell) -> bool:
    return any(cell in flight.writes for flight in state.flights)


def _guard_whole(state: State, cell: Cell, now: bool) -> None:
    """A copy or zeroing of a whole cell must not touch what a request leases, two name, or a step in flight reads."""
    holders = [claim for claim in state.claims.values() if cell in claim.cells]
    for claim in state.claims.values():
        if cell in claim.restoring or cell in claim.leases or (len(holders) > 1 and claim in holders):
            raise FaultFound(Fault("write-to-published", claim.request, "", cell, other=claim.request))
    if now and any(cell in flight.reads for flight in state.flights):
        raise FaultFound(Fault("write-to-published", "", "", cell, detail="a step in flight still reads it"))


def write_entries(state: State, claim: Claim, group: Group, start: int, stop: int) -> dict[Cell, tuple[str, int, int]]:
    """Write the KV of tokens [start, stop) as the request's forward does; return the entries by cell."""
    part = claim.table.get(group.name)
    columns = part.columns if isinstance(part, Pages) else ()
    page, stride = group.page_size, group.stride
    written: dict[Cell, tuple[str, int, int]] = {}
    for column in range(start // page, -(-stop // page)):
        low = max(start - column * page, 0) // stride
        high = min(stop - column * page, page) // stride
        index = columns[column] if column < len(columns) else NULL
        if index == NULL or low == high:
            continue
        cell = (group.pool, index)
        guard_write(state, claim, cell, low)
        entries = list(entries_of(state.contents.get(cell), page // stride))
        for entry in range(low, high):
            entries[entry] = claim.stream.digests[column * page + stride * (entry + 1)]
        state.contents[cell] = tuple(entries)
        _set_marks(state, cell, False, False)
        written[cell] = (claim.request, low, high)
    return written


def write_slot(state: State, claim: Claim, group: Group, index: int, length: int) -> dict[Cell, tuple[str, int, int]]:
    """Write the state of `length` tokens into a slot as the request's forward does."""
    cell = (group.pool, index)
    guard_write(state, claim, cell, 0)
    state.contents[cell] = claim.stream.digests[length]
    _set_marks(state, cell, False, False)
    return {cell: (claim.request, 0, 1)}


def guard_write(state: State, claim: Claim, cell: Cell, first_entry: int) -> None:
    """A forward writes only what no other request may read: behind their entries in a page, never in their slots."""
    for other in state.claims.values():
        if other.request == claim.request or (other.closed and state.capabilities.ordered_steps):
            continue
        if cell in other.restoring or (cell in other.cells and first_entry < _readable(state, other, cell)):
            raise FaultFound(Fault("write-to-published", claim.request, "", cell, other=other.request))


def _readable(state: State, claim: Claim, cell: Cell) -> int:
    """Return how many entries of a cell a request may read; all of a slot."""
    for name, part in claim.table.items():
        group = state.capabilities.group(name)
        if isinstance(part, Pages) and group.pool == cell[0] and cell[1] in part.columns:
            return max(0, claim.length - part.columns.index(cell[1]) * group.page_size) // group.stride
    return 1
