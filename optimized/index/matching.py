"""Looking a prompt up: a walk that compares whole edges, and what it found. Nothing here changes the tree."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from milepost.optimized.index.answers import FULL, RECURRENT, Reason, SideHit
from milepost.optimized.index.comparing import common_pages
from milepost.optimized.index.edge import NO_CHILDREN, Edge, Mark
from milepost.optimized.index.errors import StaleMatch
from milepost.optimized.index.packing import TOKEN_BYTES
from milepost.optimized.index.tree import Tree
from milepost.optimized.index.windows import Window
from milepost.spec.resume import Cut

NO_CELLS = np.frombuffer(b"", np.int32)


class Match:
    """What a prompt finds. It holds nothing; `PrefixIndex.refresh` tells whether it is still true.

    `length` tokens can be resumed from: `cells` are their pages (int32, read-only), `state` is the snapshot's cell,
    None where there is none. Real pages reach to `kv_length`, and the keys of evicted ones on to `known_length`.
    `branch` is the boundary at which a snapshot would have helped, 0 for none. `cuts` say which groups beside the full
    one shortened the hit, and by how much; it is kept where there are side groups.
    """

    __slots__ = (
        "_page_size", "_parts", "_top", "_uncapped", "branch", "cap", "cells", "cuts", "edge", "end", "follows",
        "generation", "grid", "known_length", "kv_length", "length", "live", "namespace", "path", "snapshot", "states",
        "stops_inside", "tokens", "tree",
    )  # fmt: skip

    length: int
    cells: np.ndarray
    kv_length: int
    known_length: int
    branch: int
    edge: Edge | None  # where the hit ends, and `end` is the hit in pages
    end: int
    snapshot: Mark | None
    follows: bool  # whether anything, real or ghost, goes on behind the place where the walk stopped
    stops_inside: bool  # whether it stopped in the midst of an edge
    live: int  # the number on the path of the last edge with real pages, -1 for none
    cuts: tuple[Cut, ...]
    grid: int
    states: bool
    _page_size: int
    _top: int  # the longest hit that full pages allow, and the longest of all groups without a cap
    _uncapped: int

    def __init__(self, tree: Tree, tokens: bytes, namespace: Hashable, cap: int | None) -> None:
        self.tree, self.generation = tree, tree.generation
        self.tokens, self.namespace, self.cap = tokens, namespace, cap
        self.path: list[Edge] = []
        self._parts: dict[str, SideHit] = {}

    @property
    def state(self) -> Hashable:
        """The cell of the snapshot to restore from, None where the hit has none."""
        return self.snapshot.cell if self.snapshot else None

    @property
    def reasons(self) -> dict[str, str]:
        """Why each group did not offer more (see `Reason`), in the order full, sides, recurrent."""
        full = Reason.DIVERGED if self.follows else Reason.UNSEEN
        if self.known_length > self.kv_length:
            full = Reason.EVICTED
        if self.kv_length + self._page_size > len(self.tokens) // TOKEN_BYTES:
            full = Reason.COMPLETE
        capped = self.length < self._uncapped
        if not self.states and not self.tree.sides:
            return {FULL: Reason.CAPPED if capped else full}
        short = {cut.name for cut in self.cuts}
        reasons: dict[str, str] = {FULL: full}
        for side in self.tree.sides:
            missing = Reason.NO_WINDOW if isinstance(side, Window) else Reason.NO_ENTRIES
            reasons[side.name] = Reason.CAPPED if capped else missing if side.name in short else Reason.COMPLETE
        if self.states:
            cut = RECURRENT in short if self.tree.sides else self.length < self._top
            reasons[RECURRENT] = Reason.CAPPED if capped else Reason.NO_SNAPSHOT if cut else Reason.COMPLETE
        return reasons

    def side(self, name: str) -> SideHit:
        """Return the hit's part of a side group; KeyError where there is none of that name.

        StaleMatch where the tree has changed since, unless the match was leased before: then it stays as it was.
        """
        if name not in self._parts:
            self._must_be_true()
            side = {side.name: side for side in self.tree.sides}[name]
            hit = side.hit_cells(self.path, self.live, self.length) if self.end else (0, NO_CELLS)
            self._parts[name] = SideHit(*hit)
        return self._parts[name]

    def _must_be_true(self) -> None:
        if self.generation != self.tree.generation and not still_true(self):
            raise StaleMatch("what the match saw has changed since: refresh it first")

    @property
    def offers(self) -> dict[str, int]:
        """How many tokens each group could have offered by itself, on the grid and without a cap; full KV anywhere.

        StaleMatch where the tree has changed since.
        """
        self._must_be_true()
        offers = {FULL.value: self.kv_length}
        for side in self.tree.sides:
            offers[side.name] = side.deepest(self.path, self.live, self._top, self.grid)[0] if self.live >= 0 else 0
        if self.states:
            snapshot = _deepest(self.path, self.live, self._top // self._page_size)[0]
            offers[RECURRENT.value] = snapshot.end * self._page_size if snapshot else 0
        return offers


def look_up(match: Match, page_size: int, grid: int, states: bool) -> None:
    """Fill a new match from its tree."""
    tree = match.tree
    known = _walk(tree, match) // tree.page_bytes
    path = match.path
    live = len(path) - 1
    while live >= 0 and not path[live].cells:
        live -= 1
    real = min(known, path[live].live_end) if live >= 0 else 0
    last = len(match.tokens) // TOKEN_BYTES - 1
    match._page_size, match.kv_length, match.known_length = page_size, real * page_size, known * page_size
    top = min(match.kv_length, last)
    top -= top % grid
    cap = top if match.cap is None or match.cap > top else match.cap - match.cap % grid
    match.grid, match.states, match.live, match._top, match.cuts = grid, states, live, top, ()
    end = cap
    if tree.sides:
        end, match.cuts = joint_end(match, cap)
    _resume(match, live, end // page_size, states)
    match.length = match.end * page_size
    match._uncapped = match.length if cap == top else _uncapped(match, top)
    point = min(match.known_length, last)
    point -= point % grid
    match.branch = point if point > match.length else 0


def _walk(tree: Tree, match: Match) -> int:
    """Compare the prompt with whole edges; return how many bytes are known, real or ghost."""
    run, size, at = match.tokens, tree.page_bytes, 0
    goes_on_with, pass_over = run.startswith, match.path.append
    match.stops_inside = False
    root = tree.roots.get(match.namespace)
    if root is None:
        match.follows = False
        return 0
    edge: Edge | None
    children = root.children
    while (edge := children.get(run[at : at + size])) is not None:
        pass_over(edge)
        at += size
        rest = edge.rest
        if not goes_on_with(rest, at):
            match.stops_inside = match.follows = True
            return at + common_pages(run, at, rest, 0, len(rest), size) * size
        at += len(rest)
        children = edge.children
    match.follows = children is not NO_CHILDREN
    return at


def _deepest(path: list[Edge], live: int, limit: int) -> tuple[Mark | None, int]:
    """Return the deepest snapshot on the path not beyond `limit` pages, and the number of its edge."""
    for number in range(live, -1, -1):
        if path[number].marks and (snapshot := path[number].deepest_snapshot(limit)):
            return snapshot, number
    return None, -1


def joint_end(match: Match, limit: int) -> tuple[int, tuple[Cut, ...]]:
    """Return the deepest boundary not beyond `limit` at which every group can end, and who cut it on the way there.

    A fixed point that only shrinks, as in `spec.resume.joint`: each group goes on where on the path it was. What is
    short enough for a compressed group stays so. Of each group there is one cut, in the order of their last words.
    """
    path, live, grid, n = match.path, match.live, match.grid, limit
    if live < 0:
        return 0, ()
    cuts: dict[str, Cut] = {}
    for chain in match.tree.chains:
        n = _cut(cuts, chain.name, n, chain.deepest(path, live, n, grid)[0])
    windows = match.tree.windows
    offers = len(windows) + match.states
    levels = [live] * offers
    asked = agreed = 0
    while n and agreed < offers:
        turn = asked % offers
        number, level = turn - match.states, levels[turn]
        if number < 0:
            snapshot, level = _deepest(path, level, n // match._page_size)
            name, at = RECURRENT.value, snapshot.end * match._page_size if snapshot else 0
        else:
            name = windows[number].name
            at, level = windows[number].deepest(path, level, n, grid)
        levels[turn] = level
        agreed = agreed + 1 if at == n else 1
        n, asked = _cut(cuts, name, n, at), asked + 1
    return n, tuple(cuts.values())


def _cut(cuts: dict[str, Cut], name: str, before: int, after: int) -> int:
    """Note where a group shortens the hit, last; where it did before, from which length it did so first."""
    if after < before:
        cuts[name] = Cut(name, cuts.pop(name).before if name in cuts else before, after)
    return after


def _uncapped(match: Match, top: int) -> int:
    """Return how long the hit would be without a cap."""
    if match.tree.sides:
        return joint_end(match, top)[0]
    if not match.states:
        return top
    snapshot = _deepest(match.path, match.live, top // match._page_size)[0]
    return snapshot.end * match._page_size if snapshot else 0


def _resume(match: Match, live: int, limit: int, states: bool) -> None:
    """Set where the hit ends: at the deepest snapshot not beyond `limit` pages, or without states right there."""
    path = match.path
    if states:
        match.snapshot, live = _deepest(path, live, limit)
        match.end = match.snapshot.end if match.snapshot else 0
    else:
        match.snapshot, match.end = None, limit
        while live >= 0 and limit <= path[live].start:
            live -= 1
    if match.end:
        match.edge = path[live]
        cells = b"".join([edge.cells for edge in path[: live + 1]])
        match.cells = np.frombuffer(cells, np.int32, match.end)
    else:
        match.edge, match.cells = None, NO_CELLS


def still_true(match: Match) -> bool:
    """Tell whether nothing that the match saw has changed; what it stopped at is looked at again."""
    tree, generation = match.tree, match.generation
    for edge in match.path:
        if edge.version > generation:
            return False
    if match.stops_inside:
        return True
    last = match.path[-1] if match.path else tree.roots.get(match.namespace)
    if last is None:
        return not match.follows
    at, size = match.known_length * TOKEN_BYTES, tree.page_bytes
    return match.follows == (last.children is not NO_CHILDREN) and match.tokens[at : at + size] not in last.children


def seek(tree: Tree, edge: Edge, end: int, run: bytes, at: int, target: int) -> Edge | None:
    """Return the edge that has the real page before `target`, going down from page `end` of an edge; None without.

    `run[at:]` are the tokens behind `end`. Pages count from token 0.
    """
    size = tree.page_bytes
    while end < target:
        skipped = end - edge.start
        if skipped == len(edge.stamps):
            child = edge.children.get(run[at : at + size])
            if child is None:
                return None
            edge, skipped = child, 0
        pages = min(target - end, len(edge.stamps) - skipped)
        if edge.common_pages(run, at, skipped, pages) < pages:
            return None
        end, at = end + pages, at + pages * size
    return edge if target <= edge.live_end else None
