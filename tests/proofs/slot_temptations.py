"""What a cache may be tempted to do with slots, one act for each guard of the slot table."""

from __future__ import annotations

from milepost.reference.requests import Entry, FrozenSlot, Plan, Request
from milepost.spec.answers import Landing
from milepost.spec.geometry import floor_to
from milepost.spec.words import NULL

from .tempted import Reclaims, Tempted, has_live, stopped_by


@stopped_by("Slot", "admit", "free", "endpoint == 0")
class StartsWarmWithoutACopy(Tempted):
    """Grants a live slot that is said to be at the hit already, and copies nothing into it."""

    def grant_live(self, claim: Request) -> None:
        if not has_live(claim) and claim.source and self.tries(self._start_warm, claim):
            claim.live_is_set = True
        super().grant_live(claim)

    def _start_warm(self, claim: Request) -> None:
        claim.live = self.slot_cells.occupy("admit", claim.serial, claim.hit)


@stopped_by("Slot", "restore", "free", "1 <= source_leases")
class LetsGoBeforeTheCopy(Tempted):
    """Ends its lease on the snapshot when the restore is planned, before it is copied."""

    def grant_live(self, claim: Request) -> None:
        source = claim.source
        if has_live(claim) or source is None or self.slot_cells[source.cell].leases > 1:
            return super().grant_live(claim)
        self.slot_cells.release(source.cell)
        if not self.tries(super().grant_live, claim):
            self.slot_cells.protect(source.cell)
            super().grant_live(claim)
        return None


@stopped_by("Slot", "restore", "free", "endpoint == source_endpoint")
class RestoresAnotherSnapshot(Tempted):
    """Restores from whatever snapshot there is, and calls it the hit."""

    def grant_live(self, claim: Request) -> None:
        for entry in list(self.snapshots.values()) if claim.source and not has_live(claim) else ():
            if claim.source and entry.depth != claim.hit and self._restores_from(claim, entry):
                self.slot_cells.release(claim.source.cell)
                claim.source = entry
                return
        super().grant_live(claim)

    def _restores_from(self, claim: Request, entry: Entry) -> bool:
        self.slot_cells.protect(entry.cell)
        if self.tries(self._restore, claim, entry):
            return True
        self.slot_cells.release(entry.cell)
        return False

    def _restore(self, claim: Request, entry: Entry) -> None:
        claim.live = self.slot_cells.restore(claim.serial, claim.hit, entry.cell)


@stopped_by("Slot", "advance", "live", "request == owner")
class RunsOnAnothersSlot(Tempted):
    """Takes on the live slot of another request as its own."""

    def grant_live(self, claim: Request) -> None:
        for other in filter(has_live, self.others(claim)) if not has_live(claim) else ():
            length = self.slot_cells[other.live].endpoint + 1
            if self.tries(self.slot_cells.advance, other.live, claim.serial, length):
                claim.live = other.live
                return
        super().grant_live(claim)


@stopped_by("Slot", "advance", "live", "endpoint < new_endpoint")
class FloorsItsFinalState(Tempted):
    """Says of a final state that it is at the boundary before its end."""

    def donate_final(self, claim: Request) -> None:
        depth = floor_to(self.grid, claim.landed)
        entry = self.page_at(claim, depth) if depth and has_live(claim) else None
        if entry and depth < claim.landed and not self.snapshot_at(claim, depth) and self.tries(
                self.slot_cells.advance, claim.live, claim.serial, depth):
            if self.donate("donate final", claim, claim.live, depth):
                claim.live = NULL
            return
        super().donate_final(claim)


class FreezesElsewhere(Tempted):
    """Freezes where a step should not, if it is let."""

    def points(self, plan: Plan) -> list[int]:
        """Return the positions to try."""
        return []

    def label(self, position: int) -> int:
        """Return what the slot is labelled with."""
        return position

    def plan_freeze(self, claim: Request, plan: Plan) -> None:
        for point in self.points(plan):
            if point > 0 and claim.frozen is None and self.make_room(self.slot_cells.pool, 1):
                facts = {"position": point, "step_start": plan.start, "step_end": plan.stop, "grid": self.step_grid}
                if self.tries(self._freeze, claim, plan, point, facts):
                    return
        super().plan_freeze(claim, plan)

    def _freeze(self, claim: Request, plan: Plan, position: int, facts: dict[str, int]) -> None:
        cell = self.slot_cells.occupy("freeze", claim.serial, self.label(position), **facts)
        plan.frozen = claim.frozen = FrozenSlot(position, cell)


