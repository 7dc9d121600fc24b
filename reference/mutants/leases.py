"""Mutants that lock too little, too much, or not for long enough (F8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.pools import NOBODY, Pool
from milepost.reference.requests import Entry, Request
from milepost.spec.answers import Evicted, Grant, Refused
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.ownership import PageState

LOCK_CODES = ("evicted-while-leased", "double-grant", "write-to-published", "stale-kv")
"""What happens to a reader's cell depends on who gets it: another request, a copy, or the reader's own next page."""


class SomeLeasesUncounted(Unguarded):
    """Keeps the books of a request's columns, and counts only some of its leases."""

    def counts(self, claim: Request, column: int) -> bool:
        """Tell whether this column's lease is counted."""
        return True

    def last_of_hit(self, claim: Request) -> int:
        """Return the column in which the hit ends."""
        return claim.hit // self.page_size - 1

    def lease_page(self, claim: Request, column: int, entry: Entry) -> None:
        if self.counts(claim, column):
            super().lease_page(claim, column, entry)
        else:
            claim.leases[column] = entry

    def release_page(self, claim: Request, column: int) -> None:
        if self.counts(claim, column):
            super().release_page(claim, column)
        else:
            del claim.leases[column]


@mutant("F8", *LOCK_CODES, precedent="mini-sglang#52")
class HitNotLocked(SomeLeasesUncounted):
    """Offers a hit and does not lease its pages."""

    def counts(self, claim: Request, column: int) -> bool:
        return column > self.last_of_hit(claim)


@mutant("F8", *LOCK_CODES, precedent="mini-sglang#52")
class LockSkipsTheMatchedNode(SomeLeasesUncounted):
    """Starts the walk that locks a path at the parent of its last node."""

    def counts(self, claim: Request, column: int) -> bool:
        return column != self.last_of_hit(claim)


@mutant("F8", *LOCK_CODES, precedent="sglang#21379")
class OnlyTheNodeIsLocked(SomeLeasesUncounted):
    """Locks the last node of a path and evicts above it."""

    def counts(self, claim: Request, column: int) -> bool:
        return column >= self.last_of_hit(claim)

    def dependents(self, entry: Entry) -> int:
        return 0


@mutant("F8", *LOCK_CODES, precedent="sglang#21379")
class SnapshotNotProtected(Unguarded):
    """Names a snapshot to restore from and leaves it evictable."""

    def protect_snapshot(self, claim: Request, entry: Entry) -> None:
        claim.source = entry

    def release_snapshot(self, claim: Request) -> None:
        claim.source = None


@mutant("F8", *LOCK_CODES, precedent="sglang#24954")
class ProtectionEndsAtPlan(Unguarded):
    """Lets go of the snapshot when the restore is planned, before it has been copied."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.let_go: set[int] = set()

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        answer = super().extend(request, to, draft)
        claim = self.requests[request]
        if isinstance(answer, Grant) and claim.source and claim.serial not in self.let_go:
            source = claim.source
            super().release_snapshot(claim)
            claim.source = source
            self.let_go.add(claim.serial)
        return answer

    def release_snapshot(self, claim: Request) -> None:
        if claim.serial in self.let_go:
            claim.source = None
        super().release_snapshot(claim)


@mutant("F8", *LOCK_CODES, precedent="TensorRT-LLM#17926")
class EvictionIgnoresLeases(Unguarded):
    """Evicts the least recent leaf, whoever reads it."""

    def evictable_pages(self, pool: Pool) -> Iterator[Entry]:
        if pool is self.page_cells.pool:
            yield from (entry for entry in self.pages.values() if not self.dependents(entry))


@mutant("F8", *LOCK_CODES, precedent="sglang#36770")
class EvictVerbIgnoresProtection(Unguarded):
    """Gives up protected snapshots when it is asked to evict."""

    asked = False

    def evict(self, group: str, cells: int) -> Evicted:
        self.asked = True
        answer = super().evict(group, cells)
        self.asked = False
        return answer

    def evictable_snapshots(self, pool: Pool) -> Iterator[Entry]:
        if self.asked and pool is self.slot_cells.pool:
            return iter(list(self.snapshots.values()))
        return super().evictable_snapshots(pool)


@mutant("F8", "lease-underflow", "evicted-while-leased", "leak", precedent="sglang#24153")
class LeaseIsReleasedTwice(Unguarded):
    """Releases the first page of a hit once more at the close."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), inventories=True)

    def give_up(self, claim: Request) -> None:
        first = claim.leases.get(0) if claim.hit else None
        super().give_up(claim)
        if first:
            self.page_cells.release(first.cell)


@mutant("F8", "leak", precedent="bytedance/sglang#508")
class MatchIsPinnedForever(Unguarded):
    """Locks the whole match and unlocks the hit."""

    def lease_hit(self, claim: Request) -> None:
        super().lease_hit(claim)
        for end in range(claim.hit + self.page_size, self.matched(claim) + 1, self.page_size):
            self.page_cells.lease(self.pages[self.key(claim, end)].cell)


@mutant("F12", *LOCK_CODES, precedent="sglang#12107")
class ResetFreesWhatIsRead(Unguarded):
    """Frees every published cell at a reset, whoever reads it."""

    def forget_all(self) -> None:
        snapshots, pages = list(self.snapshots.values()), list(self.pages.values())
        super().forget_all()
        for entry in snapshots:
            if self.slot_cells[entry.cell].leases:
                self.discard_snapshot(entry)
        for entry in pages:
            if self.page_cells[entry.cell].leases:
                self.discard_page(entry, dependents=0)


@mutant("F12", "crash", precedent="sglang#12107")
class ReleaseAfterResetFails(Unguarded):
    """Looks up the node of a lease when it ends, though a reset has taken it out of the tree."""

    def release_page(self, claim: Request, column: int) -> None:
        assert self.pages[claim.leases[column].key]
        super().release_page(claim, column)


@mutant("F8", "reads-private", "double-grant", precedent="MTPLX#247")
class PublishedPageStaysPrivate(Unguarded):
    """Makes pages matchable and leaves them, until its close, with the request that wrote them."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), inventories=True)

    def insert_page(self, claim: Request, column: int) -> None:
        super().insert_page(claim, column)
        page = self.page_cells[claim.columns[column]]
        page.state, page.owner = PageState.PRIVATE.value, claim.serial

    def lease_page(self, claim: Request, column: int, entry: Entry) -> None:
        state = self.page_cells[entry.cell].state
        super().lease_page(claim, column, entry)
        self.page_cells[entry.cell].state = state

    def release_page(self, claim: Request, column: int) -> None:
        page = self.page_cells[claim.leases[column].cell]
        if page.owner == claim.serial:
            page.state, page.owner = PageState.SHARED.value, NOBODY
        super().release_page(claim, column)
