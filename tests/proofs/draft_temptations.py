"""What a cache may be tempted to do with draft columns, one act for each guard of the rows of speculation."""

from __future__ import annotations

from milepost.reference.requests import Request
from milepost.spec.answers import Grant, Landing, Launched, Refused
from milepost.spec.capabilities import Configuration
from milepost.spec.words import NULL

from .tempted import Tempted, stopped_by


@stopped_by("Slot", "accept", "draft", "endpoint == accepted_length")
class GoesOnInAnotherColumn(Tempted):
    """Goes on in the last column, whichever was accepted; the facts are told as they are."""

    def settle_drafts(self, claim: Request) -> None:
        taken, drafts = claim.accepted, list(claim.drafts)
        if taken and drafts and taken < len(drafts) and self.tries(
                self.slot_cells.accept, drafts[-1], claim.serial, claim.landed + taken):
            self.return_live(claim)
            claim.live = drafts[-1]
            claim.drafts, claim.accepted = drafts[:-1], 0
            super().settle_drafts(claim)
            claim.landed += taken
            claim.length = max(claim.length, claim.landed)
            return
        super().settle_drafts(claim)

    def trim(self, claim: Request, length: int) -> None:
        if claim.planned or claim.live == NULL or self.slot_cells[claim.live].endpoint <= length:
            super().trim(claim, length)


@stopped_by("Slot", "accept", "draft", "in_flight == 0")
class AcceptsWhatItHopesFor(Tempted):
    """Goes on in the last column as soon as the step is launched, as if all drafts stood."""

    def __init__(self, configuration: Configuration, *tables: object) -> None:
        super().__init__(configuration, *tables)  # type: ignore[arg-type]
        self.earlier: dict[int, int] = {}

    def launch(self) -> Launched:
        drafting = [claim for claim in self.planned if claim.drafts]
        launched = super().launch()
        for claim in drafting:
            column = claim.drafts[-1]
            if self.tries(self.slot_cells.accept, column, claim.serial, self.slot_cells[column].endpoint):
                self.earlier[claim.serial] = claim.live
                claim.live = claim.drafts.pop()
        return launched

    def advance_live(self, claim: Request, stop: int) -> None:
        if claim.serial not in self.earlier:
            super().advance_live(claim, stop)

    def settle_drafts(self, claim: Request) -> None:
        earlier = self.earlier.pop(claim.serial, NULL)
        if earlier == NULL:
            return super().settle_drafts(claim)
        self.slot_cells.vacate("return", earlier, request=claim.serial)
        taken, claim.accepted = claim.accepted or 0, 0
        super().settle_drafts(claim)
        claim.landed += taken
        claim.length = max(claim.length, claim.landed)
        return None

    def trim(self, claim: Request, length: int) -> None:
        if claim.planned or claim.live == NULL or self.slot_cells[claim.live].endpoint <= length:
            super().trim(claim, length)


@stopped_by("Slot", "reject", "draft", "in_flight == 0")
class RejectsAtClose(Tempted):
    """Frees the columns of a closed request at once, though a step in flight is about to write them."""

    def depart(self, claim: Request, keep: bool) -> Landing:
        while claim.in_flight and claim.drafts and self.tries(
                self.slot_cells.vacate, "reject", claim.drafts[-1], request=claim.serial):
            claim.drafts.pop()
        return super().depart(claim, keep)


class MeetsAnothersColumns(Tempted):
    """Sees the columns of other requests that are planned or have landed, when it takes a step of its own."""

    def columns(self, claim: Request) -> list[int]:
        """Return the columns of other requests."""
        return [slot for other in self.requests.values() if other is not claim for slot in other.drafts]


@stopped_by("Slot", "reject", "draft", "request == owner")
class RejectsAnothersColumn(MeetsAnothersColumns):
    """Frees the columns of another request before it asks for its own slots."""

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        claim = self.requests[request]
        for slot in self.columns(claim):
            self.tries(self.slot_cells.vacate, "reject", slot, request=claim.serial)
        return super().extend(request, to, draft)


@stopped_by("Slot", "accept", "draft", "request == owner")
class GoesOnInAnothersColumn(MeetsAnothersColumns):
    """Takes the column of another request for its live slot."""

    def grant_live(self, claim: Request) -> None:
        for slot in self.columns(claim) if claim.live == NULL else ():
            if self.tries(self.slot_cells.accept, slot, claim.serial, self.slot_cells[slot].endpoint):
                claim.live = slot
                return
        super().grant_live(claim)