@stopped_by("Slot", "freeze", "free", "grid divides position")
class FreezesOffTheGrid(FreezesElsewhere):
    """Freezes at the end of a step, wherever that is, and lets hits end wherever there is a state."""

    def points(self, plan: Plan) -> list[int]:
        return [plan.stop] if plan.stop % self.grid else []

    def on_grid(self, position: int) -> bool:
        return position % self.page_size == 0


@stopped_by("Slot", "freeze", "free", "step_start <= position")
class FreezesBeforeTheStep(FreezesElsewhere):
    """Freezes at a boundary that the step has left behind."""

    def points(self, plan: Plan) -> list[int]:
        return [floor_to(self.grid, max(0, plan.start - 1))]


@stopped_by("Slot", "freeze", "free", "position <= step_end")
class FreezesBehindTheStep(FreezesElsewhere):
    """Freezes at the next boundary, before a step has come so far."""

    def points(self, plan: Plan) -> list[int]:
        return [floor_to(self.grid, plan.stop) + self.grid]


@stopped_by("Slot", "freeze", "free", "endpoint == position")
class LabelsAnotherBoundary(FreezesElsewhere):
    """Freezes at a boundary and labels the slot with the next one."""

    def points(self, plan: Plan) -> list[int]:
        last = floor_to(self.grid, plan.stop)
        return [last] if last > plan.start else []

    def label(self, position: int) -> int:
        return position + self.grid


@stopped_by("Slot", "supersede", "frozen", "request == owner")
class SupersedesAnothersFreeze(Tempted):
    """Frees the frozen slot of another request for its own."""

    def plan_freeze(self, claim: Request, plan: Plan) -> None:
        for other in self.others(claim):
            frozen = other.frozen
            if frozen and self.tries(
                    self.slot_cells.vacate, "supersede", frozen.cell, request=claim.serial):
                break
        super().plan_freeze(claim, plan)


@stopped_by("Slot", "supersede", "frozen", "in_flight == 0")
class SupersedesInFlight(Tempted):
    """Frees a frozen slot that a step in flight is about to write, and leaves it to others."""

    def vacate_frozen(self, claim: Request) -> bool:
        frozen = claim.frozen
        if frozen and claim.in_flight and self.tries(
                self.slot_cells.vacate, "supersede", frozen.cell, request=claim.serial):
            claim.frozen = None
            return False
        return super().vacate_frozen(claim)


class DonatesOtherwise(Tempted):
    """Gives a frozen slot away in another way than it should, if it is let."""

    def publish_landed(self, claim: Request) -> None:
        self.publish_pages(claim)
        frozen = claim.frozen
        if frozen and frozen.position <= self.publishable(claim) and self.donates(claim, frozen):
            claim.frozen = None
        super().publish_landed(claim)

    def donates(self, claim: Request, frozen: FrozenSlot) -> bool:
        """Try it."""
        return False


class EndsOtherwise(Tempted):
    """Gives a final live slot away in another way than it should, if it is let."""

    def donate_final(self, claim: Request) -> None:
        length = claim.landed
        ready = has_live(claim) and 0 < length <= self.publishable(claim)
        if ready and self.slot_cells[claim.live].endpoint == length and self.ends(claim, length):
            claim.live = NULL
        super().donate_final(claim)

    def ends(self, claim: Request, length: int) -> bool:
        """Try it."""
        return False


def other_depths(cache: Tempted, claim: Request, depth: int) -> list[Entry]:
    """Return the published pages of a request's prefix that end elsewhere and have no snapshot."""
    ends = range(cache.page_size, len(claim.tokens) + 1, cache.page_size)
    pages = [entry for end in ends if end != depth and (entry := cache.page_at(claim, end))]
    return [entry for entry in pages if entry.key not in cache.snapshots]


