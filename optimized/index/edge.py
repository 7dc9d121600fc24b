"""The tree's parts: edges with runs of pages, and snapshots that stand on them as marks.

An edge has the tokens of all its pages: first the real ones, whose cells it has, then the ghosts, of which only the
tokens are left. The first page is what its parent finds it by, and is stored only so. Positions are absolute and count
pages from token 0, so that they survive splits and merges.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Hashable
from operator import attrgetter

from milepost.optimized.index.comparing import common_pages

NOWHERE = sys.maxsize
"""The start of an edge that is no longer in a tree: whoever still names it climbs to its parent, and is right."""

NO_CHILDREN: dict[bytes, Edge] = {}
"""What edges without children share. Never written."""

NO_MARKS: list[Snapshot] = []
"""What edges without snapshots share. Never written."""

NO_REST = bytearray()
"""What edges of one page share. Never written."""

NO_READERS: dict[int, int] = {}
"""What edges on which no lease ends share. Never written."""

END = attrgetter("end")


class Snapshot:
    """A state at the end of a page. `edge` may name a part below it (see `holder`), and is None after a reset."""

    __slots__ = ("cell", "edge", "end", "leases", "queued", "rank", "stamp")

    def __init__(self, cell: Hashable, edge: Edge, end: int, stamp: int) -> None:
        self.cell, self.end, self.stamp = cell, end, stamp
        self.edge: Edge | None = edge
        self.leases = self.queued = self.rank = 0


class Edge:
    """A run of pages between two points where contexts branch: the `first`, and the `rest` in one piece.

    `cells` are the real pages, `stamps` has all: a page's last use, or for a ghost the time of its eviction.
    `readers` counts the leases that end on this edge by where they end; `leased_children`, `live_children` and
    `marked_children` count the children below which there is a lease, a real page, or a snapshot. `protected` is how
    many of this edge's pages are leased. `version` is the generation of the last change that a match could see.
    """

    __slots__ = (
        "cells", "children", "first", "leased_children", "live_children", "marked_children", "marks", "parent",
        "protected", "queued", "rank", "readers", "rest", "stamps", "start", "version",
    )  # fmt: skip

    def __init__(self, parent: Edge | None, start: int, first: bytes, rest: bytes | bytearray) -> None:
        self.parent: Edge = parent or self  # a root is its own parent, so that nobody has to ask for None
        self.start = start
        self.first = first
        self.rest = bytearray(rest) if rest else NO_REST
        self.cells: array[int] = array("i")
        self.stamps: array[int] = array("q")
        self.children = NO_CHILDREN
        self.marks = NO_MARKS
        self.readers = NO_READERS
        self.protected = self.leased_children = self.live_children = self.marked_children = 0
        self.queued = self.rank = self.version = 0

    @property
    def live_end(self) -> int:
        """Where the real pages end."""
        return self.start + len(self.cells)

    @property
    def leased(self) -> bool:
        """Whether any lease needs a page of this edge."""
        return bool(self.readers) or self.leased_children > 0

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

    def demanded(self) -> int:
        """Return how many pages of this edge the leases need."""
        if self.leased_children:
            return len(self.cells)
        return max(self.readers) - self.start if self.readers else 0

    def snapshot_at(self, end: int) -> Snapshot | None:
        """Return the snapshot that stands exactly there."""
        snapshot = self.deepest_snapshot(end)
        return snapshot if snapshot and snapshot.end == end else None

    def deepest_snapshot(self, end: int) -> Snapshot | None:
        """Return the deepest snapshot that stands not beyond `end`."""
        below = bisect_right(self.marks, end, key=END)
        return self.marks[below - 1] if below else None


class Root(Edge):
    """Where the contexts of one namespace begin: no pages of its own, and so no leases to hear of."""

    __slots__ = ("namespace",)

    def __init__(self, namespace: Hashable) -> None:
        super().__init__(None, 0, b"", b"")
        self.namespace = namespace


def holder(edge: Edge, end: int) -> Edge:
    """Return the edge that has the page before `end`, from one that had it: splits and merges move it upwards."""
    while end <= edge.start:
        edge = edge.parent
    return edge
