"""The books of groups whose pages continue each other: leases, exact counts, and which tip may be evicted when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from milepost.optimized.index.edge import NO_READERS, Edge, Strip
from milepost.optimized.index.victims import VictimQueue

AnyRun = TypeVar("AnyRun", Edge, Strip)


class PageBook(Generic[AnyRun]):
    """Counts and a queue of one group. Each call leaves them exact, at a cost that no tree's size matters to."""

    def __init__(self, ranks: set[int]) -> None:
        self.page_queue: VictimQueue[AnyRun] = VictimQueue(ranks)
        self.evictable_pages = self.protected_pages = 0
        # A dictionary without values: a set of that many takes up to three times as much.
        self.held_pages: dict[int, None] = {}

    def requeue(self, run: AnyRun) -> None:
        """Queue a run by its last page if nobody leases that and nothing real continues it; else withdraw it."""
        raise NotImplementedError

    def put(self, run: AnyRun, cells: Sequence[int]) -> None:
        """Add real pages, whose stamps are there, to a run; ancestors hear of it up to the first that had any below."""
        live = bool(run.cells) or run.live_children > 0
        run.cells.extend(cells)
        self.evictable_pages += len(cells)
        self.held_pages.update(dict.fromkeys(cells))
        self.requeue(run)
        while not live and run.parent is not run:
            run = run.parent
            live = bool(run.cells) or run.live_children > 0
            run.live_children += 1
            if run.queued:  # what continues it is no longer nothing
                self.page_queue.place(run, run.rank, 0)

    def protect(self, run: AnyRun, pages: int) -> None:
        """Set how many of a run's pages are leased."""
        more = pages - run.protected
        if not more:
            return
        run.protected = pages
        self.evictable_pages -= more
        self.protected_pages += more
        if not run.live_children:
            self.requeue(run)

    def stand(self, run: AnyRun, end: int) -> None:
        """Let a lease end at `end` on this run; ancestors hear of it up to the first that was leased already."""
        readers, leased = run.readers, run.leased
        if readers is NO_READERS:
            run.readers = {end: 1}
        else:
            readers[end] = readers.get(end, 0) + 1
        if end - run.start > run.protected:
            self.protect(run, end - run.start)
        parent = run.parent
        while not leased and parent.parent is not parent:  # a root has no pages to protect
            leased = parent.leased
            parent.leased_children += 1
            self.protect(parent, len(parent.cells))
            parent = parent.parent

    def leave(self, run: AnyRun, end: int) -> None:
        """End a lease at `end` on this run; ancestors hear of it up to the first that is leased still."""
        self.strike_reader(run, end)
        leased = run.leased
        if end - run.start == run.protected:
            self.protect(run, run.demanded() if leased else 0)
        parent = run.parent
        while not leased and parent.parent is not parent:
            parent.leased_children -= 1
            leased = parent.leased
            self.protect(parent, parent.demanded() if leased else 0)
            parent = parent.parent

    def strike_reader(self, run: AnyRun, end: int) -> None:
        """Take one lease out of a run's own count."""
        left = run.readers[end] - 1
        if left:
            run.readers[end] = left
        elif len(run.readers) > 1:
            del run.readers[end]
        else:
            run.readers = NO_READERS

    def abandon(self, run: AnyRun, end: int) -> list[int]:
        """End a lease in a tree that a reset has cut down to what is leased; return the pages freed, deepest first."""
        self.strike_reader(run, end)
        freed: list[int] = []
        while True:
            run.protected = run.demanded()
            while len(run.cells) > run.protected:
                freed.append(run.cells.pop())
            if run.leased or run.parent.parent is run.parent:
                break
            run = run.parent
            run.leased_children -= 1
        self.protected_pages -= len(freed)
        return freed
