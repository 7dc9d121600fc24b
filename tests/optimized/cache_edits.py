"""The mutants of the reference, made again in the source of the production cache, by the names that they have there."""

from __future__ import annotations

from milepost.optimized import inventory
from milepost.optimized.cache import PrefixCache
from milepost.optimized.contents import ContentIds
from milepost.optimized.index.index import PrefixIndex
from milepost.optimized.index.leases import Lease
from milepost.optimized.keeping import CellKeeper
from milepost.optimized.memory import Memory

from .index_edits import Edit

ZEROS = "zeros = tuple((pool, claim.live) for claim in fresh if claim.source == NULL)"
PHASE = "Phase(copies, zeros)"
NO_ROOM = 'return self._refused("extend", reason)'
FROZEN_TOLD = "plan.frozen.position)"
PLANNED = "self.planned.append(claim)"
COMPUTED = "claim.length, claim.planned, claim.live_is_set = claim.planned.stop, None, True"
RELEASED = "self.take_back(self.index.release(claim.lease))"
DONATED = "self.slots.publish(states[position], claim.serial)"
PHASES = "phases = self.first_phases(self.planned)"

CACHE_EDITS = (
    Edit("hit-counts-attention-only", PrefixCache, PrefixCache._enrol,
         "claim.source = match.state if isinstance(match.state, int) else NULL", "claim.source = NULL"),
    Edit("kernel-is-told-there-is-no-state", PrefixCache, PrefixCache.extend,
         "{self.state: claim.live}", "{self.state: None}"),
    Edit("slot-index-is-truncated", PrefixCache, PrefixCache.extend, "{self.state: claim.live}",
         "{self.state: claim.live % 4}"),
    Edit("restore-lands-in-the-neighbour", CellKeeper, CellKeeper.first_phases, PHASE,
         "Phase(tuple((pool, source, target ^ 1) for pool, source, target in copies), zeros)"),
    Edit("hit-loses-its-last-column", PrefixCache, PrefixCache._enrol,
         "match.cells.tolist()", "match.cells.tolist()[:-1]"),
    Edit("restore-zeroes-instead", CellKeeper, CellKeeper.first_phases, ZEROS,
         "zeros, copies = tuple((pool, claim.live) for claim in fresh), ()"),
    Edit("restore-without-copy", CellKeeper, CellKeeper.first_phases, PHASE, "Phase((), zeros)"),
    Edit("cold-slot-is-not-zeroed", CellKeeper, CellKeeper.first_phases, PHASE, "Phase(copies, ())"),
    Edit("only-the-first-of-a-batch-is-zeroed", CellKeeper, CellKeeper.first_phases, PHASE, "Phase(copies, zeros[:1])"),
    Edit("batch-rows-are-shifted", PrefixCache, PrefixCache.extend,
         "{self.state: claim.live}", "{self.state: self.planned[-2:][0].live}"),
    Edit("freeze-without-copy", PrefixCache, PrefixCache.freeze, "phases=(phase,)", "phases=()"),
    Edit("snapshot-is-used-as-live", CellKeeper, CellKeeper.grant, "self.slots.take(claim.serial, LIVE, endpoint)",
         "claim.source if claim.source != NULL else self.slots.take(claim.serial, LIVE, endpoint)"),
    Edit("freeze-hands-out-the-live-slot", PrefixCache, PrefixCache._copy_live,
         "self.slots.take(claim.serial, FROZEN, claim.length)", "claim.live"),
    Edit("batch-shares-one-live-slot", CellKeeper, CellKeeper.grant, "self.slots.take(claim.serial, LIVE, endpoint)",
         "self.planned[0].live if self.planned else self.slots.take(claim.serial, LIVE, endpoint)"),
    Edit("retraction-keeps-only-the-kv", PrefixCache, PrefixCache.preempt, "keep=False", "keep=True"),
    Edit("salt-and-adapter-share-a-key", PrefixCache, PrefixCache.open,
         "tuple(sorted(namespace))", "tuple(sorted(value for _, value in namespace))"),
    Edit("namespace-is-left-out", PrefixCache, PrefixCache.open, "tuple(sorted(namespace))", "()"),
    Edit("images-share-their-placeholder", ContentIds, ContentIds.pack, "if content else ()", "if False else ()"),
    Edit("rolling-hash-collides", ContentIds, ContentIds.pack,
         "return numbers.tobytes()", "return array('i', [31 * number % 2 for number in numbers]).tobytes()"),
    Edit("reset-keeps-the-pages", PrefixCache, PrefixCache.reset,
         "self.index.reset()", "self.index.evict({'recurrent': 1 << 20})"),
    Edit("reset-is-answered-and-not-done", PrefixCache, PrefixCache.reset,
         "self.index.reset()", "[] if self.names else self.index.reset()"),
    Edit("old-request-publishes-after-reset", Lease, vars(Lease)["stale"].fget,
         "self.epoch != self.index.epoch", "False"),
    Edit("late-freeze-labelled-early", PrefixCache, PrefixCache.extend, FROZEN_TOLD, "plan.stop)"),
    Edit("early-freeze-labelled-late", PrefixCache, PrefixCache.extend, FROZEN_TOLD, "plan.start)"),
    Edit("final-state-is-floored", CellKeeper, CellKeeper.donate_final,
         "if not lies_on(self.grid, length):\n        self.skip(Skipped.UNALIGNED)\n"
         "    elif self.slots.endpoints[claim.live] == length:",
         "length = floor_to(self.grid, length)\n    if length:"),
    Edit("chunk-end-is-kept-under-the-grid", PrefixCache, PrefixCache.freeze,
         "if not lies_on(self.grid, claim.length):", "if False:"),
    Edit("ping-pong-slot-outlives-donation", CellKeeper, CellKeeper._publish_full,
         "claim.frozen = None", "claim.frozen = claim.frozen if published.donated else None"),
    Edit("kernel-writes-through-the-initial-pointer", PrefixCache, PrefixCache.extend,
         "if plan.frozen else ()",
         "if plan.frozen else ((self.state, claim.source, plan.stop),) if claim.source >= 0 else ()"),
    Edit("freezes-off-the-grid", CellKeeper, CellKeeper.frozen_for, "point = points[-1]", "point = points[-1] - 1"),
    Edit("hits-off-the-grid", PrefixIndex, PrefixIndex.__init__, "page_size if grid is None else grid", "page_size"),
    Edit("grid-is-larger-than-declared", PrefixIndex, PrefixIndex.__init__, "else grid", "else 2 * grid"),
    Edit("published-at-launch", PrefixCache, PrefixCache.launch, COMPUTED,
         f"{COMPUTED}; claim.landed = claim.length; self.publish_landed(claim)"),
    Edit("published-at-plan", PrefixCache, PrefixCache.extend, PLANNED,
         f"{PLANNED}; was = claim.landed; claim.landed = plan.stop; self.publish_landed(claim); claim.landed = was"),
    Edit("aborted-plan-stays-published", CellKeeper, CellKeeper.drop_plan, "self.planned.remove(claim)",
         "self.planned.remove(claim); claim.landed = plan.stop; self.publish_landed(claim)"),
    Edit("restore-overtakes-the-queue", CellKeeper, CellKeeper.first_phases, PHASE, 'Phase(copies, zeros, at="now")'),
    Edit("freed-while-in-flight", PrefixCache, PrefixCache._depart, "if not claim.in_flight:", "if True:"),
    Edit("frozen-slot-is-freed-twice", CellKeeper, CellKeeper._publish_full, "claim.frozen = None", "pass"),
    Edit("duplicate-is-freed-but-not-repointed", CellKeeper, CellKeeper.offer,
         "claim.columns[column] = int(published.repointed[column])", "pass"),
    Edit("twins-leave-a-slot-behind", CellKeeper, CellKeeper._publish_full,
         "self.slots.give_back(frozen.cell, claim.serial)", "pass"),
    Edit("donated-slot-is-freed-too", CellKeeper, CellKeeper.offer, DONATED,
         f"{DONATED}; self.slots.free.append(states[position])"),
    Edit("freed-slots-are-cleared-late", PrefixCache, PrefixCache.launch, PHASES,
         f"{PHASES} + (Phase(zeros=tuple(('state', one) for one in self.slots.free[-1:])),)"),
    Edit("aborted-hit-keeps-its-lease", CellKeeper, CellKeeper.give_up, RELEASED,
         f"claim.landed == claim.lookup.hit or {RELEASED}"),
    Edit("refused-extend-loses-its-slot", PrefixCache, PrefixCache.extend, NO_ROOM,
         'return (self.slots.free and self.slots.take(claim.serial, "live"), self._refused("extend", reason))[1]'),
    Edit("frozen-slot-is-lost-at-close", CellKeeper, CellKeeper.give_up,
         "self.return_frozen(claim)", "claim.frozen = None"),
    Edit("superseded-freeze-is-lost", CellKeeper, CellKeeper.frozen_for,
         "if claim.frozen:  # superseded", "if not self.slots.free:  # superseded"),
    Edit("unfinished-page-is-lost", CellKeeper, CellKeeper.return_columns,
         "self.pages.give_back(claim.columns.pop(), claim.serial)",
         "cell = claim.columns.pop()\n        if (len(claim.columns) + 1) * self.page_size <= claim.length:\n"
         "            self.pages.give_back(cell, claim.serial)"),
    Edit("duplicate-page-is-lost", CellKeeper, CellKeeper.offer,
         "self.pages.give_back(claim.columns[column], claim.serial)", "pass"),
    Edit("reset-loses-what-is-read", CellKeeper, CellKeeper.give_up, RELEASED, "self.index.release(claim.lease)"),
    Edit("evicted-snapshot-is-not-reclaimed", CellKeeper, CellKeeper.evict_one,
         "self.index.evict_one_of(self.sharing[pool.name])", "self.index.evict_one_of(self.sharing[pool.name])[:1]"),
    Edit("frozen-slots-are-not-counted", None, inventory.account,
         "pool.private,", 'pool.private - pool.states.count("frozen"),'),
    Edit("snapshot-not-protected", PrefixCache, PrefixCache._enrol,
         "lease = self.index.lease(match)", "lease = self.index.lease(match); self.index.release_state(lease)"),
    Edit("protection-ends-at-plan", PrefixCache, PrefixCache.extend,
         "claim.planned = plan", "claim.planned = plan; self.index.release_state(claim.lease)"),
    Edit("lease-is-released-twice", CellKeeper, CellKeeper.give_up,
         "self.index.release(claim.lease)", "self.index.release(claim.lease) + self.index.release(claim.lease)"),
    Edit("match-is-pinned-forever", PrefixCache, PrefixCache._enrol,
         "lease = self.index.lease(match)", "lease = (self.index.lease(match), self.index.lease(match))[1]"),
    Edit("published-page-stays-private", CellKeeper, CellKeeper.offer,
         "self.pages.publish(claim.columns[column], claim.serial, (column + 1) * self.page_size)", "pass"),
    Edit("optional-freeze-must-have-a-slot", CellKeeper, CellKeeper._obstacle,
         'return "" if self.make_room(self.slots, 1) else Skipped.NO_SLOT', 'return ""'),
    Edit("refused-extend-gives-back-the-live-slot", PrefixCache, PrefixCache.extend, NO_ROOM,
         'return (claim.in_flight or self.return_live(claim), self._refused("extend", reason))[1]'),
    Edit("nothing-is-evicted-for-a-plan", CellKeeper, CellKeeper.make_room, "if not self.evict_one(pool):", "if True:"),
    Edit("states-only-at-the-very-end", CellKeeper, CellKeeper.frozen_for, "if not points:", "if True:"),
)  # fmt: skip
"""Edits that answers, inventories or counts show."""

