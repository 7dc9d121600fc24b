"""More goals: the last cell, evictions that must spare somebody, forgotten prefixes, and several readers at once."""

from __future__ import annotations

from itertools import permutations

from milepost.proofs.schedules.goals import Passage, goal, same_source
from milepost.proofs.schedules.scene import NODES, Scene, Value

# Full pools.


@goal("pages are asked back while a snapshot is protected whose pages only its reader leases, and no cell is free",
      "evict pages", full=True)
def protected_snapshot_over_evictable_pages(passage: Passage) -> Value:
    before = passage.before
    return before.full() & before.any_of([
        before.reads(one, node) & ~before.of(one, "live")
        & ~before.any_of([before.leases(two, node) for two in before.requests if two != one])
        for one in before.requests for node in NODES
    ])


@goal("a step takes the last free cell of every pool", "run", "plan", full=True)
def all_pools_at_their_last_cell(passage: Passage) -> Value:
    return ~passage.before.full() & passage.after.full()


@goal("an extend is refused because the only snapshot is the one that the request is to be restored from", "refused")
def refused_beside_its_own_snapshot(passage: Passage) -> Value:
    before, one = passage.before, passage.move.request
    published = [before.facts[f"{node}.snap"] & ~before.reads(one, node) for node in NODES]
    return before.any_of([before.reads(one, node) for node in NODES]) & ~before.any_of(published)


@goal("a restored request gets its live slot, and no slot is left for the freeze that its step should do",
      "run", "plan")
def restore_leaves_no_slot_for_the_freeze(passage: Passage) -> Value:
    before, one = passage.before, passage.move.request
    restores = before.of(one, "source1") | before.of(one, "source2")
    return restores & passage.after.happened("freeze finds no slot")


@goal("in a full pool without a victim a later freeze takes the slot that the earlier one gives up",
      "run", "plan", "freeze")
def freeze_takes_over_its_own_slot(passage: Passage) -> Value:
    before = passage.before
    return passage.after.happened("superseded") & before.full() & ~before.obtainable()


# Evictions that spare somebody.


def _evicted(passage: Passage) -> Value:
    return passage.before.any_of([passage.after.happened(f"evicted {node}") for node in NODES])


def _spared(scene: Scene, passage: Passage, node: str) -> Value:
    """Tell where a protected snapshot stays though a more recent one is evicted."""
    others = [passage.after.happened(f"evicted {other}") & scene.older(node, other) for other in NODES if other != node]
    return scene.facts[f"{node}.snap"] & scene.protected(node) & scene.any_of(others)


@goal("a step that needs a slot passes over the oldest snapshot, which is protected, and evicts a newer one",
      "run", "plan", "freeze")
def eviction_spares_the_oldest(passage: Passage) -> Value:
    return passage.before.any_of([_spared(passage.before, passage, node) for node in NODES])


@goal("states are asked back between plan and launch, and the oldest is what the planned step restores from",
      "evict states")
def eviction_between_plan_and_restore(passage: Passage) -> Value:
    before = passage.before
    return before.any_of([_spared(before, passage, node) & before.reads(one, node) & before.of(one, "planned")
                          for node in NODES for one in before.requests])


@goal("pages are asked back between plan and launch of a restore, and all but those of its path go", "evict pages")
def pages_evicted_between_plan_and_restore(passage: Passage) -> Value:
    before, after = passage.before, passage.after
    gone = before.any_of([before.facts[f"{node}.page"] & ~after.facts[f"{node}.page"] for node in NODES])
    return gone & before.any_of([before.reads(one, node) & before.of(one, "planned")
                                 for node in NODES for one in before.requests])


@goal("states are asked back, there are two, and both are protected", "evict states")
def eviction_finds_all_protected(passage: Passage) -> Value:
    before = passage.before
    idle = before.any_of([before.idle(node) for node in NODES])
    return ~idle & before.at_least(2, [before.facts[f"{node}.snap"] for node in NODES])


@goal("a restore gets its live slot by the eviction of another prefix's snapshot", "run", "plan")
def restore_evicts_another_snapshot(passage: Passage) -> Value:
    before, one = passage.before, passage.move.request
    return before.any_of([before.reads(one, node) for node in NODES]) & ~before.of(one, "live") & _evicted(passage)


@goal("a step's freeze evicts the published snapshot of the very boundary that the step starts from", "run", "plan")
def freeze_evicts_the_snapshot_of_its_start(passage: Passage) -> Value:
    before, one = passage.before, passage.move.request
    return before.of(one, "live") & passage.after.of(one, "freezes") & before.any_of([
        passage.after.happened(f"evicted {node}") & before.leases(one, node) & _at(before, one, node) for node in NODES
    ])


def _at(scene: Scene, one: int, node: str) -> Value:
    """Tell where a request stands exactly where a prefix ends."""
    beyond = scene.of(one, "end") | (scene.of(one, "len2") if node == "x" else scene.false)
    return scene.of(one, "len1" if node == "x" else "len2") & ~beyond


@goal("a snapshot is evicted while a step in flight computes beyond it, on its pages",
      "evict states", "run", "plan", "freeze")
def snapshot_evicted_under_a_running_step(passage: Passage) -> Value:
    before = passage.before
    return before.any_of([
        passage.after.happened(f"evicted {node}") & before.leases(one, node) & before.in_flight(one)
        & before.of(one, "open")
        for node in NODES for one in before.requests
    ])


