"""Marks of the corners that the solver's schedules aim at, seen in the judge's state and the cache's own inventory.

They are observed, never declared: `GoalObserver` counts a mark when a line really reached it. `milepost prove` says
what each means and finds schedules for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from milepost.conformance import goal_sight
from milepost.conformance.errors import AdapterError
from milepost.conformance.goal_sight import Sight
from milepost.conformance.outcome import Line
from milepost.spec.capabilities import Capabilities
from milepost.spec.operations import Close, Land, Launch, Open, Operation, Publish
from milepost.spec.seam import Adapter, Inventoried
from milepost.spec.state import Claim, State
from milepost.spec.words import NULL, Cell


@dataclass(slots=True)
class Past:
    """What no single moment shows: who wrote and who was aborted, what was published once, and when it was used.

    `stood` has the length at which a request's accepted drafts ended.
    """

    kept: dict[str, bool] = field(default_factory=dict)
    aborted: set[str] = field(default_factory=set)
    writers: dict[Cell, str] = field(default_factory=dict)
    snapshots: set[int] = field(default_factory=set)
    pages: set[int] = field(default_factory=set)
    used: dict[Cell, int] = field(default_factory=dict)
    stood: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scene:
    """One line, what was seen before and after it, and what came earlier."""

    line: Line
    before: Sight
    after: Sight
    past: Past

    @property
    def operation(self) -> Operation:
        """What was asked."""
        return self.line.operation

    @property
    def claim(self) -> Claim | None:
        """The request of the operation as it was before it; None where it is nobody's or new."""
        return self.before.state.claims.get(getattr(self.operation, "request", ""))

    def ended(self) -> Iterator[Claim]:
        """Yield the requests that are gone after this line."""
        now = self.after.state.claims
        yield from (claim for request, claim in self.before.state.claims.items() if request not in now)

    def keeps(self, claim: Claim) -> bool:
        """Tell whether a request may publish with this line."""
        if isinstance(self.operation, Publish):
            return claim.request == self.operation.request
        return claim.request in {one.request for one in self.ended()} and self.past.kept.get(claim.request, False)

    def keepers(self) -> Iterator[Claim]:
        """Yield the requests that may publish with this line."""
        yield from (claim for claim in self.before.state.claims.values() if self.keeps(claim))

    def evicted(self) -> dict[Cell, int]:
        """Return the snapshots that were published before and are not after, with their digests."""
        now = self.after.snapshots()
        return {cell: content for cell, content in self.before.snapshots().items() if now.get(cell) != content}

    def donated(self) -> dict[Cell, int]:
        """Return the snapshots that are published after and were not before, with their digests."""
        earlier = self.before.snapshots()
        return {cell: content for cell, content in self.after.snapshots().items() if earlier.get(cell) != content}

    def is_donated(self, index: int) -> bool:
        """Tell whether a slot is published after this line and was not before."""
        return (self.before.slots, index) in self.donated()

    def is_returned(self, index: int) -> bool:
        """Tell whether a slot that somebody held is free after this line."""
        return index != NULL and self.after.is_free(self.before.slots, index)


Mark = Callable[[Scene], bool]

GOAL_MARKS: dict[str, tuple[tuple[type[Operation], ...], Mark]] = {}
"""Each mark with the operations that can reach it."""


def mark(*kinds: type[Operation]) -> Callable[[Mark], Mark]:
    """List a mark; its name is that of the function, in kebab case."""

    def register(reached: Mark) -> Mark:
        GOAL_MARKS[reached.__name__.replace("_", "-")] = (kinds, reached)
        return reached

    return register


