"""The statements that a cache is held to, in three levels: laws, promises, and the freedoms that no law restricts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Law:
    """A statement that is true of every correct cache."""

    number: int
    name: str
    text: str


LAWS: tuple[Law, ...] = (
    Law(1, "ownership", "A cell is free, private to one request, or published; never two at once."),
    Law(2, "immutability", "Only the owner writes, and never an entry or a slot that another request may read."),
    Law(3, "provenance", "A cell that is read holds exactly the payload of the reader's own prefix: namespace, epoch, "
        "every token before it, position."),
    Law(4, "joint boundary", "All groups of a hit end at the same token, each as the resume rule demands."),
    Law(5, "lease", "A cell stays published while any open request reads it."),
    Law(6, "conservation", "Every cell is accounted for: after all requests close and the cache is reset, as much can "
        "be granted as on a fresh instance."),
    Law(7, "atomic refusal", "An operation that refuses changes nothing that an open request holds, reads or may "
        "write."),
    Law(8, "landing", "What no launched step has written is not read, and a step's late write never reaches a reader "
        "that did not ask for it."),
)


def law(number: int) -> Law:
    """Return law `number`, counted from 1."""
    return LAWS[number - 1]


PROMISES: dict[str, str] = {
    "deterministic": "the same schedule in another process, with another hash seed and a jittered clock, gives the "
    "same answers: tensor-parallel ranks must agree",
    "not-inert": "the smallest cacheable prefix is named, and the second identical prompt of that size hits",
    "maximal-hit": "a hit is the deepest legal one of what is published",
    "retains-until-pressure": "what is published stays published until a pool needs its cells",
    "admits-when-idle": "with nothing open, what a fresh cache takes is taken within three tries",
    "exact-accounting": "the counts of `account` add up to the pool, and to a fresh pool after a drain",
    "strict-boundaries": "every hit lies on a multiple of lcm(page_size, chunk_size), counted from token 0",
}

FREEDOMS: dict[str, str] = {
    "eviction-order": "which unleased cell is evicted, and when",
    "eviction-grain": "eviction grain and cascades",
    "shorter-hits": "hits shorter than possible, down to 0",
    "publishes-nothing": "publishing nothing",
    "publishes-some": "publishing some of what is computed, or only the last boundary",
    "keeps-newer-duplicate": "which of two duplicates is kept",
    "id-order": "ids and their order",
    "refuses-often": "refusing though there is room",
    "lazy-freeing": "cells become free later than they could",
    "publishes-on-abort": "publishing at a close that does not ask for it",
    "visible-later": "visibility one step later",
    "copies-at-open": "restoring at open",
    "copies-at-extend": "restoring at the first extend rather than at open",
    "hands-over-last-copy": "handing the last copy over instead of copying it",
    "coarse-grid": "a coarser grid of hits",
    "end-anywhere": "donating a state wherever it ends, at any token or page end",
    "step-relative-grid": "a freeze grid that is counted from the resume point",
    "one-pool": "one pool for all groups",
    "evicts-more": "evicting more than was asked for",
    "evicts-less": "evicting less than was asked for",
    "refuses-reset": "refusing a reset while requests are open",
    "outside-state": "state that is supplied from outside",
    "splits-and-merges": "splits and merges that nobody sees",
    "reuse-behind-queue": "re-using cells behind an ordered queue",
    "pins-longer": "leases held longer than needed",
    "slides-out-late": "keeping pages behind a window",
    "retains-no-window": "letting the window at the end of a prompt slide out",
    "pins-the-whole-window": "leasing more of a window's path than its end",
    "window-outlives-the-kv": "keeping window pages whose path was evicted",
    "window-tail-first": "evicting a window from its end",
    "state-takes-the-window-along": "evicting what only another group's evicted cell made useful",
    "pads-drafts": "draft columns that nobody asked for and no landing accepts",
    "fewer-drafts": "granting fewer draft columns than asked for",
    "copies-the-accepted-state": "copying an accepted state into the live slot, or going on in its column",
}
