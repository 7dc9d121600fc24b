"""Sliding windows: each page is leased by its readers, and evictable by itself; what is missing is a tombstone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from milepost.optimized.index.answers import GivenUp, SidePublished
from milepost.optimized.index.edge import END, Edge, Mark, holder
from milepost.optimized.index.sides import Side
from milepost.optimized.index.victims import VictimQueue
from milepost.spec.capabilities import Group
from milepost.spec.layout import first_column

if TYPE_CHECKING:
    from milepost.optimized.index.leases import Lease
    from milepost.optimized.index.tree import Tree


class Window(Side):
    """A sliding window: its pages are marks, each leased by those that read it, and each evictable by itself."""

    def __init__(self, tree: Tree, group: Group, full_page: int, number: int, rank: int) -> None:
        super().__init__(tree, group, full_page, number, rank)
        self.queue: VictimQueue[Mark] = VictimQueue({rank})

    # Finding.

    def deepest(self, path: list[Edge], level: int, n: int, grid: int) -> tuple[int, int]:
        """Return the greatest multiple of the grid not beyond `n` before which the whole window is there.

        It jumps over runs of pages that are too short, and over tombstones. With it comes the level of the path from
        which to look for what is shallower; looking begins at `level`.
        """
        while n > 0:
            first, stop = first_column(self.group, n), n // self.page_size
            if first >= stop:
                return n, level
            begin, end, level = self._run(path, level, first, stop)
            if end == stop and begin <= first:
                return n, level
            n = (begin if end == stop else end) * self.page_size
            n -= n % grid
        return 0, level

    def _run(self, path: list[Edge], level: int, first: int, stop: int) -> tuple[int, int, int]:
        """Return where the last pages before `stop` begin and end that have no tombstone between them, and their level.

        Nothing before `first` is looked at.
        """
        marks = path[level].windows[self.number]
        while not (below := bisect_right(marks, stop, key=END)):
            if not level:
                return 0, 0, 0
            level -= 1
            marks = path[level].windows[self.number]
        found = level
        begin = end = marks[below - 1].end
        while begin > first:
            pages = _unbroken(marks, below, begin - first)
            begin -= pages
            if pages < below or not level:
                break
            while level and not (marks := path[level - 1].windows[self.number]):
                level -= 1
            if not level or marks[-1].end != begin:
                break
            level, below = level - 1, len(marks)
        return begin, end, found

    def between(self, path: list[Edge], live: int, first: int, stop: int) -> list[Mark]:
        """Return the pages of columns [first, stop) of a path."""
        found: list[Mark] = []
        for level in range(live, -1, -1):
            marks = path[level].windows[self.number]
            found[:0] = marks[bisect_right(marks, first, key=END) : bisect_right(marks, stop, key=END)]
            if len(found) == stop - first:
                break
        return found

    def hit_cells(self, path: list[Edge], live: int, length: int) -> tuple[int, np.ndarray]:
        """Return the first column that a hit needs, and the cells from there on."""
        first, stop = first_column(self.group, length), length // self.page_size
        return first, np.array([mark.cell for mark in self.between(path, live, first, stop)], np.int32)

    def at(self, edge: Edge, end: int) -> Mark | None:
        """Return the page that ends at column `end` of an edge, None for a tombstone."""
        marks = edge.windows[self.number]
        place = bisect_left(marks, end, key=END)
        return marks[place] if place < len(marks) and marks[place].end == end else None

    # Leases.

    def lease(self, lease: Lease, path: list[Edge], live: int, length: int) -> None:
        """Lease the window before a hit's end; all of it becomes recent."""
        leased = lease.windows[self.number]
        for mark in self.between(path, live, first_column(self.group, length), length // self.page_size):
            mark.stamp = self.tree.tick()
            self.claim(mark)
            leased[mark.end - 1] = mark

    def claim(self, mark: Mark) -> None:
        """Add a reader to a page."""
        mark.leases += 1
        if mark.leases == 1:
            self.evictable_pages -= 1
            self.protected_pages += 1
            self.queue.place(mark, self.rank, 0)

    def release_column(self, lease: Lease, column: int) -> GivenUp:
        """Take a reader from a page; return it where a reset has forgotten it and this was the last one."""
        mark = lease.windows[self.number].pop(column)
        mark.leases -= 1
        if mark.leases:
            return []
        self.protected_pages -= 1
        if mark.edge is None:
            del self.held_pages[mark.cell]
            return [(self.name, mark.cell)]
        self.evictable_pages += 1
        self.queue.place(mark, self.rank, mark.stamp)
        return []

    def release(self, lease: Lease) -> GivenUp:
        """End what a lease has of this group."""
        return [one for column in list(lease.windows[self.number]) for one in self.release_column(lease, column)]

    # Publishing and giving up.

    def misfit(self, lease: Lease, cells: Mapping[int, int]) -> str:
        """Return why these columns cannot be published, '' where they can."""
        leased, reach = lease.windows[self.number], self.columns(lease.end)
        wrong = [column for column in cells if not 0 <= column < reach or column in leased]
        told = f"columns {wrong} of '{self.name}' are leased, or end beyond the {lease.length} tokens leased"
        return told if wrong else ""

    def publish(self, lease: Lease, cells: Mapping[int, int], busy: int) -> SidePublished:
        """Make pages matchable, or lease those that are there; a duplicate from column `busy` on is left alone."""
        published, leased = SidePublished(), lease.windows[self.number]
        for column, cell in cells.items():
            assert lease.edge is not None
            edge = holder(lease.edge, self.page_of(column + 1))
            mark = self.at(edge, column + 1)
            if mark is None:
                mark = self._insert(edge, column + 1, cell)
                published.inserted.append(column)
            elif column >= busy:
                continue
            else:
                published.repointed[column] = mark.cell
            self.claim(mark)
            leased[column] = mark
        return published

    def _insert(self, edge: Edge, end: int, cell: int) -> Mark:
        mark = Mark(cell, edge, end, self.tree.tick())
        insort(edge.windows[self.number], mark, key=END)
        edge.version = self.tree.generation
        self.held_pages[cell] = None
        self.evictable_pages += 1
        return mark

    @property
    def order(self) -> tuple[int, int] | None:
        """The rank and last use of the page that goes first, None where all are leased."""
        return self.queue.order

    def evict_first(self) -> GivenUp:
        """Evict the page that goes first; all others stay."""
        mark = self.queue.first()
        return [] if mark is None else self._evict(mark)

    def _evict(self, mark: Mark) -> GivenUp:
        assert mark.edge is not None
        edge = holder(mark.edge, self.page_of(mark.end))
        marks = edge.windows[self.number]
        del marks[bisect_left(marks, mark.end, key=END)]
        self.queue.place(mark, self.rank, 0)
        self.evictable_pages -= 1
        del self.held_pages[mark.cell]
        edge.version = self.tree.generation
        return self.gone([mark.cell])

    def drop(self, edge: Edge, page: int) -> GivenUp:
        """Evict what hangs on the full page that ends at `page`, the last one first."""
        marks, kept, given_up = edge.windows[self.number], self.columns(page - 1), []
        while marks and marks[-1].end > kept:
            given_up += self._evict(marks[-1])
        return given_up

    # The shape of the tree.

    def divide(self, upper: Edge, lower: Edge) -> None:
        """Give a new upper part of an edge what now hangs on it."""
        marks = lower.windows[self.number]
        below = bisect_right(marks, self.columns(lower.start), key=END)
        upper.windows[self.number][:] = marks[:below]
        del marks[:below]
        for mark in upper.windows[self.number]:
            mark.edge = upper

    def join(self, upper: Edge, lower: Edge) -> None:
        """Give an edge what hung on the one above that it replaces."""
        lower.windows[self.number][:0] = upper.windows[self.number]

    def forget(self, edge: Edge) -> GivenUp:
        """Forget what hangs on an edge; return what nobody reads."""
        marks = edge.windows[self.number]
        unread = [mark.cell for mark in marks if not mark.leases]
        for mark in marks:
            mark.edge, mark.queued = None, 0
        marks.clear()
        for cell in unread:
            del self.held_pages[cell]
        return [(self.name, cell) for cell in unread]

    def forgotten(self) -> None:
        """End an epoch: nothing can be evicted."""
        self.queue.clear()
        self.evictable_pages = 0


def _unbroken(marks: list[Mark], below: int, wanted: int) -> int:
    """Return how many of marks[:below] follow each other up to the last, or `wanted` where they are as many."""
    last = marks[below - 1].end
    if below >= wanted and marks[below - wanted].end == last - wanted + 1:
        return wanted
    low, high = 0, below - 1  # the first one of the run is at `high` at the latest
    while low < high:
        middle = (low + high) // 2
        if last - marks[middle].end == below - 1 - middle:
            high = middle
        else:
            low = middle + 1
    return below - high
