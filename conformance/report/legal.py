"""The legal answers to an operation that faulted, each confirmed by the judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from milepost.conformance.report.case import Case
from milepost.spec.answers import Answer, Evicted, Grant, Hit, Pages, Refused, Slots, Table
from milepost.spec.capabilities import Group
from milepost.spec.operations import Evict, Extend, Open, Operation
from milepost.spec.payload import Stream, make_stream
from milepost.spec.reads import entries_of
from milepost.spec.resume import aligned, first_needed
from milepost.spec.state import State
from milepost.spec.step import Contradiction, step
from milepost.spec.words import NULL, Cell

MOST_LENGTHS = 4096
"""Hits are tried at no more lengths than this, the shortest first."""


def is_legal(case: Case, operation: Operation, answer: Answer) -> bool:
    """Ask the judge."""
    try:
        return isinstance(step(case.before, operation, answer), State)
    except (Contradiction, KeyError, TypeError, AttributeError):
        return False


def legal_hits(case: Case, operation: Open, given: Hit | None) -> list[Hit]:
    """Return a legal hit for each length that has one, from contents alone; cells that `given` names come first."""
    state = case.before
    stream = make_stream(operation.namespace, state.epoch, operation.tokens + operation.samples, operation.content)
    alignment = case.capabilities.hit_alignment
    limit = max(len(operation.tokens) - 1, 0)
    offered = given.table if given else {}
    found: list[Hit] = []
    for n in range(0, limit + 1, alignment)[:MOST_LENGTHS]:
        table = {} if n == 0 else _table(state, stream, n, offered)
        if table is not None and is_legal(case, operation, Hit(n, table)):
            found.append(Hit(n, table))
    return found


def _table(state: State, stream: Stream, n: int, offered: Table) -> Table | None:
    """Return a table of cells that hold the first n tokens of a stream; None where a group has none."""
    table: Table = {}
    for group in state.capabilities.groups:
        if not aligned(group.kind, n, group.ratio):
            return None
        part = offered.get(group.name)
        if group.kind.paged:
            columns = _columns(state, stream, group, n, part.columns if isinstance(part, Pages) else ())
            if columns is None:
                return None
            table[group.name] = Pages(columns)
        else:
            slot = _slot(state, stream, group, n, part.source if isinstance(part, Slots) else NULL)
            if slot == NULL:
                return None
            table[group.name] = Slots(source=slot)
    return table


def _columns(state: State, stream: Stream, group: Group, n: int, offered: tuple[int, ...]) -> tuple[int, ...] | None:
    page, stride = group.page_size, group.stride
    first = first_needed(group.kind, n, group.window)
    first -= first % stride
    columns = []
    for column in range(-(-n // page)):
        low = max(first - column * page, 0) // stride
        high = min(n - column * page, page) // stride
        wanted = tuple(stream.digests[column * page + stride * (entry + 1)] for entry in range(low, max(high, low)))
        if high <= low:
            columns.append(NULL)
            continue
        preferred = offered[column] if column < len(offered) else NULL
        index = next(
            (index for index in _indexes(state, group, preferred)
             if entries_of(state.contents.get((group.pool, index)), page // stride)[low:high] == wanted),
            NULL,
        )
        if index == NULL:
            return None
        columns.append(index)
    return tuple(columns)


def _slot(state: State, stream: Stream, group: Group, n: int, preferred: int) -> int:
    """Return a slot with the state of n tokens that no open request is about to write."""
    live = {part.live for claim in state.open_claims() for name, part in claim.table.items()
            if name == group.name and isinstance(part, Slots)}
    for index in _indexes(state, group, preferred):
        if index not in live and state.contents.get((group.pool, index)) == stream.digests[n]:
            return index
    return NULL


def _indexes(state: State, group: Group, preferred: int) -> Iterator[int]:
    if preferred != NULL:
        yield preferred
    yield from sorted(index for pool, index in state.contents if pool == group.pool and index != preferred)


def legal_replacements(case: Case, operation: Extend, answer: Grant) -> list[int]:
    """Return the cells of the faulting cell's pool that could have been granted in its place."""
    pool, index = case.fault.cell
    cells = range(case.capabilities.pools.get(pool, 0))
    known = {cell for name, cell in case.before.contents if name == pool}
    candidates = sorted(known | set(cells)) if len(cells) <= MOST_LENGTHS else sorted(known)
    return [other for other in candidates if other != index
            and is_legal(case, operation, _with(case, answer, (pool, index), other))]


def _with(case: Case, answer: Grant, cell: Cell, other: int) -> Grant:
    """Return the grant with one cell replaced: its last column, as a fresh cell is at the end of a table."""
    table = dict(answer.table)
    for name, part in answer.table.items():
        if case.before.pools[name] != cell[0]:
            continue
        if isinstance(part, Pages) and cell[1] in part.columns:
            last = len(part.columns) - 1 - part.columns[::-1].index(cell[1])
            table[name] = Pages((*part.columns[:last], other, *part.columns[last + 1 :]))
            break
        if isinstance(part, Slots) and cell[1] == part.live:
            table[name] = replace(part, live=other)
            break
        if isinstance(part, Slots) and any(slot == cell[1] for _, slot in part.frozen):
            table[name] = replace(part, frozen=tuple((at, other if slot == cell[1] else slot)
                                                     for at, slot in part.frozen))
            break
    return replace(answer, table=table)


def refusal_is_legal(case: Case, operation: Operation, answer: Refused) -> bool:
    """Tell whether the same refusal, changing no table, would have been legal."""
    return is_legal(case, operation, replace(answer, tables={}))


def legal_evictions(case: Case, operation: Evict) -> list[Cell]:
    """Return the cells of the group's pool that a legal answer could list, of those that were ever written."""
    pool = case.before.pools.get(operation.group, "")
    cells = sorted(cell for cell, content in case.before.contents.items() if cell[0] == pool and content is not None)
    return [cell for cell in cells if is_legal(case, operation, Evicted((cell,)))]