def strangers(cache: Tempted, claim: Request, depth: int) -> list[Entry]:
    """Return the published pages of other prefixes that end there and have no snapshot."""
    own = cache.key(claim, depth)
    return [entry for entry in cache.pages.values()
            if entry.depth == depth and entry.key != own and entry.key not in cache.snapshots]


@stopped_by("Slot", "donate", "frozen", "request == owner")
class DonatesAnothersFreeze(Tempted):
    """Gives the frozen slot of another request to its own entry."""

    def publish_landed(self, claim: Request) -> None:
        self.publish_pages(claim)
        for other in self.others(claim):
            frozen = other.frozen
            entry = self.page_at(claim, frozen.position) if frozen else None
            if frozen and entry and entry.key not in self.snapshots:
                self.gives("donate", claim, frozen.cell, entry.key, frozen.position)
        super().publish_landed(claim)


@stopped_by("Slot", "donate", "frozen", "endpoint == depth")
class DonatesToAnotherDepth(DonatesOtherwise):
    """Gives a state to an entry of another depth on its path."""

    def donates(self, claim: Request, frozen: FrozenSlot) -> bool:
        entries = other_depths(self, claim, frozen.position)
        return any(self.gives("donate", claim, frozen.cell, entry.key, entry.depth) for entry in entries)


@stopped_by("Slot", "donate", "frozen", "same_prefix == 1")
class DonatesToAStranger(DonatesOtherwise):
    """Gives a state to an entry of the same depth with other tokens."""

    def donates(self, claim: Request, frozen: FrozenSlot) -> bool:
        entries = strangers(self, claim, frozen.position)
        return any(self.gives("donate", claim, frozen.cell, entry.key, entry.depth) for entry in entries)


@stopped_by("Slot", "donate", "frozen", "entry_occupied == 0")
class DonatesOnceMore(DonatesOtherwise):
    """Gives a state to an entry that has one, and forgets the earlier."""

    def donates(self, claim: Request, frozen: FrozenSlot) -> bool:
        entry = self.snapshot_at(claim, frozen.position)
        known = entry is not None and entry.key in self.pages
        return known and self.gives("donate", claim, frozen.cell, self.key(claim, frozen.position), frozen.position)


@stopped_by("Slot", "donate final", "live", "request == owner")
class EndsWithAnothersState(Tempted):
    """Gives the live slot of another request to its own entry."""

    def donate_final(self, claim: Request) -> None:
        for other in filter(has_live, self.others(claim)):
            length = self.slot_cells[other.live].endpoint
            entry = self.page_at(claim, length) if 0 < length <= len(claim.tokens) else None
            if entry and entry.key not in self.snapshots:
                self.gives("donate final", claim, other.live, entry.key, length)
        super().donate_final(claim)


@stopped_by("Slot", "donate final", "live", "closing == 1")
class GivesAwayWhatItRunsOn(Tempted):
    """Gives its live slot to an entry at a publish, and runs on with it."""

    def publish_landed(self, claim: Request) -> None:
        super().publish_landed(claim)
        length = claim.landed
        entry = self.page_at(claim, length) if has_live(claim) and length and not claim.in_flight else None
        if entry and not claim.closing and entry.key not in self.snapshots:
            self.gives("donate final", claim, claim.live, entry.key, length)


@stopped_by("Slot", "donate final", "live", "grid divides endpoint")
class EndsAnywhere(EndsOtherwise):
    """Gives away a final state at any page end, and lets hits end wherever there is a state."""

    def ends(self, claim: Request, length: int) -> bool:
        entry = self.page_at(claim, length)
        free = entry is not None and entry.key not in self.snapshots
        return free and self.gives("donate final", claim, claim.live, self.key(claim, length), length)

    def on_grid(self, position: int) -> bool:
        return position % self.page_size == 0


@stopped_by("Slot", "donate final", "live", "endpoint == depth")
class EndsAtAnotherDepth(EndsOtherwise):
    """Gives a final state to an entry of another depth on its path."""

    def ends(self, claim: Request, length: int) -> bool:
        entries = other_depths(self, claim, length)
        return any(self.gives("donate final", claim, claim.live, entry.key, entry.depth) for entry in entries)


