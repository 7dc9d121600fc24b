"""Room for a step: which pool each group draws from, what is evicted for it, and what the step is granted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack

from milepost.optimized.auditing import Audit
from milepost.optimized.errors import BadPolicy
from milepost.optimized.events import EventWriter
from milepost.optimized.explaining import Counts, Skipped
from milepost.optimized.index import FULL, RECURRENT, GivenUp, PrefixIndex
from milepost.optimized.pools import DRAFT, FROZEN, LIVE, NOBODY, PRIVATE, CellPool
from milepost.optimized.requests import FrozenSlot, Plan, Request
from milepost.spec.geometry import columns_for, lies_on
from milepost.spec.layout import Layout, first_column, most_columns
from milepost.spec.words import NULL, Cell


class RoomKeeper:
    """Moves cells between pools, requests and the index before a step. Groups may share a pool, states with nobody."""

    def __init__(self, index: PrefixIndex, layout: Layout, pools: dict[str, CellPool]) -> None:
        self.index, self.layout, self.pools = index, layout, pools
        self.page_size, self.grid = index.page_size, index.grid
        self.pages = pools[layout.full.pool]
        self.slots = pools[layout.recurrent.pool] if layout.recurrent else CellPool("", 0)
        self.state = layout.recurrent.name if layout.recurrent else ""
        self.group_names = {FULL.value: layout.full.name} | {group.name: group.name for group in layout.sides}
        if layout.recurrent:
            self.group_names[RECURRENT.value] = self.state
        self.index_names = {name: key for key, name in self.group_names.items()}
        self.group_pools = {group.name: pools[group.pool] for group in layout.groups}
        self.sharing = {
            name: [key for key, group in self.group_names.items() if self.group_pools[group].name == name]
            for name in pools
        }
        self.counts = Counts(tuple(self.group_names.values()))
        self.requests: dict[str, Request] = {}
        self.names: dict[int, str] = {}
        self.planned: list[Request] = []
        self.writer: EventWriter | None = None
        self.audit: Audit | None = None

    def tell(self) -> None:
        """Write the events of what has just changed, where somebody listens."""
        if self.writer:
            self.writer.write(self.index.events())

    # Eviction.

    def pool_of(self, key: str) -> CellPool:
        """Return the pool of a group by the index's name for it."""
        return self.group_pools[self.group_names[key]]

    def take_back(self, given_up: GivenUp) -> list[Cell]:
        """Put what the index no longer holds into its pools; the last thing done, since an audit may raise."""
        cells = []
        for key, cell in given_up:
            pool = self.pool_of(key)
            assert isinstance(cell, int)
            pool.give_back(cell, NOBODY)
            cells.append((pool.name, cell))
        if self.audit:
            self.audit.give_back([cell for pool, cell in cells if pool == self.slots.name])
        return cells

    def evict_one(self, pool: CellPool) -> list[Cell]:
        """Evict what the policy puts first of a pool, and what falls with it; one at a time, so none is lost."""
        given_up = self.index.evict_one_of(self.sharing[pool.name])
        self.tell()
        for key, _ in given_up:
            self.counts.evicted[self.group_names[key]] += 1
        return self.take_back(given_up)

    def make_room(self, pool: CellPool, cells: int) -> bool:
        """Evict until `cells` are free; false where even that does not help."""
        free = pool.free
        while len(free) < cells:
            if not self.evict_one(pool):
                return False
        return True

    # How much is needed, and how much there can be.

    def needs(self, pages: Mapping[str, int], slots: int) -> Counter[str]:
        """Return cells by pool for pages by group and some slots."""
        needs: Counter[str] = Counter()
        for group, count in pages.items():
            needs[self.group_pools[group].name] += count
        if self.state:
            needs[self.slots.name] += slots
        return needs

    def fits(self, tokens: int, hit: bool) -> bool:
        """Tell whether a prompt could run alone: its pages, its live slot, and the snapshot that it restores from."""
        pages = {group.name: most_columns(group, tokens) for group in (self.layout.full, *self.layout.sides)}
        return all(count <= self.pools[pool].cells for pool, count in self.needs(pages, 1 + hit).items())

    def reach(self, claim: Request, to: int) -> int:
        """Return how far a step can go: a window's pool may be too small for all that a longer one would write."""
        for group in self.layout.windows:
            to = min(to, (first_column(group, claim.length) + self.pools[group.pool].cells) * group.page_size)
        return to

    def missing_pages(self, claim: Request, stop: int) -> dict[str, int]:
        """Return by group how many pages a request lacks for its first `stop` tokens."""
        missing = {self.layout.full.name: columns_for(self.page_size, stop) - len(claim.columns)}
        for group in self.layout.sides:
            missing[group.name] = columns_for(group.page_size, stop) - len(claim.sides[group.name].cells)
        return missing

    def shortage(self, pages: Mapping[str, int], slots: int) -> str:
        """Make room for a step and return '', or why there is none: nothing that a request holds has changed then."""
        for name, count in self.needs(pages, slots).items():
            if not self.make_room(self.pools[name], count):
                return "no-slot" if name == self.slots.name else "no-page"
        return ""

    # What a step is granted.

    def grant(self, claim: Request, plan: Plan, draft: int) -> None:
        """Grant the cells of a step for which there is room; nothing is granted where any of it fails."""
        pages: dict[str, list[int]] = {}
        with ExitStack() as undo:
            for group in (self.layout.full, *self.layout.sides):
                pages[group.name] = undo.enter_context(self.pools[group.pool].grants(claim.serial))
            slots = undo.enter_context(self.slots.grants(claim.serial))
            missing = self.missing_pages(claim, plan.stop)
            self._take_pages(claim, missing, pages)
            if claim.live == NULL and self.state:
                endpoint = claim.lookup.hit if claim.source != NULL else 0
                slots.append(self.slots.take(claim.serial, LIVE, endpoint))
            fresh = list(slots)
            plan.frozen = self.frozen_for(claim, plan, slots) if self.state else None
            drafts = self._speculate(claim, plan, draft, pages, slots)
        claim.columns += pages[self.layout.full.name]
        for name, side in claim.sides.items():
            side.cells += pages[name]
        claim.live = fresh[0] if fresh else claim.live
        claim.frozen = plan.frozen or claim.frozen
        claim.drafts, claim.drafted = drafts, plan.draft

    def _take_pages(self, claim: Request, missing: Mapping[str, int], pages: dict[str, list[int]]) -> None:
        for name, count in missing.items():
            pool = self.group_pools[name]
            for _ in range(count):
                pages[name].append(pool.take(claim.serial, PRIVATE))

    def _speculate(
        self, claim: Request, plan: Plan, draft: int, pages: dict[str, list[int]], slots: list[int]
    ) -> list[int]:
        """Grant columns for up to `draft` tokens behind the prompt, as long as there is room; return their slots."""
        drafts: list[int] = []
        while plan.draft < draft and plan.stop >= claim.lookup.prompt:
            reached = plan.stop + plan.draft + 1
            missing = {
                name: count - len(pages[name]) for name, count in self.missing_pages(claim, reached).items()
            }
            if self.reach(claim, reached) < reached or self.shortage(missing, 1):
                break
            self._take_pages(claim, missing, pages)
            if self.state:
                slots.append(self.slots.take(claim.serial, DRAFT, reached))
                drafts.append(slots[-1])
            plan.draft += 1
        return drafts

    def frozen_for(self, claim: Request, plan: Plan, granted: list[int]) -> FrozenSlot | None:
        """Return the slot for the deepest wanted snapshot of a step, if one can be had without waiting."""
        points = self.index.freeze_points(claim.lease, plan.start, plan.stop)
        if not points:
            return None
        point = points[-1]
        if not lies_on(self.grid, point) or not plan.start < point <= plan.stop:
            raise BadPolicy(f"no step over [{plan.start}, {plan.stop}) on a grid of {self.grid} freezes at {point}")
        if reason := self._obstacle(claim, point):
            self.skip(reason)
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
        return "" if self.make_room(self.slots, 1) else Skipped.NO_SLOT

    def skip(self, reason: str) -> None:
        """Count why something was not kept."""
        self.counts.skipped[reason] += 1
