"""Mutants that hit without a component (F3), alias what should be copied (F4), or read an old tenant's slot (F5)."""

from __future__ import annotations

from dataclasses import replace

from milepost.reference.cache import ExplicitCache
from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.requests import Entry, FrozenSlot, Plan, Request
from milepost.spec.answers import Frozen, Grant, Landing, Phase, Refused
from milepost.spec.capabilities import Configuration
from milepost.spec.geometry import floor_to
from milepost.spec.words import NULL, Cell


@mutant("F3", "kv-gap", precedent="vllm#46453")
class StateOutlivesKv(Unguarded):
    """Keeps a snapshot when its pages are evicted, and hits there without them."""

    def evict_page(self, entry: Entry) -> list[Cell]:
        del self.pages[entry.key]
        self.discard_page(entry, dependents=0)
        return [(self.page_cells.pool.name, entry.cell)]

    def hit_length(self, claim: Request, shared: int) -> int:
        return super().hit_length(claim, claim.prompt)

    def lease_hit(self, claim: Request) -> None:
        ends = range(self.page_size, claim.hit + 1, self.page_size)
        if all(self.page_at(claim, end) for end in ends):
            return super().lease_hit(claim)
        found = [self.page_at(claim, end) for end in ends]
        claim.columns += [entry.cell if entry else NULL for entry in found]
        return self.claim_snapshot(claim)


@mutant("F3", "torn-hit", precedent="LMCache#2863")
class HitCountsAttentionOnly(Unguarded):
    """Takes the length of the KV match for the hit, and starts the recurrence from nothing."""

    def hit_length(self, claim: Request, shared: int) -> int:
        return floor_to(self.grid, max(0, self.longest_hit(claim, shared)))

    def claim_snapshot(self, claim: Request) -> None:
        pass


@mutant("F3", "torn-hit", precedent="vllm#43090")
class KernelIsToldThereIsNoState(Unguarded):
    """Restores a state, and tells the kernel to start from zeros."""

    def grant(self, claim: Request, plan: Plan) -> Grant:
        answer = super().grant(claim, plan)
        return answer if claim.live_is_set else replace(answer, initial_state=dict.fromkeys(answer.initial_state))


@mutant("F3", "kv-gap", precedent="vllm#53505")
class HitLosesItsLastColumn(Unguarded):
    """Hands out one page fewer than the hit is long."""

    def lease_hit(self, claim: Request) -> None:
        super().lease_hit(claim)
        if claim.columns:
            self.return_columns(claim, len(claim.columns) - 1)


@mutant("F3", "torn-hit", precedent="transformers#46084")
class RestoreZeroesInstead(Unguarded):
    """Zeroes the live slot of a request that should be restored."""

    def first_phases(self, planned: list[Request]) -> tuple[Phase, ...]:
        return tuple(
            Phase(zeros=(*phase.zeros, *((pool, target) for pool, _, target in phase.copies)))
            for phase in super().first_phases(planned)
        )


@mutant("F5", "uninitialized-read", precedent="tpu-inference#3412")
class RestoreWithoutCopy(Unguarded):
    """Resumes in a fresh slot into which nothing was copied."""

    def first_phases(self, planned: list[Request]) -> tuple[Phase, ...]:
        return tuple(replace(phase, copies=()) for phase in super().first_phases(planned))


@mutant("F5", "uninitialized-read", precedent="vllm#56524")
class ColdSlotIsNotZeroed(Unguarded):
    """Starts a cold request in whatever the last tenant left in its slot."""

    def first_phases(self, planned: list[Request]) -> tuple[Phase, ...]:
        return tuple(replace(phase, zeros=()) for phase in super().first_phases(planned))


@mutant("F5", "uninitialized-read", precedent="TensorRT-LLM#15054")
class OnlyTheFirstOfABatchIsZeroed(Unguarded):
    """Zeroes one live slot for each step, however many requests start in it."""

    def first_phases(self, planned: list[Request]) -> tuple[Phase, ...]:
        return tuple(replace(phase, zeros=phase.zeros[:1]) for phase in super().first_phases(planned))


@mutant("F5", "stale-state", "torn-hit", "over-advanced", "read-before-landing", "uninitialized-read",
        "cross-namespace", precedent="sglang#15829")