OWN_EDITS = (
    Edit("landed tokens are not remembered", PrefixCache, PrefixCache._learn, "claim.tokens += packed", "pass"),
    Edit("the live slot does not advance", PrefixCache, PrefixCache._land_request,
         "self.slots.advance(claim.live, claim.serial, stop)", "pass"),
    Edit("a restore never ends", PrefixCache, PrefixCache._land_request, "self.end_restore(claim)", "pass"),
    Edit("a dropped plan keeps its pages", CellKeeper, CellKeeper.drop_plan,
         "self.trim(claim, plan.start)", "pass"),
    Edit("a taken snapshot is frozen again", CellKeeper, CellKeeper._obstacle,
         "return Skipped.ALREADY_STORED", "pass"),
    Edit("a frozen slot is overwritten in flight", CellKeeper, CellKeeper._obstacle,
         "if claim.frozen.position > claim.landed", "if False"),
)  # fmt: skip
"""Edits of what the reference does in other ways."""

MEMORY_EDITS = (
    Edit("a copy is told and not done", Memory, Memory.run, "if pairs:", "if False:"),
    Edit("a zeroing is told and not done", Memory, Memory.run, "if zeros:", "if False:"),
    Edit("a copy forgets the convolution", Memory, Memory.run, "copy_slots(self.state_parts,",
         "copy_slots(self.state_parts[:1],"),
    Edit("a copy goes the other way", Memory, Memory.run,
         "[source for source, _ in pairs], [target for _, target in pairs]",
         "[target for _, target in pairs], [source for source, _ in pairs]"),
)  # fmt: skip
"""Edits that only memory shows."""

