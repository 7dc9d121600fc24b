"""The tree's parts: edges with runs of pages, and what stands on them: snapshots, and the pages of other groups.

An edge has the tokens of all its pages: first the real ones, whose cells it has, then the ghosts, of which only the
tokens are left. The first page is what its parent finds it by, and is stored only so. Positions are absolute and count
pages from token 0, so that they survive splits and merges. A page of another group hangs on that page of the full group
which has its last token.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Hashable
from operator import attrgetter
from typing import Any, Self, TypeVar

from milepost.optimized.index.comparing import common_pages

NOWHERE = sys.maxsize
"""The start of an edge that is no longer in a tree: whoever still names it climbs to its parent, and is right."""

NO_CHILDREN: dict[bytes, Edge] = {}
"""What edges without children share. Never written."""

NO_MARKS: list[Mark] = []
"""What edges without snapshots share. Never written."""

NO_WINDOWS: tuple[list[Mark], ...] = ()
NO_STRIPS: tuple[Strip, ...] = ()
"""What edges share where there are no such groups."""

NO_REST = bytearray()
"""What edges of one page share. Never written."""

NO_READERS: dict[int, int] = {}
"""What edges on which no lease ends share. Never written."""

END = attrgetter("end")

AnyRun = TypeVar("AnyRun", bound="Run")


class Mark:
    """A cell that stands at an end: a snapshot at that of a page, or a window's page at its own, counted in its pages.

    `edge` may name a part below it (see `holder`), and is None after a reset.
    """

    __slots__ = ("cell", "edge", "end", "leases", "queued", "rank", "stamp")

    def __init__(self, cell: Any, edge: Edge, end: int, stamp: int) -> None:
        self.cell, self.end, self.stamp = cell, end, stamp
        self.edge: Edge | None = edge
        self.leases = self.queued = self.rank = 0


class Run:
    """A run of pages of one group that only ever continue each other, and its place in the tree of such runs.

    `cells` are the real pages, `stamps` their last uses. `readers` counts the leases that end on this run by where they
    end; `leased_children` and `live_children` count the children below which there is a lease, or a real page.
    `protected` is how many of this run's pages are leased. Positions count the group's pages from token 0.
    """

    __slots__ = (
        "cells", "leased_children", "live_children", "parent", "protected", "queued", "rank", "readers", "stamps",
        "start",
    )  # fmt: skip

    parent: Self
    """A root is its own parent, so that nobody has to ask for None."""

    def __init__(self, parent: Self | None, start: int) -> None:
        self.parent = parent or self
        self.start = start
        self.cells: array[int] = array("i")
        self.stamps: array[int] = array("q")
        self.readers = NO_READERS
        self.protected = self.leased_children = self.live_children = self.queued = self.rank = 0

    @property
    def live_end(self) -> int:
        """Where the real pages end."""
        return self.start + len(self.cells)

    @property
    def live(self) -> bool:
        """Whether there is a real page on this run or below."""
        return len(self.cells) > 0 or self.live_children > 0

    @property
    def leased(self) -> bool:
        """Whether any lease needs a page of this run."""
        return bool(self.readers) or self.leased_children > 0

    def demanded(self) -> int:
        """Return how many pages of this run the leases need."""
        if self.leased_children:
            return len(self.cells)
        return max(self.readers) - self.start if self.readers else 0

    def divide(self, upper: Self, at: int) -> None:
        """Leave the pages before `at` to a new run `upper`, which takes this one's place in its parent."""
        pages = at - self.start
        upper.cells, self.cells = self.cells[:pages], self.cells[pages:]
        upper.stamps, self.stamps = self.stamps[:pages], self.stamps[pages:]
        upper.protected, self.protected = min(self.protected, pages), max(0, self.protected - pages)
        upper.readers = {end: count for end, count in self.readers.items() if end <= at} or NO_READERS
        self.readers = {end: count for end, count in self.readers.items() if end > at} or NO_READERS
        self.parent, self.start = upper, at
        upper.live_children, upper.leased_children = int(self.live), int(self.leased)

    def absorb(self, upper: Self) -> None:
        """Take the place of the run above, whose only child this is; whoever names that one is led here."""
        upper.cells.extend(self.cells)
        upper.stamps.extend(self.stamps)
        self.cells, self.stamps = upper.cells, upper.stamps
        self.protected += upper.protected
        self.readers = {**upper.readers, **self.readers} or NO_READERS
        self.parent, self.start = upper.parent, upper.start
        upper.parent, upper.start = self, NOWHERE

    def cut_down(self) -> None:
        """Leave nothing but the leased cells and who leases them."""
        del self.cells[self.protected :]
        self.stamps = array("q")
        self.live_children = self.queued = 0


class Strip(Run):
    """The pages of a compressed group that end on one edge; an edge shorter than such a page may have none."""

    __slots__ = ("edge",)

    def __init__(self, edge: Edge, parent: Strip | None, start: int) -> None:
        super().__init__(parent, start)
        self.edge = edge


class Edge(Run):
    """A run of full pages between two points where contexts branch: the tokens of the `first`, and the `rest` in one.

    `stamps` has ghosts too, for which it is the time of their eviction. `marked_children` counts the children below
    which there is a snapshot. `windows` and `strips` have what ends on this edge of each group of these kinds.
    `version` is the generation of the last change that a match could see.
    """

    __slots__ = ("children", "first", "marked_children", "marks", "rest", "strips", "version", "windows")

    def __init__(self, parent: Edge | None, start: int, first: bytes, rest: bytes | bytearray) -> None:
        super().__init__(parent, start)
        self.first = first
        self.rest = bytearray(rest) if rest else NO_REST
        self.children = NO_CHILDREN
        self.marks = NO_MARKS
        self.windows = NO_WINDOWS
        self.strips = NO_STRIPS
        self.marked_children = self.version = 0

    @property
    def marked(self) -> bool:
        """Whether a snapshot stands on this edge or below."""
        return bool(self.marks) or self.marked_children > 0

    def lengthen(self, run: bytes | bytearray) -> None:
        """Add the tokens of further pages."""
        if self.rest is NO_REST:
            self.rest = bytearray(run)
        else:
            self.rest += run

    def common_pages(self, run: bytes, at: int, skipped: int, pages: int) -> int:
        """Return how many pages of run[at:] and of this edge behind `skipped` are the same, at most `pages`.

        With nothing skipped the first page is the same: the edge was found by it.
        """
        size = len(self.first)
        if skipped:
            return common_pages(run, at, self.rest, (skipped - 1) * size, pages, size)
        return 1 + common_pages(run, at + size, self.rest, 0, pages - 1, size)

    def snapshot_at(self, end: int) -> Mark | None:
        """Return the snapshot that stands exactly there."""
        snapshot = self.deepest_snapshot(end)
        return snapshot if snapshot and snapshot.end == end else None

    def deepest_snapshot(self, end: int) -> Mark | None:
        """Return the deepest snapshot that stands not beyond `end`."""
        below = bisect_right(self.marks, end, key=END)
        return self.marks[below - 1] if below else None


class Root(Edge):
    """Where the contexts of one namespace begin: no pages of its own, and so no leases to hear of."""

    __slots__ = ("namespace",)

    def __init__(self, namespace: Hashable) -> None:
        super().__init__(None, 0, b"", b"")
        self.namespace = namespace


def holder(run: AnyRun, end: int) -> AnyRun:
    """Return the run that has the page before `end`, from one that had it: splits and merges move it upwards."""
    while end <= run.start:
        run = run.parent
    return run
