"""More marks of goals: the last cell, evictions that must spare somebody, freezes at the edge, forgotten prefixes."""

from __future__ import annotations

from milepost.conformance.goal_marks import GOAL_MARKS, GoalObserver, Scene, mark
from milepost.spec.answers import Evicted, Frozen, Grant, Refused
from milepost.spec.operations import Close, Evict, Extend, Freeze, Land, Open, Publish
from milepost.spec.state import Claim
from milepost.spec.words import NULL, Cell

__all__ = ["GOAL_MARKS", "GoalObserver"]

GRANTS = (Extend, Freeze)


def _grant(scene: Scene) -> Grant | None:
    return scene.line.answer if isinstance(scene.line.answer, Grant) else None


def _asked_of(scene: Scene, kind: str) -> bool:
    """Tell whether cells of the paged or of the recurrent group were asked back."""
    operation = scene.operation
    group = scene.before.paged if kind == "pages" else scene.before.recurrent
    return isinstance(operation, Evict) and operation.group == group.name


def _restores(scene: Scene) -> Claim | None:
    """Return the request that an extend grants its live slot, to be restored from a snapshot."""
    claim = scene.claim
    if claim is None or _grant(scene) is None:
        return None
    slots = scene.before.slots_of(claim)
    return claim if slots.live == NULL and slots.source != NULL else None


@mark(Extend)
def wanted_freeze_finds_the_entry_taken(scene: Scene) -> bool:
    claim, grant = scene.claim, _grant(scene)
    if claim is None or grant is None or grant.frozen:
        return False
    last = scene.before.last_boundary(claim)
    return claim.length < last <= grant.length and claim.stream.digests[last] in scene.before.snapshots().values()


@mark(*GRANTS)
def aborted_slot_is_granted_again(scene: Scene) -> bool:
    if not isinstance(scene.line.answer, Grant | Frozen) or scene.claim is None:
        return False
    new = scene.after.state.claims[scene.claim.request].cells - scene.claim.cells
    return any(cell[0] == scene.after.slots and scene.past.writers.get(cell) in scene.past.aborted for cell in new)


@mark(Evict)
def eviction_meets_an_aborted_reader(scene: Scene) -> bool:
    closed = (claim for claim in scene.before.state.claims.values() if claim.closed and not scene.before.stale(claim))
    return _asked_of(scene, "states") and any(scene.before.slots_of(claim).source != NULL for claim in closed)


# Full pools.


@mark(Evict)
def protected_snapshot_over_evictable_pages(scene: Scene) -> bool:
    before = scene.before
    full = not before.free(before.pages) and not before.free(before.slots)
    return _asked_of(scene, "pages") and full and any(
        before.slots_of(claim).source != NULL and before.slots_of(claim).live == NULL and not before.stale(claim)
        and not any(before.column(claim, claim.hit) in other.cells for other in before.others(claim))
        for claim in before.state.open_claims()
    )


@mark(Extend)
def all_pools_at_their_last_cell(scene: Scene) -> bool:
    pools = (scene.before.pages, scene.before.slots)
    granted = _grant(scene) is not None
    return granted and all(scene.before.free(pool) and not scene.after.free(pool) for pool in pools)


@mark(Extend)
def refused_beside_its_own_snapshot(scene: Scene) -> bool:
    answer, claim = scene.line.answer, scene.claim
    if not isinstance(answer, Refused) or answer.reason != "no-slot" or claim is None:
        return False
    own = (scene.before.slots, scene.before.slots_of(claim).source)
    return set(scene.before.snapshots()) == {own}


@mark(Extend)
def restore_leaves_no_slot_for_the_freeze(scene: Scene) -> bool:
    claim, grant = _restores(scene), _grant(scene)
    if claim is None or grant is None or grant.frozen:
        return False
    last = scene.before.last_boundary(claim)
    wanted = claim.length < last <= grant.length
    taken = claim.stream.digests[last] in scene.before.snapshots().values()
    return wanted and not taken and not scene.after.free(scene.after.slots)


@mark(*GRANTS)
def freeze_takes_over_its_own_slot(scene: Scene) -> bool:
    claim, before = scene.claim, scene.before
    if claim is None or before.free(before.slots) or before.snapshots("donated"):
        return False
    (old, slot), (new, again) = before.frozen(claim), scene.after.frozen(scene.after.state.claims[claim.request])
    return 0 < old != new and slot == again


# Evictions that spare somebody.


def _spared(scene: Scene) -> set[Cell]:
    """Return the protected snapshots that stay though one that was used later is evicted."""
    used = scene.past.used
    gone = [used[cell] for cell in scene.evicted() if cell in used]
    return {cell for cell in scene.before.snapshots("protected") if any(used.get(cell, 0) < one for one in gone)}


@mark(*GRANTS)
def eviction_spares_the_oldest(scene: Scene) -> bool:
    return bool(_spared(scene))


