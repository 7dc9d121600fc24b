"""The shape of the tree: a compressed radix tree whose nodes stand only where contexts branch.

Along any path real pages come first, then ghosts: pages are evicted from the tips, and a ghost is forgotten only when
nothing continues it. Nothing here recurses.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence

from milepost.optimized.index.answers import FULL, RECURRENT, Event, GivenUp, Removed
from milepost.optimized.index.chains import Chain
from milepost.optimized.index.edge import NO_CHILDREN, NO_MARKS, NO_REST, NOWHERE, Edge, Mark, Root
from milepost.optimized.index.ledger import Ledger
from milepost.optimized.index.packing import TOKEN_BYTES
from milepost.optimized.index.windows import Window
from milepost.spec.capabilities import Group
from milepost.spec.policies import EvictionPolicy
from milepost.spec.words import GroupKind

AnySide = Window | Chain


class Tree(Ledger):
    """All namespaces' trees of the present epoch, and what is left of the tokens that were evicted from them."""

    def __init__(
        self, page_size: int, ghosts: int, policy: EvictionPolicy, listened: bool, groups: Sequence[Group] = ()
    ) -> None:
        super().__init__(policy)
        self.page_bytes = page_size * TOKEN_BYTES
        self.sides = self._make_sides(page_size, groups, policy.page_rank(True))
        self.windows = tuple(side for side in self.sides if isinstance(side, Window))
        self.chains = tuple(side for side in self.sides if isinstance(side, Chain))
        self.roots: dict[Hashable, Root] = {}
        self.ghost_limit = ghosts
        self.ghosts: OrderedDict[int, Edge] = OrderedDict()
        self.held_states: dict[Hashable, None] = {}
        self.log: list[Event] | None = [] if listened else None

    def _make_sides(self, page_size: int, groups: Sequence[Group], rank: int) -> tuple[AnySide, ...]:
        made: list[AnySide] = []
        for group in groups:
            kind = Window if group.kind is GroupKind.WINDOW else Chain
            made.append(kind(self, group, page_size, sum(isinstance(side, kind) for side in made), rank))
        return tuple(made)

    def root(self, namespace: Hashable) -> Root:
        """Return a namespace's root, a new one where there is none."""
        root = self.roots.get(namespace)
        if root is None:
            root = self.roots[namespace] = Root(namespace)
            if self.sides:
                self._add_sides(root, None)
        return root

    def _add_sides(self, edge: Edge, parent: Edge | None) -> None:
        """Give a new edge room for what will hang on it of other groups."""
        edge.windows = tuple([] for _ in self.windows)
        edge.strips = tuple(chain.strip(edge, parent) for chain in self.chains)

    # Growing.

    def grow(self, edge: Edge, run: bytes, cells: Sequence[int]) -> Edge:
        """Add pages behind the end of an edge: to itself where it is a tip, else as a child; return who has them."""
        if edge.children is not NO_CHILDREN or edge.parent is edge:
            size, parent = self.page_bytes, edge
            edge = Edge(parent, parent.start + len(parent.stamps), run[:size], run[size:])
            if self.sides:
                self._add_sides(edge, parent)
            if parent.children is NO_CHILDREN:
                parent.children = {edge.first: edge}
            else:
                parent.children[edge.first] = edge
        else:
            edge.lengthen(run)
        edge.stamps.extend(range(self.clock + 1, self.clock + 1 + len(cells)))
        self.clock += len(cells)
        edge.version = self.generation
        self.put(edge, cells)
        return edge

    def revive(self, edge: Edge, cells: Sequence[int]) -> None:
        """Make the first ghosts of an edge real again."""
        first = len(edge.cells)
        for page in range(first, first + len(cells)):
            del self.ghosts[edge.stamps[page]]
            edge.stamps[page] = self.tick()
        edge.version = self.generation
        self.put(edge, cells)

    # Branching.

    def split(self, lower: Edge, end: int) -> Edge:
        """Cut an edge at `end`; return the new upper part. The object stays the lower part: it keeps the tip."""
        size = (end - lower.start) * self.page_bytes
        parent = lower.parent
        upper = Edge(parent, lower.start, lower.first, lower.rest[: size - self.page_bytes])
        if self.sides:
            self._add_sides(upper, parent)
        parent.children[upper.first] = upper
        upper.marks = [mark for mark in lower.marks if mark.end <= end] or NO_MARKS
        lower.marks = [mark for mark in lower.marks if mark.end > end] or NO_MARKS
        for mark in upper.marks:
            mark.edge = upper
        lower.divide(upper, end)
        lower.first = bytes(lower.rest[size - self.page_bytes : size])
        del lower.rest[:size]
        upper.children = {lower.first: lower}
        upper.marked_children = int(lower.marked)
        upper.version = lower.version = self.generation
        for side in self.sides:
            side.divide(upper, lower)
        self.requeue(lower)
        self.requeue(upper)
        return upper

    def merge(self, upper: Edge) -> None:
        """Join an edge with its only child; the child stays, and whoever names the upper part is led to it."""
        (lower,) = upper.children.values()
        self.page_queue.place(upper, upper.rank, 0)
        upper.parent.children[upper.first] = lower
        upper.lengthen(lower.first)
        upper.lengthen(lower.rest)
        lower.first, lower.rest = upper.first, upper.rest
        lower.marks = [*upper.marks, *lower.marks] or NO_MARKS
        lower.absorb(upper)
        upper.children = NO_CHILDREN
        upper.version = lower.version = self.generation
        for side in self.sides:
            side.join(upper, lower)
        self.requeue(lower)

    # Shrinking.

    def evict_first_page(self) -> GivenUp:
        """Evict the page that goes first, and what falls with it; nothing where every page is needed."""
        edge = self.page_queue.first()
        return [] if edge is None else self.evict_page(edge)

    def evict_first_snapshot(self) -> GivenUp:
        """Evict the snapshot that goes first; nothing where every one is leased."""
        snapshot = self.snapshot_queue.first()
        return [] if snapshot is None else self.evict_snapshot(snapshot)

    def evict_page(self, edge: Edge) -> GivenUp:
        """Evict the last real page of a tip, and what stands and hangs there; its tokens stay as a ghost."""
        cell, end = edge.cells.pop(), edge.live_end + 1
        snapshot = edge.snapshot_at(end)
        self.evictable_pages -= 1
        del self.held_pages[cell]
        edge.version = self.generation
        given_up: GivenUp = [(FULL, cell)]
        self.note_removed(given_up)
        edge.stamps[len(edge.cells)] = self.tick()
        self.ghosts[self.clock] = edge
        if snapshot:
            given_up += self.evict_snapshot(snapshot)
        self.requeue(edge)
        if not edge.cells and edge.parent is not edge:  # its parent has pages of its own, or is a root
            edge.parent.live_children -= 1
            self.requeue(edge.parent)
        for side in self.sides:
            given_up += side.drop(edge, end)
        if len(self.ghosts) > self.ghost_limit:
            self._forget_oldest_ghost()
        return given_up

    def evict_snapshot(self, snapshot: Mark) -> GivenUp:
        """Evict an unleased snapshot; its pages stay."""
        self.remove_mark(snapshot)
        del self.held_states[snapshot.cell]
        given_up: GivenUp = [(RECURRENT, snapshot.cell)]
        self.note_removed(given_up)
        return given_up

    def note_removed(self, given_up: GivenUp) -> None:
        """Tell listeners, where there are any."""
        if self.log is not None:
            self.log.extend(Removed(kind, cell) for kind, cell in given_up)

    def _forget_oldest_ghost(self) -> None:
        """Drop the tokens of the oldest ghost: what continued it was evicted earlier, so it is the end of its edge."""
        _, edge = self.ghosts.popitem(last=False)
        while edge.start == NOWHERE:
            edge = edge.parent
        if len(edge.stamps) == 1:
            self._unhang(edge)
        edge.stamps.pop()
        del edge.rest[-self.page_bytes :]
        edge.version = self.generation

    def _unhang(self, edge: Edge) -> None:
        """Take an edge with one last ghost out of the tree; where a single sibling is left, nothing branches."""
        parent = edge.parent
        del parent.children[edge.first]
        edge.start = NOWHERE
        if isinstance(parent, Root):
            if not parent.children:
                del self.roots[parent.namespace]
        elif len(parent.children) == 1:
            self.merge(parent)

    # The end of an epoch.

    def forget(self) -> GivenUp:
        """Forget everything; what is leased stays with its edges, of which only the leases know. Return the rest."""
        states: GivenUp = []
        freed: list[int] = []
        others: GivenUp = []
        for edge in list(self.edges()):
            for snapshot in edge.marks:
                snapshot.edge, snapshot.queued = None, 0
                if not snapshot.leases:
                    states.append((RECURRENT, snapshot.cell))
            freed.extend(edge.cells[edge.protected :])
            for side in self.sides:
                others += side.forget(edge)
            self._cut_down(edge)
        self.roots.clear()
        self.ghosts.clear()
        self.page_queue.clear()
        self.snapshot_queue.clear()
        for page in freed:
            del self.held_pages[page]
        for _, state in states:
            del self.held_states[state]
        self.evictable_pages = self.evictable_snapshots = 0
        for side in self.sides:
            side.forgotten()
        return states + [(FULL, cell) for cell in freed] + others

    def _cut_down(self, edge: Edge) -> None:
        """Leave an edge nothing but the leased cells and who leases them; no child is named, so that all else goes."""
        edge.cut_down()
        edge.rest, edge.children, edge.marks, edge.marked_children = NO_REST, NO_CHILDREN, NO_MARKS, 0
        edge.version = self.generation

    def edges(self) -> Iterator[Edge]:
        """Yield every edge of every tree, roots too, parents first."""
        waiting: list[Edge] = list(self.roots.values())
        while waiting:
            edge = waiting.pop()
            waiting.extend(edge.children.values())
            yield edge

