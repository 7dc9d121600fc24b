"""The cells of requests: room before a step, publishing after it, and what is given back in the end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from milepost.optimized.auditing import Audit
from milepost.optimized.declaration import STATE
from milepost.optimized.errors import BadPolicy
from milepost.optimized.events import EventWriter
from milepost.optimized.explaining import Counts, Skipped
from milepost.optimized.index import FULL, RECURRENT, GivenUp, PrefixIndex, Published
from milepost.optimized.pools import FROZEN, LIVE, NOBODY, PRIVATE, CellPool
from milepost.optimized.requests import FrozenSlot, Plan, Request
from milepost.spec.answers import Phase
from milepost.spec.geometry import columns_for, floor_to, lies_on
from milepost.spec.words import NULL, Cell, GroupKind


class CellKeeper:
    """Moves cells between two pools, requests and the index; the verbs of the seam decide when."""

    def __init__(self, index: PrefixIndex, pages: CellPool, slots: CellPool) -> None:
        self.index, self.pages, self.slots = index, pages, slots
        self.page_size, self.grid = index.page_size, index.grid
        self.counts = Counts()
        self.requests: dict[str, Request] = {}
        self.names: dict[int, str] = {}
        self.planned: list[Request] = []
        self.writer: EventWriter | None = None
        self.audit: Audit | None = None

    def tell(self) -> None:
        """Write the events of what has just changed, where somebody listens."""
        if self.writer:
            self.writer.write(self.index.events())

    # Room.

    def take_back(self, given_up: GivenUp) -> list[Cell]:
        """Put what the index no longer holds into its pools; the last thing done, since an audit may raise."""
        cells = []
        for kind, cell in given_up:
            pool = self.pool_of(kind)
            assert isinstance(cell, int)
            pool.give_back(cell, NOBODY)
            cells.append((pool.name, cell))
        if self.audit:
            self.audit.give_back([cell for pool, cell in cells if pool == STATE])
        return cells

    def pool_of(self, kind: GroupKind) -> CellPool:
        """Return the pool of a kind of group."""
        return self.pages if kind is FULL else self.slots

    def evict_one(self, kind: GroupKind) -> list[Cell]:
        """Evict what the policy puts first, and the snapshot that falls with it; one at a time, so none is lost."""
        given_up = self.index.evict({kind: 1})
        self.tell()
        for each, _ in given_up:
            self.counts.evicted[self.pool_of(each).name] += 1
        return self.take_back(given_up)

    def make_room(self, kind: GroupKind, cells: int) -> bool:
        """Evict until `cells` are free; false where even that does not help."""
        free = self.pool_of(kind).free
        while len(free) < cells:
            if not self.evict_one(kind):
                return False
        return True

    def fits(self, tokens: int) -> str:
        """Return why a prompt could never run, '' where it could alone: its pages and its live slot."""
        enough = columns_for(self.page_size, tokens) <= self.pages.cells and self.slots.cells
        return "" if enough else "prompt-too-long"

    # Before a step.

    def grant(self, claim: Request, plan: Plan) -> None:
        """Grant the pages and slots of a step for which there is room; nothing is granted where any of it fails."""
        columns = columns_for(self.page_size, plan.stop) - len(claim.columns)
        with ExitStack() as undo:
            pages = undo.enter_context(self.pages.grants(claim.serial))
            slots = undo.enter_context(self.slots.grants(claim.serial))
            for _ in range(columns):
                pages.append(self.pages.take(claim.serial, PRIVATE))
            if claim.live == NULL:
                endpoint = claim.lookup.hit if claim.source != NULL else 0
                slots.append(self.slots.take(claim.serial, LIVE, endpoint))
            fresh = list(slots)
            plan.frozen = self.frozen_for(claim, plan, slots)
        claim.columns += pages
        claim.live = fresh[0] if fresh else claim.live
        claim.frozen = plan.frozen or claim.frozen

    def frozen_for(self, claim: Request, plan: Plan, granted: list[int]) -> FrozenSlot | None:
        """Return the slot for the deepest wanted snapshot of a step, if one can be had without waiting."""
        points = self.index.freeze_points(claim.lease, plan.start, plan.stop)
        if not points:
            return None
        point = points[-1]
        if not lies_on(self.grid, point) or not plan.start < point <= plan.stop:
            raise BadPolicy(f"no step over [{plan.start}, {plan.stop}) on a grid of {self.grid} freezes at {point}")
        if reason := self._obstacle(claim, point):
            self._skip(reason)
            return None
        self.counts.freezes += 1
        if claim.frozen:  # superseded: its slot is the next to be granted
            self.slots.advance(claim.frozen.cell, claim.serial, point)
            return FrozenSlot(point, claim.frozen.cell)
        granted.append(self.slots.take(claim.serial, FROZEN, point))
        return FrozenSlot(point, granted[-1])

    def _obstacle(self, claim: Request, point: int) -> str:
        """Make room for a snapshot at `point` and return '', or why there will be none."""
        if self.index.has_state(claim.lease, claim.run(0, point), point):
            return Skipped.ALREADY_STORED
        if claim.frozen:
            return Skipped.FROZEN_IN_FLIGHT if claim.frozen.position > claim.landed else ""
        return "" if self.make_room(RECURRENT, 1) else Skipped.NO_SLOT

    def _skip(self, reason: str) -> None:
        self.counts.skipped[reason] += 1

    def drop_plan(self, claim: Request) -> None:
        """Return what was granted for a step that will not be launched."""
        plan, claim.planned = claim.planned, None
        if plan is None:
            return
        self.planned.remove(claim)
        self.return_columns(claim, columns_for(self.page_size, plan.start))
        if plan.frozen:
            self.return_frozen(claim)

    def first_phases(self, planned: list[Request]) -> tuple[Phase, ...]:
        """Return the zeroings and restores of the live slots that have no content yet."""
        fresh = [claim for claim in planned if not claim.live_is_set]
        copies = tuple((STATE, claim.source, claim.live) for claim in fresh if claim.source != NULL)
        zeros = tuple((STATE, claim.live) for claim in fresh if claim.source == NULL)
        return (Phase(copies, zeros),) if fresh else ()

    # After a step.

    def publish_landed(self, claim: Request) -> None:
        """Publish whole landed pages, and donate the frozen slot if its pages are there; else it is given back."""
        frozen = claim.frozen
        if claim.lease.stale:
            self._skip(Skipped.BEFORE_RESET)
            return
        due = frozen is not None and frozen.position <= claim.publishable
        stop = floor_to(self.page_size, claim.publishable)
        if stop <= claim.lease.length and not due:
            return
        states = {frozen.position: frozen.cell} if frozen and due else {}
        published = self.offer(claim, stop, states)
        if frozen and due:
            claim.frozen = None
            for reason in published.refused.values():
                self._skip(reason)
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
        self.tell()
        self._count(published, (published.length - before) // self.page_size)
        return published

    def _count(self, published: Published, columns: int) -> None:
        counts, duplicates = self.counts, len(published.duplicates)
        counts.duplicates += duplicates
        counts.published_pages += columns - duplicates
        counts.published_states += len(published.donated)
        if published.blocked:
            self._skip(Skipped.DUPLICATE_IN_FLIGHT)

    def donate_final(self, claim: Request) -> None:
        """Donate the live slot of a request that closes at a boundary."""
        length = claim.landed
        if claim.live == NULL or not length or length > claim.publishable:
            return
        if not lies_on(self.grid, length):
            self._skip(Skipped.UNALIGNED)
        elif self.slots.endpoints[claim.live] == length:
            published = self.offer(claim, claim.lease.length, {length: claim.live})
            for reason in published.refused.values():
                self._skip(reason)
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
