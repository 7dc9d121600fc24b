"""Illegal edits of what the cache and its index do with windows, compressed groups and drafts."""

from __future__ import annotations

from milepost.optimized.cache import PrefixCache
from milepost.optimized.index.chains import Chain
from milepost.optimized.index.index import PrefixIndex
from milepost.optimized.index.pages import PageBook
from milepost.optimized.index.tree import Tree
from milepost.optimized.index.windows import Window
from milepost.optimized.keeping import CellKeeper
from milepost.optimized.room import RoomKeeper
from milepost.optimized.sliding import SideKeeper

from .index_edits import Edit

WINDOW, COMPRESSED = "hybrid-window", "hybrid-compressed"

KEPT = "first_column(group, claim.landed)"
LAUNCHED = "claim.length, claim.planned, claim.live_is_set = claim.planned.stop, None, True"
ACCEPTED = "if column == taken"
WHOLE = "if end == stop and begin <= first:"

MUTANT_EDITS = (
    Edit("slid-out-pages-are-published", SideKeeper, SideKeeper._give_up_columns,
         "side.cells[column] = NULL", "pass", WINDOW),
    Edit("window-slides-on-the-optimistic-length", SideKeeper, SideKeeper.slide_out,
         KEPT, "min(len(side.cells), first_column(group, claim.landed + self.configuration.speculates))", WINDOW),
    Edit("window-slides-at-launch", PrefixCache, PrefixCache.launch, LAUNCHED,
         f"{LAUNCHED}; was = claim.landed; claim.landed = claim.length; self.slide_out(claim); claim.landed = was",
         WINDOW),
    Edit("last-window-page-is-emptied", SideKeeper, SideKeeper.slide_out,
         KEPT, "claim.landed // group.page_size", WINDOW),
    Edit("window-is-counted-in-entries", SideKeeper, SideKeeper.slide_out, KEPT,
         "max(0, columns_for(group.page_size, claim.landed) - columns_for(max(self.page_size, group.page_size), "
         "group.window - 1))", WINDOW),
    Edit("window-vetoes-the-kv", CellKeeper, CellKeeper.publish_landed, "if stop > claim.lease.length or due:",
         "if (stop > claim.lease.length or due) and not any(side.first for side in claim.sides.values()):", WINDOW),
    Edit("slid-out-page-is-lost", SideKeeper, SideKeeper._give_up_columns,
         "pool.give_back(side.cells[column], claim.serial)", "pass", WINDOW),
    Edit("only-the-last-window-page-is-locked", Window, Window.lease,
         "leased[mark.end - 1] = mark",
         "leased[mark.end - 1] = mark\n"
         "        if mark.end < length // self.page_size:\n"
         "            self.release_column(lease, mark.end - 1)", WINDOW),
    Edit("window-takes-the-kv-along", Window, Window.evict_first, "else self._evict(mark)",
         "else self._evict(mark) + self.tree.evict_first_page()", WINDOW),
    Edit("fresh-ring-after-a-hit", Window, Window.deepest, WHOLE, "if end == stop or not end:", COMPRESSED),
    Edit("rejected-drafts-stay-in-the-state", CellKeeper, CellKeeper.settle_drafts,
         ACCEPTED, "if column == len(drafts)", WINDOW),
    Edit("accepted-column-is-off-by-one", CellKeeper, CellKeeper.settle_drafts,
         ACCEPTED, "if column == taken + 1", WINDOW),
    Edit("draft-columns-run-out", RoomKeeper, RoomKeeper._speculate,
         "self.shortage(missing, 1)", "self.shortage(missing, 0)", WINDOW),
    Edit("restored-state-cannot-roll-back", CellKeeper, CellKeeper.settle_drafts,
         ACCEPTED, "if column == taken and not claim.lookup.hit", WINDOW),
    Edit("accepted-drafts-are-not-replayed", CellKeeper, CellKeeper.settle_drafts, "claim.live = slot", "pass", WINDOW),
    Edit("padding-enters-the-state", PrefixCache, PrefixCache._land_request,
         "self.slots.advance(claim.live, claim.serial, stop)",
         "self.slots.advance(claim.live, claim.serial, stop + claim.drafted)", WINDOW),
    Edit("rejected-token-is-published", CellKeeper, CellKeeper.settle_drafts,
         "claim.landed += taken", "claim.landed += len(drafts)", WINDOW),
    Edit("boundary-inside-the-draft-is-kept", RoomKeeper, RoomKeeper.frozen_for,
         "plan.start, plan.stop)\n", "plan.start, plan.stop + 2)\n", WINDOW),
    Edit("hit-ignores-the-window", Window, Window.deepest, WHOLE, "if True:", WINDOW),
    Edit("window-may-have-a-hole", Window, Window.deepest, WHOLE, "if end == stop:", WINDOW),
    Edit("compressed-is-taken-for-granted", Chain, Chain.deepest, "n if n <= reach", "n if True",
         COMPRESSED),
    Edit("groups-end-at-their-own-pages", Chain, Chain.hit_cells,
         "length // self.page_size)", "length // self.page_size - 1)", COMPRESSED),
    Edit("state-is-filed-where-the-window-is", PrefixIndex, PrefixIndex._donate,
         "offer, n // self.page_size", "offer, max(n - self.grid, self.grid) // self.page_size", WINDOW),
    Edit("room-is-made-before-the-lease", PrefixCache, PrefixCache._enrol, "lease = self.index.lease(match)",
         "gone = [self.evict_one(self.pools[group.pool]) for group in self.layout.windows if match.end]\n"
         "    lease = self.index.lease(match)", WINDOW),
    Edit("window-tail-is-freed-first", Window, Window.evict_first, "self.queue.first()",
         "max((mark for runs in self.queue.runs.values() for _, mark in runs), default=None, "
         "key=lambda mark: mark.end)", WINDOW),
)  # fmt: skip
"""The reference's mutants of these groups, by the names that they have there."""

