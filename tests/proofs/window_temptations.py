"""A cache that keeps the cells of tombstones, and what it may be tempted to do with the pages of a window.

The reference frees the cell of a tombstone at once. This one keeps it until the pool needs it: the next request that
computes the page again does so where it is, and the page is revived.
"""

from __future__ import annotations

from milepost.reference.pools import Pool
from milepost.reference.requests import Entry, Request
from milepost.spec.answers import Landing
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.geometry import columns_for
from milepost.spec.layout import first_column
from milepost.spec.words import NULL, Cell

from .tempted import Tempted, stopped_by

Place = tuple[int, str, int]


class KeepsTombstones(Tempted):
    """Withdraws a window's page that its last reader leaves behind, and lets others compute it again in its cell."""

    def __init__(self, configuration: Configuration, *tables: object) -> None:
        super().__init__(configuration, *tables)  # type: ignore[arg-type]
        self.tombstones: dict[tuple[object, ...], Entry] = {}
        self.again: dict[Place, Entry] = {}

    # Sliding out.

    def give_up_column(self, claim: Request, group: Group, column: int) -> None:
        side = claim.sides[group.name]
        known = self.again.pop((claim.serial, group.name, column), None)
        if known:
            side.cells[column] = NULL
            if self.tombstones.get(known.key) is not known:
                self.clear(known)
            return
        entry = None if claim.closing else side.leases.get(column)
        super().give_up_column(claim, group, column)
        if entry and self.pages.get(entry.key) is entry and not self.is_wanted(claim, group, column):
            self.withdraw(entry)

    def is_wanted(self, claim: Request, group: Group, column: int) -> bool:
        """Tell whether a repeated prompt would need a page."""
        points = self.retained_points(claim)
        return any(first_column(group, at) <= column < columns_for(group.page_size, at) for at in points)

    def withdraw(self, entry: Entry) -> None:
        """Make a page that nobody reads a tombstone."""
        if self.side_cells[entry.group].evictable(entry.cell):
            self.side_cells[entry.group].move("slide out", entry.cell)
            self.bury(entry)

    def bury(self, entry: Entry) -> None:
        """List a page as a tombstone."""
        del self.pages[entry.key]
        self.tombstones[entry.key] = entry

    def clear(self, entry: Entry) -> None:
        """Free the cell of a tombstone."""
        self.side_cells[entry.group].evict(entry.cell, dependents=0)
        self.side_cells[entry.group].reclaim(entry.cell)

    def spare(self) -> list[Entry]:
        """Return the tombstones that nobody computes again, and no step touches."""
        used = list(self.again.values())
        return [entry for entry in self.tombstones.values()
                if entry not in used and not self.side_cells[entry.group].pool.in_flight[entry.cell]]

    def make_room(self, pool: Pool, cells: int) -> bool:
        for entry in self.spare():
            if len(pool.free) < cells and self.side_cells[entry.group].pool is pool:
                del self.tombstones[entry.key]
                self.clear(entry)
        return super().make_room(pool, cells)

    # Computing again.

    def grant_pages(self, claim: Request, stop: int) -> None:
        for group in self.layout.windows:
            side = claim.sides[group.name]
            while len(side.cells) < columns_for(group.page_size, stop):
                column = len(side.cells)
                key = self.side_key(claim, group, (column + 1) * group.page_size)
                known = self.tombstones.get(key) if self.is_told(claim, group, column) else None
                if known is None or known not in self.spare():
                    side.cells.append(self.side_cells[group.name].allocate(claim.serial))
                else:
                    side.cells.append(known.cell)
                    self.again[claim.serial, group.name, column] = known
        super().grant_pages(claim, stop)

    def is_told(self, claim: Request, group: Group, column: int) -> bool:
        """Tell whether all tokens are known by which a page is found."""
        return columns_for(self.page_size, (column + 1) * group.page_size) * self.page_size <= len(claim.tokens)

    def publish_side(self, claim: Request, group: Group, column: int) -> bool:
        key = self.side_key(claim, group, (column + 1) * group.page_size)
        known = self.again.get((claim.serial, group.name, column))
        if known is None:
            if (other := self.tombstones.get(key)) and other not in self.spare():
                return False
            if other:
                del self.tombstones[key]
                self.clear(other)
            return super().publish_side(claim, group, column)
        if self.tombstones.get(key) is not known:
            return False
        self.revive(claim, group, column, known, claim.known())
        return True

    def revive(self, claim: Request, group: Group, column: int, entry: Entry, length: int) -> None:
        """Make a tombstone matchable again; the facts are told as they are."""
        page = group.page_size
        self.side_cells[group.name].move(
            "revive", entry.cell, filled=min(page, length - column * page), page_size=page,
            in_flight=int(claim.landed < min(length, entry.depth)))
        del self.tombstones[entry.key], self.again[claim.serial, group.name, column]
        self.pages[entry.key] = entry
        self.touch(entry)
        self.lease_side(claim, group, column, entry)

    # What goes with others, and counting.

    def evict_page(self, entry: Entry) -> list[Cell]:
        given_up = super().evict_page(entry)
        for known in [one for one in self.tombstones.values() if one.key[2:] not in self.pages]:
            self.forget(known)
        return given_up

    def forget(self, entry: Entry) -> None:
        """Drop a tombstone, at once or when who computes it again gives it up."""
        spare = entry in self.spare()
        del self.tombstones[entry.key]
        if spare:
            self.clear(entry)

    def forget_all(self) -> None:
        for entry in list(self.tombstones.values()):
            self.forget(entry)
        super().forget_all()

    def account(self) -> dict[str, dict[str, int]]:
        counts = super().account()
        for entry in self.spare():
            of_pool = counts[self.pools_of_groups[entry.group]]
            of_pool["private"] -= 1
            of_pool["evictable"] += 1
        return counts


