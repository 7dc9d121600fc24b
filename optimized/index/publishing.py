"""Publishing: a walk down from where the lease stands, along what is there, and growth where nothing is."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from milepost.optimized.index.answers import PagesStored, Published, StateStored
from milepost.optimized.index.edge import Edge, holder
from milepost.optimized.index.leases import Lease
from milepost.optimized.index.matching import seek
from milepost.optimized.index.tree import Tree


class Offer(NamedTuple):
    """What a request offers behind its lease: `run[at:]` are the tokens there, `cells` their pages."""

    run: bytes
    at: int
    cells: Sequence[int]
    adopt: bool


def publish_pages(tree: Tree, lease: Lease, offer: Offer, published: Published) -> None:
    """Insert pages where there are none, adopt those that are there, and move the lease to where that ends."""
    run, at, cells, adopt = offer
    edge = holder(lease.edge, lease.end) if lease.edge else tree.root(lease.namespace)
    size, end, done, count = tree.page_bytes, lease.end, 0, len(cells)
    while done < count:
        skipped = end - edge.start
        if skipped == len(edge.stamps):
            child = edge.children.get(run[at : at + size])
            if child is None:
                edge = tree.grow(edge, run[at : at + (count - done) * size], cells[done:])
                end += count - done
                break
            edge, skipped = child, 0
        same = edge.common_pages(run, at, skipped, count - done)
        real = min(same, max(0, len(edge.cells) - skipped))
        if real and not adopt:
            published.blocked = True
            break
        if real:
            published.repointed.update(zip(range(end, end + real), edge.cells[skipped : skipped + real], strict=True))
            published.duplicates += cells[done : done + real]
        if same > real:
            tree.revive(edge, cells[done + real : done + same])
        done, at, end = done + same, at + same * size, end + same
        if done < count and end - edge.start < len(edge.stamps):
            edge = tree.split(edge, end)
    if end > lease.end:
        begin = lease.end
        move(tree, lease, holder(edge, end), end)
        _tell_stored(tree, lease, offer, begin, len(published.duplicates))
    published.length = lease.length


def move(tree: Tree, lease: Lease, edge: Edge, end: int) -> None:
    """Let a lease reach further: the new place is protected before the old one is left."""
    tree.stand(edge, end)
    if lease.edge is not None:
        tree.leave(holder(lease.edge, lease.end), lease.end)
    lease.edge, lease.end = edge, end


def donate(tree: Tree, lease: Lease, offer: Offer, end: int, cell: Hashable) -> str:
    """Put a state at page `end`; return '' or why not. The pages there may be somebody else's."""
    edge: Edge | None = lease.edge or tree.roots.get(lease.namespace)
    if edge is None:
        return "no-page"
    if end <= lease.end:
        edge = holder(edge, end)
    else:
        edge = seek(tree, holder(edge, lease.end) if lease.end else edge, lease.end, offer.run, offer.at, end)
    if edge is None:
        return "no-page"
    if edge.snapshot_at(end):
        return "taken"
    tree.add_mark(edge, end, cell)
    tree.held_states[cell] = None
    if tree.log is not None:
        page = edge.cells[end - edge.start - 1]
        tree.log.append(StateStored(lease.namespace, end * lease.index.page_size, cell, page))
    return ""


def page_before(lease: Lease, end: int) -> int | None:
    """Return the cell of the page that ends at `end` on a lease's path, None for token 0."""
    if not end or lease.edge is None:
        return None
    edge = holder(lease.edge, end)
    return edge.cells[end - edge.start - 1]


def _tell_stored(tree: Tree, lease: Lease, offer: Offer, begin: int, adopted: int) -> None:
    """Tell listeners of the pages that a publish from page `begin` on inserted behind those that it adopted."""
    if tree.log is None or lease.end == begin + adopted:
        return
    size, new = tree.page_bytes, lease.end - begin
    run = offer.run[offer.at + adopted * size : offer.at + new * size]
    cells, start = tuple(offer.cells[adopted:new]), begin + adopted
    parent = page_before(lease, start)
    tree.log.append(PagesStored(lease.namespace, start * lease.index.page_size, run, cells, parent))
