"""What a step needs and leaves: room, live and frozen slots before it, publishing and returning after it."""

from __future__ import annotations

from collections import Counter

from milepost.reference.requests import FrozenSlot, Plan, Request
from milepost.reference.sides import SideStore
from milepost.spec.answers import Phase
from milepost.spec.capabilities import Configuration
from milepost.spec.geometry import columns_for, lies_on
from milepost.spec.layout import first_column, most_columns
from milepost.spec.words import NULL, Cell


class StepKeeper(SideStore):
    """Moves the cells of requests; the verbs of the seam decide when."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.names: dict[int, str] = {}
        self.planned: list[Request] = []

    # Before a step.

    def needs(self, pages: dict[str, int], slots: int) -> dict[str, int]:
        """Return cells by pool for pages by group and some slots."""
        needs: Counter[str] = Counter()
        for group, count in pages.items():
            needs[self.pools_of_groups[group]] += count
        if self.layout.recurrent:
            needs[self.slot_cells.pool.name] += slots
        return needs

    def missing_pages(self, claim: Request, stop: int) -> dict[str, int]:
        """Return by group how many pages a request lacks for its first `stop` tokens."""
        pages = {self.layout.full.name: columns_for(self.page_size, stop) - len(claim.columns)}
        for group in self.layout.sides:
            pages[group.name] = columns_for(group.page_size, stop) - len(claim.sides[group.name].cells)
        return pages

    def shortage(self, pages: dict[str, int], slots: int) -> str:
        """Make room for a step and return '', or why there is none: nothing that a request holds has changed then."""
        for pool, count in self.needs(pages, slots).items():
            if not self.make_room(self.pools[pool], count):
                return "no-slot" if pool == self.slot_cells.pool.name != self.page_cells.pool.name else "no-page"
        return ""

    def fits(self, tokens: tuple[int, ...], hit: int) -> bool:
        """Tell whether a prompt could run alone: its pages, its live slot, and the snapshot that it restores from."""
        pages = {group.name: most_columns(group, len(tokens)) for group in self.layout.groups if group.kind.paged}
        needs = self.needs(pages, 2 if hit else 1)
        return all(count <= len(self.pools[pool].occupants) for pool, count in needs.items())

    def reach(self, claim: Request, to: int) -> int:
        """Return how far a step can go: a window's pool may be too small for all that a longer one would write."""
        for group in self.layout.windows:
            cells = len(self.side_cells[group.name].pool.occupants)
            to = min(to, (first_column(group, claim.length) + cells) * group.page_size)
        return to

    def grant_pages(self, claim: Request, stop: int) -> None:
        """Grant the pages that a request lacks for its first `stop` tokens."""
        missing = self.missing_pages(claim, stop)
        claim.columns += [self.page_cells.allocate(claim.serial) for _ in range(missing[self.layout.full.name])]
        for group in self.layout.sides:
            cells = self.side_cells[group.name]
            claim.sides[group.name].cells += [cells.allocate(claim.serial) for _ in range(missing[group.name])]

    def grant_live(self, claim: Request) -> None:
        """Grant the live slot if there is none: cold, or to be restored from the protected snapshot."""
        if claim.live != NULL or not self.layout.recurrent:
            return
        if claim.source:
            claim.live = self.slot_cells.restore(claim.serial, claim.hit, claim.source.cell)
        else:
            claim.live = self.slot_cells.admit(claim.serial)

    def freeze_points(self, claim: Request, start: int, stop: int) -> tuple[int, ...]:
        """Return where a step over [start, stop) should freeze."""
        return self.freeze_policy.points(claim.prompt, claim.branch, self.grid, start, stop)

    def plan_freeze(self, claim: Request, plan: Plan) -> None:
        """Let a step freeze at the deepest wanted point, if a slot can be had without waiting."""
        points = self.freeze_points(claim, plan.start, plan.stop) if self.layout.recurrent else ()
        point = max(points, default=0)
        if not point or self.snapshot_at(claim, point) or not self.vacate_frozen(claim):
            return
        if self.make_room(self.slot_cells.pool, 1):
            plan.frozen = claim.frozen = self.freeze_slot(claim, point, plan.start, plan.stop, self.step_grid)

    def vacate_frozen(self, claim: Request) -> bool:
        """Give up a frozen slot for a later one; false while the step that writes it is in flight."""
        if claim.frozen is None:
            return True
        if claim.frozen.position > claim.landed:
            return False
        self.slot_cells.vacate("supersede", claim.frozen.cell, request=claim.serial)
        claim.frozen = None
        return True

    def freeze_slot(self, claim: Request, position: int, start: int, stop: int, grid: int) -> FrozenSlot:
        """Grant the slot for a snapshot at `position`, on `grid`, of a step over [start, stop)."""
        return FrozenSlot(position, self.slot_cells.freeze(claim.serial, position, start, stop, grid))

    def plan_drafts(self, claim: Request, plan: Plan, draft: int) -> None:
        """Let a step speculate behind the prompt on up to `draft` tokens: a column each, as long as there is room."""
        while plan.draft < draft and plan.stop >= claim.prompt:
            reached = plan.stop + plan.draft + 1
            if self.reach(claim, reached) < reached or self.shortage(self.missing_pages(claim, reached), 1):
                return
            self.grant_pages(claim, reached)
            if self.layout.recurrent:
                claim.drafts.append(self.slot_cells.speculate(claim.serial, reached))
            plan.draft = claim.drafted = plan.draft + 1

    def settle_drafts(self, claim: Request) -> None:
        """Go on in the column of the last accepted token, and give up the others and the pages behind it."""
        taken = claim.accepted
        if taken is None:
            return
        drafts, claim.drafts, claim.drafted, claim.accepted = claim.drafts, [], 0, None
        for column, slot in enumerate(drafts, start=1):
            if column == taken:
                self.return_live(claim)
                self.slot_cells.accept(slot, claim.serial, claim.landed + taken)
                claim.live = slot
            else:
                self.slot_cells.vacate("reject", slot, request=claim.serial)
        claim.landed += taken
        claim.length = max(claim.length, claim.landed)
        self.trim(claim, claim.length)

    def trim(self, claim: Request, length: int) -> None:
        """Give up the pages behind the first `length` tokens."""
        self.return_columns(claim, columns_for(self.page_size, length))
        self.return_sides(claim, length)

    def drop_plan(self, claim: Request) -> None:
        """Return what was granted for a step that will not be launched."""
        plan, claim.planned = claim.planned, None
        if plan is None:
            return
        self.planned.remove(claim)
        self.return_drafts(claim)
        self.trim(claim, plan.start)
        if plan.frozen:
            self.return_frozen(claim)

    def first_phases(self, planned: list[Request]) -> tuple[Phase, ...]:
        """Return the zeroings and restores of the live slots that have no content yet."""
        pool = self.slot_cells.pool.name
        fresh = [claim for claim in planned if not claim.live_is_set and self.layout.recurrent]
        copies = tuple((pool, claim.source.cell, claim.live) for claim in fresh if claim.source)
        zeros = tuple((pool, claim.live) for claim in fresh if not claim.source)
        for claim in fresh:
            claim.live_is_set = True
        return (Phase(copies, zeros),) if fresh else ()

    def touched_cells(self, claim: Request) -> list[Cell]:
        """Return the cells that the planned step of a request reads or writes."""
        slots = [claim.live] if self.layout.recurrent else []
        slots += claim.drafts
        slots += [claim.source.cell] if claim.source and not claim.live_is_set else []
        slots += [claim.planned.frozen.cell] if claim.planned and claim.planned.frozen else []
        pages = [(self.page_cells.pool.name, index) for index in claim.columns]
        for group in self.layout.sides:
            cells = claim.sides[group.name].cells[first_column(group, claim.length) :]
            pages += [(self.pools_of_groups[group.name], index) for index in cells]
        return pages + [(self.slot_cells.pool.name, index) for index in slots]

    # After a step.

    def advance_live(self, claim: Request, stop: int) -> None:
        """Record that the live slot has read the tokens up to `stop`."""
        if self.layout.recurrent:
            self.slot_cells.advance(claim.live, claim.serial, stop)

    def publish_landed(self, claim: Request) -> None:
        """Publish what a request has computed so far."""
        self.publish_pages(claim)
        self.publish_sides(claim)
        frozen = claim.frozen
        if frozen is None or frozen.position > self.publishable(claim):
            return
        if not self.donate("donate", claim, frozen.cell, frozen.position):
            self.slot_cells.vacate("return", frozen.cell, request=claim.serial)
        claim.frozen = None

    def donate_final(self, claim: Request) -> None:
        """Donate the live slot of a request that closes at a boundary."""
        length = claim.landed
        if claim.live == NULL or not length or length > self.publishable(claim) or not self.may_end_at(length):
            return
        if self.slot_cells[claim.live].endpoint == length and self.donate("donate final", claim, claim.live, length):
            claim.live = NULL

    def may_end_at(self, length: int) -> bool:
        """Tell whether a final state may be donated at `length`."""
        return lies_on(self.end_grid, length)

    def finish(self, claim: Request) -> None:
        """Publish what is left if that is wanted, and return the rest."""
        if claim.keep:
            self.publish_landed(claim)
            self.donate_final(claim)
        self.give_up(claim)

    def give_up(self, claim: Request) -> None:
        """Return every cell that a request still holds, and end its leases."""
        self.return_drafts(claim)
        self.return_sides(claim, 0)
        self.return_columns(claim, 0)
        self.return_frozen(claim)
        self.return_live(claim)
        self.release_snapshot(claim)
        del self.names[claim.serial]

    def return_columns(self, claim: Request, kept: int) -> None:
        """Give up all columns but the first `kept`, the last one first, so that it is granted again last."""
        while len(claim.columns) > kept:
            index = claim.columns.pop()
            if len(claim.columns) in claim.leases:
                self.release_page(claim, len(claim.columns))
            else:
                self.page_cells.vacate("return", index, request=claim.serial)

    def return_frozen(self, claim: Request) -> None:
        """Return the frozen slot, if there is one."""
        frozen, claim.frozen = claim.frozen, None
        if frozen:
            self.slot_cells.vacate("return", frozen.cell, request=claim.serial)

    def return_drafts(self, claim: Request) -> None:
        """Give up the draft columns of a step that will not be settled."""
        drafts, claim.drafts, claim.drafted = claim.drafts, [], 0
        for slot in drafts:
            self.slot_cells.vacate("reject", slot, request=claim.serial)

    def return_live(self, claim: Request) -> None:
        """Return the live slot, if there is one."""
        live, claim.live = claim.live, NULL
        if live != NULL:
            self.slot_cells.vacate("return", live, request=claim.serial)
