"""Caches with one legal oddity each: the kit must pass every one."""

from __future__ import annotations

from collections.abc import Callable

from milepost.reference.liberties import cells, drafts, eviction, grids, hits, publishing, refusals, windows
from milepost.spec.capabilities import Configuration
from milepost.spec.seam import Adapter

LIBERTIES: dict[str, Callable[[Configuration], Adapter]] = {
    "eviction-order": eviction.EvictionOrder,
    "eviction-grain": eviction.EvictionGrain,
    "shorter-hits": hits.ShorterHits,
    "publishes-nothing": publishing.PublishesNothing,
    "publishes-some": publishing.PublishesSome,
    "keeps-newer-duplicate": publishing.KeepsNewerDuplicate,
    "id-order": cells.IdOrder,
    "refuses-often": refusals.RefusesOften,
    "lazy-freeing": eviction.LazyFreeing,
    "publishes-on-abort": publishing.PublishesOnAbort,
    "visible-later": hits.VisibleLater,
    "copies-at-open": hits.CopiesAtOpen,
    "copies-at-extend": hits.CopiesAtExtend,
    "hands-over-last-copy": hits.HandsOverLastCopy,
    "coarse-grid": grids.CoarseGrid,
    "end-anywhere": grids.EndAnywhere,
    "step-relative-grid": grids.StepRelativeGrid,
    "one-pool": cells.OnePool,
    "evicts-more": eviction.EvictsMore,
    "evicts-less": eviction.EvictsLess,
    "refuses-reset": refusals.RefusesReset,
    "outside-state": hits.OutsideState,
    "splits-and-merges": eviction.SplitsAndMerges,
    "reuse-behind-queue": cells.ReuseBehindQueue,
    "pins-longer": hits.PinsLonger,
    "slides-out-late": windows.SlidesOutLate,
    "retains-no-window": windows.RetainsNoWindow,
    "pins-the-whole-window": windows.PinsTheWholeWindow,
    "window-outlives-the-kv": windows.WindowOutlivesTheKv,
    "window-tail-first": windows.WindowTailFirst,
    "state-takes-the-window-along": windows.StateTakesTheWindowAlong,
    "pads-drafts": drafts.PadsDrafts,
    "fewer-drafts": drafts.FewerDrafts,
    "copies-the-accepted-state": drafts.CopiesTheAcceptedState,
}
"""One maker for each freedom of `spec.laws`, by the same name."""

LIBERTY_PROFILES: dict[str, str] = {
    "slides-out-late": "hybrid-window",
    "retains-no-window": "hybrid-window",
    "pins-the-whole-window": "hybrid-window",
    "window-outlives-the-kv": "hybrid-window",
    "window-tail-first": "hybrid-window",
    "state-takes-the-window-along": "hybrid-window",
    "pads-drafts": "hybrid-window",
    "fewer-drafts": "hybrid-compressed",
    "copies-the-accepted-state": "hybrid-compressed",
}
"""The kit's profile whose groups a liberty needs; the others need one full and one recurrent group."""