@mark(Evict)
def eviction_between_plan_and_restore(scene: Scene) -> bool:
    before = scene.before
    sources = {(before.slots, before.slots_of(claim).source) for claim in before.state.planned()}
    return _asked_of(scene, "states") and bool(sources & _spared(scene))


@mark(Evict)
def pages_evicted_between_plan_and_restore(scene: Scene) -> bool:
    answer, before = scene.line.answer, scene.before
    pages = isinstance(answer, Evicted) and any(pool == before.pages for pool, _ in answer.cells)
    return pages and any(before.slots_of(claim).source != NULL for claim in before.state.planned())


@mark(Evict)
def eviction_finds_all_protected(scene: Scene) -> bool:
    before = scene.before
    return _asked_of(scene, "states") and not before.snapshots("donated") and len(before.snapshots()) >= 2


@mark(Extend)
def restore_evicts_another_snapshot(scene: Scene) -> bool:
    return _restores(scene) is not None and bool(scene.evicted())


@mark(Extend)
def freeze_evicts_the_snapshot_of_its_start(scene: Scene) -> bool:
    claim, grant = scene.claim, _grant(scene)
    if claim is None or grant is None or not grant.frozen or scene.before.slots_of(claim).live == NULL:
        return False
    return claim.stream.digests[claim.length] in scene.evicted().values()


@mark(Evict, *GRANTS)
def snapshot_evicted_under_a_running_step(scene: Scene) -> bool:
    gone, before = set(scene.evicted().values()), scene.before
    return not _asked_of(scene, "pages") and any(
        before.in_flight(claim) and not claim.closed and end < claim.length
        and claim.stream.digests[end] in gone and before.leases(claim, end)
        for claim in before.state.claims.values() for end in before.ends(claim)
    )


@mark(Open)
def hit_below_a_leased_tombstone(scene: Scene) -> bool:
    assert isinstance(scene.operation, Open)
    claim, before = scene.after.state.claims.get(scene.operation.request), scene.before
    if claim is None or not claim.hit:
        return False
    lost = scene.past.snapshots - set(before.snapshots().values())
    pages = before.published_pages()
    return any(
        claim.stream.digests[end] in lost
        and any(pages.get(claim.stream.digests[end]) in other.cells for other in before.state.claims.values())
        for end in before.ends(claim) if end > claim.hit
    )


# Where a step freezes.


@mark(Extend)
def branch_point_of_evicted_pages(scene: Scene) -> bool:
    claim, grant = scene.claim, _grant(scene)
    if claim is None or grant is None:
        return False
    lost = scene.past.pages - set(scene.before.published_pages())
    return any(
        position < scene.before.last_boundary(claim) and claim.stream.digests[position] in lost
        for _, _, position in grant.frozen
    )


@mark(Extend)
def freeze_at_both_ends_of_a_step(scene: Scene) -> bool:
    claim, grant = scene.claim, _grant(scene)
    if claim is None or grant is None:
        return False
    at_start = 0 < claim.length == scene.before.frozen(claim)[0]
    return at_start and any(position == grant.length for _, _, position in grant.frozen)


# Forgotten prefixes.


@mark(Extend)
def restore_from_a_forgotten_snapshot(scene: Scene) -> bool:
    claim = _restores(scene)
    return claim is not None and scene.before.stale(claim)


@mark(Land, Close)
def one_of_two_readers_leaves_a_forgotten_snapshot(scene: Scene) -> bool:
    before, after = scene.before, scene.after
    stale = [claim for claim in before.state.claims.values() if before.stale(claim)]
    now = {name: after.slots_of(claim).source for name, claim in after.state.claims.items()}
    return any(
        one.request != two.request and before.slots_of(one).source == before.slots_of(two).source != NULL
        and now.get(one.request, NULL) == NULL and now.get(two.request, NULL) != NULL
        for one in stale for two in stale
    )


@mark(Publish, Close, Land)
def entry_refilled_beside_its_forgotten_snapshot(scene: Scene) -> bool:
    after, new = scene.after, set(scene.donated().values())
    return any(
        after.stale(claim) and after.slots_of(claim).source != NULL and after.digest_now(claim, claim.hit) in new
        for claim in after.state.claims.values()
    )


@mark(Close, Land)
def forgotten_request_could_donate(scene: Scene) -> bool:
    before = scene.before
    pages, entries = before.published_pages(), before.snapshots().values()
    for claim in scene.keepers():
        position = before.frozen(claim)[0]
        if position and before.stale(claim):
            digest = before.digest_now(claim, position)
            if digest in pages and digest not in entries:
                return True
    return False


@mark(Close, Land)
def forgotten_pages_freed_beside_new_ones(scene: Scene) -> bool:
    before, pages = scene.before, scene.before.published_pages()
    return any(
        before.stale(claim) and before.leases(claim, end) and scene.after.is_free(*before.column(claim, end))
        and before.digest_now(claim, end) in pages
        for claim in scene.ended() for end in before.ends(claim) if end <= claim.length
    )
