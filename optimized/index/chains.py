"""Compressed groups: their pages continue each other as the full group's do, so a lease and a hit are one position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from milepost.optimized.index.answers import GivenUp, SidePublished
from milepost.optimized.index.edge import Edge, Strip, holder
from milepost.optimized.index.pages import PageBook
from milepost.optimized.index.sides import Side
from milepost.spec.capabilities import Group

if TYPE_CHECKING:
    from milepost.optimized.index.leases import Lease
    from milepost.optimized.index.tree import Tree


class Chain(Side, PageBook[Strip]):
    """A compressed group: on each edge a strip of its pages."""

    def __init__(self, tree: Tree, group: Group, full_page: int, number: int, rank: int) -> None:
        Side.__init__(self, tree, group, full_page, number, rank)
        PageBook.__init__(self, {rank})

    def requeue(self, run: Strip) -> None:
        """Queue a strip by its last page if nobody leases that and nothing real continues it; else withdraw it."""
        live = len(run.cells)
        idle = not run.live_children and run.protected < live
        self.page_queue.place(run, self.rank, run.stamps[live - 1] if idle else 0)

    def strip(self, edge: Edge, parent: Edge | None) -> Strip:
        """Return a new edge's room for this group."""
        return Strip(edge, parent.strips[self.number] if parent else None, self.columns(edge.start))

    # Finding and leases.

    def deepest(self, path: list[Edge], level: int, n: int, grid: int) -> tuple[int, int]:
        """Return the greatest multiple of the grid not beyond `n` to which the pages reach, and at which level."""
        while level >= 0 and not path[level].strips[self.number].cells:
            level -= 1
        reach = path[level].strips[self.number].live_end * self.page_size if level >= 0 else 0
        return (n if n <= reach else reach - reach % grid), level

    def hit_cells(self, path: list[Edge], live: int, length: int) -> tuple[int, np.ndarray]:
        """Return the first column that a hit needs, and the cells from there on."""
        cells = b"".join([edge.strips[self.number].cells for edge in path[: live + 1]])
        return 0, np.frombuffer(cells, np.int32, length // self.page_size)

    def lease(self, lease: Lease, path: list[Edge], live: int, length: int) -> None:
        """Lease the pages before a hit's end; only the last one becomes recent."""
        end = length // self.page_size
        while path[live].strips[self.number].start >= end:
            live -= 1
        strip = path[live].strips[self.number]
        self._move(lease, strip, end)
        strip.stamps[end - strip.start - 1] = self.tree.tick()

    def _move(self, lease: Lease, strip: Strip, end: int) -> None:
        """Let a lease reach further: the new place is protected before the old one is left."""
        self.stand(strip, end)
        old, before = lease.strips[self.number], lease.strip_ends[self.number]
        if old is not None:
            self.leave(holder(old, before), before)
        lease.strips[self.number], lease.strip_ends[self.number] = strip, end

    def release(self, lease: Lease) -> GivenUp:
        """End what a lease has of this group; return what a reset forgot and nobody else reads, the deepest first."""
        strip, end = lease.strips[self.number], lease.strip_ends[self.number]
        lease.strips[self.number], lease.strip_ends[self.number] = None, 0
        if strip is None:
            return []
        if not lease.stale:
            self.leave(holder(strip, end), end)
            return []
        freed = self.abandon(holder(strip, end), end)
        for cell in freed:
            del self.held_pages[cell]
        return [(self.name, cell) for cell in freed]

    # Publishing and giving up.

    def misfit(self, lease: Lease, cells: Mapping[int, int]) -> str:
        """Return why these columns cannot be published, '' where they can."""
        end = lease.strip_ends[self.number]
        if list(cells) == list(range(end, end + len(cells))) and end + len(cells) <= self.columns(lease.end):
            return ""
        return f"columns of '{self.name}' come in order from {end}, within {lease.length} leased tokens: {list(cells)}"

    def publish(self, lease: Lease, cells: Mapping[int, int], busy: int) -> SidePublished:
        """Make pages matchable in order, or go on with those that are there, up to a duplicate from `busy` on."""
        published, end = SidePublished(), lease.strip_ends[self.number]
        strip: Strip | None = None
        for column, cell in cells.items():
            assert lease.edge is not None
            strip = holder(lease.edge, self.page_of(column + 1)).strips[self.number]
            there = column < strip.live_end
            if there and column >= busy:
                published.blocked = True
                break
            if there:
                published.repointed[column] = strip.cells[column - strip.start]
            else:
                self._insert(strip, cell)
                published.inserted.append(column)
            end += 1
        if end > lease.strip_ends[self.number]:
            assert lease.edge is not None
            self._move(lease, holder(lease.edge, self.page_of(end)).strips[self.number], end)
        return published

    def _insert(self, strip: Strip, cell: int) -> None:
        strip.stamps.append(self.tree.tick())
        self.put(strip, [cell])
        strip.edge.version = self.tree.generation

    @property
    def order(self) -> tuple[int, int] | None:
        """The rank and last use of the page that goes first, None where all are needed."""
        return self.page_queue.order

    def evict_first(self) -> GivenUp:
        """Evict the page that goes first: the last one of a path, which nobody leases."""
        strip = self.page_queue.first()
        return [] if strip is None else self._evict(strip)

    def _evict(self, strip: Strip) -> GivenUp:
        """Take the last page from an unleased tip; ancestors hear of it up to the first that still has any."""
        cell, run = strip.cells.pop(), strip
        strip.stamps.pop()
        strip.edge.version = self.tree.generation
        self.evictable_pages -= 1
        del self.held_pages[cell]
        self.requeue(run)
        while not run.live and run.parent is not run:
            run = run.parent
            run.live_children -= 1
            self.requeue(run)
        return self.gone([cell])

    def drop(self, edge: Edge, page: int) -> GivenUp:
        """Evict what hangs on the full page that ends at `page`, the last one first."""
        strip, kept, given_up = edge.strips[self.number], self.columns(page - 1), []
        while strip.cells and strip.live_end > kept:
            given_up += self._evict(strip)
        return given_up

    # The shape of the tree.

    def divide(self, upper: Edge, lower: Edge) -> None:
        """Give a new upper part of an edge what now hangs on it."""
        above, below = upper.strips[self.number], lower.strips[self.number]
        below.divide(above, self.columns(lower.start))
        self.requeue(below)
        self.requeue(above)

    def join(self, upper: Edge, lower: Edge) -> None:
        """Give an edge what hung on the one above that it replaces."""
        above, below = upper.strips[self.number], lower.strips[self.number]
        self.page_queue.place(above, above.rank, 0)
        below.absorb(above)
        self.requeue(below)

    def forget(self, edge: Edge) -> GivenUp:
        """Forget what hangs on an edge; return what nobody reads."""
        strip = edge.strips[self.number]
        unread = strip.cells[strip.protected :].tolist()
        strip.cut_down()
        for cell in unread:
            del self.held_pages[cell]
        return [(self.name, cell) for cell in unread]

    def forgotten(self) -> None:
        """End an epoch: nothing can be evicted."""
        self.page_queue.clear()
        self.evictable_pages = 0