@stopped_by("Slot", "donate final", "live", "same_prefix == 1")
class EndsAtAStranger(EndsOtherwise):
    """Gives a final state to an entry of the same depth with other tokens."""

    def ends(self, claim: Request, length: int) -> bool:
        entries = strangers(self, claim, length)
        return any(self.gives("donate final", claim, claim.live, entry.key, entry.depth) for entry in entries)


@stopped_by("Slot", "donate final", "live", "entry_occupied == 0")
class EndsOnceMore(EndsOtherwise):
    """Gives a final state to an entry that has one, and forgets the earlier."""

    def ends(self, claim: Request, length: int) -> bool:
        entry = self.snapshot_at(claim, length)
        known = entry is not None and entry.key in self.pages
        return known and self.gives("donate final", claim, claim.live, self.key(claim, length), length)


@stopped_by("Slot", "return", "live", "request == owner")
class FreesAnothersState(Tempted):
    """Frees the live slot of another request before it grants its own."""

    def grant_live(self, claim: Request) -> None:
        for other in filter(has_live, self.others(claim)) if not has_live(claim) else ():
            self.tries(self.slot_cells.vacate, "return", other.live, request=claim.serial)
        super().grant_live(claim)


@stopped_by("Slot", "return", "frozen", "request == owner")
class FreesAnothersFreeze(Tempted):
    """Frees the frozen slot of another request before it grants a live one."""

    def grant_live(self, claim: Request) -> None:
        for other in self.others(claim) if not has_live(claim) else ():
            frozen = other.frozen
            if frozen:
                self.tries(self.slot_cells.vacate, "return", frozen.cell, request=claim.serial)
        super().grant_live(claim)


class FreesAtClose(Tempted):
    """Frees a slot of a closed request at once, though a step in flight is about to write it."""

    def depart(self, claim: Request, keep: bool) -> Landing:
        if claim.in_flight:
            self.free_early(claim)
        return super().depart(claim, keep)

    def free_early(self, claim: Request) -> None:
        """Try it."""

    def advance_live(self, claim: Request, stop: int) -> None:
        if has_live(claim):
            super().advance_live(claim, stop)


@stopped_by("Slot", "return", "live", "in_flight == 0")
class FreesTheStateAtClose(FreesAtClose):
    """Frees the live slot."""

    def free_early(self, claim: Request) -> None:
        if self.tries(self.slot_cells.vacate, "return", claim.live, request=claim.serial):
            claim.live = NULL


@stopped_by("Slot", "return", "frozen", "in_flight == 0")
class FreesTheFreezeAtClose(FreesAtClose):
    """Frees the frozen slot."""

    def free_early(self, claim: Request) -> None:
        frozen = claim.frozen
        if frozen and self.tries(self.slot_cells.vacate, "return", frozen.cell, request=claim.serial):
            claim.frozen = None


@stopped_by("Slot", "release", "protected", "2 <= leases", "leases == 1")
class LeavesTheCountToTheTable(Tempted):
    """Does nothing unusual: which row ends a lease is the table's affair."""


@stopped_by("Slot", "reclaim", "evicted", "in_flight == 0")
class ReclaimsWhatIsInFlight(Reclaims):
    """Gives a frozen slot to its entry when its request is closed in flight, and reclaims it as soon as it is evicted.

    Nobody is offered it before its step has landed.
    """

    def depart(self, claim: Request, keep: bool) -> Landing:
        frozen = claim.frozen
        entry = self.page_at(claim, frozen.position) if frozen and claim.in_flight and keep else None
        if frozen and entry and entry.key not in self.snapshots and self.gives(
                "donate", claim, frozen.cell, entry.key, frozen.position):
            claim.frozen = None
        return super().depart(claim, keep)

    def has_state(self, claim: Request, length: int) -> bool:
        entry = self.snapshot_at(claim, length)
        return entry is not None and not self.slot_cells.pool.in_flight[entry.cell]
