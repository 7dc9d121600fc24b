"""Mutants that stop, refuse halfway, or break a promise (F13, F16, F21)."""

from __future__ import annotations

import time
from dataclasses import replace

from milepost.reference.cache import ReferenceCache
from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.pools import Pool
from milepost.reference.requests import Entry, Plan, Request
from milepost.spec.answers import Grant, Refused
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.words import NULL


@mutant("F13", "crash", precedent="sglang#36770")
class OptionalFreezeMustHaveASlot(ReferenceCache):
    """Takes a slot for a freeze that nobody needs without asking whether there is one."""

    def plan_freeze(self, claim: Request, plan: Plan) -> None:
        points = self.freeze_points(claim, plan.start, plan.stop)
        if points and self.vacate_frozen(claim):
            plan.frozen = claim.frozen = self.freeze_slot(claim, max(points), plan.start, plan.stop, self.step_grid)


@mutant("F13", "hang", precedent="sglang#30314")
class EvictionSpins(ReferenceCache):
    """Evicts until there is room, also where nothing can be evicted."""

    def make_room(self, pool: Pool, cells: int) -> bool:
        while len(pool.free) < cells:
            self.evict_least_recent(pool)
        return True


@mutant("F13", "torn-refusal", precedent="sglang#34676")
class RefusedExtendGivesBackTheHit(Unguarded):
    """Gives up the pages and the snapshot of a request to which it refuses more."""

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        answer = super().extend(request, to, draft)
        claim = self.requests[request]
        if isinstance(answer, Grant) or claim.in_flight or claim.planned:
            return answer
        self.return_columns(claim, 0)
        self.release_snapshot(claim)
        return replace(answer, tables={request: claim.table()})


@mutant("F13", "torn-refusal", precedent="sglang#34676")
class RefusedExtendGivesBackTheLiveSlot(Unguarded):
    """Returns the live slot of a request that found no page."""

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        answer = super().extend(request, to, draft)
        claim = self.requests[request]
        if isinstance(answer, Grant) or claim.in_flight or claim.planned or claim.live == NULL:
            return answer
        self.return_live(claim)
        return replace(answer, tables={request: claim.table()})


@mutant("F13", "promise:admits-when-idle", precedent="vllm#52520")
class NothingIsEvictedForAPlan(ReferenceCache):
    """Waits for free cells, and never evicts for them."""

    def make_room(self, pool: Pool, cells: int) -> bool:
        return len(pool.free) >= cells


@mutant("F16", "promise:deterministic", precedent="sglang#22759")
class WallClockLru(ReferenceCache):
    """Orders use by seconds of the wall clock, of which each process has its own, and equal ones by the cell."""

    def tick(self) -> int:
        return int(time.monotonic())

    def choose_victim(self, victims: list[Entry]) -> Entry:
        return min(victims, key=lambda entry: (entry.stamp, entry.cell))


@mutant("F16", "promise:deterministic", precedent="tokenspeed#248")
class HashOrderDecidesEviction(ReferenceCache):
    """Evicts in the order of string hashes, which differs from process to process."""

    def choose_victim(self, victims: list[Entry]) -> Entry:
        return min(victims, key=lambda entry: hash(repr(entry.key)))


@mutant("F21", "promise:not-inert", precedent="vllm#48401")
class GridIsLargerThanDeclared(ReferenceCache):
    """Rounds its grid up inside and declares the smaller one, so that the smallest prompts are never cached."""

    def make_grid(self) -> int:
        return 2 * super().make_grid()

    def declare(self) -> Capabilities:
        return replace(super().declare(), smallest_cacheable=self.grid // 2 + 1)


@mutant("F21", "promise:not-inert", precedent="sglang#22935")
class StatesOnlyAtTheVeryEnd(ReferenceCache):
    """Keeps final states alone, and a repeated prompt asks for the state one token before its end."""

    def freeze_points(self, claim: Request, start: int, stop: int) -> tuple[int, ...]:
        return ()


@mutant("F1", "promise:strict-boundaries", precedent="vllm#34587")
class BoundariesArePromisedOnly(ReferenceCache):
    """Promises boundaries, and donates and resumes at any page end."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.hit_grid = self.end_grid = self.page_size

    def declare(self) -> Capabilities:
        return replace(super().declare(), hit_alignment=self.page_size, end_donation="page")
