"""Pools of cells with explicit ownership: every transition is looked up in the tables of `spec.ownership`.

A pool knows which cells are free and who occupies the others; `PageCells` and `SlotCells` read one table each and
may share a pool. Nothing here knows what a prefix is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from milepost.spec.ownership import PAGE_ROWS, SLOT_ROWS, PageState, Row, SlotState, transition

NOBODY = 0
"""The owner of a cell that belongs to no request; requests are counted from 1."""


@dataclass(slots=True)
class Occupant:
    """What the tables say of one cell: its state, owning request, endpoint in tokens, and leases."""

    state: str = SlotState.FREE.value
    owner: int = NOBODY
    endpoint: int = 0
    leases: int = 0


class Pool:
    """Cells that are free or occupied; the last one freed is granted first, and at the start the highest index."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.occupants = [Occupant() for _ in range(size)]
        self.free = list(range(size))
        self.in_flight: Counter[int] = Counter()

    def next_free(self) -> int:
        """Return the cell that the next grant takes; IndexError where none is free."""
        return self.free[-1]

    def take(self, index: int) -> None:
        """Strike a cell from the free list."""
        self.free.remove(index)

    def empty(self, index: int) -> None:
        """Forget the occupant of a cell and make it the next one to be granted."""
        self.occupants[index] = Occupant()
        self.free.append(index)


class Cells:
    """One ownership table, interpreted over the cells of a pool."""

    def __init__(self, pool: Pool, rows: tuple[Row, ...]) -> None:
        self.pool = pool
        self.rows = rows

    def __getitem__(self, index: int) -> Occupant:
        return self.pool.occupants[index]

    def move(self, row: str, index: int, **facts: int) -> Occupant:
        """Carry out one row, with the occupant's own facts and `facts`, which win; Violation where it is forbidden."""
        occupant = self[index]
        known = {
            "owner": occupant.owner,
            "endpoint": occupant.endpoint,
            "leases": occupant.leases,
            "in_flight": self.pool.in_flight[index],
        }
        occupant.state = transition(self.rows, row, occupant.state, known | facts)
        return occupant

    def occupy(self, row: str, owner: int, endpoint: int, **facts: int) -> int:
        """Take the next free cell by a row that leads from `free`."""
        index = self.pool.next_free()
        self.move(row, index, endpoint=endpoint, **facts)
        self.pool.take(index)
        occupant = self[index]
        occupant.owner, occupant.endpoint = owner, endpoint
        return index

    def vacate(self, row: str, index: int, **facts: int) -> None:
        """Free a cell by a row that leads to `free`."""
        self.move(row, index, **facts)
        self.pool.empty(index)

    def hand_over(self, row: str, index: int, depth: int, **facts: int) -> None:
        """Give a request's cell to the entry at `depth` by a row that publishes."""
        occupant = self.move(row, index, depth=depth, **facts)
        occupant.owner, occupant.endpoint = NOBODY, depth

    def release(self, index: int) -> None:
        """End one lease of a cell."""
        self.move("release", index).leases -= 1

    def reclaim(self, index: int) -> None:
        """Free an evicted cell that no step in flight can touch."""
        self.vacate("reclaim", index)


class PageCells(Cells):
    """Pages: private to one request, or shared by readers."""

    def __init__(self, pool: Pool, rows: tuple[Row, ...] = PAGE_ROWS) -> None:
        super().__init__(pool, rows)

    def allocate(self, owner: int) -> int:
        """Grant a page to a request."""
        return self.occupy("allocate", owner, 0)

    def lease(self, index: int) -> None:
        """Add a reader to a shared page."""
        self.move("lease", index).leases += 1

    def evict(self, index: int, dependents: int) -> None:
        """Withdraw a page on which `dependents` published things rest."""
        self.move("evict", index, dependents=dependents)

    def evictable(self, index: int) -> bool:
        """Tell whether nobody reads this published page."""
        return self[index].state == PageState.SHARED and self[index].leases == 0


class SlotCells(Cells):
    """Slots: live, frozen, donated, protected."""

    def __init__(self, pool: Pool, rows: tuple[Row, ...] = SLOT_ROWS) -> None:
        super().__init__(pool, rows)

    def admit(self, owner: int) -> int:
        """Grant a live slot for a cold start."""
        return self.occupy("admit", owner, 0)

    def restore(self, owner: int, endpoint: int, source: int) -> int:
        """Grant a live slot that will be a copy of the slot `source`, which the owner protects."""
        facts = {"source_leases": self[source].leases, "source_endpoint": self[source].endpoint}
        return self.occupy("restore", owner, endpoint, **facts)

    def advance(self, index: int, owner: int, endpoint: int) -> None:
        """Record that the owner's forward has taken its live slot to `endpoint`."""
        self.move("advance", index, request=owner, new_endpoint=endpoint).endpoint = endpoint

    def freeze(self, owner: int, position: int, start: int, stop: int, grid: int) -> int:
        """Grant a slot for the state at `position` of a step over [start, stop)."""
        facts = {"position": position, "step_start": start, "step_end": stop, "grid": grid}
        return self.occupy("freeze", owner, position, **facts)

    def speculate(self, owner: int, endpoint: int) -> int:
        """Grant a column for the state after a draft token that would take it to `endpoint`."""
        return self.occupy("speculate", owner, endpoint)

    def accept(self, index: int, owner: int, accepted_length: int) -> None:
        """Make the column of the last accepted draft token the owner's live slot."""
        self.move("accept", index, request=owner, accepted_length=accepted_length)

    def protect(self, index: int) -> None:
        """Add a reader to a snapshot."""
        self.move("protect", index).leases += 1

    def evict(self, index: int) -> None:
        """Withdraw a snapshot that nobody reads."""
        self.move("evict", index)

    def evictable(self, index: int) -> bool:
        """Tell whether nobody reads this snapshot."""
        return self[index].state == SlotState.DONATED
