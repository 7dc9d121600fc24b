"""Mutants that lose cells (F6) or miscount them (F23)."""

from __future__ import annotations

from milepost.reference.cache import ReferenceCache
from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.requests import Entry, Request
from milepost.spec.answers import Grant, Refused
from milepost.spec.geometry import columns_for
from milepost.spec.words import NULL


@mutant("F6", "leak", precedent="sglang#12693")
class AbortedHitKeepsItsLease(Unguarded):
    """Ends the leases of a request with its live slot, and one that was closed before had none."""

    def return_columns(self, claim: Request, kept: int) -> None:
        if claim.live == NULL and claim.closing:
            claim.columns.clear()
        super().return_columns(claim, kept)


@mutant("F6", "leak", precedent="sglang#16067")
class RefusedExtendLosesItsSlot(Unguarded):
    """Takes the live slot before it looks for pages, and forgets it when there are none."""

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        answer = super().extend(request, to, draft)
        claim = self.requests[request]
        if isinstance(answer, Refused) and claim.live == NULL and self.slot_cells.pool.free:
            self.slot_cells.admit(claim.serial)
        return answer


@mutant("F6", "leak", precedent="sglang#21404")
class FrozenSlotIsLostAtClose(Unguarded):
    """Forgets the frozen slot of a request that closes before it was donated."""

    def return_frozen(self, claim: Request) -> None:
        claim.frozen = None


@mutant("F6", "leak", precedent="ollama#17875")
class SupersededFreezeIsLost(Unguarded):
    """Forgets a frozen slot when a later one replaces it."""

    def vacate_frozen(self, claim: Request) -> bool:
        if claim.frozen and claim.frozen.position > claim.landed:
            return False
        claim.frozen = None
        return True


@mutant("F6", "leak", precedent="sglang#22862")
class UnfinishedPageIsLost(Unguarded):
    """Returns the whole pages of a request, and forgets the one that it had begun."""

    def return_columns(self, claim: Request, kept: int) -> None:
        if kept == 0 and columns_for(self.page_size, claim.length) * self.page_size != claim.length:
            del claim.columns[claim.length // self.page_size :]
        super().return_columns(claim, kept)


@mutant("F6", "leak", precedent="sglang#10637")
class DuplicatePageIsLost(Unguarded):
    """Re-points a column to the page that was published first, and forgets its own."""

    def adopt_page(self, claim: Request, column: int, entry: Entry) -> None:
        claim.columns[column] = entry.cell
        self.lease_page(claim, column, entry)


@mutant("F6", "leak", precedent="sglang#12107")
class ResetLosesWhatIsRead(Unguarded):
    """Leaves the cells that are read at a reset to nobody when their last reader goes."""

    def release_page(self, claim: Request, column: int) -> None:
        self.page_cells.release(claim.leases.pop(column).cell)


@mutant("F6", "leak", precedent="sglang#22592")
class EvictedSnapshotIsNotReclaimed(Unguarded):
    """Takes the snapshot of an evicted page out of the tree, and forgets its slot."""

    def discard_snapshot(self, entry: Entry) -> None:
        self.slot_cells.evict(entry.cell)
        if self.pages.get(entry.key):
            self.slot_cells.reclaim(entry.cell)


@mutant("F23", "promise:exact-accounting", precedent="sglang#20185")
class FrozenSlotsAreNotCounted(ReferenceCache):
    """Has no heading for frozen slots when it counts."""

    def account(self) -> dict[str, dict[str, int]]:
        counts = super().account()
        for _ in (claim for claim in self.requests.values() if claim.frozen):
            counts[self.slot_cells.pool.name]["private"] -= 1
        return counts


@mutant("F23", "promise:exact-accounting", precedent="mllm#656")
class EvictableSizeDrifts(ReferenceCache):
    """Keeps the evictable size in a counter that grows with each page and shrinks with each eviction of a leaf."""

    drift = 0

    def evict_snapshot(self, entry: Entry) -> list[tuple[str, int]]:
        self.drift += 1
        return super().evict_snapshot(entry)

    def account(self) -> dict[str, dict[str, int]]:
        counts = super().account()
        if self.drift:
            counts[self.slot_cells.pool.name]["evictable"] -= self.drift
        return counts
