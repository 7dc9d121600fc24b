"""The full self-check and the inventory: walks over everything, which recount what the index keeps in running sums."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from milepost.optimized.index.answers import FULL, RECURRENT, Holding
from milepost.optimized.index.checking_sides import check_queue, check_sides, leases_below, list_sides
from milepost.optimized.index.edge import NO_CHILDREN, NO_MARKS, NO_READERS, Edge, Mark, Root, holder
from milepost.optimized.index.errors import demand

if TYPE_CHECKING:
    from milepost.optimized.index.index import PrefixIndex
    from milepost.optimized.index.tree import Tree


def forgotten_edges(index: PrefixIndex) -> list[Edge]:
    """Return the edges of earlier epochs that leases still hold, parents first."""
    found: dict[Edge, None] = {}
    for lease in index.leases:
        edge = holder(lease.edge, lease.end) if lease.stale and lease.edge else None
        while edge is not None and edge not in found and edge.parent is not edge:
            found[edge] = None
            edge = edge.parent
    return sorted(found, key=lambda edge: edge.start)


def inventory(index: PrefixIndex) -> dict[tuple[str, Hashable], Holding]:
    """Return every cell that the index holds, with the length at whose end it stands and its leases."""
    listed: dict[tuple[str, Hashable], Holding] = {}
    for forgotten, edges in ((False, list(index.tree.edges())), (True, forgotten_edges(index))):
        totals = leases_below(edges)
        for edge in edges:
            leases = totals[edge]
            for page, cell in enumerate(edge.cells, start=edge.start + 1):
                listed[FULL, cell] = Holding(page * index.page_size, leases, forgotten)
                leases -= edge.readers.get(page, 0)
            for mark in edge.marks:
                listed[RECURRENT, mark.cell] = Holding(mark.end * index.page_size, mark.leases)
    for mark in {lease.snapshot for lease in index.leases if lease.snapshot and lease.snapshot.edge is None}:
        listed[RECURRENT, mark.cell] = Holding(mark.end * index.page_size, mark.leases, True)
    list_sides(index, list(index.tree.edges()), listed)
    return listed


def check(index: PrefixIndex) -> None:
    """Verify every invariant of an index; Broken names the first that does not hold."""
    tree, edges = index.tree, list(index.tree.edges())
    demand(not NO_CHILDREN and not NO_MARKS and not NO_READERS, "what empty edges share is empty")
    for edge in edges:
        _check_shape(tree, edge)
        _check_marks(index, edge)
        _check_leases(edge)
        _check_queued(tree, edge)
    for namespace, root in tree.roots.items():
        demand(isinstance(root, Root) and root.namespace == namespace, "a root knows its namespace", namespace)
        demand(root.children, "a root without contexts is gone", namespace)
    forgotten = forgotten_edges(index)
    for edge in forgotten:
        demand(edge.protected == len(edge.cells) == edge.demanded(), "what a reset forgot is only what is leased")
    _check_readers(index, {*edges, *forgotten})
    _check_counts(index, edges, forgotten)
    _check_ghosts(tree, edges)
    _check_queues(tree, edges)
    check_sides(index, edges)


def _check_shape(tree: Tree, edge: Edge) -> None:
    at, size = f"edge at page {edge.start}", tree.page_bytes
    if edge.parent is not edge:
        demand(edge.stamps, "no edge is empty", at)
        demand(len(edge.children) != 1, "a node stands only where contexts branch", at)
        demand(len(edge.first) == size, "an edge has a first page", at)
        demand(len(edge.rest) == (len(edge.stamps) - 1) * size, "an edge has the tokens of its pages", at)
    demand(len(edge.cells) <= len(edge.stamps), "an edge has no more cells than pages", at)
    for first, child in edge.children.items():
        demand(child.parent is edge, "a child knows its parent", at)
        demand(child.start == edge.start + len(edge.stamps), "a child begins where its parent ends", at)
        demand(child.first is first, "a child is found by its first page", at)
        demand(not child.cells or len(edge.cells) == len(edge.stamps), "no real page follows a ghost", at)
    live = sum(1 for child in edge.children.values() if child.cells)
    demand(edge.live_children == live, "children with real pages are counted", at)
    marked = sum(child.marked for child in edge.children.values())
    demand(edge.marked_children == marked, "children with snapshots are counted", at)
    leased = 0 if edge.parent is edge else sum(child.leased for child in edge.children.values())
    demand(edge.leased_children == leased, "leased children are counted", at)


def _check_marks(index: PrefixIndex, edge: Edge) -> None:
    ends = [mark.end for mark in edge.marks]
    demand(ends == sorted(set(ends)), "snapshots on an edge are sorted, one at each place", ends)
    for mark in edge.marks:
        demand(edge.start < mark.end <= edge.live_end, "a snapshot stands at the end of a real page", mark.end)
        demand(mark.end * index.page_size % index.grid == 0, "a snapshot stands on the grid", mark.end)
        demand(mark.edge and holder(mark.edge, mark.end) is edge, "a snapshot leads to its edge", mark.end)


def _check_leases(edge: Edge) -> None:
    demand(all(count > 0 for count in edge.readers.values()), "no reader is counted below one", edge.readers)
    ends = all(edge.start < end <= edge.live_end for end in edge.readers)
    demand(ends, "a lease ends at a real page of its edge", edge.readers)
    demand(edge.protected == edge.demanded(), "exactly what leases need is protected", edge.start)


def _check_queued(tree: Tree, edge: Edge) -> None:
    live = len(edge.cells)
    tip = live > edge.protected and not edge.live_children
    stamp = edge.stamps[live - 1] if tip else 0
    demand(edge.queued == stamp, "an unleased tip is queued by its last use", edge.start)
    if tip:
        rank = tree.page_ranks[edge.snapshot_at(edge.live_end) is not None]
        demand(edge.rank == rank, "a tip is queued by the policy's rank", edge.start)
    for mark in edge.marks:
        demand(mark.queued == (0 if mark.leases else mark.stamp), "an unleased snapshot is queued", mark.end)
        rank = tree.snapshot_ranks[mark is not edge.marks[-1] or edge.marked_children > 0]
        demand(mark.leases or mark.rank == rank, "a snapshot is queued by the policy's rank", mark.end)


def _check_readers(index: PrefixIndex, edges: set[Edge]) -> None:
    """Compare what edges and snapshots count with the open leases themselves."""
    readers: dict[tuple[Edge, int], int] = {}
    claims: dict[Mark, int] = {}
    for lease in index.leases:
        if lease.edge is not None:
            place = holder(lease.edge, lease.end), lease.end
            readers[place] = readers.get(place, 0) + 1
        if lease.snapshot is not None:
            claims[lease.snapshot] = claims.get(lease.snapshot, 0) + 1
    counted = {(edge, end): count for edge in edges for end, count in edge.readers.items()}
    demand(readers == counted, "every lease is counted where it ends, and nothing else is")
    marks = {mark for edge in edges for mark in edge.marks} | set(claims)
    demand(all(mark.leases == claims.get(mark, 0) for mark in marks), "every claim on a snapshot is counted")


def _check_counts(index: PrefixIndex, edges: list[Edge], forgotten: list[Edge]) -> None:
    tree = index.tree
    pages = [cell for edge in (*edges, *forgotten) for cell in edge.cells]
    marks = [mark for edge in edges for mark in edge.marks]
    marks += {lease.snapshot for lease in index.leases if lease.snapshot and lease.snapshot.edge is None}
    protected = sum(edge.protected for edge in (*edges, *forgotten))
    claimed = sum(mark.leases > 0 for mark in marks)
    demand(tree.protected_pages == protected, "leased pages are counted", tree.protected_pages)
    demand(tree.evictable_pages == len(pages) - protected, "unleased pages are counted", tree.evictable_pages)
    demand(tree.protected_snapshots == claimed, "leased snapshots are counted", tree.protected_snapshots)
    demand(tree.evictable_snapshots == len(marks) - claimed, "unleased snapshots are counted", tree.evictable_snapshots)
    demand(len(set(pages)) == len(pages) and tree.held_pages.keys() == set(pages), "each page is held once")
    states = [mark.cell for mark in marks]
    demand(len(set(states)) == len(states) and tree.held_states.keys() == set(states), "each slot is held once")


def _ghosts_of(edge: Edge) -> Iterator[int]:
    return iter(edge.stamps[len(edge.cells) :])


def _check_ghosts(tree: Tree, edges: list[Edge]) -> None:
    found = {stamp: edge for edge in edges for stamp in _ghosts_of(edge)}
    demand(list(tree.ghosts) == sorted(found), "ghosts are listed in the order of their eviction", len(found))
    demand(len(found) <= tree.ghost_limit, "ghosts are bounded", len(found))
    for edge in edges:
        ghosts = list(_ghosts_of(edge))
        demand(ghosts == sorted(ghosts, reverse=True), "what continues a ghost was evicted earlier", edge.start)
        for child in edge.children.values() if ghosts else ():
            demand(next(_ghosts_of(child), 0) < ghosts[-1], "what continues a ghost was evicted earlier", edge.start)


def _check_queues(tree: Tree, edges: list[Edge]) -> None:
    check_queue(tree.page_queue, {edge for edge in edges if edge.queued})
    check_queue(tree.snapshot_queue, {mark for edge in edges for mark in edge.marks if mark.queued})
