"""The production cache at the seam: the index over opaque cells, their pools, and the tensors behind them.

It decides as the reference does, answer for answer. What it is asked wrongly is told before anything changes; a copy
that fails leaves its step planned and its cells where they were.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from milepost.optimized.auditing import Audit, Moment, StrayWrite
from milepost.optimized.contents import ContentIds
from milepost.optimized.declaration import declare, possible_layout
from milepost.optimized.errors import BadInput, UnknownRequest
from milepost.optimized.events import EventWriter
from milepost.optimized.explaining import Explanation, Lookup
from milepost.optimized.index import Match, PrefixIndex
from milepost.optimized.index.packing import TOKEN_BYTES, whole
from milepost.optimized.inventory import account, inventory, verify
from milepost.optimized.keeping import CellKeeper
from milepost.optimized.memory import Memory, Payloads, Shapes
from milepost.optimized.pools import FROZEN, CellPool
from milepost.optimized.requests import Columns, Flight, FrozenSlot, Plan, Request
from milepost.spec.answers import Evicted, Frozen, Grant, Hit, Landing, Launched, Phase, Refused, ResetDone
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.geometry import lies_on
from milepost.spec.payload import Content
from milepost.spec.policies import EvictionPolicy, FreezePolicy
from milepost.spec.seam import Holding
from milepost.spec.words import NULL, Cell, Namespace


class ShortPrompts(UserWarning):
    """Says, when a cache is built, below which length it keeps nothing."""


class PrefixCache(CellKeeper):
    """An adapter at the seam: one full-attention group, with windows, compressed and a recurrent group as configured.

    `listens` keeps events for `take_events()`; `warns` tells the smallest cacheable prefix when it is built. `audit` is
    called with each stray write into a published slot, found by digests at its restores and when it is given back.
    What it raises ends the call: a launch leaves its step planned, others have done their part.
    """

    def __init__(
        self,
        configuration: Configuration,
        shapes: Shapes | None = None,
        freeze: FreezePolicy | None = None,
        eviction: EvictionPolicy | None = None,
        listens: bool = False,
        warns: bool = True,
        audit: Callable[[StrayWrite], None] | None = None,
    ) -> None:
        layout = possible_layout(configuration)
        sizes = {name: configuration.pools[name] for name in dict.fromkeys(group.pool for group in layout.groups)}
        pools = {name: CellPool(name, cells) for name, cells in sizes.items()}
        grid = layout.grid(configuration.chunk_size)
        index = PrefixIndex(
            layout.full.page_size, grid, states=layout.recurrent is not None, ghosts=sizes[layout.full.pool],
            freeze=freeze, eviction=eviction, listened=listens, sides=layout.sides,
        )
        super().__init__(index, layout, pools)
        self.configuration = configuration
        self.contents = ContentIds()
        self.memory = Memory(shapes or Shapes(), layout, sizes)
        self.writer = EventWriter(layout, self.slots, self.memory.medium) if listens else None
        self.flights: list[Flight] = []
        self.audit = Audit(self.memory.state_parts, self.now, self.counts, audit) if audit else None
        self.operations = self.opened = self.steps = 0
        self._payloads: Payloads | None = None
        self._capabilities = declare(configuration, layout, grid)
        if warns:
            text = f"prompts of {grid} tokens and fewer are never reused: the smallest cacheable prefix is {grid + 1}"
            warnings.warn(text, ShortPrompts, stacklevel=2)

    @property
    def capabilities(self) -> Capabilities:
        """What this cache is and can do."""
        return self._capabilities

    def now(self) -> Moment:
        """Return the logical time: how often a verb of the seam was called, and the index's clock."""
        return Moment(self.operations, self.index.tree.clock)

    # Open: look up and lease.

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        """Look up the deepest boundary that both groups can resume at, and lease it."""
        self.operations += 1
        if request in self.requests:
            raise BadInput(f"request '{request}' is open already")
        packed = self.contents.pack(tokens, 0, content)
        if not packed:
            raise BadInput(f"request '{request}' has no tokens")
        if reason := self.objection(len(tokens)):
            return self._refused("open", reason)
        # A resumed request holds its snapshot and its live slot at once.
        try:
            space = tuple(sorted(namespace))
            match = self.index.match(packed, space, cap=None if self.fits(len(tokens), hit=True) else 0)
        except TypeError as error:
            raise BadInput(f"a namespace is pairs of words: {error}") from None
        claim = self._enrol(request, packed, content, match)
        self.counts.found(claim.lookup)
        return Hit(match.length, claim.table())

    def _enrol(self, name: str, packed: bytes, content: Mapping[int, str], match: Match) -> Request:
        """Lease what a match offers, and register the request that has it."""
        lookup = Lookup(
            len(packed) // TOKEN_BYTES, match.length, match.kv_length, match.branch, match.reasons,
            match.offers if self.layout.sides else {}, match.cuts, self.group_names,
        )
        sides = {}
        for group in self.layout.sides:
            part = match.side(group.name)
            sides[group.name] = Columns([NULL] * part.first + part.cells.tolist(), part.first)
        lease = self.index.lease(match)
        self.opened += 1
        claim = Request(
            name, self.opened, self.layout, lease, bytearray(packed), dict(content), lookup, match.cells.tolist(), sides
        )
        self.requests[name], self.names[claim.serial] = claim, name
        claim.last_content = max(content, default=-1)
        claim.length = claim.landed = match.length
        claim.source = match.state if isinstance(match.state, int) else NULL
        return claim

    def objection(self, tokens: int) -> str:
        """Return why a prompt is not admitted, '' where it is."""
        if len(self.requests) >= self.configuration.max_live:
            return "too-many-requests"
        return "" if self.fits(tokens, hit=False) else "prompt-too-long"

    def _refused(self, verb: str, reason: str, claim: Request | None = None, text: str = "") -> Refused:
        self.counts.refused[verb, reason] += 1
        return Refused(reason, text, tables={claim.name: claim.table()} if claim else {})

    def request(self, name: str) -> Request:
        """Return an open request; UnknownRequest where there is none of that name."""
        claim = self.requests.get(name)
        if claim is None:
            raise UnknownRequest(f"request '{name}' is not open")
        return claim

    # Steps: plan, launch, land.

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        """Plan tokens [length, to): pages, the live slot at first, a frozen slot and drafts where they can be had."""
        self.operations += 1
        claim = self.request(request)
        if not whole(to, draft):
            raise BadInput(f"an extend is to a whole number of tokens, and of drafts, not to {to!r} and {draft!r}")
        if claim.planned or to <= claim.length:
            return self._refused("extend", "no-progress")
        if claim.drafted:
            return self._refused("extend", "in-flight", text="how many draft tokens stand is not known yet")
        plan = Plan(claim.length, self.reach(claim, to))
        if plan.stop <= claim.length:
            return self._refused("extend", "no-page")
        if reason := self.shortage(self.missing_pages(claim, plan.stop), int(claim.live == NULL)):
            return self._refused("extend", reason)
        self.grant(claim, plan, min(draft, self.configuration.speculates))
        claim.planned = plan
        self.planned.append(claim)
        frozen = ((self.state, plan.frozen.cell, plan.frozen.position),) if plan.frozen else ()
        initial_state: dict[str, int | None] = {self.state: claim.live} if self.state else {}
        return Grant(plan.stop, claim.table(), frozen, initial_state, draft=plan.draft)

    def launch(self) -> Launched:
        """Start all planned extends as one step, after one phase that zeroes and restores fresh live slots."""
        self.operations += 1
        phases = self.first_phases(self.planned)
        if self.audit:
            self.audit.restore([(one.source, one.name) for one in self.planned if one.restores])
        for phase in phases:
            self.memory.run(phase, self.slots.name)
        self.steps += 1
        flight = Flight(self.steps)
        for claim in self.planned:
            assert claim.planned
            flight.spans.append((claim, claim.planned.start, claim.planned.stop))
            if claim.planned.draft:
                flight.drafting.add(claim.serial)
            claim.starts.append(claim.planned.start)
            claim.length, claim.planned, claim.live_is_set = claim.planned.stop, None, True
        self.planned.clear()
        self.flights.append(flight)
        return Launched(flight.step, phases)

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        """Count a step's tokens as computed, end its restores, and finish the requests that were waiting for it."""
        self.operations += 1
        flight = next((flight for flight in self.flights if flight.step == step), None)
        if flight is None:
            raise UnknownRequest(f"step {step} is not in flight")
        self._must_be_possible(flight, accepted)
        packed = [
            self.contents.pack(sampled.get(claim.name, ()), len(claim.tokens) // TOKEN_BYTES, claim.later_content)
            for claim, _, _ in flight.spans
        ]
        self.flights.remove(flight)
        failures = []
        for (claim, start, stop), tokens in zip(flight.spans, packed, strict=True):
            self._learn(claim, tokens, sampled.get(claim.name, ()))
            taken = accepted.get(claim.name, 0) if claim.serial in flight.drafting else None
            try:
                self._land_request(claim, start, stop, taken)
            except Exception as error:  # the others of the step have landed all the same
                failures.append(error)
        if failures:
            raise failures[0]
        return Landing({claim.name: claim.table() for claim, _, _ in flight.spans})

    def _must_be_possible(self, flight: Flight, accepted: Mapping[str, int]) -> None:
        """Raise BadInput where a landing cannot be: before an earlier one, or with more drafts than there are."""
        if not isinstance(accepted, Mapping):
            raise BadInput(f"accepted drafts are counted by request, not {accepted!r}")
        for claim, start, _ in flight.spans:
            if start > min(claim.starts):
                raise BadInput(f"step {flight.step} of request '{claim.name}' cannot land before its earlier step")
            taken = accepted.get(claim.name, 0)
            if claim.serial in flight.drafting and not (whole(taken) and 0 <= taken <= claim.drafted):
                raise BadInput(f"request '{claim.name}' has {claim.drafted} drafts, and {taken!r} of them are accepted")

    def _learn(self, claim: Request, packed: bytes, said: tuple[int, ...]) -> None:
        """Append what the model said, and note where the first call of a tool begins."""
        if said and not claim.anchor and self.configuration.anchor in said:
            claim.anchor = len(claim.tokens) // TOKEN_BYTES + said.index(self.configuration.anchor) + 1
        claim.tokens += packed

    def _land_request(self, claim: Request, start: int, stop: int, taken: int | None) -> None:
        """Record one request's landed tokens; `taken` draft tokens stand, None where it did not speculate."""
        claim.starts.remove(start)
        claim.landed = stop
        if self.state:
            self.slots.advance(claim.live, claim.serial, stop)
        try:
            self.end_restore(claim)
        finally:
            if taken is not None:
                self.settle_drafts(claim, taken)
            if claim.closing and not claim.in_flight:
                self.finish(claim)
        if self.layout.windows and not claim.closing:
            self.slide_out(claim)

    # Snapshots, publishing, and the end of a request.

    def freeze(self, request: str) -> Frozen | Refused:
        """Copy the live slot into a frozen one at the request's current length.

        A copy that fails costs the frozen slot that it was to overwrite, if there was one, and nothing else.
        """
        self.operations += 1
        claim = self.request(request)
        if claim.in_flight or claim.planned:
            return self._refused("freeze", "in-flight")
        if claim.live == NULL or (claim.frozen and claim.frozen.position == claim.length):
            return self._refused("freeze", "nothing-to-freeze")
        if not lies_on(self.grid, claim.length):
            return self._refused("freeze", "unaligned")
        if not claim.frozen and not self.make_room(self.slots, 1):
            return self._refused("freeze", "no-slot", claim)
        phase = self._copy_live(claim)
        self.counts.freezes += 1
        assert claim.frozen
        return Frozen(claim.length, ((self.state, claim.frozen.cell),), claim.table(), phases=(phase,))

    def _copy_live(self, claim: Request) -> Phase:
        """Copy the live slot into the frozen one, a fresh one where there is none."""
        if claim.frozen is None:
            claim.frozen = FrozenSlot(claim.length, self.slots.take(claim.serial, FROZEN, claim.length))
        phase = Phase(((self.slots.name, claim.live, claim.frozen.cell),))
        try:
            self.memory.run(phase, self.slots.name)
        except BaseException:
            self.return_frozen(claim)
            raise
        claim.frozen.position = claim.length
        self.slots.advance(claim.frozen.cell, claim.serial, claim.length)
        return phase

    def publish(self, request: str) -> Landing | Refused:
        """Publish whole landed pages, and donate the frozen slot if its pages are there."""
        self.operations += 1
        claim = self.request(request)
        self.publish_landed(claim)
        return Landing({claim.name: claim.table()})

    def close(self, request: str, keep: bool) -> Landing:
        """End a request, at once or when its last step lands."""
        self.operations += 1
        return self._depart(self.request(request), keep)

    def preempt(self, request: str) -> Landing:
        """Give up all cells of a request and publish nothing."""
        self.operations += 1
        return self._depart(self.request(request), keep=False)

    def _depart(self, claim: Request, keep: bool) -> Landing:
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
        self.operations += 1
        given_up = self.index.reset()
        self.tell()
        self.counts.resets += 1
        if not self.names:
            self.contents.forget()
        self.take_back(given_up)
        return ResetDone(True)

    def evict(self, group: str, cells: int) -> Evicted:
        """Evict the cells of a group's pool that the policy puts first, and what falls with them."""
        self.operations += 1
        if group not in self.group_pools or not whole(cells) or cells < 0:
            groups = " and ".join(self.group_pools)
            raise BadInput(f"cannot evict {cells} cells of group '{group}': groups are {groups}")
        given_up: list[Cell] = []
        for _ in range(cells):
            gone = self.evict_one(self.group_pools[group])
            if not gone:
                break
            given_up += gone
        return Evicted(tuple(given_up))

    def inventory(self) -> dict[Cell, Holding]:
        """Return the ownership state of every cell."""
        return inventory(self)

    def account(self) -> dict[str, dict[str, int]]:
        """Return cells by pool and by `free`, `private`, `evictable`, `protected`, each counted in O(1)."""
        return account(self)

    def explain(self, request: str) -> Explanation:
        """Return what each group could have offered an open request, which one cut its hit, and what that cost."""
        return self.request(request).lookup.explain()

    def take_events(self) -> list[dict[str, Any]]:
        """Return the KV events since the last call, of a cache built with `listens=True`; take them at each step."""
        return self.writer.take() if self.writer else []

    def check(self) -> None:
        """Verify all books against each other; CacheError or the index's Broken says which do not agree."""
        verify(self)

    # Memory, as the harness reaches it.

    def read(self, cell: Cell, group: str) -> Content:
        """Return the payload in a cell's memory."""
        payloads = self._written()
        return payloads.read_slot(cell[1]) if group == self.state else payloads.read_page(group, cell[1])

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write a payload into a cell's memory as the model's forward would."""
        payloads = self._written()
        if isinstance(content, tuple):
            payloads.write_page(group, cell[1], content)
        elif content is not None:
            payloads.write_slot(cell[1], content)

    def _written(self) -> Payloads:
        if self._payloads is None:
            self._payloads = Payloads(self.memory)
        return self._payloads


def make(configuration: Configuration) -> PrefixCache:
    """Build the cache with small tensors on the CPU, for the kit."""
    return PrefixCache(configuration, warns=False)
