"""The prefix index: what an engine adopts. It knows tokens and opaque cells; no torch, no clock, no pools.

An engine keeps its pools and its scheduler, and asks the index at six places:

1. A request waits: `match(tokens, namespace, cap)`. Pure, so ask as often as you like; `refresh_all(matches)` asks
   for all waiting requests at once, and costs next to nothing for those whose path has not changed.
2. It is admitted: `lease(match)`, of a refreshed match. Read `match.cells`, restore from `match.state`, run from
   `match.length`. When the restore has executed, `release_state(lease)`.
3. A step is planned: where room is short, `evict({FULL: pages, RECURRENT: slots})` and put the cells on your free
   lists; `evictable(kind)` says beforehand how many there are. `freeze_points(lease, start, stop)` says where the
   step should leave a snapshot.
4. A step has landed: `publish(lease, tokens, cells, {length: slot})`. Free `duplicates`, write `repointed` into the
   block table, keep or free the slots that were refused.
   While requests decode, a `Running` batch does this for all of them in one call a step.
5. The request ends: `publish` what is left if you like, then `release(lease)`.
6. Weights change: `reset()`. Open requests run on, publish nothing more, and their `release` returns what was theirs.

Windows and compressed groups are `sides`, each known by its name. `match.side(name)` has their part of a hit,
`publish_side` makes their pages matchable after the full ones, `release_columns` lets go of what slid out of a window.

`check()` verifies everything that the index believes, `inventory()` lists every cell that it holds, and `events()`
tells routers what is stored and removed.

A node is about five objects that Python's collector visits, and no garbage is left for it to find: cycles are cut where
nodes go. Where a full collection of a large tree would be felt, `gc.freeze()` once it has grown takes it out of sight.
"""

from milepost.optimized.index.answers import (
    FULL,
    RECURRENT,
    Cleared,
    Event,
    GivenUp,
    Holding,
    PagesStored,
    Published,
    Reason,
    Removed,
    SideHit,
    SidePublished,
    SideStored,
    StateStored,
)
from milepost.optimized.index.errors import (
    BadCell,
    BadLength,
    BadTokens,
    Broken,
    CellInUse,
    IndexRefusal,
    NothingNew,
    NotLeased,
    StaleMatch,
)
from milepost.optimized.index.index import PrefixIndex
from milepost.optimized.index.leases import Lease
from milepost.optimized.index.matching import Match
from milepost.optimized.index.packing import packed
from milepost.optimized.index.running import Appended, Running

__all__ = [
    "FULL",
    "RECURRENT",
    "Appended",
    "BadCell",
    "BadLength",
    "BadTokens",
    "Broken",
    "CellInUse",
    "Cleared",
    "Event",
    "GivenUp",
    "Holding",
    "IndexRefusal",
    "Lease",
    "Match",
    "NotLeased",
    "NothingNew",
    "PagesStored",
    "PrefixIndex",
    "Published",
    "Reason",
    "Removed",
    "Running",
    "SideHit",
    "SidePublished",
    "SideStored",
    "StaleMatch",
    "StateStored",
    "packed",
]