@stopped_by("Page", "slide out", "shared", "leases == 0")
class SlidesOutWhatIsRead(KeepsTombstones):
    """Withdraws a page that it leaves behind, though others read it."""

    def withdraw(self, entry: Entry) -> None:
        if self.tries(self.side_cells[entry.group].move, "slide out", entry.cell):
            self.bury(entry)


class RevivesOtherwise(KeepsTombstones):
    """Revives a page that it computes again in another way than it should, if it is let."""

    def try_all(self, claim: Request, length: int) -> None:
        """Try it for each page of which something was computed, of a request whose first tokens were."""
        for (serial, name, column), entry in list(self.again.items()):
            group = next(group for group in self.layout.windows if group.name == name)
            if serial == claim.serial and claim.epoch == self.epoch and length > column * group.page_size:
                self.tries(self.revive, claim, group, column, entry, length)


@stopped_by("Page", "revive", "tombstone", "filled == page_size")
class RevivesHalfAPage(RevivesOtherwise):
    """Revives a page at a publish, of which only the first entries were computed again."""

    def publish_sides(self, claim: Request) -> None:
        super().publish_sides(claim)
        if not claim.closing:
            self.try_all(claim, claim.known())


@stopped_by("Page", "revive", "tombstone", "in_flight == 0")
class RevivesInFlight(RevivesOtherwise):
    """Revives the pages of a closed request at once, though a step in flight is about to compute them."""

    def depart(self, claim: Request, keep: bool) -> Landing:
        if claim.in_flight and keep:
            self.try_all(claim, min(claim.length, len(claim.tokens)))
        return super().depart(claim, keep)


@stopped_by("Page", "reclaim", "evicted", "in_flight == 0")
class ReclaimsWhatIsComputedAgain(KeepsTombstones):
    """Gives up the tombstones that a closed request computes again, though its step in flight will write them."""

    def __init__(self, configuration: Configuration, *tables: object) -> None:
        super().__init__(configuration, *tables)
        self.waiting: list[Entry] = []

    def depart(self, claim: Request, keep: bool) -> Landing:
        for (serial, name, column), entry in list(self.again.items()) if claim.in_flight else ():
            if serial == claim.serial and entry.key in self.tombstones:
                del self.tombstones[entry.key], self.again[serial, name, column]
                claim.sides[name].cells[column] = NULL
                self.side_cells[name].evict(entry.cell, dependents=0)
                self.waiting.append(entry)
        self.reclaim_what_waits()
        return super().depart(claim, keep)

    def reclaim_what_waits(self) -> None:
        """Reclaim evicted pages, if it is let."""
        self.waiting = [one for one in self.waiting if not self.tries(self.side_cells[one.group].reclaim, one.cell)]

    def land_request(self, claim: Request, stop: int) -> None:
        self.reclaim_what_waits()
        super().land_request(claim, stop)
