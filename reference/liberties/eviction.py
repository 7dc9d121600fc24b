"""Liberties of eviction: which cell goes, how many at a time, and when it is free again."""

from __future__ import annotations

from collections.abc import Mapping

from milepost.reference.cache import ReferenceCache
from milepost.reference.pools import Pool
from milepost.reference.requests import Entry, Key, Request
from milepost.spec.answers import Evicted, Grant, Hit, Launched, Refused
from milepost.spec.capabilities import Configuration
from milepost.spec.words import Cell, Namespace


class EvictionOrder(ReferenceCache):
    """Evicts what was used last."""

    def choose_victim(self, victims: list[Entry]) -> Entry:
        return max(victims, key=lambda entry: entry.stamp)


class EvictionGrain(ReferenceCache):
    """Evicts a whole branch: from the least recent page upwards until somebody needs a page."""

    def evict_page(self, entry: Entry) -> list[Cell]:
        given_up = super().evict_page(entry)
        parent = self.pages.get(entry.parent)
        while parent and self.cells_of(parent).evictable(parent.cell) and not self.dependents(parent):
            given_up += super().evict_page(parent)
            parent = self.pages.get(parent.parent)
        return given_up


class EvictsMore(ReferenceCache):
    """Evicts twice as much as was asked for, and one more."""

    def evict(self, group: str, cells: int) -> Evicted:
        return super().evict(group, 2 * cells + 1)


class EvictsLess(ReferenceCache):
    """Evicts half of what was asked for."""

    def evict(self, group: str, cells: int) -> Evicted:
        return super().evict(group, cells // 2)


class SettlingPool(Pool):
    """A pool whose freed cells can be granted again only after `settle`."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size)
        self.settling: list[int] = []

    def empty(self, index: int) -> None:
        super().empty(index)
        self.settling.append(self.free.pop())

    def settle(self) -> None:
        """Make every freed cell grantable."""
        self.free += self.settling
        self.settling.clear()


class LazyFreeing(ReferenceCache):
    """Frees cells at the next open, extend or launch, and refuses rather than wait for them."""

    def make_pool(self, name: str, size: int) -> Pool:
        return SettlingPool(name, size)

    def settle(self) -> None:
        """Take back what earlier operations freed."""
        for pool in self.pools.values():
            assert isinstance(pool, SettlingPool)
            pool.settle()

    def make_room(self, pool: Pool, cells: int) -> bool:
        assert isinstance(pool, SettlingPool)
        while len(pool.free) + len(pool.settling) < cells and self.evict_least_recent(pool):
            pass
        return len(pool.free) >= cells

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        self.settle()
        return super().open(request, tokens, namespace, content)

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        self.settle()
        return super().extend(request, to, draft)

    def launch(self) -> Launched:
        self.settle()
        return super().launch()


class SplitsAndMerges(ReferenceCache):
    """Keeps pages in nodes, as a radix tree does: lookups split them, eviction takes them whole, closes merge them.

    A node is a run of pages in which each continues the one before; the splits change what is evicted together.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.nodes: list[list[Key]] = []

    def insert_page(self, claim: Request, column: int) -> None:
        super().insert_page(claim, column)
        entry = claim.leases[column]
        self.split_after(entry.parent)
        self.nodes.append([entry.key])

    def lease_hit(self, claim: Request) -> None:
        super().lease_hit(claim)
        self.split_after(self.key(claim, claim.hit))

    def split_after(self, key: Key) -> None:
        """Cut the node that holds `key`, so that a node ends there."""
        for node in [node for node in self.nodes if key in node[:-1]]:
            cut = node.index(key) + 1
            self.nodes.append(node[cut:])
            del node[cut:]

    def give_up(self, claim: Request) -> None:
        super().give_up(claim)
        self.merge_chains()

    def merge_chains(self) -> None:
        """Join every node that has one child to it."""
        for node in self.nodes:
            children = [child for child in self.nodes if node and child and self.pages[child[0]].parent == node[-1]]
            if len(children) == 1:
                node += children[0]
                children[0].clear()
        self.nodes = [node for node in self.nodes if node]

    def evict_page(self, entry: Entry) -> list[Cell]:
        if entry.group:
            return super().evict_page(entry)
        node = next(node for node in self.nodes if entry.key in node)
        given_up: list[Cell] = []
        while node and self.is_free_to_go(self.pages[node[-1]]):
            given_up += super().evict_page(self.pages[node.pop()])
        self.nodes = [node for node in self.nodes if node]
        return given_up

    def is_free_to_go(self, entry: Entry) -> bool:
        """Tell whether nobody reads a page and nothing continues it."""
        return self.page_cells.evictable(entry.cell) and not self.dependents(entry)

    def forget_all(self) -> None:
        super().forget_all()
        self.nodes.clear()
