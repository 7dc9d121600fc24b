"""The cells of requests after a step: publishing, going on in a draft column, and what is given back in the end."""

from __future__ import annotations

from collections.abc import Mapping

from milepost.optimized.explaining import Skipped
from milepost.optimized.index import Published
from milepost.optimized.requests import Request
from milepost.optimized.sliding import SideKeeper
from milepost.spec.answers import Phase
from milepost.spec.geometry import columns_for, floor_to, lies_on
from milepost.spec.words import NULL


class CellKeeper(SideKeeper):
    """Moves cells between pools, requests and the index; the verbs of the seam decide when."""

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

    def trim(self, claim: Request, length: int) -> None:
        """Give up the pages behind the first `length` tokens."""
        self.return_columns(claim, columns_for(self.page_size, length))
        self.return_sides(claim, length)

    def first_phases(self, planned: list[Request]) -> tuple[Phase, ...]:
        """Return the zeroings and restores of the live slots that have no content yet."""
        pool, fresh = self.slots.name, [claim for claim in planned if self.state and not claim.live_is_set]
        copies = tuple((pool, claim.source, claim.live) for claim in fresh if claim.source != NULL)
        zeros = tuple((pool, claim.live) for claim in fresh if claim.source == NULL)
        return (Phase(copies, zeros),) if fresh else ()

    # After a step.

    def publish_landed(self, claim: Request) -> None:
        """Publish whole landed pages, and donate the frozen slot if its pages are there; else it is given back."""
        if claim.lease.stale:
            self.skip(Skipped.BEFORE_RESET)
            return
        frozen = claim.frozen
        due = frozen is not None and frozen.position <= claim.publishable
        stop = floor_to(self.page_size, claim.publishable)
        if stop > claim.lease.length or due:
            if claim.blocked and claim.in_flight and not due:  # likely still: ask with one page before all are packed
                self._publish_full(claim, claim.lease.length + self.page_size, due)
            if due or (stop > claim.lease.length and not (claim.blocked and claim.in_flight)):
                self._publish_full(claim, stop, due)
        if self.layout.sides:
            self.publish_sides(claim)

    def _publish_full(self, claim: Request, stop: int, due: bool) -> None:
        """Publish full pages up to `stop`, and the frozen slot where it is `due`."""
        frozen = claim.frozen
        states = {frozen.position: frozen.cell} if frozen and due else {}
        published = self.offer(claim, stop, states)
        if frozen and due:
            claim.frozen = None
            for reason in published.refused.values():
                self.skip(reason)
                self.slots.give_back(frozen.cell, claim.serial)

    def offer(self, claim: Request, stop: int, states: Mapping[int, int]) -> Published:
        """Offer whole pages up to `stop` and states to the index, and settle what it says of each."""
        before = claim.lease.length
        # A state may stand where the lease ends: the page before it goes along, which costs nothing.
        start = max(0, before - self.page_size)
        stop = max(stop, before)
        cells = claim.columns[start // self.page_size : stop // self.page_size]
        digests = self.audit.digests(states) if self.audit else {}
        published = self.index.publish(
            claim.lease, claim.run(start, stop), cells, states, start=start, adopt=not claim.in_flight
        )
        for column in range(before // self.page_size, published.length // self.page_size):
            if column in published.repointed:
                self.pages.give_back(claim.columns[column], claim.serial)
                claim.columns[column] = int(published.repointed[column])
            else:
                self.pages.publish(claim.columns[column], claim.serial, (column + 1) * self.page_size)
        for position in published.donated:
            self.slots.publish(states[position], claim.serial)
            if self.audit:
                self.audit.donate(states[position], digests[position], position, claim.lease.namespace)
        claim.blocked = published.blocked
        self.tell()
        self._count(published, (published.length - before) // self.page_size)
        return published

    def _count(self, published: Published, columns: int) -> None:
        counts, duplicates = self.counts, len(published.duplicates)
        counts.duplicates += duplicates
        counts.published[self.layout.full.name] += columns - duplicates
        if self.state:
            counts.published[self.state] += len(published.donated)
        if published.blocked:
            self.skip(Skipped.DUPLICATE_IN_FLIGHT)

    def donate_final(self, claim: Request) -> None:
        """Donate the live slot of a request that closes at a boundary."""
        length = claim.landed
        if claim.live == NULL or not length or length > claim.publishable:
            return
        if not lies_on(self.grid, length):
            self.skip(Skipped.UNALIGNED)
        elif self.slots.endpoints[claim.live] == length:
            published = self.offer(claim, claim.lease.length, {length: claim.live})
            for reason in published.refused.values():
                self.skip(reason)
            claim.live = NULL if published.donated else claim.live

    def finish(self, claim: Request) -> None:
        """Publish what is left if that is wanted, and return the rest, whatever happens on the way."""
        try:
            if claim.keep:
                self.publish_landed(claim)
                self.donate_final(claim)
        finally:
            self.give_up(claim)

    def give_up(self, claim: Request) -> None:
        """Return every cell that a request still holds, and end its leases."""
        self.return_drafts(claim)
        self.return_sides(claim, 0)
        self.return_columns(claim, claim.lease.length // self.page_size)
        self.return_frozen(claim)
        self.return_live(claim)
        claim.columns.clear()
        claim.source = NULL
        del self.names[claim.serial]
        self.take_back(self.index.release(claim.lease))

    def end_restore(self, claim: Request) -> None:
        """Let go of the snapshot: the step that restored from it has landed."""
        if claim.source != NULL:
            claim.source = NULL
            self.take_back(self.index.release_state(claim.lease))

    # Drafts.

    def settle_drafts(self, claim: Request, taken: int) -> None:
        """Go on in the column of the last accepted token, and give up the others and the pages behind it."""
        drafts, claim.drafts, claim.drafted = claim.drafts, [], 0
        for column, slot in enumerate(drafts, start=1):
            if column == taken:
                self.return_live(claim)
                self.slots.accept(slot, claim.serial, claim.landed + taken)
                claim.live = slot
            else:
                self.slots.give_back(slot, claim.serial)
        claim.landed += taken
        claim.length = max(claim.length, claim.landed)
        self.trim(claim, claim.length)

    def return_drafts(self, claim: Request) -> None:
        """Give up the draft columns of a step that will not be settled."""
        drafts, claim.drafts, claim.drafted = claim.drafts, [], 0
        for slot in drafts:
            self.slots.give_back(slot, claim.serial)

    # What a request gives back.

    def return_columns(self, claim: Request, kept: int) -> None:
        """Give up the private columns behind the first `kept`, the last one first, so that it is granted again last."""
        while len(claim.columns) > kept:
            self.pages.give_back(claim.columns.pop(), claim.serial)

    def return_frozen(self, claim: Request) -> None:
        """Return the frozen slot, if there is one."""
        frozen, claim.frozen = claim.frozen, None
        if frozen:
            self.slots.give_back(frozen.cell, claim.serial)

    def return_live(self, claim: Request) -> None:
        """Return the live slot, if there is one."""
        live, claim.live = claim.live, NULL
        if live != NULL:
            self.slots.give_back(live, claim.serial)
