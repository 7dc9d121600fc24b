"""The reference: groups of all four kinds over two dictionaries, with a deterministic policy.

Where the seam leaves a choice, the simplest correct one is taken: literal landing, leases until the end, least
recently used first. Every decision is a method of its own, which liberties and mutants override.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from milepost.reference.declaration import declare, without_promises
from milepost.reference.requests import Flight, Plan, Request, Side
from milepost.reference.steps import StepKeeper
from milepost.spec.answers import Evicted, Frozen, Grant, Hit, Landing, Launched, Phase, Refused, ResetDone
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.geometry import columns_for, floor_to, lies_on
from milepost.spec.resume import Cut, joint, longest_possible
from milepost.spec.seam import Holding
from milepost.spec.words import NULL, Cell, Namespace


class ReferenceCache(StepKeeper):
    """An adapter at the seam that freezes at branch points and at the last boundary of a prompt."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.requests: dict[str, Request] = {}
        self.flights: list[Flight] = []
        self.opened = 0
        self.steps = 0
        self._capabilities = self.declare()

    @property
    def capabilities(self) -> Capabilities:
        """What this cache is and can do."""
        return self._capabilities

    def declare(self) -> Capabilities:
        """Return the capabilities for this configuration."""
        return declare(self.configuration, self.layout, self.grid, self.pools_of_groups, self.pool_sizes())

    # Open: look up and lease.

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        """Look up the deepest boundary that all groups can resume at, and lease it."""
        if reason := self.objection(tokens):
            return Refused(reason)
        claim = self.enrol(request, tokens, namespace, content)
        shared = self.matched(claim)
        claim.hit = self.hit_length(claim, shared)
        claim.length = claim.landed = claim.hit
        claim.branch = self.branch_point(claim, self.remembered(claim, shared))
        self.lease_hit(claim)
        return Hit(claim.hit, claim.table())

    def objection(self, tokens: tuple[int, ...]) -> str:
        """Return why a prompt is not admitted, '' where it is."""
        if len(self.requests) >= self.configuration.max_live:
            return "too-many-requests"
        return "" if self.fits(tokens, hit=0) else "prompt-too-long"

    def enrol(
        self, name: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Request:
        """Register a request that holds nothing yet."""
        self.opened += 1
        claim = Request(
            name, self.opened, self.epoch, tuple(sorted(namespace)), list(tokens), dict(content), len(tokens)
        )
        claim.full = self.layout.full.name
        claim.recurrent = self.layout.recurrent.name if self.layout.recurrent else ""
        claim.sides = {group.name: Side() for group in self.layout.sides}
        self.requests[name] = claim
        self.names[claim.serial] = name
        return claim

    def hit_length(self, claim: Request, shared: int) -> int:
        """Return the deepest n that is on the grid, has all pages and the snapshot, and leaves room to run.

        `claim.cuts` tell which of these shortened it.
        """
        offers: dict[str, Callable[[int], bool]] = {"grid": self.on_grid}
        offers |= {group.name: partial(self.has_entries, claim, group) for group in self.layout.sides}
        if claim.recurrent:
            offers[claim.recurrent] = partial(self.has_state, claim)
        offers["room"] = lambda n: self.fits(tuple(claim.tokens), hit=n)
        limit, whole = self.longest_hit(claim, shared), longest_possible(claim.prompt, claim.prompt)
        hit, cuts = joint(limit, offers)
        claim.cuts = (Cut(claim.full, whole, limit), *cuts) if limit < whole else cuts
        return hit

    def has_state(self, claim: Request, length: int) -> bool:
        """Tell whether there is a state of exactly the first `length` tokens to restore from."""
        return self.snapshot_at(claim, length) is not None

    def longest_hit(self, claim: Request, shared: int) -> int:
        """Return the length that no hit may exceed."""
        return longest_possible(claim.prompt, shared)

    def branch_point(self, claim: Request, shared: int) -> int:
        """Return where the known path ends beyond the hit, floored to the grid; 0 where it does not."""
        point = floor_to(self.grid, max(0, self.longest_hit(claim, shared)))
        return point if point > claim.hit else 0

    def lease_hit(self, claim: Request) -> None:
        """Lease the pages of a hit and protect its snapshot; of the full group only where it ends becomes recent."""
        for column in range(columns_for(self.page_size, claim.hit)):
            entry = self.pages[self.key(claim, (column + 1) * self.page_size)]
            claim.columns.append(entry.cell)
            self.lease_page(claim, column, entry)
        if claim.hit:
            self.touch(claim.leases[len(claim.columns) - 1])
            self.lease_sides(claim)
        if claim.hit and claim.recurrent:
            self.claim_snapshot(claim)

    def claim_snapshot(self, claim: Request) -> None:
        """Protect the snapshot of a hit."""
        snapshot = self.snapshots[self.key(claim, claim.hit)]
        self.protect_snapshot(claim, snapshot)
        self.touch(snapshot)

    # Steps: plan, launch, land.

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        """Plan tokens [length, to): pages, the live slot, a frozen slot and draft columns where there is room."""
        claim = self.requests[request]
        if claim.planned or to <= claim.length:
            return Refused("no-progress")
        if claim.drafted:
            return Refused("in-flight", "how many draft tokens stand is not known yet")
        stop = self.reach(claim, to)
        if stop <= claim.length:
            return Refused("no-page", "a window needs more pages than its pool has")
        if reason := self.shortage(self.missing_pages(claim, stop), int(claim.live == NULL)):
            return Refused(reason)
        claim.planned = Plan(claim.length, stop)
        self.planned.append(claim)
        self.grant_pages(claim, stop)
        self.grant_live(claim)
        self.plan_freeze(claim, claim.planned)
        self.plan_drafts(claim, claim.planned, min(draft, self.configuration.speculates))
        return self.grant(claim, claim.planned)

    def grant(self, claim: Request, plan: Plan) -> Grant:
        """Return the answer to a planned extend."""
        frozen = ((claim.recurrent, plan.frozen.cell, plan.frozen.position),) if plan.frozen else ()
        initial_state: dict[str, int | None] = {claim.recurrent: claim.live} if claim.recurrent else {}
        return Grant(plan.stop, claim.table(), frozen, initial_state, draft=plan.draft)

    def launch(self) -> Launched:
        """Start all planned extends as one step, after one phase that zeroes and restores fresh live slots."""
        self.steps += 1
        planned, self.planned = self.planned, []
        spans = tuple((claim, plan.start, plan.stop) for claim in planned if (plan := claim.planned))
        touched = tuple(cell for claim in planned for cell in self.touched_cells(claim))
        drafting = frozenset(claim.serial for claim in planned if claim.drafted)
        flight = Flight(self.steps, spans, touched, drafting)
        phases = self.first_phases(planned)
        self.flights.append(flight)
        for pool, index in flight.cells:
            self.pools[pool].in_flight[index] += 1
        for claim, _, stop in spans:
            claim.length, claim.planned = stop, None
            claim.in_flight += 1
        return Launched(flight.step, phases)

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        """Count a step's tokens as computed, end its restores, and finish the requests that were waiting for it."""
        flight = next(flight for flight in self.flights if flight.step == step)
        self.flights.remove(flight)
        for pool, index in flight.cells:
            self.pools[pool].in_flight[index] -= 1
        for claim, _, stop in flight.spans:
            claim.in_flight -= 1
            self.learn(claim, sampled.get(claim.name, ()))
            claim.accepted = accepted.get(claim.name, 0) if claim.serial in flight.drafting else None
            self.land_request(claim, stop)
            self.slide_out(claim)
        return Landing({claim.name: claim.table() for claim, _, _ in flight.spans})

    def land_request(self, claim: Request, stop: int) -> None:
        """Record one request's landed tokens; nothing of a closed request outlives its last landing."""
        claim.landed = stop
        self.advance_live(claim, stop)
        self.end_restore(claim)
        self.settle_drafts(claim)
        if claim.closing and not claim.in_flight:
            self.finish(claim)

    def learn(self, claim: Request, said: tuple[int, ...]) -> None:
        """Append what the model said, and note where the first call of a tool begins."""
        if self.configuration.anchor in said and not claim.anchor:
            claim.anchor = len(claim.tokens) + said.index(self.configuration.anchor) + 1
        claim.tokens += said

    def end_restore(self, claim: Request) -> None:
        """Let go of the snapshot: the step that restored from it has landed."""
        self.release_snapshot(claim)

    # Snapshots, publishing, and the end of a request.

    def freeze(self, request: str) -> Frozen | Refused:
        """Copy the live slot into a frozen one at the request's current length."""
        claim = self.requests[request]
        if claim.in_flight or claim.planned:
            return Refused("in-flight")
        if claim.live == NULL or (claim.frozen and claim.frozen.position == claim.length):
            return Refused("nothing-to-freeze")
        if not lies_on(self.end_grid, claim.length):
            return Refused("unaligned")
        if not self.vacate_frozen(claim) or not self.make_room(self.slot_cells.pool, 1):
            return Refused("no-slot", tables={request: claim.table()})
        claim.frozen = self.freeze_slot(claim, claim.length, claim.length, claim.length, self.end_grid)
        copy = (self.slot_cells.pool.name, claim.live, claim.frozen.cell)
        return Frozen(claim.length, ((claim.recurrent, claim.frozen.cell),), claim.table(), phases=(Phase((copy,)),))

    def publish(self, request: str) -> Landing | Refused:
        """Publish whole landed pages, and donate the frozen slot if its pages are there."""
        claim = self.requests[request]
        self.publish_landed(claim)
        return Landing({claim.name: claim.table()})

    def close(self, request: str, keep: bool) -> Landing:
        """End a request, at once or when its last step lands."""
        return self.depart(self.requests[request], keep)

    def preempt(self, request: str) -> Landing:
        """Give up all cells of a request and publish nothing."""
        return self.depart(self.requests[request], keep=False)

    def depart(self, claim: Request, keep: bool) -> Landing:
        """Take a request off the list; what a step in flight may touch is kept until it lands."""
        del self.requests[claim.name]
        self.drop_plan(claim)
        claim.closing, claim.keep = True, keep
        if not claim.in_flight:
            self.finish(claim)
        return Landing({claim.name: claim.table()})

    # The cache as a whole.

    def reset(self) -> ResetDone:
        """Forget everything published; open requests run on and publish nothing more."""
        self.forget_all()
        return ResetDone(True)

    def evict(self, group: str, cells: int) -> Evicted:
        """Evict the least recently used cells of a group, and the snapshots that fall with them."""
        pool = self.pools[self.pools_of_groups[group]]
        given_up: list[Cell] = []
        for _ in range(cells):
            given_up += self.evict_least_recent(pool)
        return Evicted(tuple(given_up))

    def inventory(self) -> dict[Cell, Holding]:
        """Return the ownership state of every cell."""
        return {
            (name, index): Holding(cell.state, self.names.get(cell.owner, ""), cell.endpoint, cell.leases)
            for name, pool in self.pools.items()
            for index, cell in enumerate(pool.occupants)
        }


class ExplicitCache(ReferenceCache):
    """A cache whose steps freeze nothing by themselves: snapshots are asked for, or come from a close."""

    def declare(self) -> Capabilities:
        """Return the capabilities: no freezes inside a step, so that a prompt repeated as it is finds no state."""
        return replace(without_promises(super().declare(), "not-inert"), mid_prefill_freeze=False)

    def freeze_points(self, claim: Request, start: int, stop: int) -> tuple[int, ...]:
        """Return no point: nobody asked."""
        return ()


def make(configuration: Configuration) -> ReferenceCache:
    """Build the reference."""
    return ReferenceCache(configuration)


def make_explicit(configuration: Configuration) -> ExplicitCache:
    """Build the reference that only freezes when asked."""
    return ExplicitCache(configuration)
