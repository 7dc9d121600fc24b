"""Turns a counterexample into a schedule: its own sizes, and operations that bring a cache to where the row is taken.

A counterexample is about one step from some world. Its page size, grid and lengths are kept, times two, so that there
is room between them; who else is there, and what reads the cell afterwards, comes from the story of the row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from milepost.proofs.teeth import Bite
from milepost.spec.capabilities import Group
from milepost.spec.operations import (
    Close,
    Drain,
    Evict,
    Extend,
    Freeze,
    Land,
    Launch,
    Open,
    Operation,
    Preempt,
    Publish,
)
from milepost.spec.ownership import PageState
from milepost.spec.schedule import Header, Schedule
from milepost.spec.words import GroupKind

UNIT = 2
"""Tokens for one of a counterexample's."""

DRAFTS = 3
"""Columns of a step that speculates."""

DEFAULTS = {"page_size": 1, "grid": 2}
"""Where a whole row is missing, any sizes show it."""


@dataclass(frozen=True)
class Sizes:
    """What the stories are told with, in tokens."""

    page: int
    grid: int
    endpoint: int
    depth: int

    def text(self, length: int, shared: int | None = None) -> tuple[int, ...]:
        """Return tokens; after the first `shared` ones they are another text's."""
        own = [ord("a") + at % 26 for at in range(length)]
        return tuple(own if shared is None else own[:shared] + [ord("A") + at % 26 for at in range(shared, length)])

    def opened(self, request: str, length: int, shared: int | None = None) -> Open:
        """Return the open of a request."""
        return Open(request, self.text(length, shared))

    def part(self, request: str, length: int, to: int, shared: int | None = None) -> list[Operation]:
        """Return a request that has run a part of its prompt, landed."""
        return [*self.flying(request, length, to, shared)[:-1], Land()]

    def flying(self, request: str, length: int, to: int, shared: int | None = None) -> list[Operation]:
        """Return a request of which a step is in flight."""
        return [self.opened(request, length, shared), Extend(request, to), Launch()]

    def whole(self, request: str, length: int, shared: int | None = None) -> list[Operation]:
        """Return a request that runs all its tokens and is kept."""
        return [*self.part(request, length, length, shared), Close(request, keep=True)]


Story = Callable[[Sizes], list[Operation]]


