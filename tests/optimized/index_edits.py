"""Illegal edits of the index, one line of its source each: every one has to be noticed."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from milepost.optimized.index import matching, publishing
from milepost.optimized.index.comparing import common_pages
from milepost.optimized.index.edge import Edge, Run
from milepost.optimized.index.index import PrefixIndex
from milepost.optimized.index.ledger import Ledger
from milepost.optimized.index.tree import Tree
from milepost.optimized.index.victims import Runs, VictimQueue


@dataclass(frozen=True)
class Edit:
    """In the source of `function` (of a class, or a plain one), `old` becomes `new`."""

    name: str
    owner: type | None
    function: Callable[..., Any]
    old: str
    new: str
    profile: str = ""
    """The kit's profile whose groups show it, '' for full KV and states."""

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Put the edited function wherever the original can be found."""
        function = self.function
        source = textwrap.dedent(inspect.getsource(function))
        assert self.old in source, f"{self.name}: '{self.old}' is not in {function.__qualname__}"
        scope: dict[str, Any] = {}
        exec(source.replace(self.old, self.new), function.__globals__, scope)
        edited = scope[function.__name__]
        if self.owner is not None:
            patch.setattr(self.owner, function.__name__, edited)
            return
        for name, module in list(sys.modules.items()):
            if name.startswith("milepost.optimized") and getattr(module, function.__name__, None) is function:
                patch.setattr(module, function.__name__, edited)


EDITS = (
    # Finding.
    Edit("the cap is ignored", None, matching.look_up, "match.cap > top", "True"),
    Edit("the last token may be hit", None, matching.look_up, "// TOKEN_BYTES - 1", "// TOKEN_BYTES"),
    Edit("ghosts are offered as real", None, matching.look_up,
         "real = min(known, path[live].live_end)", "real = min(known, 99)"),
    Edit("the branch point ignores ghosts", None, matching.look_up,
         "min(match.known_length, last)", "min(match.kv_length, last)"),
    Edit("the branch point is the hit", None, matching.look_up,
         "point if point > match.length", "match.length if point > match.length"),
    Edit("the branch point is off the grid", None, matching.look_up, "point -= point % grid", "pass"),
    Edit("a hit ends at any snapshot's edge", None, matching._resume,
         "match.snapshot.end if", "path[live].live_end if"),
    Edit("namespaces are one", None, matching._walk, "tree.roots.get(match.namespace)", "tree.roots.get(())"),
    Edit("pages that differ a little are the same", None, common_pages,
         "return (same + int((left != right).argmax())) // page_bytes",
         "return -(-(same + int((left != right).argmax())) // page_bytes)"),
    Edit("a match is true for ever", None, matching.still_true, "edge.version > generation", "False"),
    Edit("a match misses a new branch", None, matching.still_true,
         "and match.tokens[at : at + size] not in last.children", ""),
    Edit("a state is looked for anywhere", None, matching.seek, "< pages", "< 0"),
    Edit("marks are found one too deep", Edge, Edge.deepest_snapshot,
         "below = bisect_right(self.marks, end, key=END)",
         "below = min(len(self.marks), bisect_right(self.marks, end, key=END) + 1)"),
    # Leases.
    Edit("a lease is not counted above", Ledger, Ledger.stand, "while not leased", "while False"),
    Edit("a release is not counted above", Ledger, Ledger.leave, "while not leased", "while False"),
    Edit("a lease protects one page too few", Ledger, Ledger.stand,
         "self.protect(run, end - run.start)", "self.protect(run, end - run.start - 1)"),
    Edit("a release unprotects the other readers", Ledger, Ledger.leave,
         "run.demanded() if leased else 0", "0"),
    Edit("protected pages stay evictable in the counts", Ledger, Ledger.protect,
         "self.evictable_pages -= more", "pass"),
    Edit("a hit is not made recent", PrefixIndex, PrefixIndex.lease, "= tree.tick()", "+= 0"),
    Edit("a snapshot is not made recent", Ledger, Ledger.claim_snapshot, "snapshot.stamp = self.tick()", "pass"),
    Edit("a claimed snapshot can be evicted", Ledger, Ledger.rank_snapshot, "if snapshot.leases or", "if"),
    Edit("a snapshot is released for all its readers", Ledger, Ledger.release_snapshot,
         "snapshot.leases -= 1", "snapshot.leases = 0"),
    Edit("a snapshot's claim does not end", PrefixIndex, PrefixIndex._release_snapshot,
         "not self.tree.release_snapshot(snapshot)", "True"),
    # Publishing.
    Edit("duplicates are adopted under a step in flight", None, publishing.publish_pages,
         "if real and not adopt", "if False"),
    Edit("adopted pages are not told", None, publishing.publish_pages,
         "published.repointed.update(zip(range(end, end + real)",
         "published.repointed.update(zip(range(end + 1, end + real + 1)"),
    Edit("a branch is not begun", None, publishing.publish_pages, "edge = tree.split(edge, end)", "break"),
    Edit("ghosts become real, and stay listed", Tree, Tree.revive, "del self.ghosts[edge.stamps[page]]", "pass"),
    Edit("a lease stays where it was", None, publishing.move, "lease.edge, lease.end = edge, end", "lease.end = end"),
    Edit("the old place stays leased", None, publishing.move, "if lease.edge is not None", "if False"),
    Edit("a taken entry gets a second state", None, publishing.donate, "if edge.snapshot_at(end)", "if False"),
    Edit("a state stands one page too early", Ledger, Ledger.add_mark,
         "Mark(cell, edge, end,", "Mark(cell, edge, max(1, end - 1),"),
    Edit("a stale lease publishes", PrefixIndex, PrefixIndex.publish, "if lease.stale", "if False"),
    # Shape.
    Edit("a split forgets the upper snapshots", Tree, Tree.split,
         "[mark for mark in lower.marks if mark.end <= end] or NO_MARKS", "NO_MARKS"),
    Edit("a split leaves the upper readers below", Run, Run.divide, "if end <= at", "if False"),
    Edit("a split forgets that below is leased", Run, Run.divide, "int(self.leased)", "0"),
    Edit("a split forgets what is live below", Run, Run.divide, "int(self.live)", "0"),
    Edit("a merge forgets the lower snapshots", Tree, Tree.merge, "[*upper.marks, *lower.marks]", "upper.marks"),
    Edit("a merge loses who names the upper part", Run, Run.absorb,
         "upper.parent, upper.start = self, NOWHERE", "pass"),
    Edit("nothing is merged", Tree, Tree._unhang, "self.merge(parent)", "pass"),
    # Eviction.
    Edit("the most recently used goes first", VictimQueue, VictimQueue.first,
         "runs.candidates[0][0]", "runs.candidates[-1][-1]"),
    Edit("ranks are ignored for pages", Ledger, Ledger.requeue, "self.page_ranks[at_end]", "self.page_ranks[0]"),
    Edit("a deeper snapshot elsewhere does not supersede", Ledger, Ledger.rank_snapshot,
         "or edge.marked_children > 0", ""),
    Edit("a deeper snapshot on the edge does not supersede", Ledger, Ledger._mark_changed, "if above >= 0", "if False"),
    Edit("a page with successors can be evicted", Ledger, Ledger.requeue, "run.live_children or", ""),
    Edit("a leased tip can be evicted", Ledger, Ledger.requeue, "run.protected == live", "not live"),
    Edit("an evicted page is kept", Tree, Tree.evict_page, "edge.cells.pop()", "edge.cells[-1]"),
    Edit("a snapshot outlives its page", Tree, Tree.evict_page, "if snapshot:", "if False:"),
    Edit("an evicted page stays held", Tree, Tree.evict_page, "del self.held_pages[cell]", "pass"),
    Edit("one ghost too many", Tree, Tree.evict_page,
         "len(self.ghosts) > self.ghost_limit", "len(self.ghosts) > self.ghost_limit + 1"),
    Edit("the newest ghost is forgotten first", Tree, Tree._forget_oldest_ghost, "last=False", "last=True"),
    Edit("a removal is not told", Tree, Tree.evict_snapshot, "self.note_removed(given_up)", "pass"),
    # Reset.
    Edit("a reset frees what is leased", Tree, Tree.forget, "edge.cells[edge.protected :]", "edge.cells"),
    Edit("a reset loses what is leased", Edge, Edge.cut_down, "del self.cells[self.protected :]", "del self.cells[:]"),
    Edit("a reset keeps ghosts", Tree, Tree.forget, "self.ghosts.clear()", "pass"),
    Edit("the last reader does not free", PrefixIndex, PrefixIndex.release,
         "given_up += [(FULL, cell) for cell in freed]", "pass"),
    Edit("one reader frees what others read", Ledger, Ledger.abandon,
         "run.protected = run.demanded()", "run.protected = 0"),
)  # fmt: skip

QUEUE_EDITS = (
    Edit("a candidate is queued out of order", Runs, Runs.add, "at = bisect_left(stamps, stamp)", "at = len(stamps)"),
    Edit("half of a long run is lost", Runs, Runs.add,
         "stamps[:half], candidates[:half]", "stamps[:1], candidates[:1]"),
    Edit("joined runs lose one's candidates", Runs, Runs._join,
         "self.candidates[number] + self.candidates[number + 1]", "self.candidates[number]"),
)
"""Edits that show only in queues longer than a walk makes them."""
