"""Pools of cells: which are free, and whose the others are. Each operation costs the same however large the pool is.

A published cell belongs to the index, which knows its leases; here it only has its endpoint. Nothing here knows what a
prefix is, and nothing touches memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from milepost.optimized.errors import CacheError
from milepost.spec.ownership import PageState, SlotState

NOBODY = 0
"""The owner of a cell that belongs to no request; requests are counted from 1."""

PUBLISHED = "published"
"""The state of a cell that was handed to the index."""

PRIVATE, LIVE, FROZEN, DRAFT, FREE = (
    PageState.PRIVATE.value, SlotState.LIVE.value, SlotState.FROZEN.value, SlotState.DRAFT.value, SlotState.FREE.value
)


class PoolError(CacheError):
    """A cell was taken, given back or handed over by somebody who may not: told before it harms."""


class CellPool:
    """The cells of one pool; the last one given back is taken first."""

    def __init__(self, name: str, cells: int) -> None:
        if cells < 0:
            raise PoolError(f"pool '{name}' cannot have {cells} cells")
        self.name, self.cells = name, cells
        self.free = list(range(cells))
        self.states = [FREE] * cells
        self.owners = [NOBODY] * cells
        self.endpoints = [0] * cells
        self.published = 0

    @property
    def private(self) -> int:
        """Cells that belong to requests."""
        return self.cells - len(self.free) - self.published

    def take(self, owner: int, state: str, endpoint: int = 0) -> int:
        """Grant a cell to a request; PoolError where none is free."""
        if not self.free:
            raise PoolError(f"no cell of pool '{self.name}' is free")
        cell = self.free.pop()
        self.states[cell], self.owners[cell], self.endpoints[cell] = state, owner, endpoint
        return cell

    def give_back(self, cell: int, owner: int) -> None:
        """Free the cell of `owner`, or a published one in the name of NOBODY; PoolError where it is not theirs."""
        self._must_belong(cell, owner)
        if owner == NOBODY:
            self.published -= 1
        self.states[cell], self.owners[cell], self.endpoints[cell] = FREE, NOBODY, 0
        self.free.append(cell)

    def publish(self, cell: int, owner: int, endpoint: int | None = None) -> None:
        """Hand a request's cell to the index; a slot keeps the endpoint that it was written with."""
        self._must_belong(cell, owner)
        self.states[cell], self.owners[cell] = PUBLISHED, NOBODY
        self.endpoints[cell] = self.endpoints[cell] if endpoint is None else endpoint
        self.published += 1

    def advance(self, cell: int, owner: int, endpoint: int) -> None:
        """Record that the owner's forward has taken its live slot to `endpoint`."""
        self._must_belong(cell, owner)
        self.endpoints[cell] = endpoint

    def accept(self, cell: int, owner: int, endpoint: int) -> None:
        """Make the owner's draft column its live slot; PoolError where it encodes another length."""
        self._must_belong(cell, owner)
        found = self.states[cell], self.endpoints[cell]
        if found != (DRAFT, endpoint):
            raise PoolError(f"{self.name} {cell} is {found[0]} at {found[1]}, and no draft at {endpoint}")
        self.states[cell] = LIVE

    def _must_belong(self, cell: int, owner: int) -> None:
        if self.states[cell] == FREE or self.owners[cell] != owner:
            raise PoolError(f"{self.name} {cell} is {self.states[cell]}, of {self.owners[cell]} and not of {owner}")

    @contextmanager
    def grants(self, owner: int) -> Iterator[list[int]]:
        """Give back what was put into the list, last one first, where the block raises."""
        taken: list[int] = []
        try:
            yield taken
        except BaseException:
            while taken:
                self.give_back(taken.pop(), owner)
            raise

    def check(self) -> None:
        """Verify the books of this pool in full; PoolError says which are wrong."""
        listed = sorted(self.free)
        if listed != [cell for cell, state in enumerate(self.states) if state == FREE]:
            raise PoolError(f"the free list of pool '{self.name}' and the states of its cells disagree")
        if self.published != self.states.count(PUBLISHED):
            raise PoolError(f"pool '{self.name}' counts {self.published} published cells, and they are another number")
        for cell, (state, owner) in enumerate(zip(self.states, self.owners, strict=True)):
            if (owner != NOBODY) != (state not in (FREE, PUBLISHED)):
                raise PoolError(f"{self.name} {cell} is {state}, and its owner is {owner}")
