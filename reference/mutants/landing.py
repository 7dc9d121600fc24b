"""Mutants that publish before the write has landed (F2), and that free too early or twice (F7)."""

from __future__ import annotations

from dataclasses import replace

from milepost.reference.liberties.cells import ReuseBehindQueue
from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.pools import Pool
from milepost.reference.requests import Entry, Request
from milepost.spec.answers import Grant, Landing, Launched, Phase, Refused


@mutant("F2", "read-before-landing", "late-write", precedent="sglang#24221")
class PublishedAtLaunch(Unguarded):
    """Publishes what a step computes when it is launched."""

    def launch(self) -> Launched:
        launched = super().launch()
        claims = [claim for claim, _, _ in self.flights[-1].spans]
        for claim in claims:
            claim.landed = claim.length
            self.publish_landed(claim)
        return replace(launched, tables={claim.name: claim.table() for claim in claims})


class PublishingPlanner(Unguarded):
    """Publishes what a step will compute as soon as it is planned."""

    def adopt_page(self, claim: Request, column: int, entry: Entry) -> None:
        if not claim.planned:
            super().adopt_page(claim, column, entry)

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        answer = super().extend(request, to, draft)
        claim = self.requests[request]
        if isinstance(answer, Refused):
            return answer
        landed, claim.landed = claim.landed, answer.length
        self.publish_landed(claim)
        claim.landed = landed
        return replace(answer, table=claim.table())


@mutant("F2", "read-before-landing", "uninitialized-read", "late-write", "write-to-published", precedent="vllm#29387")
class PublishedAtPlan(PublishingPlanner):
    """Publishes what a step will compute as soon as it is planned."""


@mutant("F2", "uninitialized-read", "read-before-landing", "stale-state", "write-to-published", "over-advanced",
        precedent="vllm#56525")
class AbortedPlanStaysPublished(PublishingPlanner, ReuseBehindQueue):
    """Publishes at plan, as an ordered queue allows, and leaves it published when the plan is dropped."""


@mutant("F2", "read-before-landing", "write-to-published", "late-write", precedent="sglang#24954")
class RestoreOvertakesTheQueue(Unguarded, ReuseBehindQueue):
    """Restores and zeroes outside the device queue, while steps that write these slots are in flight."""

    def first_phases(self, planned: list[Request]) -> tuple[Phase, ...]:
        return tuple(replace(phase, at="now") for phase in super().first_phases(planned))


@mutant("F7", "late-write", "read-before-landing", precedent="vllm#45357")
class FreedWhileInFlight(Unguarded):
    """Frees the cells of a closed request at once, though a step that writes them is in flight."""

    def depart(self, claim: Request, keep: bool) -> Landing:
        claim.in_flight = 0
        return super().depart(claim, keep)

    def land_request(self, claim: Request, stop: int) -> None:
        if not claim.closing:
            super().land_request(claim, stop)


@mutant("F7", "double-grant", "evicted-while-leased", "stale-state", "write-to-published", precedent="sglang#12432")
class FrozenSlotIsFreedTwice(Unguarded):
    """Returns a frozen slot that nobody took, and once more at the close."""

    def donate(self, row: str, claim: Request, cell: int, position: int) -> bool:
        donated = super().donate(row, claim, cell, position)
        if not donated and row == "donate":
            self.slot_cells.pool.empty(cell)
        return donated


@mutant("F7", "double-grant", "stale-kv", precedent="mini-sglang#142")
class DuplicateIsFreedButNotRepointed(Unguarded):
    """Frees a page that was published already, and leaves it in the request's table."""

    def adopt_page(self, claim: Request, column: int, entry: Entry) -> None:
        own = claim.columns[column]
        super().adopt_page(claim, column, entry)
        claim.columns[column] = own


@mutant("F7", "uninitialized-read", "stale-state", "read-before-landing", "evicted-while-leased", "double-grant",
        "over-advanced", "torn-hit", "write-to-published", precedent="sglang#29349")
class DonatedSlotIsFreedToo(Unguarded):
    """Gives a slot to the cache and to the free list."""

    def donate(self, row: str, claim: Request, cell: int, position: int) -> bool:
        donated = super().donate(row, claim, cell, position)
        if donated:
            self.slot_cells.pool.free.append(cell)
        return donated


class ClearingPool(Pool):
    """Remembers what was freed, to be cleared when there is time for it."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size)
        self.to_clear: list[int] = []

    def empty(self, index: int) -> None:
        super().empty(index)
        self.to_clear.append(index)


@mutant("F7", "torn-hit", "write-to-published", "late-write", precedent="sglang#29449")
class FreedSlotsAreClearedLate(Unguarded):
    """Zeroes freed slots with the next step, after its restores, though some have a new owner by then."""

    def make_pool(self, name: str, size: int) -> Pool:
        return ClearingPool(name, size)

    def first_phases(self, planned: list[Request]) -> tuple[Phase, ...]:
        pool = self.slot_cells.pool
        assert isinstance(pool, ClearingPool)
        late = Phase(zeros=tuple((pool.name, index) for index in dict.fromkeys(pool.to_clear)))
        pool.to_clear.clear()
        return (*super().first_phases(planned), late)