class BatchRowsAreShifted(Unguarded):
    """Points the kernel at the live slot of the request that was planned before."""

    def grant(self, claim: Request, plan: Plan) -> Grant:
        answer = super().grant(claim, plan)
        before = self.planned[-2:][0]
        return replace(answer, initial_state=dict.fromkeys(answer.initial_state, before.live))


@mutant("F2", "uninitialized-read", "torn-hit", precedent="sglang#24221")
class FreezeWithoutCopy(Unguarded, ExplicitCache):
    """Answers a freeze with a slot, and copies nothing into it."""

    def freeze(self, request: str) -> Frozen | Refused:
        answer = super().freeze(request)
        return replace(answer, phases=()) if isinstance(answer, Frozen) else answer


class BorrowingCache(Unguarded):
    """Treats a live slot that is published as the cache's own."""

    def borrows(self, claim: Request) -> bool:
        """Tell whether a request writes in a published slot."""
        return any(entry.cell == claim.live for entry in self.snapshots.values())

    def advance_live(self, claim: Request, stop: int) -> None:
        if not self.borrows(claim):
            super().advance_live(claim, stop)

    def return_live(self, claim: Request) -> None:
        if self.borrows(claim):
            claim.live = NULL
        super().return_live(claim)

    def donate_final(self, claim: Request) -> None:
        if not self.borrows(claim):
            super().donate_final(claim)


@mutant(
    "F4",
    "write-to-published",
    "over-advanced",
    "read-before-landing",
    "double-grant",
    "evicted-while-leased",
    precedent="MTPLX#247",
)
class SnapshotIsUsedAsLive(BorrowingCache):
    """Lets a request write on in the snapshot that it hit, which stays published."""

    def grant_live(self, claim: Request) -> None:
        if claim.source is None:
            super().grant_live(claim)
        elif claim.live == NULL:
            claim.live, claim.live_is_set = claim.source.cell, True


@mutant("F4", "write-to-published", "over-advanced", "read-before-landing", "evicted-while-leased", "double-grant",
        precedent="vmlx#198")
class FreezeHandsOutTheLiveSlot(BorrowingCache, ExplicitCache):
    """Freezes without a copy: the snapshot is the slot that the request writes on."""

    def freeze_slot(self, claim: Request, position: int, start: int, stop: int, grid: int) -> FrozenSlot:
        return FrozenSlot(position, claim.live)

    def freeze(self, request: str) -> Frozen | Refused:
        answer = super().freeze(request)
        return replace(answer, phases=()) if isinstance(answer, Frozen) else answer

    def vacate_frozen(self, claim: Request) -> bool:
        claim.frozen = None
        return True

    def return_frozen(self, claim: Request) -> None:
        claim.frozen = None


@mutant("F4", "double-grant", precedent="llama.cpp#20075")
class BatchSharesOneLiveSlot(Unguarded):
    """Gives every cold request of a step the live slot of the first."""

    def grant_live(self, claim: Request) -> None:
        first = self.planned[0]
        if claim.live == NULL and first is not claim and not claim.source:
            claim.live = first.live
        super().grant_live(claim)


@mutant("F12", "double-grant", precedent="vllm#35157")
class ResumedRequestKeepsItsSlotNumber(Unguarded):
    """Lets a preempted request go on in the slot that it had, though that was given up."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.had: dict[str, int] = {}

    def return_live(self, claim: Request) -> None:
        self.had[claim.name] = claim.live
        super().return_live(claim)

    def grant_live(self, claim: Request) -> None:
        if claim.live == NULL and not claim.source and self.had.get(claim.name, NULL) != NULL:
            claim.live = self.had[claim.name]
        super().grant_live(claim)


@mutant("F12", "torn-hit", precedent="sglang#22493")
class RetractionKeepsOnlyTheKv(Unguarded):
    """Publishes the KV of a preempted request, and resumes there without the state."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.retracted: set[str] = set()

    def preempt(self, request: str) -> Landing:
        self.publish_pages(self.requests[request])
        self.retracted.add(request)
        return super().preempt(request)

    def hit_length(self, claim: Request, shared: int) -> int:
        if claim.name not in self.retracted:
            return super().hit_length(claim, shared)
        return floor_to(self.grid, max(0, self.longest_hit(claim, shared)))

    def claim_snapshot(self, claim: Request) -> None:
        if self.has_state(claim, claim.hit):
            super().claim_snapshot(claim)
