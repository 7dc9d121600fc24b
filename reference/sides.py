"""The paged groups beside the full one: windows, whose pages slide out, and compressed groups.

Their pages stand in the same dictionary as those of the full group, under the group's name, where they end, and the
prefix that the full page there completes. A page is published only where the full group has the path, and goes with it;
the path never goes for a page. A window page that is missing on a path is a tombstone: the next request that computes
it publishes its own there. The cell of a tombstone is free at once; the rows `slide out` and `revive` are for caches
that keep it.
"""

from __future__ import annotations

from collections.abc import Iterator

from milepost.reference.pools import PageCells, Pool
from milepost.reference.requests import Entry, Key, Request
from milepost.reference.store import PrefixStore
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.geometry import columns_for, floor_to, lies_on
from milepost.spec.layout import first_column
from milepost.spec.words import NULL, Cell, GroupKind


class SideStore(PrefixStore):
    """Finds, leases, publishes, slides out and evicts the pages of side groups."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.side_cells = {
            group.name: PageCells(self.pools[self.pools_of_groups[group.name]]) for group in self.layout.sides
        }

    def cells_of(self, entry: Entry) -> PageCells:
        """Return the table that a page's cell stands in."""
        return self.side_cells[entry.group] if entry.group else self.page_cells

    # Finding.

    def side_key(self, claim: Request, group: Group, end: int) -> Key:
        """Return what a group's page after a request's first `end` tokens is found by.

        It hangs on the page of the full group that has its last token: contexts branch there, and nowhere else.
        """
        return group.name, end, *self.key(claim, columns_for(self.page_size, end) * self.page_size)

    def has_entries(self, claim: Request, group: Group, length: int) -> bool:
        """Tell whether a side group can be resumed at `length`: every page that is needed there is published."""
        if not lies_on(group.page_size, length):
            return False
        columns = range(first_column(group, length), length // group.page_size)
        return all(self.side_key(claim, group, (column + 1) * group.page_size) in self.pages for column in columns)

    # Leases.

    def lease_sides(self, claim: Request) -> None:
        """Lease what a hit needs of each side group: all of a compressed one, the trailing window of a window.

        All pages of a window are used by the hit and become recent; of a compressed one, only where it ends.
        """
        for group in self.layout.sides if claim.hit else ():
            first = first_column(group, claim.hit)
            side = claim.sides[group.name]
            side.cells += [NULL] * first
            for column in range(first, claim.hit // group.page_size):
                entry = self.pages[self.side_key(claim, group, (column + 1) * group.page_size)]
                side.cells.append(entry.cell)
                self.lease_side(claim, group, column, entry)
            used = list(side.leases.values())
            for entry in used if group.kind is GroupKind.WINDOW else used[-1:]:
                self.touch(entry)

    def lease_side(self, claim: Request, group: Group, column: int, entry: Entry) -> None:
        """Let a request read a published page of a side group."""
        self.side_cells[group.name].lease(entry.cell)
        claim.sides[group.name].leases[column] = entry

    def release_side(self, claim: Request, group: Group, column: int) -> None:
        """End a lease; a page that was forgotten meanwhile is freed by its last reader."""
        entry = claim.sides[group.name].leases.pop(column)
        cells = self.side_cells[group.name]
        cells.release(entry.cell)
        if self.pages.get(entry.key) is not entry and cells.evictable(entry.cell):
            self.discard_page(entry, dependents=0)

    def give_up_column(self, claim: Request, group: Group, column: int) -> None:
        """Give up one column: a page that the request shares keeps its content for others, its own is freed."""
        side = claim.sides[group.name]
        index, side.cells[column] = side.cells[column], NULL
        if column in side.leases:
            self.release_side(claim, group, column)
        elif index != NULL:
            self.side_cells[group.name].vacate("return", index, request=claim.serial)

    def return_sides(self, claim: Request, length: int) -> None:
        """Give up the columns behind the first `length` tokens, the last one first."""
        for group in self.layout.sides:
            side = claim.sides[group.name]
            while len(side.cells) > columns_for(group.page_size, length):
                self.give_up_column(claim, group, len(side.cells) - 1)
                side.cells.pop()

    # Sliding out.

    def slide_out(self, claim: Request) -> None:
        """Give up the window pages that no later step of a request reads.

        What a repeated prompt or a rewritten call would need is published first, if it was not yet: then it stays
        until the pool needs it. While that cannot be done, it is kept.
        """
        for group in self.layout.windows if not claim.closing else ():
            gone = [column for column in range(self.first_kept(claim, group)) if self.is_held(claim, group, column)]
            if any(self.is_awaited(claim, group, column) for column in gone):
                self.publish_landed(claim)
            for column in gone:
                if not self.is_awaited(claim, group, column):
                    self.give_up_column(claim, group, column)

    def first_kept(self, claim: Request, group: Group) -> int:
        """Return the first column of a window that the next step may read."""
        return first_column(group, claim.landed)

    def is_held(self, claim: Request, group: Group, column: int) -> bool:
        """Tell whether a request holds a column."""
        return claim.sides[group.name].cells[column] != NULL

    def is_awaited(self, claim: Request, group: Group, column: int) -> bool:
        """Tell whether a page is still private that a request may want which resumes at a retained point."""
        page = group.page_size
        wanted = any(
            first_column(group, point) <= column < columns_for(page, point) for point in self.retained_points(claim)
        )
        return wanted and column not in claim.sides[group.name].leases

    def retained_points(self, claim: Request) -> tuple[int, ...]:
        """Return the boundaries before the end of the prompt and behind the opener of the first tool call.

        Only those count whose tokens others may already read.
        """
        points = (floor_to(self.grid, max(0, claim.prompt - 1)), floor_to(self.grid, claim.anchor))
        return tuple(point for point in points if 0 < point <= self.publishable(claim))

    def publish_landed(self, claim: Request) -> None:
        """Publish what a request has computed so far."""
        raise NotImplementedError

    # Publishing.

    def publish_sides(self, claim: Request) -> None:
        """Publish whole landed pages where the full group's path is; those of a compressed group in order."""
        reach = min(self.publishable(claim), len(claim.leases) * self.page_size)
        for group in self.layout.sides:
            side = claim.sides[group.name]
            for column in range(reach // group.page_size):
                if side.cells[column] == NULL or column in side.leases:
                    continue
                if not self.publish_side(claim, group, column) and group.kind is GroupKind.COMPRESSED:
                    break

    def publish_side(self, claim: Request, group: Group, column: int) -> bool:
        """Publish one page, or take the one that is there; false while a step in flight uses the request's own."""
        side, cells = claim.sides[group.name], self.side_cells[group.name]
        key = self.side_key(claim, group, (column + 1) * group.page_size)
        entry = self.pages.get(key)
        if entry is None:
            entry = self.insert_side(claim, group, column, key)
        elif cells.pool.in_flight[side.cells[column]]:
            return False
        else:
            cells.vacate("return", side.cells[column], request=claim.serial)
            side.cells[column] = entry.cell
        self.lease_side(claim, group, column, entry)
        return True

    def insert_side(self, claim: Request, group: Group, column: int, key: Key) -> Entry:
        """Make a private page matchable, also where a tombstone was."""
        end, page = (column + 1) * group.page_size, group.page_size
        chained = group.kind is GroupKind.COMPRESSED
        parent = self.side_key(claim, group, end - page) if chained else ()
        entry = Entry(key, parent, claim.sides[group.name].cells[column], end, self.tick(), group.name)
        self.side_cells[group.name].hand_over(
            "publish",
            entry.cell,
            end,
            request=claim.serial,
            filled=min(page, claim.known() - column * page),
            page_size=page,
            in_flight=int(claim.landed < end),
            same_prefix=int(key == self.side_key(claim, group, end)),
            entry_occupied=int(key in self.pages),
        )
        self.pages[key] = entry
        return entry

    # Eviction.

    def evictable_pages(self, pool: Pool) -> Iterator[Entry]:
        """Yield the pages of the full group, and those of side groups that nobody reads and nothing continues."""
        yield from super().evictable_pages(pool)
        for entry in self.pages.values():
            cells = self.cells_of(entry)
            if entry.group and cells.pool is pool and cells.evictable(entry.cell) and not self.dependents(entry):
                yield entry

    def evict_page(self, entry: Entry) -> list[Cell]:
        """Evict a page; with one of the full group goes what only it covers."""
        if entry.group:
            return self.evict_side(entry)
        given_up = super().evict_page(entry)
        uncovered = [side for side in self.pages.values() if side.group and not self.is_covered(side)]
        order = [group.name for group in self.layout.sides]
        for side in sorted(uncovered, key=lambda side: (order.index(side.group), -side.depth)):
            given_up += self.evict_side(side)
        return given_up

    def evict_side(self, entry: Entry) -> list[Cell]:
        """Evict a side group's page; the full KV stays, and of a window so do all other pages: a tombstone."""
        dependents = self.dependents(entry)
        del self.pages[entry.key]
        self.discard_page(entry, dependents)
        return [(self.side_cells[entry.group].pool.name, entry.cell)]

    def is_covered(self, side: Entry) -> bool:
        """Tell whether the full group still has the path of a side group's page."""
        return side.key[2:] in self.pages

