"""Looking a prompt up: a walk that compares whole edges, and what it found. Nothing here changes the tree."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from milepost.optimized.index.answers import FULL, RECURRENT, Reason
from milepost.optimized.index.comparing import common_pages
from milepost.optimized.index.edge import NO_CHILDREN, Edge, Snapshot
from milepost.optimized.index.packing import TOKEN_BYTES
from milepost.optimized.index.tree import Tree
from milepost.spec.words import GroupKind

NO_CELLS = np.frombuffer(b"", np.int32)


class Match:
    """What a prompt finds. It holds nothing; `PrefixIndex.refresh` tells whether it is still true.

    `length` tokens can be resumed from: `cells` are their pages (int32, read-only), `state` is the snapshot's cell,
    None where there is none. Real pages reach to `kv_length`, and the keys of evicted ones on to `known_length`.
    `branch` is the boundary at which a snapshot would have helped, 0 for none.
    """

    __slots__ = (
        "_page_size", "_top", "_uncapped", "branch", "cap", "cells", "edge", "end", "follows", "generation",
        "known_length", "kv_length", "length", "namespace", "path", "snapshot", "stops_inside", "tokens", "tree",
    )  # fmt: skip

    length: int
    cells: np.ndarray
    kv_length: int
    known_length: int
    branch: int
    edge: Edge | None  # where the hit ends, and `end` is the hit in pages
    end: int
    snapshot: Snapshot | None
    follows: bool  # whether anything, real or ghost, goes on behind the place where the walk stopped
    stops_inside: bool  # whether it stopped in the midst of an edge
    _page_size: int
    _top: int  # the longest hit that pages allow, and with states the longest without a cap; -1 without states
    _uncapped: int

    def __init__(self, tree: Tree, tokens: bytes, namespace: Hashable, cap: int | None) -> None:
        self.tree, self.generation = tree, tree.generation
        self.tokens, self.namespace, self.cap = tokens, namespace, cap
        self.path: list[Edge] = []

    @property
    def state(self) -> Hashable:
        """The cell of the snapshot to restore from, None where the hit has none."""
        return self.snapshot.cell if self.snapshot else None

    @property
    def reasons(self) -> dict[GroupKind, str]:
        """Why each group did not offer more (see `Reason`); without states there is one group."""
        full = Reason.DIVERGED if self.follows else Reason.UNSEEN
        if self.known_length > self.kv_length:
            full = Reason.EVICTED
        if self.kv_length + self._page_size > len(self.tokens) // TOKEN_BYTES:
            full = Reason.COMPLETE
        if self._uncapped < 0:
            return {FULL: full if self.length == self._top else Reason.CAPPED}
        if self.length < self._uncapped:
            return {FULL: full, RECURRENT: Reason.CAPPED}
        return {FULL: full, RECURRENT: Reason.COMPLETE if self.length == self._top else Reason.NO_SNAPSHOT}


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
    cap = top if match.cap is None or match.cap > top else match.cap
    match._top, match._uncapped = top, -1
    _resume(match, live, cap // page_size if states else (cap - cap % grid) // page_size, states)
    match.length = match.end * page_size
    if states:
        deepest = _deepest(path, live, top // page_size)[0] if cap < top else None
        match._uncapped = deepest.end * page_size if deepest else match.length
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


def _deepest(path: list[Edge], live: int, limit: int) -> tuple[Snapshot | None, int]:
    """Return the deepest snapshot on the path not beyond `limit` pages, and the number of its edge."""
    for number in range(live, -1, -1):
        if path[number].marks and (snapshot := path[number].deepest_snapshot(limit)):
            return snapshot, number
    return None, -1


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
