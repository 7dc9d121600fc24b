"""The self-check and the inventory of the groups beside the full one, and what all groups are checked by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING

from milepost.optimized.index.answers import Holding
from milepost.optimized.index.chains import Chain
from milepost.optimized.index.edge import AnyRun, Edge, Mark, Strip, holder
from milepost.optimized.index.errors import demand
from milepost.optimized.index.victims import Candidate, VictimQueue
from milepost.optimized.index.windows import Window

if TYPE_CHECKING:
    from milepost.optimized.index.index import PrefixIndex


def leases_below(runs: list[AnyRun]) -> dict[AnyRun, int]:
    """Return for each run how many leases end on it or below; parents come first in `runs`."""
    totals = {run: sum(run.readers.values()) for run in runs}
    for run in reversed(runs):
        if run.parent in totals and run.parent is not run:
            totals[run.parent] += totals[run]
    return totals


def list_sides(index: PrefixIndex, edges: list[Edge], listed: dict[tuple[str, Hashable], Holding]) -> None:
    """Add every cell that side groups hold."""
    for window in index.tree.windows:
        for mark in _marks(index, window, edges):
            listed[window.name, mark.cell] = Holding(mark.end * window.page_size, mark.leases, mark.edge is None)
    for chain in index.tree.chains:
        there = [edge.strips[chain.number] for edge in edges]
        for forgotten, strips in ((False, there), (True, _forgotten_strips(index, chain))):
            totals = leases_below(strips)
            for strip in strips:
                leases = totals[strip]
                for end, cell in enumerate(strip.cells, start=strip.start + 1):
                    listed[chain.name, cell] = Holding(end * chain.page_size, leases, forgotten)
                    leases -= strip.readers.get(end, 0)


def _marks(index: PrefixIndex, window: Window, edges: list[Edge]) -> list[Mark]:
    """Return all pages of a window, those that only leases know after a reset too."""
    found = dict.fromkeys(mark for edge in edges for mark in edge.windows[window.number])
    leased = (mark for lease in index.leases for mark in lease.windows[window.number].values())
    return list(found | dict.fromkeys(leased))


def _forgotten_strips(index: PrefixIndex, chain: Chain) -> list[Strip]:
    """Return the strips of earlier epochs that leases hold, parents first: a child may begin where its parent does."""
    found: dict[Strip, None] = {}
    for lease in index.leases:
        strip, end = lease.strips[chain.number], lease.strip_ends[chain.number]
        strip = holder(strip, end) if lease.stale and strip else None
        path: list[Strip] = []
        while strip is not None and strip not in found and strip.parent is not strip:
            path.append(strip)
            strip = strip.parent
        found.update(dict.fromkeys(reversed(path)))
    return list(found)


def check_sides(index: PrefixIndex, edges: list[Edge]) -> None:
    """Verify every invariant of the side groups."""
    for window in index.tree.windows:
        _check_window(index, window, edges)
    for chain in index.tree.chains:
        strips = [edge.strips[chain.number] for edge in edges]
        for edge, strip in zip(edges, strips, strict=True):
            _check_place(chain, edge, strip)
            _check_strip(chain, edge, strip)
        _check_chain(index, chain, strips)


def _check_window(index: PrefixIndex, window: Window, edges: list[Edge]) -> None:
    for edge in edges:
        ends = [mark.end for mark in edge.windows[window.number]]
        demand(ends == sorted(set(ends)), "a window's pages on an edge are sorted, one at each place", ends)
        for mark in edge.windows[window.number]:
            page = window.page_of(mark.end)
            demand(edge.start < page <= edge.live_end, "a window's page hangs on a real page", mark.end)
            demand(mark.edge and holder(mark.edge, page) is edge, "a window's page leads to its edge", mark.end)
            demand(mark.queued == (0 if mark.leases else mark.stamp), "an unleased window's page is queued", mark.end)
    marks = _marks(index, window, edges)
    claims = Counter(mark for lease in index.leases for mark in lease.windows[window.number].values())
    demand(all(mark.leases == claims[mark] for mark in marks), "every reader of a window's page is counted")
    for lease in index.leases:
        columns = {column: mark.end - 1 for column, mark in lease.windows[window.number].items()}
        demand(all(column == end for column, end in columns.items()), "a lease knows a window's columns", columns)
    leased = sum(mark.leases > 0 for mark in marks)
    demand(window.protected_pages == leased, "leased pages of a window are counted", window.name)
    demand(window.evictable_pages == len(marks) - leased, "unleased pages of a window are counted", window.name)
    cells = [mark.cell for mark in marks]
    held = window.held_pages.keys()
    demand(len(set(cells)) == len(cells) and held == set(cells), "each page of a window is held once", window.name)
    check_queue(window.queue, {mark for mark in marks if mark.queued})


def _check_place(chain: Chain, edge: Edge, strip: Strip) -> None:
    at = f"{chain.name} at page {edge.start}"
    demand(strip.edge is edge and strip.start == chain.columns(edge.start), "a strip lies on its edge", at)
    if edge.parent is edge:
        demand(strip.parent is strip, "a root's strip is a root", at)
    else:
        demand(strip.parent is edge.parent.strips[chain.number], "a strip knows its parent", at)
        whole = strip.parent.parent is strip.parent or strip.parent.live_end == strip.start
        demand(whole or not strip.live, "no compressed page follows a gap", at)
    demand(strip.live_end <= chain.columns(edge.live_end), "a compressed page hangs on a real page", at)
    demand(len(strip.stamps) == len(strip.cells), "each compressed page has its last use", at)


def _check_strip(chain: Chain, edge: Edge, strip: Strip) -> None:
    at = f"{chain.name} at page {edge.start}"
    children = [child.strips[chain.number] for child in edge.children.values()]
    demand(strip.live_children == sum(child.live for child in children), "live strips below are counted", at)
    leased = 0 if strip.parent is strip else sum(child.leased for child in children)
    demand(strip.leased_children == leased, "leased strips below are counted", at)
    demand(strip.protected == strip.demanded(), "exactly the compressed pages that leases need are protected", at)
    tip = len(strip.cells) > strip.protected and not strip.live_children
    demand(strip.queued == (strip.stamps[-1] if tip else 0), "an unleased end of a strip is queued by its last use", at)


def _check_chain(index: PrefixIndex, chain: Chain, strips: list[Strip]) -> None:
    forgotten = _forgotten_strips(index, chain)
    readers: Counter[tuple[Strip, int]] = Counter()
    for lease in index.leases:
        strip, end = lease.strips[chain.number], lease.strip_ends[chain.number]
        if strip is not None:
            readers[holder(strip, end), end] += 1
    counted = {(strip, end): count for strip in (*strips, *forgotten) for end, count in strip.readers.items()}
    demand(readers == counted, "every lease is counted where its compressed pages end", chain.name)
    cells = [cell for strip in (*strips, *forgotten) for cell in strip.cells]
    protected = sum(strip.protected for strip in (*strips, *forgotten))
    demand(chain.protected_pages == protected, "leased compressed pages are counted", chain.name)
    demand(chain.evictable_pages == len(cells) - protected, "unleased compressed pages are counted", chain.name)
    demand(len(set(cells)) == len(cells) and chain.held_pages.keys() == set(cells), "each compressed page is held once")
    check_queue(chain.page_queue, {strip for strip in strips if strip.queued})


def check_queue(queue: VictimQueue[Candidate], expected: set[Candidate]) -> None:
    """Verify that a queue has those who are expected, in order, and that each knows where."""
    listed = [(rank, stamp, candidate) for rank, runs in queue.runs.items() for stamp, candidate in runs]
    placed = [(candidate.rank, candidate.queued, candidate) for _, _, candidate in listed]
    demand(listed == placed, "who is queued knows where")
    demand({candidate for _, _, candidate in listed} == expected, "a queue has those who may go, and nobody else")
    for rank, runs in queue.runs.items():
        stamps = [stamp for stamp, _ in runs]
        demand(stamps == sorted(set(stamps)), "a queue is sorted by stamp", rank)
        bounds = [bound for run, last in zip(runs.stamps, runs.lasts, strict=True) for bound in (run[0], run[-1], last)]
        demand(bounds == sorted(bounds), "each run of a queue lies between its bounds", rank)
