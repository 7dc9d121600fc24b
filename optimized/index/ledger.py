"""The books: leases, exact counts, and who may be evicted when. The shape of the tree is `tree`'s business."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable

from milepost.optimized.index.edge import END, NO_MARKS, NO_READERS, Edge, Snapshot, holder
from milepost.optimized.index.victims import VictimQueue
from milepost.spec.policies import EvictionPolicy


class Ledger:
    """Counts and queues. Every call leaves them exact, at a cost that does not depend on the size of the tree."""

    def __init__(self, policy: EvictionPolicy) -> None:
        self.page_ranks = tuple(policy.page_rank(at_end) for at_end in (False, True))
        self.snapshot_ranks = tuple(policy.snapshot_rank(superseded) for superseded in (False, True))
        self.page_queue: VictimQueue[Edge] = VictimQueue(set(self.page_ranks))
        self.snapshot_queue: VictimQueue[Snapshot] = VictimQueue(set(self.snapshot_ranks))
        self.evictable_pages = self.protected_pages = 0
        self.evictable_snapshots = self.protected_snapshots = 0
        self.clock = self.generation = 0

    def tick(self) -> int:
        """Return the next value of the logical clock."""
        self.clock += 1
        return self.clock

    # Pages: which are leased, and which tip may go.

    def requeue(self, edge: Edge) -> None:
        """Queue an edge by its last page if nobody leases that and nothing real continues it; else withdraw it."""
        live = len(edge.cells)
        if edge.live_children or edge.protected == live:
            self.page_queue.place(edge, edge.rank, 0)
            return
        at_end = bool(edge.marks) and edge.marks[-1].end == edge.start + live
        self.page_queue.place(edge, self.page_ranks[at_end], edge.stamps[live - 1])

    def protect(self, edge: Edge, pages: int) -> None:
        """Set how many of an edge's pages are leased."""
        more = pages - edge.protected
        if not more:
            return
        edge.protected = pages
        self.evictable_pages -= more
        self.protected_pages += more
        if not edge.live_children:
            self.requeue(edge)

    def stand(self, edge: Edge, end: int) -> None:
        """Let a lease end at `end` on this edge; ancestors hear of it up to the first that was leased already."""
        readers, leased = edge.readers, edge.leased
        if readers is NO_READERS:
            edge.readers = {end: 1}
        else:
            readers[end] = readers.get(end, 0) + 1
        if end - edge.start > edge.protected:
            self.protect(edge, end - edge.start)
        parent = edge.parent
        while not leased and parent.parent is not parent:  # a root has no pages to protect
            leased = parent.leased
            parent.leased_children += 1
            self.protect(parent, len(parent.cells))
            parent = parent.parent

    def leave(self, edge: Edge, end: int) -> None:
        """End a lease at `end` on this edge; ancestors hear of it up to the first that is leased still."""
        self.strike_reader(edge, end)
        leased = edge.leased
        if end - edge.start == edge.protected:
            self.protect(edge, edge.demanded() if leased else 0)
        parent = edge.parent
        while not leased and parent.parent is not parent:
            parent.leased_children -= 1
            leased = parent.leased
            self.protect(parent, parent.demanded() if leased else 0)
            parent = parent.parent

    def strike_reader(self, edge: Edge, end: int) -> None:
        """Take one lease out of an edge's own count."""
        left = edge.readers[end] - 1
        if left:
            edge.readers[end] = left
        elif len(edge.readers) > 1:
            del edge.readers[end]
        else:
            edge.readers = NO_READERS

    def abandon(self, edge: Edge, end: int) -> list[int]:
        """End a lease in a tree that a reset has cut down to what is leased; return the pages freed, deepest first."""
        self.strike_reader(edge, end)
        freed: list[int] = []
        while True:
            edge.protected = edge.demanded()
            while len(edge.cells) > edge.protected:
                freed.append(edge.cells.pop())
            if edge.leased or edge.parent.parent is edge.parent:
                break
            edge = edge.parent
            edge.leased_children -= 1
        self.protected_pages -= len(freed)
        return freed

    # Snapshots: marks on edges.

    def rank_snapshot(self, snapshot: Snapshot) -> None:
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
        snapshot = Snapshot(cell, edge, end, self.tick())
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

    def remove_mark(self, snapshot: Snapshot) -> None:
        """Take an unleased snapshot off its edge."""
        self.snapshot_queue.place(snapshot, snapshot.rank, 0)
        edge = holder(snapshot.edge, snapshot.end)  # type: ignore[arg-type]  # None only after a reset
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

    def claim_snapshot(self, snapshot: Snapshot) -> None:
        """Add a reader to a snapshot, and make it the most recently used."""
        snapshot.leases += 1
        snapshot.stamp = self.tick()
        if snapshot.leases == 1:
            self.evictable_snapshots -= 1
            self.protected_snapshots += 1
            self.snapshot_queue.place(snapshot, snapshot.rank, 0)

    def release_snapshot(self, snapshot: Snapshot) -> bool:
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
