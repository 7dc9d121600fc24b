"""The books: leases, exact counts, and who may be evicted when. The shape of the tree is `tree`'s business."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable

from milepost.optimized.index.edge import END, NO_MARKS, Edge, Mark, holder
from milepost.optimized.index.pages import PageBook
from milepost.optimized.index.victims import VictimQueue
from milepost.spec.policies import EvictionPolicy


class Ledger(PageBook[Edge]):
    """The books of the full group and of the snapshots, and the clock of all groups."""

    def __init__(self, policy: EvictionPolicy) -> None:
        self.page_ranks = tuple(policy.page_rank(at_end) for at_end in (False, True))
        self.snapshot_ranks = tuple(policy.snapshot_rank(superseded) for superseded in (False, True))
        super().__init__(set(self.page_ranks))
        self.snapshot_queue: VictimQueue[Mark] = VictimQueue(set(self.snapshot_ranks))
        self.evictable_snapshots = self.protected_snapshots = 0
        self.clock = self.generation = 0

    def tick(self) -> int:
        """Return the next value of the logical clock."""
        self.clock += 1
        return self.clock

    def requeue(self, run: Edge) -> None:
        """Queue an edge by its last page if nobody leases that and nothing real continues it; else withdraw it."""
        live = len(run.cells)
        if run.live_children or run.protected == live:
            self.page_queue.place(run, run.rank, 0)
            return
        at_end = bool(run.marks) and run.marks[-1].end == run.start + live
        self.page_queue.place(run, self.page_ranks[at_end], run.stamps[live - 1])

    # Snapshots: marks on edges.

    def rank_snapshot(self, snapshot: Mark) -> None:
        """Queue a snapshot where the policy wants it, or withdraw it while it is leased."""
        edge = snapshot.edge
        if snapshot.leases or edge is None:
            self.snapshot_queue.place(snapshot, snapshot.rank, 0)
            return
        edge = holder(edge, snapshot.end)
        superseded = edge.marks[-1] is not snapshot or edge.marked_children > 0
        self.snapshot_queue.place(snapshot, self.snapshot_ranks[superseded], snapshot.stamp)

    def add_mark(self, edge: Edge, end: int, cell: Hashable) -> None:
        """Put a snapshot on an edge; it supersedes the nearest one above it."""
        snapshot = Mark(cell, edge, end, self.tick())
        marked = edge.marked
        if edge.marks is NO_MARKS:
            edge.marks = [snapshot]
        else:
            insort(edge.marks, snapshot, key=END)
        edge.version = self.generation
        self.evictable_snapshots += 1
        self.rank_snapshot(snapshot)
        self._mark_changed(edge, end)
        while not marked and edge.parent is not edge:
            edge = edge.parent
            marked = edge.marked
            edge.marked_children += 1
            self._rerank_last(edge)

    def remove_mark(self, snapshot: Mark) -> None:
        """Take an unleased snapshot off its edge."""
        self.snapshot_queue.place(snapshot, snapshot.rank, 0)
        assert snapshot.edge is not None  # only after a reset
        edge = holder(snapshot.edge, snapshot.end)
        del edge.marks[bisect_left(edge.marks, snapshot.end, key=END)]
        edge.marks = edge.marks or NO_MARKS
        edge.version = self.generation
        self.evictable_snapshots -= 1
        self._mark_changed(edge, snapshot.end)
        while not edge.marked and edge.parent is not edge:
            edge = edge.parent
            edge.marked_children -= 1
            self._rerank_last(edge)

    def _mark_changed(self, edge: Edge, end: int) -> None:
        """Rank again what a mark that came or went at `end` changes on its own edge."""
        above = bisect_left(edge.marks, end, key=END) - 1
        if above >= 0:
            self.rank_snapshot(edge.marks[above])
        if end == edge.live_end:
            self.requeue(edge)

    def _rerank_last(self, edge: Edge) -> None:
        if edge.marks:
            self.rank_snapshot(edge.marks[-1])

    def claim_snapshot(self, snapshot: Mark) -> None:
        """Add a reader to a snapshot, and make it the most recently used."""
        snapshot.leases += 1
        snapshot.stamp = self.tick()
        if snapshot.leases == 1:
            self.evictable_snapshots -= 1
            self.protected_snapshots += 1
            self.snapshot_queue.place(snapshot, snapshot.rank, 0)

    def release_snapshot(self, snapshot: Mark) -> bool:
        """Take a reader from a snapshot; true where a reset has forgotten it and this was the last one."""
        snapshot.leases -= 1
        if snapshot.leases:
            return False
        self.protected_snapshots -= 1
        if snapshot.edge is None:
            return True
        self.evictable_snapshots += 1
        self.rank_snapshot(snapshot)
        return False
