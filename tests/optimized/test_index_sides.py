"""The index with windows and compressed groups: walks against what its inventory says, and what is asked wrongly."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any

import pytest

from milepost.optimized.index import (
    FULL,
    RECURRENT,
    BadCell,
    BadLength,
    CellInUse,
    Lease,
    NotLeased,
    PrefixIndex,
    Reason,
    SideStored,
    StaleMatch,
    matching,
    packed,
    windows,
)
from milepost.optimized.index.edge import Edge, Run
from milepost.optimized.index.windows import Window
from milepost.spec.capabilities import Group
from milepost.spec.layout import first_column
from milepost.spec.resume import joint, longest_possible
from milepost.spec.words import GroupKind

from .index_edits import Edit

WINDOW = Group("window", GroupKind.WINDOW, "window", page_size=2, window=5)
LONG = Group("long", GroupKind.WINDOW, "long", page_size=4, window=14)
COARSE = Group("coarse", GroupKind.COMPRESSED, "coarse", page_size=8, ratio=4)
GRID = 8

Stem = tuple[int, ...]

EDITS = (
    Edit("a merge forgets the upper window pages", Window, Window.join,
         "lower.windows[self.number][:0] = upper.windows[self.number]", "pass"),
    Edit("a merge forgets the upper compressed pages", Run, Run.absorb,
         "self.cells, self.stamps = upper.cells, upper.stamps", "pass"),
    Edit("groups are not asked again after another has cut", None, matching.joint_end,
         "agreed = agreed + 1 if at == n else 1", "agreed += 1"),
    Edit("a window is looked for on one edge only", Window, Window._run,
         "level, below = level - 1, len(marks)", "break"),
    Edit("a window jumps too far", Window, Window.deepest,
         "(begin if end == stop else end) * self.page_size", "(begin if end == stop else end) * self.page_size - 1"),
    Edit("a window's run is measured one too long", None, windows._unbroken,
         "return below - high", "return below - high + 1"),
)  # fmt: skip
"""What a walk has to notice; the lockstep runs seldom or never meet it."""


class Walk:
    """One index, a few requests that publish and end in any order, and every cell's place as it was published."""

    def __init__(self, seed: int, sides: tuple[Group, ...], states: bool, ghosts: int) -> None:
        self.random = random.Random(seed)
        self.index = PrefixIndex(4, GRID, states=states, ghosts=ghosts, sides=sides)
        self.sides, self.states = sides, states
        self.leases: list[tuple[Lease, Stem]] = []
        self.places: dict[tuple[str, int], Stem] = {}
        self.cells = self.hits = 0

    def new_cell(self, name: str, stem: Stem) -> int:
        self.cells += 1
        self.places[name, self.cells] = stem
        return self.cells

    def prompt(self) -> Stem:
        length = self.random.choice((9, 17, 25, 33, 20))
        stem = [self.random.choice((1, 1, 1, 1, 1, 1, 1, 2)) for _ in range(length // 4 + 1)]
        return tuple(token for token in stem for _ in range(4))[:length]

    def step(self) -> None:
        verb = self.random.choice((self.open, self.open, self.publish, self.publish, self.evict, self.slide, self.end))
        verb()
        if not self.random.randrange(60):
            self.index.reset()
        self.index.check()

    def open(self) -> None:
        prompt = self.prompt()
        match = self.index.match(packed(prompt))
        self.compare(prompt, match)
        if len(self.leases) < 5:
            self.leases.append((self.index.lease(match), prompt))

    def compare(self, prompt: Stem, match: Any) -> None:
        """Compare a match with the deepest end that the spec allows for what the inventory says is there."""
        there: dict[str, set[Stem]] = {}
        for (name, cell), held in self.index.inventory().items():
            if not held.forgotten:
                there.setdefault(name, set()).add(self.places[name, cell])  # type: ignore[index]
        offers: dict[str, Callable[[int], bool]] = {
            "grid": lambda n: n % GRID == 0,
            "full": lambda n: all(prompt[:end] in there.get("full", ()) for end in range(4, n + 1, 4)),
        }
        for group in self.sides:
            offers[group.name] = partial(self.offers, there.get(group.name, set()), group, prompt)
        if self.states:
            offers["recurrent"] = lambda n: prompt[:n] in there.get("recurrent", ())
        expected, _ = joint(longest_possible(len(prompt), len(prompt)), offers)
        assert match.length == expected
        self.hits += expected
        for group in self.sides:
            part = match.side(group.name)
            stems = [self.places[group.name, cell] for cell in part.cells.tolist()]
            assert stems == list(self.needed(group, prompt, match.length))

    def needed(self, group: Group, prompt: Stem, n: int) -> Iterator[Stem]:
        """Yield what identifies the pages that a group needs to resume at `n`."""
        for column in range(first_column(group, n), n // group.page_size):
            yield self.stem(group, prompt, column)

    def stem(self, group: Group, prompt: Stem, column: int) -> Stem:
        """A page hangs on the full page that has its last token, so that it stands for all of that, and its own end."""
        end = (column + 1) * group.page_size
        return (*prompt[: -(-end // 4) * 4], -end)

    def offers(self, there: set[Stem], group: Group, prompt: Stem, n: int) -> bool:
        return n % GRID == 0 and there.issuperset(self.needed(group, prompt, n))

    def publish(self) -> None:
        if not self.leases:
            return
        lease, prompt = self.leases[-1]
        start, stop = lease.length, self.random.randrange(lease.length // 4, len(prompt) // 4 + 1) * 4
        if stop > start:
            cells = [self.new_cell(FULL, prompt[: end + 4]) for end in range(start, stop, 4)]
            states = {stop: self.new_cell(RECURRENT, prompt[:stop])} if self.states and stop % GRID == 0 else {}
            self.index.publish(lease, packed(prompt[start:stop]), cells, states, start=start)
        for group in self.sides:
            self.publish_side(lease, prompt, group)

    def publish_side(self, lease: Lease, prompt: Stem, group: Group) -> None:
        leased = self.index.leased_columns(lease, group.name)
        columns = [column for column in range(lease.length // group.page_size) if column not in leased]
        if group.kind is GroupKind.WINDOW:
            columns = [column for column in columns if self.random.randrange(4)]
        cells = {column: self.new_cell(group.name, self.stem(group, prompt, column)) for column in columns}
        self.index.publish_side(lease, group.name, cells)

    def slide(self) -> None:
        for group in self.sides:
            if self.leases and group.kind is GroupKind.WINDOW:
                lease, _ = self.random.choice(self.leases)
                leased = list(self.index.leased_columns(lease, group.name))
                self.index.release_columns(lease, group.name, leased[: self.random.randrange(len(leased) + 1)])

    def evict(self) -> None:
        names = [FULL.value, *(group.name for group in self.sides), *([RECURRENT.value] if self.states else [])]
        for _ in range(self.random.randrange(1, 6)):
            self.index.evict_one_of(self.random.sample(names, self.random.randrange(1, len(names) + 1)))

    def end(self) -> None:
        if self.leases:
            lease, _ = self.leases.pop(self.random.randrange(len(self.leases)))
            self.index.release(lease)


def walk(seed: int, sides: tuple[Group, ...], states: bool) -> int:
    """Walk; return how many tokens were hit."""
    one = Walk(seed, sides, states, ghosts=seed % 3)
    for _ in range(400):
        one.step()
    return one.hits


@pytest.mark.parametrize("states", [True, False])
@pytest.mark.parametrize("sides", [(WINDOW,), (COARSE,), (WINDOW, LONG, COARSE)], ids=["window", "compressed", "three"])
@pytest.mark.parametrize("seed", range(6))
def test_a_walk_finds_the_deepest_end_of_what_is_there(seed: int, sides: tuple[Group, ...], states: bool) -> None:
    assert walk(seed, sides, states) > 0


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_a_walk_notices_a_planted_edit(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    edit.apply(monkeypatch)
    with pytest.raises((AssertionError, LookupError)):
        for seed in range(40):
            walk(seed, (WINDOW, LONG, COARSE), states=bool(seed % 2))


def filled(sides: tuple[Group, ...], length: int = 32, states: Mapping[int, int] | None = None) -> PrefixIndex:
    """Return an index in which one request has published everything of one prompt."""
    index = PrefixIndex(4, GRID, states=states is not None, sides=sides, listened=True)
    lease = index.lease(index.match(packed([1] * length)))
    index.publish(lease, packed([1] * length), range(100, 100 + length // 4), states)
    for group in sides:
        columns = range(length // group.page_size)
        index.publish_side(lease, group.name, {column: 200 + column for column in columns})
    index.release(lease)
    return index


def test_the_first_window_short_of_one_page_is_passed_over() -> None:
    index = filled((WINDOW,))
    lease = index.lease(index.match(packed([1] * 33)))
    assert lease.length == 32
    assert sorted(index.leased_columns(lease, "window")) == [14, 15]
    index.release(lease)
    for _ in range(15):  # all but what was leased last, and of that one
        index.evict({"window": 1})
    match = index.match(packed([1] * 33))
    assert (match.length, match.reasons["window"], match.kv_length) == (0, Reason.NO_WINDOW, 32)
    assert [(cut.name, cut.before, cut.after) for cut in match.cuts] == [("window", 32, 0)]
    index.check()


def test_a_window_and_a_state_cut_a_hit_in_turn_until_both_agree() -> None:
    index = filled((WINDOW,), 40, {8: 1, 16: 2, 32: 3})
    lease = index.lease(index.match(packed([1] * 17)))
    other = index.lease(index.match(packed([1] * 9)))
    while index.evictable("window"):
        index.evict({"window": 1})
    match = index.match(packed([1] * 41))
    assert match.length == 16
    assert [cut.name for cut in match.cuts] == ["recurrent", "window"]
    index.release(lease)
    index.evict({"recurrent": 1})
    assert index.match(packed([1] * 41)).length == 16
    index.release(other)


def test_readers_of_what_a_reset_forgot_are_counted_through_edges_without_a_page_of_the_group() -> None:
    wide = Group("wide", GroupKind.COMPRESSED, "wide", page_size=16, ratio=4)
    index = PrefixIndex(4, 16, states=False, sides=(wide,), ghosts=4)
    leases = []
    for number, (end, branch) in enumerate([(32, 0), (32, 20), (32, 24), (32, 28), (16, 0), (32, 0), (32, 20)]):
        run = packed([1] * (branch or end) + [2] * (end - (branch or end)))
        leases.append(lease := index.lease(index.match(run, cap=16)))
        cells = [100 * number + page for page in range((end - lease.length) // 4)]
        if cells:
            index.publish(lease, run[4 * lease.length :], cells, start=lease.length)
        leased = index.leased_columns(lease, "wide")
        fresh = {column: 1000 + 10 * number + column for column in range(len(leased), lease.length // 16)}
        index.publish_side(lease, "wide", fresh)
        index.check()
    before = {cell: held.leases for cell, held in index.inventory().items() if held.leases}
    index.reset()
    assert {cell: held.leases for cell, held in index.inventory().items()} == before
    for lease in leases:
        index.release(lease)
        index.check()
    assert not index.inventory()


def test_what_is_in_use_is_no_duplicate_to_be_given_up() -> None:
    for group in (WINDOW, COARSE):
        index = filled((group,))
        lease = index.lease(index.match(packed([1] * 4)))
        index.publish(lease, packed([1] * 32), range(300, 308))
        offered = {column: 400 + column for column in range(32 // group.page_size)}
        busy = len(offered) - 1
        published = index.publish_side(lease, group.name, offered, busy)
        assert list(published.repointed) == list(offered)[:-1]
        assert published.blocked == (group is COARSE)
        again = index.publish_side(lease, group.name, {busy: offered[busy]})
        assert list(again.repointed) == [busy]
        index.check()


def test_a_match_keeps_its_part_once_leased_and_is_told_to_be_stale_otherwise() -> None:
    index = filled((WINDOW, COARSE))
    leased, other = index.match(packed([1] * 25)), index.match(packed([1] * 25))
    index.lease(leased)
    before = {name: leased.side(name).cells.tolist() for name in ("window", "coarse")}
    branch = packed([1] * 16 + [9] * 8)
    lease = index.lease(index.match(branch))
    index.publish(lease, branch[4 * lease.length :], [900, 901], start=lease.length)  # parts the path of both
    assert {name: leased.side(name).cells.tolist() for name in ("window", "coarse")} == before
    for ask in (lambda: other.side("window"), lambda: other.offers):
        with pytest.raises(StaleMatch, match="refresh it first"):
            ask()
    assert index.refresh(other).side("coarse").cells.tolist() == before["coarse"]


class Path(list[Edge]):
    """A path that counts how often one of its edges is looked at."""

    looks = 0

    def __getitem__(self, level: Any) -> Any:
        self.looks += 1
        return super().__getitem__(level)


def looks_at(edges: int) -> int:
    """Return how many looks at edges it takes to find that windows and states never agree, one page on each edge."""
    side = Group("window", GroupKind.WINDOW, "window", page_size=4, window=4)
    index, cells = PrefixIndex(4, 4, sides=(side,)), count()
    run = list(range(4 * edges))
    for number in range(edges):
        for tokens in (run[: 4 * number + 4], [*run[: 4 * number], *[-1 - number] * 4]):
            lease = index.lease(index.match(packed(tokens)))
            start, length = lease.length, len(tokens)
            new = [next(cells) for _ in range((length - start) // 4)]
            states = {length: next(cells)} if number % 2 else {}
            index.publish(lease, packed(tokens[start:]), new, states, start=start)
            if not number % 2:
                index.publish_side(lease, "window", {number: next(cells)})
            index.release(lease)
    match = index.match(packed([*run, 0]))
    assert (match.length, len(match.cuts), len(match.path)) == (0, 2, edges)
    match.path = Path(match.path)
    assert matching.joint_end(match, 4 * edges) == (0, match.cuts)
    return match.path.looks


def test_groups_that_disagree_all_the_way_are_found_out_in_one_walk() -> None:
    assert looks_at(200) < 2.2 * looks_at(100)


def test_listeners_hear_of_side_pages() -> None:
    stored = [event for event in filled((WINDOW, COARSE)).events() if isinstance(event, SideStored)]
    assert [(event.group, event.length, event.cell, event.page) for event in stored if event.group == "coarse"] == [
        ("coarse", 8, 200, 101), ("coarse", 16, 201, 103), ("coarse", 24, 202, 105), ("coarse", 32, 203, 107),
    ]
    assert len(stored) == 20


def other_lease() -> Lease:
    other = PrefixIndex(4)
    return other.lease(other.match([1]))


@pytest.mark.parametrize(("call", "error", "says"), [
    (lambda index, lease: index.publish_side(lease, "window", {9: 1}), BadLength, r"columns \[9\] of 'window'"),
    (lambda index, lease: index.publish_side(lease, "window", {0: 1}), BadLength, r"columns \[0\] of 'window'"),
    (lambda index, lease: index.publish_side(lease, "coarse", {3: 1}), BadLength, "come in order from 1, within 16"),
    (lambda index, lease: index.publish_side(lease, "coarse", {1: -1}), BadCell, "0 to 2"),
    (lambda index, lease: index.publish_side(lease, "coarse", {1: 7}), CellInUse, "a page of 'coarse' is held already"),
    (lambda index, lease: index.publish_side(lease, "other", {1: 7}), BadLength, "there is no side group 'other'"),
    (lambda index, lease: index.release_columns(lease, "coarse", [0]), BadLength, "'coarse' is no window"),
    (lambda index, lease: index.release_columns(lease, "window", [5]), NotLeased, r"not all of columns \[5\]"),
    (lambda index, lease: index.publish_side(lease, "coarse", {1: 7.5}), BadCell, "0 to 2"),
    (lambda index, lease: index.publish_side(lease, "window", {"1": 7}), BadLength, "columns are whole numbers"),
    (lambda index, lease: index.publish_side(lease, "window", {1: 8}, "x"), BadLength, "columns are whole numbers"),
    (lambda index, lease: index.release_columns(lease, "window", [0, 0]), NotLeased, r"not all of columns \[0, 0\]"),
    (lambda index, lease: index.evict({"window": 1, "coarse": 1.5}), BadLength, "no eviction of 1.5 coarse"),
    (lambda index, lease: index.publish(lease, packed([1] * 16), range(4), {16.0: 9}), BadLength, "no state can stand"),
    (lambda index, lease: index.match([1], cap="8"), BadLength, "a cap is a whole number"),
    (lambda index, lease: index.leased_columns(other_lease(), "window"), NotLeased, "another index's"),
    (lambda index, lease: index.refresh(PrefixIndex(4).match([1])), StaleMatch, "another index"),
    (lambda index, lease: index.evict({"other": 1}), BadLength, "groups are full, recurrent, window, coarse"),
])  # fmt: skip
def test_what_is_asked_wrongly_changes_nothing(
    call: Callable[[PrefixIndex, Lease], object], error: type[Exception], says: str
) -> None:
    index = PrefixIndex(4, GRID, sides=(WINDOW, COARSE))
    lease = index.lease(index.match(packed([1] * 16)))
    index.publish(lease, packed([1] * 16), range(4))
    index.publish_side(lease, "window", {0: 6})
    index.publish_side(lease, "coarse", {0: 7})
    before = index.inventory()
    with pytest.raises(error, match=says):
        call(index, lease)
    assert index.inventory() == before
    index.check()


@pytest.mark.parametrize(("sides", "says"), [
    ((WINDOW, WINDOW), "side groups have names of their own"),
    ((Group("full", GroupKind.WINDOW, "w", window=4),), "side groups have names of their own"),
    ((Group("w", GroupKind.WINDOW, "w"),), "group 'w' is a window of no tokens"),
    ((Group("kv", GroupKind.FULL, "kv"),), "'kv' is full, and side groups are windows or compressed"),
    ((Group("w", GroupKind.WINDOW, "w", page_size=3, window=4),), "the grid 8 is no multiple of the page 3 of 'w'"),
])
def test_groups_that_cannot_stand_beside_the_full_one_are_refused(sides: tuple[Group, ...], says: str) -> None:
    with pytest.raises(BadLength, match=says):
        PrefixIndex(4, GRID, sides=sides)