OWN_EDITS = (
    Edit("a window's hit is not made recent", Window, Window.lease, "mark.stamp = self.tree.tick()", "pass", WINDOW),
    Edit("a compressed hit is not made recent", Chain, Chain.lease, "= self.tree.tick()", "+= 0", COMPRESSED),
    Edit("a claimed window page stays evictable", Window, Window.claim,
         "self.queue.place(mark, self.rank, 0)", "pass", WINDOW),
    Edit("a released window page is never evicted", Window, Window.release_column,
         "self.queue.place(mark, self.rank, mark.stamp)", "pass", WINDOW),
    Edit("a forgotten window page is lost", Window, Window.release_column, "return [(self.name, mark.cell)]",
         "return []", WINDOW),
    Edit("what hangs on an evicted page stays", Tree, Tree.evict_page, "given_up += side.drop(edge, end)", "pass",
         WINDOW),
    Edit("a split forgets the upper window pages", Window, Window.divide,
         "upper.windows[self.number][:] = marks[:below]", "pass", WINDOW),
    Edit("a split leaves compressed pages below", Chain, Chain.divide, "self.columns(lower.start)",
         "self.columns(upper.start)", COMPRESSED),
    Edit("a compressed lease stays where it was", Chain, Chain._move,
         "self.leave(holder(old, before), before)", "pass", COMPRESSED),
    Edit("compressed pages below are not counted", PageBook, PageBook.put, "while not live and", "while False and",
         COMPRESSED),
    Edit("a reset frees leased compressed pages", Chain, Chain.forget, "strip.cells[strip.protected :]", "strip.cells",
         COMPRESSED),
    Edit("a pool that groups share has one order for each", PrefixIndex, PrefixIndex.evict_one_of,
         "min(orders)[1]", "orders[0][1]", COMPRESSED),
    Edit("a step is longer than its window's pool", RoomKeeper, RoomKeeper.reach,
         "first_column(group, claim.length) + self", "1 + first_column(group, claim.length) + self", WINDOW),
    Edit("a tool call's opener is not noted", PrefixCache, PrefixCache._learn, "claim.anchor =", "anchor =", WINDOW),
    Edit("nothing is retained", SideKeeper, SideKeeper._retained_points, "return tuple(", "return () and tuple(",
         WINDOW),
    Edit("pages behind a rejected draft are kept", CellKeeper, CellKeeper.settle_drafts,
         "self.trim(claim, claim.length)", "pass", WINDOW),
    Edit("drafts of a dropped plan are lost", CellKeeper, CellKeeper.drop_plan, "self.return_drafts(claim)",
         "claim.drafts = []", WINDOW),
)  # fmt: skip

IN_THE_INDEX = {"cuts-are-not-reconciled": "groups are not asked again after another has cut"}
"""The mutant that chance seldom kills in lockstep, and the edit that the index's own walks notice."""

NO_PLACE = {
    "every-group-slides": "full columns are given up from the end only: no code takes one out of the midst",
    "hit-ends-inside-a-compressed-page": "an index whose grid is no multiple of a group's page is not built",
    "preempted-request-keeps-its-window": "a request that is resumed is a new one here, which knows no earlier pages",
    "scratch-column-is-donated": "drafts are settled at their landing, and a request is finished only after it",
}
"""Mutants that cannot be made again, and why."""
