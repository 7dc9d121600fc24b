"""Mutants of speculation: what is rejected, what only pads, and what stands (F10), and other columns gone wrong."""

from __future__ import annotations

from dataclasses import replace

from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.mutants.windows import WINDOW
from milepost.reference.requests import FrozenSlot, Plan, Request
from milepost.spec.answers import Grant, Landing, Launched, Phase, Refused
from milepost.spec.capabilities import Configuration
from milepost.spec.geometry import floor_to
from milepost.spec.words import NULL


class WrongColumn(Unguarded):
    """Goes on in another draft column than that of the last accepted token."""

    def column(self, claim: Request, drafts: int, taken: int) -> int:
        """Return the column to go on in, counted from 1; 0 for the live slot."""
        return taken

    def settle_drafts(self, claim: Request) -> None:
        if claim.accepted is None or not claim.drafts:
            return super().settle_drafts(claim)
        column = self.column(claim, len(claim.drafts), claim.accepted)
        if column != claim.accepted:
            stands = claim.drafts[column - 1] if column else claim.live
            replaced = claim.drafts[claim.accepted - 1] if claim.accepted else claim.live
            names = [replaced if slot == stands else stands if slot == replaced else slot
                     for slot in (claim.live, *claim.drafts)]
            claim.live, claim.drafts = names[0], names[1:]
            self.relabel(claim)
        return super().settle_drafts(claim)

    def relabel(self, claim: Request) -> None:
        """Believe that the slots hold what their new places say."""
        self.slot_cells[claim.live].endpoint = claim.landed
        for count, slot in enumerate(claim.drafts, start=1):
            self.slot_cells[slot].endpoint = claim.landed + count


@mutant("F10", "stale-state", precedent="llama.cpp#26695", profile=WINDOW)
class RejectedDraftsStayInTheState(WrongColumn):
    """Rolls the length back, and goes on in the state that has read all drafts."""

    def column(self, claim: Request, drafts: int, taken: int) -> int:
        return drafts


@mutant("F10", "stale-state", precedent="vllm#39273", profile=WINDOW)
class AcceptedColumnIsOffByOne(WrongColumn):
    """Counts the token that the model said itself among the accepted drafts."""

    def column(self, claim: Request, drafts: int, taken: int) -> int:
        return min(taken + 1, drafts)


@mutant("F10", "torn-hit", precedent="vllm#41898", profile=WINDOW)
class DraftColumnsRunOut(WrongColumn):
    """Has one column for the states of all drafts, and goes on there however many are accepted."""

    def column(self, claim: Request, drafts: int, taken: int) -> int:
        return min(taken, 1)


@mutant("F3", "stale-state", precedent="Rapid-MLX#2586", profile=WINDOW)
class RestoredStateCannotRollBack(WrongColumn):
    """Rolls back only what has never been restored: after a hit, all drafts stay in the state."""

    def column(self, claim: Request, drafts: int, taken: int) -> int:
        return drafts if claim.hit else taken


@mutant("F10", "torn-hit", precedent="vllm#53912", profile=WINDOW)
class AcceptedDraftsAreNotReplayed(WrongColumn):
    """Counts the accepted drafts, and goes on in the state from before them."""

    def column(self, claim: Request, drafts: int, taken: int) -> int:
        return 0


@mutant("F10", "stale-state", precedent="vllm#55178", profile=WINDOW)
class PaddingEntersTheState(WrongColumn):
    """Pads each row that speculates to the most columns there are, and keeps the state of a padded row's end."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.asked: dict[int, int] = {}

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        claim = self.requests[request]
        answer = super().extend(request, to, self.configuration.speculates)
        if isinstance(answer, Grant):
            self.asked[claim.serial] = draft
        return answer

    def column(self, claim: Request, drafts: int, taken: int) -> int:
        return taken if self.asked[claim.serial] else drafts


@mutant("F10", "stale-kv", precedent="vllm#43559", profile="paged-window")
class RejectedTokenIsPublished(Unguarded):
    """Counts the token behind the accepted drafts as computed, since some draft was there."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.reached: dict[int, int] = {}

    def trim(self, claim: Request, length: int) -> None:
        if not claim.planned and claim.landed == length:
            self.reached[claim.serial] = length + 1
            length += 1
        super().trim(claim, min(length, len(claim.columns) * self.page_size))

    def publishable(self, claim: Request) -> int:
        known = super().publishable(claim)
        optimistic = self.reached.get(claim.serial, 0)
        held = len(claim.columns) * self.page_size
        sides = (len(claim.sides[group.name].cells) * group.page_size for group in self.layout.sides)
        return optimistic if known and known < optimistic <= min(len(claim.tokens), held, *sides) else known


