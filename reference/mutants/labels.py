"""Mutants that give a state another position than its own (F1, F9), or a position that no state may have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from milepost.reference.cache import ExplicitCache
from milepost.reference.liberties.cells import ReuseBehindQueue
from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.pools import Pool
from milepost.reference.requests import Entry, Plan, Request
from milepost.spec.answers import Grant, Landing, Phase, Refused
from milepost.spec.capabilities import Configuration
from milepost.spec.geometry import floor_to
from milepost.spec.words import NULL


@mutant("F3", "torn-hit", precedent="vllm#46453")
class KvOutlivesState(Unguarded, ReuseBehindQueue, ExplicitCache):
    """Hits as far as the KV reaches, with the deepest snapshot on the way, whatever its endpoint."""

    def hit_length(self, claim: Request, shared: int) -> int:
        if not super().hit_length(claim, shared):
            return 0
        return floor_to(self.grid, self.longest_hit(claim, shared))

    def claim_snapshot(self, claim: Request) -> None:
        deepest = super().hit_length(claim, claim.hit)
        self.protect_snapshot(claim, self.snapshots[self.key(claim, deepest)])


@mutant("F1", "over-advanced", precedent="sglang#31369")
class LateFreezeLabelledEarly(Unguarded):
    """Freezes at the end of the step and labels the state with the boundary inside it."""

    def grant(self, claim: Request, plan: Plan) -> Grant:
        answer = super().grant(claim, plan)
        return replace(answer, frozen=tuple((group, slot, plan.stop) for group, slot, _ in answer.frozen))


@mutant("F1", "torn-hit", precedent="vllm#34587")
class EarlyFreezeLabelledLate(Unguarded):
    """Freezes what the step started from and labels it with the boundary that the step reaches."""

    def grant(self, claim: Request, plan: Plan) -> Grant:
        answer = super().grant(claim, plan)
        if not plan.start:
            return answer
        return replace(answer, frozen=tuple((group, slot, plan.start) for group, slot, _ in answer.frozen))


@mutant("F1", "over-advanced", precedent="sglang#38815")
class FinalStateIsFloored(Unguarded):
    """Donates the final state of an unaligned end at the last boundary before it."""

    def donate_final(self, claim: Request) -> None:
        boundary = floor_to(self.grid, self.publishable(claim))
        if claim.live != NULL and boundary and self.donate("donate final", claim, claim.live, boundary):
            claim.live = NULL


@mutant("F1", "over-advanced", precedent="vllm#47861")
class ChunkEndIsKeptUnderTheGrid(Unguarded):
    """Copies the live state at every publish and files it at the last boundary, wherever the chunk ended."""

    def publish(self, request: str) -> Landing | Refused:
        answer = super().publish(request)
        claim = self.requests[request]
        boundary = floor_to(self.grid, self.publishable(claim))
        if claim.live == NULL or not boundary or self.snapshot_at(claim, boundary):
            return answer
        if not isinstance(answer, Landing) or not self.make_room(self.slot_cells.pool, 1):
            return answer
        copy = self.freeze_slot(claim, boundary, 0, boundary, self.grid)
        self.donate("donate", claim, copy.cell, boundary)
        return replace(answer, phases=(Phase(((self.slot_cells.pool.name, claim.live, copy.cell),)),))


@mutant("F1", "over-advanced", "read-before-landing", "write-to-published", "late-write", precedent="sglang#29792")
class PingPongSlotOutlivesDonation(Unguarded):
    """Does not swap its two slots after a donation, so that the next steps write into what was donated."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.donated: dict[int, int] = {}

    def donate(self, row: str, claim: Request, cell: int, position: int) -> bool:
        donated = super().donate(row, claim, cell, position)
        if donated:
            self.donated[claim.serial] = cell
        return donated

    def grant(self, claim: Request, plan: Plan) -> Grant:
        answer = super().grant(claim, plan)
        if claim.serial not in self.donated:
            return answer
        return replace(answer, frozen=(*answer.frozen, ("state", self.donated[claim.serial], plan.stop)))


@mutant("F9", "over-advanced", precedent="sglang#38815")
class SplitMovesSnapshot(Unguarded):
    """Splits a node where a lookup diverges, and leaves the deeper state with the upper half."""

    def hit_length(self, claim: Request, shared: int) -> int:
        point = floor_to(self.grid, max(0, self.longest_hit(claim, shared)))
        if point and not self.snapshot_at(claim, point):
            deeper = next((entry for entry in self.snapshots.values() if self.continues(entry, claim, point)), None)
            if deeper:
                del self.snapshots[deeper.key]
                deeper.key = self.key(claim, point)
                self.snapshots[deeper.key] = deeper
        return super().hit_length(claim, shared)

    def continues(self, entry: Entry, claim: Request, point: int) -> bool:
        """Tell whether an unread snapshot lies below a request's first `point` tokens."""
        namespace, identities = entry.key
        below = isinstance(identities, tuple) and identities[:point] == claim.identities(point)
        return below and namespace == claim.namespace and self.slot_cells.evictable(entry.cell)


@mutant("F9", "stale-state", precedent="sglang#35821")
class GhostOfLengthZero(Unguarded):
    """Keeps the state of a request that was too short to cache under the empty prefix, which every request has."""

    def donate_final(self, claim: Request) -> None:
        root = self.key(claim, 0)
        if claim.live != NULL and 0 < claim.landed < self.grid and root not in self.snapshots:
            entry = self.make_entry(claim, claim.live, 0)
            self.slot_cells.hand_over("donate final", claim.live, 0)
            self.snapshots[root], claim.live = entry, NULL
        super().donate_final(claim)

    def lease_hit(self, claim: Request) -> None:
        super().lease_hit(claim)
        if not claim.hit and self.snapshot_at(claim, 0):
            self.claim_snapshot(claim)


@mutant("F9", "crash", precedent="sglang#23696")
class EvictsAParentFirst(ExplicitCache):
    """Picks victims without looking for what depends on them, and the ownership table raises."""

    def evictable_pages(self, pool: Pool) -> Iterator[Entry]:
        if pool is self.page_cells.pool:
            yield from (entry for entry in self.pages.values() if self.page_cells.evictable(entry.cell))


@mutant("F1", "illegal-boundary", precedent="TensorRT-LLM#15653")
class FreezesOffTheGrid(Unguarded):
    """Lets a step freeze one token before the end of the prompt, where its kernel cannot write a state out."""

    def freeze_points(self, claim: Request, start: int, stop: int) -> tuple[int, ...]:
        return tuple(point for point in (claim.prompt - 1,) if start < point < stop)


@mutant("F1", "illegal-boundary", precedent="TensorRT-LLM#15653")
class HitsOffTheGrid(Unguarded):
    """Donates and resumes at any page end, and declares boundaries."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.hit_grid = self.end_grid = self.page_size


@mutant("F1", "illegal-boundary", precedent="vllm#46453")
class HitCoversTheWholePrompt(Unguarded):
    """Offers a state of the whole prompt, so that no token is left to compute the first answer from."""

    def longest_hit(self, claim: Request, shared: int) -> int:
        return shared


@mutant("F4", "write-to-published", "over-advanced", "read-before-landing", precedent="vllm#56196")
class KernelWritesThroughTheInitialPointer(Unguarded):
    """Writes the end of a restoring step back into the snapshot that it started from."""

    def grant(self, claim: Request, plan: Plan) -> Grant:
        answer = super().grant(claim, plan)
        if claim.source is None or claim.live_is_set:
            return answer
        return replace(answer, frozen=(*answer.frozen, ("state", claim.source.cell, plan.stop)))