@goal("a prompt falls back to a shallower snapshot, below a tombstone whose pages somebody leases", "open")
def hit_below_a_leased_tombstone(passage: Passage) -> Value:
    before, after, one = passage.before, passage.after, passage.move.request
    return after.of(one, "source1") & after.of(one, "tail") & before.any_of([
        before.facts[f"{node}.tombstone"] & before.leased(node) & after.on(one, node) for node in ("a", "b")
    ])


@goal("a step freezes at a branch point that only evicted pages show", "run", "plan")
def branch_point_of_evicted_pages(passage: Passage) -> Value:
    before, after, one = passage.before, passage.after, passage.move.request
    return after.of(one, "freezes") & after.of(one, "frozen1") & before.of(one, "branch") & before.facts["x.ghost"]


# Freezes at both ends of a step.


@goal("a state frozen where a step starts gives way to one frozen where it ends", "run", "plan")
def freeze_at_both_ends_of_a_step(passage: Passage) -> Value:
    before, after, one = passage.before, passage.after, passage.move.request
    at_start = before.of(one, "frozen1") & _at(before, one, "x")
    return at_start & after.of(one, "frozen2") & (after.of(one, "to2") | after.of(one, "len2")) & ~(
        after.of(one, "to_end") | after.of(one, "end"))


# Several readers.


@goal("two requests of one step restore from the same snapshot", "launch")
def two_restores_of_one_snapshot_in_a_step(passage: Passage) -> Value:
    before = passage.before
    return before.any_of([
        before.of(one, "planned") & before.of(two, "planned") & both
        for one, two in permutations(before.requests, 2)
        for both in same_source(before, one, two)
    ])


@goal("two requests of one step restore from two snapshots of one path", "launch", slots=4)
def restores_of_two_depths_in_a_step(passage: Passage) -> Value:
    before = passage.before
    return before.any_of([
        before.of(one, "planned") & before.of(two, "planned") & before.reads(one, "x")
        & before.any_of([before.reads(two, node) for node in ("a", "b")])
        for one, two in permutations(before.requests, 2)
    ])


@goal("a request gives up its own pages for those that two others lease", "publish", "close", "land")
def duplicate_of_pages_with_two_readers(passage: Passage) -> Value:
    before, after = passage.before, passage.after
    return before.any_of([
        after.happened(f"duplicate {one}") & ~before.leases(one, node) & before.on(one, node)
        & before.at_least(2, [before.leases(two, node) for two in before.requests if two != one])
        for node in NODES for one in before.requests
    ])


# Forgotten prefixes.


@goal("a request is restored from a snapshot that a reset has forgotten", "run", "plan")
def restore_from_a_forgotten_snapshot(passage: Passage) -> Value:
    before, one = passage.before, passage.move.request
    return before.of(one, "stale") & (before.of(one, "source1") | before.of(one, "source2"))


@goal("of two readers of a forgotten snapshot one has done, and the other has still to be restored from it",
      "land", "close")
def one_of_two_readers_leaves_a_forgotten_snapshot(passage: Passage) -> Value:
    before, after = passage.before, passage.after
    return before.any_of([
        before.of(one, "stale") & before.of(two, "stale") & before.of(one, f"source{depth}")
        & before.of(two, f"source{depth}") & ~(before.of(one, "on_b") ^ before.of(two, "on_b"))
        & ~after.of(one, f"source{depth}") & after.of(two, f"source{depth}")
        for one, two in permutations(before.requests, 2) for depth in ("1", "2")
    ])


@goal("an entry gets a snapshot while a reader of its forgotten one has still to be restored",
      "publish", "close", "land")
def entry_refilled_beside_its_forgotten_snapshot(passage: Passage) -> Value:
    before, after = passage.before, passage.after
    return before.any_of([
        after.facts[f"{node}.orphan"] & ~before.facts[f"{node}.snap"] & after.facts[f"{node}.snap"] for node in NODES
    ])


@goal("a request that froze before a reset ends after it and could donate to an entry that is there again",
      "close", "land")
def forgotten_request_could_donate(passage: Passage) -> Value:
    before, after = passage.before, passage.after
    return before.any_of([
        before.of(one, "stale") & before.of(one, f"frozen{depth}") & before.of(one, f"landed{depth}")
        & before.at(one, depth, "page") & ~before.at(one, depth, "snap") & ~_remains(after, one)
        & (before.of(one, "keep") if passage.move.verb == "land" else _kept(passage, one))
        for one in before.requests for depth in (1, 2)
    ])


def _remains(scene: Scene, one: int) -> Value:
    return scene.of(one, "open") | scene.of(one, "closing")


def _kept(passage: Passage, one: int) -> Value:
    kept = passage.move.request == one and passage.move.word == "keep"
    return passage.before.true if kept else passage.before.false


@goal("the last reader of forgotten pages goes while the same prefix is published again", "close", "land")
def forgotten_pages_freed_beside_new_ones(passage: Passage) -> Value:
    before, after = passage.before, passage.after
    return before.any_of([
        before.of(one, "stale") & before.of(one, f"lease{depth}") & before.at(one, depth, "page")
        & ~_remains(after, one)
        & ~before.any_of([before.of(two, "stale") & before.of(two, f"lease{depth}")
                          for two in before.requests if two != one])
        for one in before.requests for depth in (1, 2)
    ])