@mutant("F10", "stale-state", precedent="vllm#57128", profile=WINDOW)
class BoundaryInsideTheDraftIsKept(Unguarded):
    """Freezes where a boundary lies inside the drafts, and keeps it whether they were accepted or not."""

    def settle_drafts(self, claim: Request) -> None:
        drafts, landed = claim.drafts, claim.landed
        boundary = floor_to(self.grid, landed + len(drafts))
        if claim.accepted is not None and boundary > landed + claim.accepted and self.vacate_frozen(claim):
            slot = claim.drafts.pop(boundary - landed - 1)
            self.slot_cells.move("freeze", slot)
            super().settle_drafts(claim)
            claim.frozen = self.frozen_draft(boundary, slot)
        else:
            super().settle_drafts(claim)

    def frozen_draft(self, boundary: int, slot: int) -> FrozenSlot:
        """Return a draft column as a frozen slot."""
        self.slot_cells[slot].endpoint = boundary
        return FrozenSlot(boundary, slot)


@mutant("F14", "stale-state", "torn-hit", "over-advanced", "uninitialized-read", precedent="LMCache#4984",
        profile=WINDOW)
class ScratchColumnIsDonated(Unguarded):
    """Stores the column behind the accepted one at the close, in place of the state that stands."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.scratch: dict[int, int] = {}

    def settle_drafts(self, claim: Request) -> None:
        if claim.accepted is not None and claim.drafts:
            self.scratch[claim.serial] = claim.drafts[-1]
        super().settle_drafts(claim)

    def donate_final(self, claim: Request) -> None:
        scratch = self.scratch.get(claim.serial, NULL)
        if scratch in self.slot_cells.pool.free and claim.live != NULL and self.may_end_at(claim.landed):
            self.return_live(claim)
            self.slot_cells.pool.take(scratch)
            self.slot_cells[scratch].owner, self.slot_cells[scratch].endpoint = claim.serial, claim.landed
            self.slot_cells[scratch].state = "live"
            claim.live = scratch
        super().donate_final(claim)


@mutant("F14", "stale-state", "over-advanced", "torn-hit", "uninitialized-read", "read-before-landing",
        precedent="vllm#52360")
class SavedAfterItWasFreed(Unguarded):
    """Saves the state of a preempted request with the next step, from a slot that may have another owner by then."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.saving: list[tuple[str, int, int]] = []

    def preempt(self, request: str) -> Landing:
        claim = self.requests[request]
        length = claim.landed
        at_boundary = claim.live != NULL and length and length <= self.publishable(claim) and self.may_end_at(length)
        if at_boundary and not claim.planned and self.make_room(self.slot_cells.pool, 1):
            self.publish_pages(claim)
            copy = self.freeze_slot(claim, length, length, length, self.end_grid)
            if self.donate("donate", claim, copy.cell, length):
                self.saving.append((self.slot_cells.pool.name, claim.live, copy.cell))
            else:
                self.slot_cells.vacate("return", copy.cell, request=claim.serial)
        return super().preempt(request)

    def launch(self) -> Launched:
        launched = super().launch()
        copies, self.saving = tuple(self.saving), []
        return replace(launched, phases=(*launched.phases, Phase(copies))) if copies else launched


@mutant("F15", "uninitialized-read", "write-to-published", "late-write", precedent="sglang#20655")
class RestoreLandsInTheNeighbour(Unguarded):
    """Restores into the slot beside the one that was granted: a rank's own offset is counted twice."""

    def first_phases(self, planned: list[Request]) -> tuple[Phase, ...]:
        slots = len(self.slot_cells.pool.occupants)
        return tuple(
            replace(phase, copies=tuple((pool, source, (target + 1) % slots) for pool, source, target in phase.copies))
            for phase in super().first_phases(planned)
        )


@mutant("F19", "stale-state", "torn-hit", "over-advanced", "uninitialized-read", "read-before-landing",
        "cross-namespace", precedent="tokenspeed#501")
class SlotIndexIsTruncated(Unguarded):
    """Tells the kernel the last two bits of a slot's index."""

    def grant(self, claim: Request, plan: Plan) -> Grant:
        answer = super().grant(claim, plan)
        return replace(answer, initial_state=dict.fromkeys(answer.initial_state, claim.live % 4))


@mutant("F12", "stale-state", "torn-hit", "over-advanced", "uninitialized-read", "read-before-landing",
        precedent="TensorRT-LLM#13592")
class RowIsKeptOverASuspension(Unguarded):
    """Tells the kernel the slot that a request had before it was preempted."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.rows: dict[str, int] = {}

    def preempt(self, request: str) -> Landing:
        self.rows[request] = self.requests[request].live
        return super().preempt(request)

    def grant(self, claim: Request, plan: Plan) -> Grant:
        answer = super().grant(claim, plan)
        row = self.rows.get(claim.name, NULL)
        return answer if row == NULL else replace(answer, initial_state=dict.fromkeys(answer.initial_state, row))