def schedule_of(bite: Bite) -> Schedule:
    """Return the schedule for a counterexample."""
    numbers = DEFAULTS | bite.numbers
    page, grid = UNIT * numbers["page_size"], UNIT * numbers["grid"]
    endpoint = UNIT * numbers.get("endpoint", 0) or grid
    sizes = Sizes(page, grid, endpoint, UNIT * numbers.get("depth", 0) or grid)
    name = bite.edit.name.replace(" ", "-").replace(",", "").replace(":", "")
    row = bite.edit.row
    speculates = DRAFTS if row.name in OF_DRAFTS else 0
    slides = PageState.TOMBSTONE in (row.before, row.after) or (bite.edit.table, row.name) == ("Page", "reclaim")
    pools = {"kv": 16 * grid // page, "state": 6 + speculates} | ({"window": 6 * grid // page} if slides else {})
    about = f"what '{bite.edit.name}' is there for"
    header = Header(f"teeth/{name}", page, grid, pools, about=about, speculates=speculates,
                    groups=groups_with_a_window(page) if slides else ())
    story = STORIES[bite.edit.table, row.name]
    return Schedule(header, (*story(sizes), *_aftermath(sizes)))


def groups_with_a_window(page: int) -> tuple[Group, ...]:
    """Return a full and a recurrent group, and a window whose last page alone has what a resume needs."""
    return (Group("kv", GroupKind.FULL, "kv", page_size=page), Group("state", GroupKind.RECURRENT, "state"),
            Group("window", GroupKind.WINDOW, "window", page_size=page, window=page + 1))


def _aftermath(sizes: Sizes) -> list[Operation]:
    """Return readers of the same text and of another one, evictions, and a drain."""
    grid = sizes.grid
    return [
        *sizes.whole("again", 3 * grid + 1), *sizes.whole("shorter", 2 * grid + 1), *sizes.whole("other", 3 * grid, 0),
        *sizes.whole("once more", 3 * grid + 1), Drain(),
    ]


def _hits(sizes: Sizes) -> list[Operation]:
    """Two depths are published, and three requests hit the deeper one at once."""
    grid = sizes.grid
    readers = [f"reader {number}" for number in range(3)]
    return [
        *sizes.whole("first", grid + 1), *sizes.whole("deeper", 2 * grid + 1),
        *(sizes.opened(reader, 3 * grid, 2 * grid) for reader in readers),
        *(operation for reader in readers for operation in (Extend(reader, 2 * grid + 1), Land())),
        *(Close(reader) for reader in readers), Evict("state", 8),
    ]


def _side_by_side(sizes: Sizes) -> list[Operation]:
    """Three requests run side by side and hold live and frozen slots, none of them published."""
    grid = sizes.grid
    return [
        *sizes.part("one", 2 * grid + 1, grid + 1), *sizes.part("two", 2 * grid + 1, 2 * grid + 1, 0),
        Extend("one", 2 * grid + 1), Land(), *sizes.part("three", 2 * grid + 1, 2 * grid + 1, 1),
        Publish("two"), Close("one", keep=True), Publish("three"), Close("two", keep=True), Close("three"),
    ]


def _ends(sizes: Sizes) -> list[Operation]:
    """Requests end where the counterexample's state does: at a boundary and off it, kept, with pages on their path."""
    grid, far = sizes.grid, 4 * sizes.grid
    return [
        *sizes.part("past", far, grid + 1), Close("past", keep=True),
        *sizes.part("page end", far, grid + sizes.page), Close("page end", keep=True),
        *sizes.part("end", far, sizes.endpoint), Close("end", keep=True), *sizes.whole("reader", far),
    ]


def _offered_twice(sizes: Sizes) -> list[Operation]:
    """Requests with one text freeze and end at the same places; others have other tokens of the same length."""
    grid = sizes.grid
    long, far = 2 * grid + 1, 4 * sizes.grid
    return [
        *sizes.whole("stranger", long, 0), *sizes.part("ends too", far, 3 * grid, 0), Close("ends too", keep=True),
        Evict("state", 8), *sizes.part("one", long, long), *sizes.part("two", long, long), Publish("one"),
        Publish("two"), Close("one", keep=True), Close("two", keep=True),
        *sizes.part("three", far, 3 * grid), *sizes.part("four", far, 3 * grid), Publish("three"),
        Extend("three", 3 * grid + 1), Land(), Close("four", keep=True), Close("three"),
        *sizes.part("five", far, 3 * grid, 1), *sizes.part("six", far, 3 * grid, 1), Close("five", keep=True),
        Close("six", keep=True), *sizes.whole("stranger again", far, 0),
    ]


def _aborted(sizes: Sizes) -> list[Operation]:
    """Requests are closed while their step is in flight, and others get cells before it lands."""
    grid = sizes.grid
    long = 2 * grid + 1
    return [
        *sizes.whole("before", long), *sizes.whole("other", long, 0), Evict("state", 8),
        *sizes.flying("writer", long, long), Close("writer", keep=True), Evict("state", 8),
        *sizes.flying("next", 3 * grid, 3 * grid, 1), Land(), Land(), Close("next"),
        *sizes.flying("lost", 3 * grid, 3 * grid, 3), Close("lost"), *sizes.flying("finder", 3 * grid, 3 * grid, 4),
        Land(), Land(), Close("finder"),
    ]


def _read_too_early(sizes: Sizes) -> list[Operation]:
    """A request is closed while its step fills pages, and another one with the same text publishes and goes on."""
    grid = sizes.grid
    return [
        *sizes.part("reader", 3 * grid, 2 * grid, 3), *sizes.flying("writer", 2 * grid + 1, 2 * grid + 1, 3),
        Close("writer", keep=True), Publish("reader"), Extend("reader", 3 * grid), Launch(), Land(), Land(),
        Close("reader"),
    ]


def _steps_overlap(sizes: Sizes) -> list[Operation]:
    """A request freezes in two steps that are in flight together, while another comes; others end off the grid."""
    grid, far = sizes.grid, 4 * sizes.grid
    return [
        *sizes.part("twice", 3 * grid, grid, 1), Freeze("twice"), Extend("twice", 2 * grid), Land(), Freeze("twice"),
        Extend("twice", 2 * grid + 1), Land(), Close("twice"),
        *sizes.whole("before", grid + 1), Evict("state", 8), *sizes.flying("steps", 3 * grid, grid + 1, grid),
        Extend("steps", 3 * grid), *sizes.flying("newcomer", 2 * grid, 2 * grid, 2), Land(), Land(), Publish("steps"),
        Close("steps", keep=True), Close("newcomer", keep=True), *sizes.whole("off", far, 4),
        *sizes.part("off the grid", far, 2 * grid - sizes.page, 5), Close("off the grid", keep=True),
        *sizes.whole("on it again", far, 5),
    ]


def _evicted_on_purpose(sizes: Sizes) -> list[Operation]:
    """Cells are asked for while a path is read, and while one is there that nobody reads."""
    grid = sizes.grid
    return [
        *sizes.whole("path", 2 * grid + 1), sizes.opened("reader", 3 * grid, 2 * grid), Evict("kv", 1),
        Extend("reader", 3 * grid), Land(), Close("reader"), *sizes.whole("path again", 2 * grid + 1),
        Evict("kv", 1), *sizes.whole("second reader", 2 * grid + 1), Evict("state", 8), Evict("kv", 64),
    ]


def _half_a_page(sizes: Sizes) -> list[Operation]:
    """A request ends inside a page, and others with the same and with other tokens come to that page."""
    grid, inside = sizes.grid, sizes.grid + 1
    return [
        *sizes.part("half", 3 * grid, inside, 4), Publish("half"), Close("half", keep=True),
        *sizes.part("same", 3 * grid, 2 * grid, 4), Publish("same"), Extend("same", 3 * grid), Land(),
        Close("same", keep=True), *sizes.part("one", 3 * grid, 2 * grid, 2), *sizes.part("two", 3 * grid, 2 * grid, 2),
        *sizes.part("three", 3 * grid, 2 * grid, 5), Publish("one"), Publish("two"), Publish("three"),
        Extend("three", 3 * grid), Land(), Extend("two", 3 * grid), Land(), *sizes.whole("four", 3 * grid, 5),
        Close("one"), Close("two", keep=True), Close("three", keep=True), *sizes.whole("five", 3 * grid, 2),
    ]


def _read_in_flight(sizes: Sizes) -> list[Operation]:
    """A reader is closed while its step reads the path, the path is evicted, and its pages are asked for."""
    grid = sizes.grid
    return [
        *sizes.whole("path", 2 * grid + 1), *sizes.flying("reader", 2 * grid + 1, 2 * grid + 1), Close("reader"),
        Evict("kv", 64), *sizes.flying("next", 12 * grid, 12 * grid, 1), Land(), Land(), Close("next"),
    ]


def _slid_out(sizes: Sizes) -> list[Operation]:
    """Readers leave a window's page behind, others compute it again, to its middle, in flight, or whole, and read it.

    Then the pool needs the cells of tombstones.
    """
    grid, end = sizes.grid, 3 * sizes.grid
    long, inside = 5 * grid, end - sizes.page // 2
    gone = [*sizes.part("leaves", long, end + 1), Extend("leaves", long), Land(), Close("leaves")]
    return [
        *sizes.whole("first", end + 1),
        sizes.opened("stays", long), *gone, *sizes.whole("beside", end + 1), Extend("stays", long), Land(),
        Close("stays"), *gone,
        *sizes.part("half", end + 1, inside), Publish("half"), *sizes.whole("reads half", end + 1), Close("half"),
        *gone, *sizes.flying("again", end + 1, end + 1), Close("again", keep=True),
        sizes.opened("reads early", end + 1), Extend("reads early", end + 1), Land(), Land(),
        Close("reads early", keep=True), *sizes.whole("reads again", end + 1), *gone,
        *sizes.whole("other", 6 * grid, 1), Evict("kv", 64),
    ]


def _again_in_flight(sizes: Sizes) -> list[Operation]:
    """A request is closed while its step computes a tombstone again, and another gets cells before that lands."""
    grid, end = sizes.grid, 3 * sizes.grid
    return [
        *sizes.whole("first", end + 1), *sizes.part("leaves", 5 * grid, end + 1), Extend("leaves", 5 * grid), Land(),
        Close("leaves"), *sizes.flying("again", end + 1, end + 1), Close("again"),
        *sizes.flying("next", 3 * grid, 3 * grid, 1), Land(), Land(), Close("next"),
    ]


def _drafted(sizes: Sizes, request: str, prompt: int, *accepted: int) -> list[Operation]:
    """Return a request that computes its prompt and decodes in one step for each count of accepted drafts."""
    told = sizes.text(prompt + DRAFTS * len(accepted) + 2)
    operations: list[Operation] = [Open(request, told[:prompt], samples=told[prompt:])]
    for taken in accepted:
        operations += [Extend(request, prompt, DRAFTS), Launch(), Land(accepted={request: taken})]
        prompt += taken + 1
    return operations


def _drafts(sizes: Sizes) -> list[Operation]:
    """Requests go on after each number of accepted drafts, with a boundary before, inside and behind them."""
    lengths = range(sizes.grid - DRAFTS, sizes.grid + 2)
    stories = [_drafted(sizes, f"{length} and {taken}", length, taken, 0)
               for length in lengths if length > 0 for taken in range(DRAFTS + 1)]
    return [one for story in stories for one in (*story, Close(story[0].request, keep=True))]  # type: ignore[union-attr]


def _drafts_beside(sizes: Sizes) -> list[Operation]:
    """A request speculates in the step in which others take their first one."""
    grid = sizes.grid
    told = sizes.text(grid + 2 * DRAFTS)
    return [
        Open("drafts", told[:grid], samples=told[grid:]), sizes.opened("newcomer", 2 * grid, 1),
        Extend("drafts", grid, DRAFTS), Extend("newcomer", 2 * grid), Launch(), Land(accepted={"drafts": DRAFTS}),
        Extend("drafts", grid + DRAFTS + 1), Land(), Close("drafts", keep=True), Close("newcomer", keep=True),
    ]


def _drafts_aborted(sizes: Sizes) -> list[Operation]:
    """Requests are closed or preempted while their drafts are in flight, and others get slots before those land."""
    grid = sizes.grid
    closed, preempted = _drafted(sizes, "closed", grid, 0), _drafted(sizes, "preempted", grid, 0)
    return [
        *closed[:-1], Close("closed", keep=True), *sizes.flying("next", 3 * grid, 3 * grid, 1), Land(), Land(),
        Close("next"), *preempted[:-1], Preempt("preempted"), *sizes.flying("other", 3 * grid, 3 * grid, 2), Land(),
        Land(), Close("other"),
    ]


def _all(*stories: Story) -> Story:
    return lambda sizes: [operation for story in stories for operation in story(sizes)]


OF_DRAFTS = ("speculate", "accept", "reject")
"""Rows of caches that speculate."""

STORIES: dict[tuple[str, str], Story] = {
    ("Slot", "admit"): _hits, ("Slot", "restore"): _hits, ("Slot", "protect"): _hits,
    ("Slot", "release"): _all(_hits, _hits, _hits), ("Slot", "advance"): _all(_ends, _side_by_side),
    ("Slot", "freeze"): _all(_steps_overlap, _side_by_side),
    ("Slot", "supersede"): _all(_steps_overlap, _side_by_side), ("Slot", "donate"): _offered_twice,
    ("Slot", "donate final"): _all(_ends, _steps_overlap, _half_a_page, _offered_twice),
    ("Slot", "return"): _all(_side_by_side, _aborted), ("Slot", "evict"): _evicted_on_purpose,
    ("Slot", "reclaim"): _aborted, ("Slot", "speculate"): _drafts, ("Slot", "accept"): _all(_drafts_beside, _drafts),
    ("Slot", "reject"): _all(_drafts_beside, _drafts_aborted), ("Page", "allocate"): _half_a_page,
    ("Page", "publish"): _all(_read_too_early, _side_by_side, _half_a_page, _offered_twice),
    ("Page", "return"): _all(_side_by_side, _aborted), ("Page", "lease"): _hits, ("Page", "release"): _hits,
    ("Page", "evict"): _all(_evicted_on_purpose, _slid_out), ("Page", "slide out"): _slid_out,
    ("Page", "revive"): _slid_out, ("Page", "reclaim"): _all(_again_in_flight, _read_in_flight),
}
"""For each row; of a cache of one full and one recurrent group, and a window where a page may slide out."""