class GoalObserver:
    """Counts the marks of one schedule on a cache that shows its inventory; a drain's own lines count for nothing.

    `first` has the operation, counted from 1, that reached a mark first.
    """

    def __init__(self, adapter: Adapter, capabilities: Capabilities) -> None:
        if not isinstance(adapter, Inventoried):
            raise AdapterError("the marks of goals are seen in an inventory, and the adapter has none")
        self.counts: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self._adapter: Inventoried = adapter
        self._capabilities = capabilities
        self._past = Past()
        self._last: Sight | None = None
        self._empty = adapter.inventory()

    def __call__(self, before: State, line: Line, after: State) -> None:
        """Count what one line reached."""
        earlier = self._last or goal_sight.look(before, self._empty, self._capabilities)
        now = goal_sight.look(after, self._adapter.inventory(), self._capabilities)
        scene = Scene(line, earlier, now, self._past)
        if isinstance(line.operation, Close):
            self._past.kept[line.operation.request] = line.operation.keep
        if line.part != "drain":
            for name, (kinds, reached) in GOAL_MARKS.items():
                if isinstance(line.operation, kinds) and reached(scene):
                    self.counts[name] += 1
                    self.first.setdefault(name, line.index)
        self._remember(scene)
        self._last = now

    def _remember(self, scene: Scene) -> None:
        past, claim = self._past, scene.claim
        if isinstance(scene.operation, Close) and claim and scene.before.in_flight(claim):
            past.aborted.add(claim.request)
        if isinstance(scene.operation, Launch):
            past.writers.update({cell: one for cell, (one, _, _) in scene.after.state.flights[-1].writes.items()})
        if isinstance(scene.operation, Land):
            past.stood |= {request: scene.after.state.claims[request].length for request, taken in
                           scene.operation.accepted.items() if taken and request in scene.after.state.claims}
        used = [*scene.donated()]
        if isinstance(scene.operation, Open) and (opened := scene.after.state.claims.get(scene.operation.request)):
            used.append((scene.after.slots, scene.after.slots_of(opened).source))
            past.kept.pop(opened.request, None)
        past.used.update({cell: len(past.used) + max(past.used.values(), default=0) + 1 for cell in used})
        past.snapshots.update(scene.after.snapshots().values())
        past.pages.update(scene.after.published_pages())


# Donations.

ENDS = (Publish, Close, Land)


@mark(*ENDS)
def donation_finds_the_entry_taken(scene: Scene) -> bool:
    return any(_finds_the_entry_taken(scene, claim) for claim in scene.keepers())


def _finds_the_entry_taken(scene: Scene, claim: Claim) -> bool:
    position, slot = scene.before.frozen(claim)
    if not position or not scene.is_returned(slot) or scene.before.stale(claim):
        return False
    return claim.stream.digests[position] in scene.after.snapshots().values()


def _returned_final(scene: Scene, claim: Claim) -> bool:
    """Tell whether a request ended at a boundary, had run, and its live slot went back."""
    slots, length = scene.before.slots_of(claim), claim.length
    at_boundary = length and length % scene.before.grid == 0 and not scene.before.stale(claim)
    return bool(at_boundary) and not claim.restoring and scene.is_returned(slots.live)


@mark(Close, Land)
def final_state_finds_the_entry_taken(scene: Scene) -> bool:
    entries = scene.after.snapshots().values()
    return any(
        _returned_final(scene, claim) and claim.stream.digests[claim.length] in entries
        and not (scene.before.frozen(claim)[0] == claim.length and scene.is_donated(scene.before.frozen(claim)[1]))
        for claim in scene.keepers()
    )


@mark(Close, Land)
def own_copy_takes_the_entry(scene: Scene) -> bool:
    return any(
        _returned_final(scene, claim) and scene.before.frozen(claim)[0] == claim.length
        and scene.is_donated(scene.before.frozen(claim)[1])
        for claim in scene.keepers()
    )


@mark(Land)
def closed_twins_donate_at_one_landing(scene: Scene) -> bool:
    twins = [(claim, *scene.before.frozen(claim)) for claim in scene.keepers() if scene.before.frozen(claim)[0]]
    given = {claim.stream.digests[position] for claim, position, slot in twins if scene.is_donated(slot)}
    return any(claim.stream.digests[position] in given and scene.is_returned(slot) for claim, position, slot in twins)


@mark(Launch)
def one_boundary_frozen_twice_in_a_step(scene: Scene) -> bool:
    digests = [
        claim.stream.digests[position]
        for claim in scene.before.state.planned() if claim.planned
        for _, _, position in claim.planned.frozen
    ]
    return len(set(digests)) < len(digests)


