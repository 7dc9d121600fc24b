"""The two dictionaries, published pages and snapshots by prefix, and how cells enter, serve and leave them.

Here are the pages of the full group, and the snapshots; those of the other paged groups are in `sides`.

A snapshot and the page that ends where it does have the same key. Use is ordered by a logical clock that no two
entries share, so the least recently used entry is always one. What evicted pages were found by is remembered for a
while: a prompt that comes back shows where others left its path, though nothing is left there to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from milepost.reference.pools import PageCells, Pool, SlotCells
from milepost.reference.requests import Entry, Key, Request
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.geometry import floor_to, lies_on
from milepost.spec.layout import make_layout
from milepost.spec.ownership import PageState, SlotState
from milepost.spec.policies import BranchAndPromptEnd, EvictionPolicy, FreezePolicy, LeastRecentlyUsed
from milepost.spec.words import Cell


class PrefixStore:
    """Pools and published prefixes; it decides nothing about requests."""

    freeze_policy: ClassVar[FreezePolicy] = BranchAndPromptEnd()
    eviction_policy: ClassVar[EvictionPolicy] = LeastRecentlyUsed()

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.layout = make_layout(configuration)
        self.page_size = self.layout.full.page_size
        self.pools_of_groups = {group.name: self.pool_of(group) for group in self.layout.groups}
        self.grid = self.make_grid()
        self.hit_grid = self.end_grid = self.step_grid = self.grid
        self.pools = {name: self.make_pool(name, size) for name, size in self.pool_sizes().items()}
        recurrent = self.layout.recurrent
        self.page_cells = PageCells(self.pools[self.pools_of_groups[self.layout.full.name]])
        self.slot_cells = SlotCells(self.pools[self.pools_of_groups[recurrent.name]] if recurrent else Pool("", 0))
        self.pages: dict[Key, Entry] = {}
        self.snapshots: dict[Key, Entry] = {}
        self.ghosts: dict[Key, None] = {}
        self.clock = 0
        self.epoch = 0

    def pool_of(self, group: Group) -> str:
        """Return the pool that a group's cells come from."""
        return group.pool

    def pool_sizes(self) -> dict[str, int]:
        """Return the cells of each pool."""
        return {name: self.configuration.pools[name] for name in dict.fromkeys(self.pools_of_groups.values())}

    def make_grid(self) -> int:
        """Return the distance between two boundaries."""
        return self.layout.grid(self.configuration.chunk_size)

    def make_pool(self, name: str, size: int) -> Pool:
        """Return an empty pool."""
        return Pool(name, size)

    # Finding.

    def key(self, claim: Request, length: int) -> Key:
        """Return what the first `length` tokens of a request are found by."""
        return claim.namespace, claim.identities(length)

    def page_at(self, claim: Request, end: int) -> Entry | None:
        """Return the published page that ends after a request's first `end` tokens."""
        return self.pages.get(self.key(claim, end))

    def snapshot_at(self, claim: Request, length: int) -> Entry | None:
        """Return the published state of a request's first `length` tokens."""
        return self.snapshots.get(self.key(claim, length))

    def matched(self, claim: Request) -> int:
        """Return the length of the longest run of published pages from token 0."""
        for end in range(self.page_size, len(claim.tokens) + 1, self.page_size):
            if self.page_at(claim, end) is None:
                return end - self.page_size
        return floor_to(self.page_size, len(claim.tokens))

    def remembered(self, claim: Request, shared: int) -> int:
        """Return how far the run of `shared` tokens goes on through pages that have been evicted."""
        while shared + self.page_size <= len(claim.tokens) and self.key(claim, shared + self.page_size) in self.ghosts:
            shared += self.page_size
        return shared

    def touch(self, entry: Entry) -> None:
        """Make an entry the most recently used one."""
        entry.stamp = self.tick()

    def tick(self) -> int:
        """Return the next value of the logical clock."""
        self.clock += 1
        return self.clock

    # Leases.

    def lease_page(self, claim: Request, column: int, entry: Entry) -> None:
        """Let a request read a published page at one of its columns."""
        self.page_cells.lease(entry.cell)
        claim.leases[column] = entry

    def release_page(self, claim: Request, column: int) -> None:
        """End a request's lease; a page that was forgotten meanwhile is freed by its last reader."""
        entry = claim.leases.pop(column)
        self.page_cells.release(entry.cell)
        if self.pages.get(entry.key) is not entry and self.page_cells.evictable(entry.cell):
            self.discard_page(entry, dependents=0)

    def protect_snapshot(self, claim: Request, entry: Entry) -> None:
        """Let a request restore from a snapshot."""
        self.slot_cells.protect(entry.cell)
        claim.source = entry

    def release_snapshot(self, claim: Request) -> None:
        """End a request's claim on the snapshot that it restores from, if it has one."""
        entry, claim.source = claim.source, None
        if entry is None:
            return
        self.slot_cells.release(entry.cell)
        if self.snapshots.get(entry.key) is not entry and self.slot_cells.evictable(entry.cell):
            self.discard_snapshot(entry)

    # Publishing.

    def publish_pages(self, claim: Request) -> None:
        """Publish whole landed pages in order, so that what a request leases is always a prefix of its columns."""
        for column in range(len(claim.leases), self.publishable(claim) // self.page_size):
            if not self.publish_page(claim, column):
                return

    def publishable(self, claim: Request) -> int:
        """Return how many tokens of a request others may read; none of one that was opened before a reset."""
        return claim.known() if claim.epoch == self.epoch else 0

    def publish_page(self, claim: Request, column: int) -> bool:
        """Publish one page, or take the one that is there; false while a step in flight uses the request's own."""
        existing = self.pages.get(self.key(claim, (column + 1) * self.page_size))
        if existing is None:
            self.insert_page(claim, column)
        elif self.page_cells.pool.in_flight[claim.columns[column]]:
            return False
        else:
            self.adopt_page(claim, column, existing)
        return True

    def insert_page(self, claim: Request, column: int) -> None:
        """Make a private page matchable; its request goes on as one of the readers."""
        entry = self.make_entry(claim, claim.columns[column], (column + 1) * self.page_size)
        self.page_cells.hand_over(
            "publish",
            entry.cell,
            entry.depth,
            request=claim.serial,
            filled=min(self.page_size, claim.known() - column * self.page_size),
            page_size=self.page_size,
            in_flight=int(claim.landed < entry.depth),
            same_prefix=int(entry.key == self.key(claim, entry.depth)),
            entry_occupied=int(entry.key in self.pages),
        )
        self.pages[entry.key] = entry
        self.ghosts.pop(entry.key, None)
        self.lease_page(claim, column, entry)

    def adopt_page(self, claim: Request, column: int, entry: Entry) -> None:
        """Re-point a column to the published page of the same prefix, and free the request's own."""
        self.page_cells.vacate("return", claim.columns[column], request=claim.serial)
        claim.columns[column] = entry.cell
        self.lease_page(claim, column, entry)

    def donate(self, row: str, claim: Request, cell: int, position: int) -> bool:
        """Give a slot to the entry at `position`, if its pages are published and it has no snapshot yet."""
        entry = self.make_entry(claim, cell, position)
        if entry.key not in self.pages or entry.key in self.snapshots:
            return False
        self.slot_cells.hand_over(
            row,
            cell,
            position,
            request=claim.serial,
            closing=int(claim.closing),
            grid=self.end_grid,
            same_prefix=int(entry.key == self.key(claim, position)),
            entry_occupied=int(entry.key in self.snapshots),
        )
        self.snapshots[entry.key] = entry
        return True

    def make_entry(self, claim: Request, cell: int, depth: int) -> Entry:
        """Return an entry for a request's first `depth` tokens, as the most recently used one."""
        parent = self.key(claim, max(0, depth - self.page_size))
        return Entry(self.key(claim, depth), parent, cell, depth, self.tick())

    # Eviction.

    def make_room(self, pool: Pool, cells: int) -> bool:
        """Evict until `cells` are free; false where even that does not help."""
        while len(pool.free) < cells:
            if not self.evict_least_recent(pool):
                return False
        return True

    def evict_least_recent(self, pool: Pool) -> list[Cell]:
        """Evict the entry of a pool that nobody needs and the policy puts first; return what was given up."""
        victims = [*self.evictable_pages(pool), *self.evictable_snapshots(pool)]
        if not victims:
            return []
        entry = self.choose_victim(victims)
        return self.evict_page(entry) if self.pages.get(entry.key) is entry else self.evict_snapshot(entry)

    def choose_victim(self, victims: list[Entry]) -> Entry:
        """Return the first by the policy's rank, and within it the one that was not used for longest."""
        return min(victims, key=lambda entry: (self.rank(entry), entry.stamp))

    def rank(self, entry: Entry) -> int:
        """Return what the policy says of a page or a snapshot; those of side groups go by last use alone."""
        if entry.group:
            return self.eviction_policy.page_rank(snapshot_at_end=True)
        if self.pages.get(entry.key) is entry:
            return self.eviction_policy.page_rank(entry.key in self.snapshots)
        return self.eviction_policy.snapshot_rank(self.superseded(entry))

    def superseded(self, entry: Entry) -> bool:
        """Tell whether a deeper snapshot stands on a path through this one."""
        *context, identities = entry.key
        deeper = (other.key for other in self.snapshots.values() if other.depth > entry.depth)
        return any([*key[:-1], key[-1][: entry.depth]] == [*context, identities] for key in deeper)

    def evictable_pages(self, pool: Pool) -> Iterator[Entry]:
        """Yield the published pages of a pool that nobody reads and on which nothing published depends."""
        if pool is self.page_cells.pool:
            yield from (
                entry
                for entry in self.pages.values()
                if not entry.group and self.page_cells.evictable(entry.cell) and not self.dependents(entry)
            )

    def evictable_snapshots(self, pool: Pool) -> Iterator[Entry]:
        """Yield the snapshots of a pool that nobody reads."""
        if pool is self.slot_cells.pool:
            yield from (entry for entry in self.snapshots.values() if self.slot_cells.evictable(entry.cell))

    def dependents(self, entry: Entry) -> int:
        """Count the published pages that continue a page."""
        return sum(other.parent == entry.key for other in self.pages.values())

    def evict_page(self, entry: Entry) -> list[Cell]:
        """Evict a page, and the snapshot at its end, which nobody could reach any more."""
        dependents = self.dependents(entry)
        del self.pages[entry.key]
        self.remember(entry)
        self.discard_page(entry, dependents)
        snapshot = self.snapshots.get(entry.key)
        given_up: list[Cell] = [(self.page_cells.pool.name, entry.cell)]
        return given_up + (self.evict_snapshot(snapshot) if snapshot else [])

    def remember(self, entry: Entry) -> None:
        """Keep an evicted page's key, and as many of them as the pool has pages; a page goes after its successors."""
        self.ghosts[entry.key] = None
        if len(self.ghosts) > len(self.page_cells.pool.occupants):
            del self.ghosts[next(iter(self.ghosts))]

    def evict_snapshot(self, entry: Entry) -> list[Cell]:
        """Evict a snapshot; its pages stay, as a tombstone."""
        del self.snapshots[entry.key]
        self.discard_snapshot(entry)
        return [(self.slot_cells.pool.name, entry.cell)]

    def cells_of(self, entry: Entry) -> PageCells:
        """Return the table that a page's cell stands in."""
        return self.page_cells

    def discard_page(self, entry: Entry, dependents: int) -> None:
        """Take a page that is no longer matchable back into its pool."""
        self.cells_of(entry).evict(entry.cell, dependents)
        self.cells_of(entry).reclaim(entry.cell)

    def discard_snapshot(self, entry: Entry) -> None:
        """Take a slot that is no longer matchable back into its pool."""
        self.slot_cells.evict(entry.cell)
        self.slot_cells.reclaim(entry.cell)

    def forget_all(self) -> None:
        """Forget everything published; what is being read stays readable, and its last reader frees it."""
        snapshots, pages = list(self.snapshots.values()), list(self.pages.values())
        self.snapshots.clear()
        self.pages.clear()
        self.ghosts.clear()
        self.epoch += 1
        for entry in filter(lambda entry: self.slot_cells.evictable(entry.cell), snapshots):
            self.discard_snapshot(entry)
        for entry in filter(lambda entry: self.cells_of(entry).evictable(entry.cell), pages):
            self.discard_page(entry, dependents=0)

    # Counting.

    def account(self) -> dict[str, dict[str, int]]:
        """Return cells by pool and by `free`, `private`, `evictable`, `protected`."""
        counts = {name: dict.fromkeys(("free", "private", "evictable", "protected"), 0) for name in self.pools}
        for name, pool in self.pools.items():
            for occupant in pool.occupants:
                counts[name][account_of(occupant.state, occupant.leases)] += 1
        return counts

    def on_grid(self, position: int) -> bool:
        """Tell whether a hit may end at `position`."""
        return lies_on(self.hit_grid, position)


def account_of(state: str, leases: int) -> str:
    """Return the heading under which a cell is counted."""
    if state in (PageState.FREE, PageState.EVICTED):
        return "free"
    if state in (PageState.SHARED, SlotState.DONATED, SlotState.PROTECTED):
        return "protected" if leases else "evictable"
    return "private"
