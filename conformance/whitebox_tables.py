"""The ownership tables for a white-box reader: which states there are, and what leads where while a cell is held."""

from __future__ import annotations

from functools import cache

from milepost.spec.ownership import PAGE_ROWS, SLOT_ROWS, PageState, Row, SlotState, edges
from milepost.spec.state import State
from milepost.spec.words import Cell

SLOT_STATES: frozenset[str] = frozenset(one.value for one in SlotState)
PAGE_STATES: frozenset[str] = frozenset(one.value for one in PageState)

PRIVATE: frozenset[str] = frozenset({SlotState.LIVE, SlotState.FROZEN, SlotState.DRAFT, PageState.PRIVATE})
"""States in which a cell belongs to one request."""

GONE: frozenset[str] = frozenset({SlotState.FREE, SlotState.EVICTED})
"""States in which a cell belongs to nobody and may be granted; pages have the same names for them."""


@cache
def reachable(rows: tuple[Row, ...]) -> frozenset[tuple[str, str]]:
    """Return (from, to) for all states between which rows lead without the cell being nobody's on the way."""
    steps = {(before, after) for before, after in edges(rows) if before not in GONE and after not in GONE}
    pairs = set(steps)
    while longer := {(first, last) for first, middle in pairs for start, last in steps if middle == start} - pairs:
        pairs |= longer
    return frozenset(pairs)


def held_path(cell: Cell, state: State) -> frozenset[tuple[str, str]]:
    """Return the moves that a cell of this pool may make while one request holds it all the time."""
    kinds = {group.kind.paged for group in state.capabilities.groups if group.pool == cell[0]}
    pages = reachable(PAGE_ROWS) if True in kinds else frozenset()
    slots = reachable(SLOT_ROWS) if False in kinds else frozenset()
    return pages | slots