@mark(*ENDS)
def tombstone_refilled_under_a_lease(scene: Scene) -> bool:
    return any(
        claim.stream.digests[end] in _refilled(scene) and scene.before.leases(claim, end)
        and _refilled(scene)[claim.stream.digests[end]] not in claim.cells
        for claim in scene.after.state.claims.values() if claim.request in scene.before.state.claims
        for end in scene.before.ends(claim) if end <= claim.length
    )


def _refilled(scene: Scene) -> dict[int, Cell]:
    """Return the entries that had a snapshot once, had lost it, and have one again."""
    lost = scene.past.snapshots - set(scene.before.snapshots().values())
    pages = scene.before.published_pages()
    return {content: cell for cell, content in scene.donated().items() if content in lost and content in pages}


@mark(*ENDS)
def tombstone_refilled_by_its_reader(scene: Scene) -> bool:
    for claim in scene.keepers():
        for content, cell in _refilled(scene).items():
            end = claim.stream.digests.index(content) if content in claim.stream.digests else 0
            if cell in claim.cells and 0 < claim.hit < end and not scene.before.leases(claim, end):
                return True
    return False


# Aborts and dropped plans.


@mark(Close)
def one_of_two_restores_is_aborted(scene: Scene) -> bool:
    claim, before = scene.claim, scene.before
    if claim is None:
        return False
    source = before.slots_of(claim).source
    flights = [flight for flight in before.state.flights if claim.request in flight.spans]
    return source != NULL and any(
        other.request in flight.spans and not other.closed and before.slots_of(other).source == source
        for flight in flights for other in before.others(claim)
    )


@mark(Close)
def start_of_a_dropped_plan_is_donated(scene: Scene) -> bool:
    claim = scene.claim
    if claim is None or claim.planned is None or not claim.planned.frozen:
        return False
    return scene.is_donated(scene.before.slots_of(claim).live)


@mark(Close)
def one_of_two_planned_restores_is_dropped(scene: Scene) -> bool:
    claim, before = scene.claim, scene.before
    if claim is None or claim.planned is None or before.slots_of(claim).source == NULL:
        return False
    source = before.slots_of(claim).source
    return any(other.planned and before.slots_of(other).source == source for other in before.others(claim))


@mark(Open)
def prompt_meets_a_donor_in_flight(scene: Scene) -> bool:
    assert isinstance(scene.operation, Open)
    claim = scene.after.state.claims.get(scene.operation.request)
    if claim is None:
        return False
    donors = (one for one in scene.before.state.claims.values() if one.closed and scene.past.kept.get(one.request))
    return any(
        0 < (position := scene.before.frozen(one)[0]) == scene.before.last_boundary(one) < claim.prompt
        and claim.stream.digests[position] == one.stream.digests[position] and position == _second(scene, one)
        for one in donors
    )


def _second(scene: Scene, claim: Claim) -> int:
    """Return the last boundary of a prompt that has a boundary before it, else 0."""
    last = scene.before.last_boundary(claim)
    return last if last > scene.before.grid else 0


@mark(Launch)
def two_restores_of_one_snapshot_in_a_step(scene: Scene) -> bool:
    sources = [scene.before.slots_of(claim).source for claim in scene.before.state.planned()]
    restores = [source for source in sources if source != NULL]
    return len(set(restores)) < len(restores)


@mark(Launch)
def restores_of_two_depths_in_a_step(scene: Scene) -> bool:
    planned = [one for one in scene.before.state.planned() if scene.before.slots_of(one).source != NULL]
    return any(
        one.length < two.length and one.stream.digests[one.length] == two.stream.digests[one.length]
        for one in planned for two in planned
    )


@mark(*ENDS)
def duplicate_of_pages_with_two_readers(scene: Scene) -> bool:
    before, after, pages = scene.before, scene.after, scene.before.published_pages()
    for claim in scene.keepers():
        for end in before.ends(claim):
            own, published = before.column(claim, end), pages.get(claim.stream.digests[end])
            readers = [other for other in before.others(claim) if published in other.cells]
            if own[1] != NULL and published not in (None, own) and len(readers) >= 2 and after.is_free(*own):
                return True
    return False
