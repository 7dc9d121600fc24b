"""Marks of goals of windows and of speculation: what a hit takes of a window, and where drafts stand at a boundary."""

from __future__ import annotations

from collections.abc import Iterator

from milepost.conformance.goal_marks import Scene, mark
from milepost.conformance.goal_marks_pressure import GOAL_MARKS, GoalObserver
from milepost.conformance.goal_sight import Sight
from milepost.spec.geometry import columns_for, floor_to
from milepost.spec.operations import Close, Land, Open, Preempt, Publish
from milepost.spec.resume import first_needed
from milepost.spec.state import Claim, Flight

__all__ = ["GOAL_MARKS", "GoalObserver"]

# Windows.


def _opened(scene: Scene) -> Claim | None:
    assert isinstance(scene.operation, Open)
    return scene.after.state.claims.get(scene.operation.request)


def _begins(scene: Scene) -> tuple[int, int] | None:
    """Return the first token that a hit needs of a window and the size of its pages, where those around are gone."""
    claim, group, before = _opened(scene), scene.before.window, scene.before
    if claim is None or group is None or not claim.hit:
        return None
    needed = first_needed(group.kind, claim.hit, group.window)
    first, digests, live = floor_to(group.page_size, needed), claim.stream.digests, before.window_pages()
    pages = before.published_pages()
    if not any(digests[end] in pages for end in before.ends(claim) if end > claim.hit):
        return None
    around = (digests[first], digests[claim.hit + group.page_size])
    return (needed, group.page_size) if first and not live.keys() & around else None


@mark(Open)
def window_alone_between_tombstones(scene: Scene) -> bool:
    found = _begins(scene)
    return found is not None and found[0] % found[1] == 0


@mark(Open)
def window_begins_inside_a_page(scene: Scene) -> bool:
    found = _begins(scene)
    return found is not None and found[0] % found[1] != 0


@mark(Open)
def nothing_but_the_window_is_missing(scene: Scene) -> bool:
    claim, before = _opened(scene), scene.before
    if claim is None or before.window is None or claim.hit:
        return False
    last = before.last_boundary(claim)
    return last > before.grid and claim.stream.digests[last] in before.published_pages()


@mark(Publish, Close)
def tombstone_computed_again_between_windows(scene: Scene) -> bool:
    group, before = scene.before.window, scene.before
    for claim in scene.keepers() if group else ():
        digests, page = claim.stream.digests, group.page_size if group else 1
        ends = range(page, len(digests), page)
        old = {end for end in ends if digests[end] in before.window_pages()}
        new = {end for end in ends if digests[end] in scene.after.window_pages()} - old
        known = {end for end in new if _is_on_the_path(before, claim, end)}
        if any(min(old, default=end) < end < max(old, default=end) for end in known):
            return True
    return False


def _is_on_the_path(sight: Sight, claim: Claim, end: int) -> bool:
    """Tell whether the full group's page is published in which a window's page ends."""
    size = sight.paged.page_size
    at = columns_for(size, end) * size
    return at < len(claim.stream.digests) and claim.stream.digests[at] in sight.published_pages()


@mark(Land, Publish)
def window_left_behind_under_a_reader(scene: Scene) -> bool:
    if scene.before.window is None:
        return False
    pool, after = scene.before.window.pool, scene.after
    for request, claim in after.state.claims.items():
        earlier = scene.before.state.claims.get(request)
        left = {cell for cell in earlier.cells - claim.cells if cell[0] == pool} if earlier else set()
        if any(after.inventory[cell].state == "shared" and cell in other.cells
               for cell in left for other in after.others(claim)):
            return True
    return False


# Speculation.


def _settled(scene: Scene) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start, drafts, accepted, first boundary) for the requests whose drafts land over a boundary."""
    assert isinstance(scene.operation, Land)
    flight = next((one for one in scene.before.state.flights if scene.operation.step in (None, one.step)), None)
    for request, drafts in flight.drafts.items() if flight else ():
        if flight and not scene.before.state.claims[request].closed:
            start, boundary = _draft_boundary(scene, flight, request)
            if boundary:
                yield start, drafts, scene.operation.accepted.get(request, 0), boundary


def _draft_boundary(scene: Scene, flight: Flight, request: str) -> tuple[int, int]:
    """Return where drafts begin, and the first boundary inside them, 0 where there is none."""
    start, grid = flight.spans[request][1], scene.before.grid
    boundary = floor_to(grid, start) + grid
    return start, boundary if boundary <= start + flight.drafts[request] else 0


@mark(Land)
def no_draft_before_a_boundary_stands(scene: Scene) -> bool:
    return any(not taken for _, _, taken, _ in _settled(scene))


@mark(Land)
def drafts_stand_up_to_before_a_boundary(scene: Scene) -> bool:
    return any(taken and start + taken < boundary for start, _, taken, boundary in _settled(scene))


@mark(Land)
def drafts_stand_up_to_a_boundary(scene: Scene) -> bool:
    return any((start + taken) % scene.before.grid == 0 for start, _, taken, _ in _settled(scene) if taken)


@mark(Land)
def drafts_stand_beyond_a_boundary(scene: Scene) -> bool:
    return any(taken == drafts and start + taken > boundary for start, drafts, taken, boundary in _settled(scene))


@mark(Close)
def accepted_column_is_donated(scene: Scene) -> bool:
    claim = scene.claim
    if claim is None or scene.past.stood.get(claim.request) != claim.length:
        return False
    return claim.length % scene.before.grid == 0 and scene.is_donated(scene.before.slots_of(claim).live)


@mark(Preempt)
def preempted_where_drafts_stood(scene: Scene) -> bool:
    claim = scene.claim
    return claim is not None and claim.length % scene.before.grid == 0 and (
        scene.past.stood.get(claim.request) == claim.length)


@mark(Close)
def drafts_in_flight_are_aborted(scene: Scene) -> bool:
    claim = scene.claim
    flights = [one for one in scene.before.state.flights if claim and claim.request in one.drafts]
    return any(_draft_boundary(scene, one, claim.request)[1] > 0 for one in flights if claim)