IN_THE_INDEX = {
    "state-outlives-kv": "a snapshot outlives its page",
    "kv-outlives-state": "a hit ends at any snapshot's edge",
    "split-moves-snapshot": "a split forgets the upper snapshots",
    "evicts-a-parent-first": "a page with successors can be evicted",
    "hit-covers-the-whole-prompt": "the last token may be hit",
    "evictable-size-drifts": "protected pages stay evictable in the counts",
    "hit-not-locked": "a lease protects one page too few",
    "lock-skips-the-matched-node": "a lease protects one page too few",
    "only-the-node-is-locked": "a lease is not counted above",
    "eviction-ignores-leases": "a leased tip can be evicted",
    "evict-verb-ignores-protection": "a claimed snapshot can be evicted",
    "asked-eviction-overlooks-the-plan": "a claimed snapshot can be evicted",
    "full-pools-forget-who-waits": "a leased tip can be evicted",
    "reset-frees-what-is-read": "a reset frees what is leased",
    "wall-clock-lru": "the most recently used goes first",
}
"""Mutants whose place is the index, and the edit there that makes the same mistake."""

NO_PLACE = {
    "key-forgets-what-came-before": "nothing has a key: pages are found by comparing tokens along a path from the root",
    "resumed-request-keeps-its-slot-number": "a request that is resumed is a new one here, which knows no earlier slot",
    "row-is-kept-over-a-suspension": "a request that is resumed is a new one here, which knows no earlier slot",
    "saved-after-it-was-freed": "nothing of a preempted request is saved",
    "ghost-of-length-zero": "no mark can stand at the root: a state at 0 is refused as a length",
    "release-after-reset-fails": "a lease has its place and looks nothing up",
    "forgotten-pages-are-freed-by-name": "a lease has its place and looks nothing up",
    "forgotten-request-donates": "the same edit as old-request-publishes-after-reset: one publish carries both",
    "freeze-takes-the-snapshot-of-its-start": "a pool grants what lies on its free list, and nothing else",
    "eviction-spins": "a hang has no second answer to compare; the kit's watchdog is for that",
    "refused-extend-gives-back-the-hit": "leases are given back as a whole, by the index, at the end",
    "hash-order-decides-eviction": "nothing here is ordered by a hash",
    "boundaries-are-promised-only": "the same edit as hits-off-the-grid: this cache has one grid",
}
"""Mutants that cannot be made again, and why."""
