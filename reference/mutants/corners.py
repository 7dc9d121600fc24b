"""Mutants that are wrong in one corner only, which random schedules hardly ever reach: a solver's schedules do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from milepost.reference.mutants.leases import LOCK_CODES
from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.pools import Pool
from milepost.reference.requests import Entry, Key, Plan, Request
from milepost.spec.answers import Evicted, Landing
from milepost.spec.words import NULL


class Asked(Unguarded):
    """Knows whether an eviction was asked for by its caller."""

    asked = False

    def evict(self, group: str, cells: int) -> Evicted:
        self.asked = True
        answer = super().evict(group, cells)
        self.asked = False
        return answer


@mutant("F8", *LOCK_CODES, precedent="sglang#36770")
class AskedEvictionOverlooksThePlan(Asked):
    """Gives up what a planned restore reads when states are asked back before the launch, if one is left."""

    def evictable_snapshots(self, pool: Pool) -> Iterator[Entry]:
        yield from super().evictable_snapshots(pool)
        if self.asked and pool is self.slot_cells.pool and len(self.snapshots) > 1:
            sources = [claim.source for claim in self.planned if not claim.live_is_set]
            yield from (entry for entry in self.snapshots.values() if entry in sources)


@mutant("F8", *LOCK_CODES, precedent="TensorRT-LLM#17926")
class FullPoolsForgetWhoWaits(Asked):
    """Gives up the pages of readers that have computed nothing yet, when asked while no cell is free."""

    def evictable_pages(self, pool: Pool) -> Iterator[Entry]:
        yield from super().evictable_pages(pool)
        full = not any(one.free for one in self.pools.values())
        if self.asked and full and pool is self.page_cells.pool:
            working = [claim for claim in self.requests.values() if claim.live != NULL]
            read = [entry for claim in working for entry in claim.leases.values()]
            idle = (entry for entry in self.pages.values() if entry not in read and not self.dependents(entry))
            yield from (entry for entry in idle if not self.page_cells.evictable(entry.cell))


@mutant("F4", "over-advanced", "write-to-published", "read-before-landing", "torn-hit", "stale-state",
        precedent="vllm#56196")
class FreezeTakesTheSnapshotOfItsStart(Unguarded):
    """Lets a freeze that finds no free slot take the snapshot of its step's start, and leaves that in the index."""

    def plan_freeze(self, claim: Request, plan: Plan) -> None:
        start = self.snapshot_at(claim, plan.start) if plan.start else None
        super().plan_freeze(claim, plan)
        if start and plan.frozen and plan.frozen.cell == start.cell:
            self.snapshots[start.key] = start


@mutant("F18", "reset-survivor", "stale-state", precedent="vllm#42125")
class ForgottenRequestDonates(Unguarded):
    """Donates what was frozen before a reset, where its prefix has been published again since."""

    def publish_landed(self, claim: Request) -> None:
        frozen = claim.frozen
        forgotten = claim.epoch != self.epoch
        if frozen and forgotten and self.donate("donate", claim, frozen.cell, frozen.position):
            claim.frozen = None
        super().publish_landed(claim)


@mutant("F18", *LOCK_CODES, "double-grant", "leak", precedent="NeMo-RL#4018")
class ForgottenPagesAreFreedByName(Unguarded):
    """Frees forgotten pages by what their prefix is now found as, when their last reader goes."""

    def release_page(self, claim: Request, column: int) -> None:
        entry = claim.leases[column]
        successor = self.pages.get(entry.key)
        super().release_page(claim, column)
        if successor and successor is not entry and not self.page_cells[entry.cell].leases:
            self.page_cells.pool.empty(successor.cell)


@mutant("F6", "leak", precedent="sglang#12693")
class TwinsLeaveASlotBehind(Unguarded):
    """Counts both of two states for one entry as donated, where one landing ends the requests of both."""

    before_landing: set[Key] | None = None

    def land(self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]) -> Landing:
        self.before_landing = set(self.snapshots)
        landing = super().land(step, accepted, sampled)
        self.before_landing = None
        return landing

    def donate(self, row: str, claim: Request, cell: int, position: int) -> bool:
        key = self.key(claim, position)
        twin = row == "donate" and self.before_landing is not None and key not in self.before_landing
        return super().donate(row, claim, cell, position) or (twin and key in self.snapshots)
