"""What a cache may be tempted to do with pages, one act for each guard of the page table."""

from __future__ import annotations

from milepost.reference.requests import Entry, Request
from milepost.spec.answers import Evicted, Grant, Landing, Refused
from milepost.spec.words import NULL, Cell

from .tempted import Tempted, stopped_by


class PublishesOtherwise(Tempted):
    """Publishes a page in another way than it should, if it is let; the facts are told as they are."""

    def puts(self, claim: Request, column: int, cell: int, entry: Entry, filled: int) -> bool:
        """Try to make a page matchable under an entry."""
        own = self.key(claim, (column + 1) * self.page_size)
        facts = {"request": claim.serial, "filled": filled, "page_size": self.page_size,
                 "same_prefix": int(entry.key == own), "entry_occupied": int(entry.key in self.pages)}
        if not self.tries(self.page_cells.hand_over, "publish", cell, entry.depth, **facts):
            return False
        self.pages[entry.key] = entry
        return True

    def filled(self, claim: Request, column: int) -> int:
        """Return how many landed entries a page has."""
        return max(0, min(self.page_size, claim.known() - column * self.page_size))

    def publish_pages(self, claim: Request) -> None:
        column = len(claim.leases)
        while column < len(claim.columns) and claim.epoch == self.epoch and self.publishes(claim, column):
            column += 1
        super().publish_pages(claim)

    def publishes(self, claim: Request, column: int) -> bool:
        """Try it; true where the next column may be looked at."""
        return False


@stopped_by("Page", "publish", "private", "request == owner")
class PublishesAnothersPage(PublishesOtherwise):
    """Publishes the page of another request in the same column as its own."""

    def publishes(self, claim: Request, column: int) -> bool:
        if self.page_at(claim, (column + 1) * self.page_size) or self.filled(claim, column) < self.page_size:
            return False
        for other in self.others(claim):
            if len(other.leases) <= column < len(other.columns):
                entry = self.make_entry(claim, other.columns[column], (column + 1) * self.page_size)
                if self.puts(claim, column, other.columns[column], entry, self.filled(other, column)):
                    return False
        return False


@stopped_by("Page", "publish", "private", "filled == page_size")
class PublishesHalfAPage(PublishesOtherwise):
    """Publishes a page that is not full, under all the tokens that will be in it."""

    def publishes(self, claim: Request, column: int) -> bool:
        end = (column + 1) * self.page_size
        if end > len(claim.tokens) or self.page_at(claim, end) or not self.filled(claim, column):
            return False
        entry = self.make_entry(claim, claim.columns[column], end)
        if self.puts(claim, column, entry.cell, entry, self.filled(claim, column)):
            self.lease_page(claim, column, entry)
            return True
        return False


@stopped_by("Page", "publish", "private", "in_flight == 0")
class PublishesInFlight(PublishesOtherwise):
    """Publishes pages that a step in flight is about to fill, when their request is closed."""

    def filled(self, claim: Request, column: int) -> int:
        return max(0, min(self.page_size, claim.length - column * self.page_size))

    def depart(self, claim: Request, keep: bool) -> Landing:
        if claim.in_flight and claim.epoch == self.epoch:
            for column in range(len(claim.leases), len(claim.columns)):
                end = (column + 1) * self.page_size
                entry = self.make_entry(claim, claim.columns[column], end)
                full = end <= len(claim.tokens) and self.filled(claim, column) == self.page_size
                if not full or entry.key in self.pages or not self.puts(
                        claim, column, entry.cell, entry, self.page_size):
                    break
                self.lease_page(claim, column, entry)
        return super().depart(claim, keep)

    def publishes(self, claim: Request, column: int) -> bool:
        return False


@stopped_by("Page", "publish", "private", "same_prefix == 1")
class PublishesUnderAnotherPrefix(PublishesOtherwise):
    """Publishes its page as that of another open request, which has other tokens there."""

    def publishes(self, claim: Request, column: int) -> bool:
        end = (column + 1) * self.page_size
        for other in self.others(claim):
            if end <= len(other.tokens) and not self.page_at(other, end) and not self.page_at(claim, end):
                entry = self.make_entry(other, claim.columns[column], end)
                if entry.key != self.key(claim, end) and self.puts(
                        claim, column, entry.cell, entry, self.filled(claim, column)):
                    self.lease_page(claim, column, entry)
                    return True
        return False


@stopped_by("Page", "publish", "private", "entry_occupied == 0")
class PublishesOnceMore(PublishesOtherwise):
    """Publishes its own page where one is, and forgets the earlier."""

    def publishes(self, claim: Request, column: int) -> bool:
        end = (column + 1) * self.page_size
        if end > len(claim.tokens) or not self.page_at(claim, end):
            return False
        entry = self.make_entry(claim, claim.columns[column], end)
        if self.puts(claim, column, entry.cell, entry, self.filled(claim, column)):
            self.lease_page(claim, column, entry)
            return True
        return False


@stopped_by("Page", "return", "private", "request == owner")
class FreesAnothersPages(Tempted):
    """Frees the private pages of another request before it asks for its own."""

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        claim = self.requests[request]
        for other in self.others(claim):
            for column in range(len(other.leases), len(other.columns)):
                self.tries(self.page_cells.vacate, "return", other.columns[column], request=claim.serial)
        return super().extend(request, to, draft)


@stopped_by("Page", "return", "private", "in_flight == 0")
class FreesPagesAtClose(Tempted):
    """Frees the private pages of a closed request at once, though a step in flight is about to write them."""

    def depart(self, claim: Request, keep: bool) -> Landing:
        while claim.in_flight and len(claim.columns) > len(claim.leases) and self.tries(
                self.page_cells.vacate, "return", claim.columns[-1], request=claim.serial):
            claim.columns.pop()
        return super().depart(claim, keep)

    def publishable(self, claim: Request) -> int:
        return min(super().publishable(claim), len(claim.columns) * self.page_size)


@stopped_by("Page", "release", "shared", "1 <= leases")
class ReleasesTwice(Tempted):
    """Ends a lease on a page once more, where nobody has one any more."""

    def release_page(self, claim: Request, column: int) -> None:
        cell = claim.leases[column].cell
        super().release_page(claim, column)
        if self.page_cells[cell].leases == 0:
            self.tries(self.page_cells.release, cell)


class EvictsOtherwise(Tempted):
    """Evicts other pages than it should when it is asked to, if it is let."""

    def wanted(self) -> list[Entry]:
        """Return the pages to try."""
        return []

    def evict(self, group: str, cells: int) -> Evicted:
        given_up: list[Cell] = []
        for entry in self.wanted() if group == "kv" else ():
            if len(given_up) < cells and self.tries(
                    self.page_cells.evict, entry.cell, self.dependents(entry)):
                del self.pages[entry.key]
                self.page_cells.reclaim(entry.cell)
                given_up.append((self.page_cells.pool.name, entry.cell))
                snapshot = self.snapshots.get(entry.key)
                if snapshot and self.slot_cells.evictable(snapshot.cell):
                    given_up += self.evict_snapshot(snapshot)
        rest = super().evict(group, max(0, cells - len(given_up)))
        return Evicted((*given_up, *rest.cells))


@stopped_by("Page", "evict", "shared", "leases == 0")
class EvictsWhatIsRead(EvictsOtherwise):
    """Evicts the last pages of what is being read."""

    def wanted(self) -> list[Entry]:
        return [entry for entry in self.pages.values()
                if self.page_cells[entry.cell].leases and not self.dependents(entry)]


@stopped_by("Page", "evict", "shared", "dependents == 0")
class EvictsInsideAPath(EvictsOtherwise):
    """Evicts pages that others continue, and takes a path for whole when its end is there."""

    def wanted(self) -> list[Entry]:
        return [entry for entry in self.pages.values()
                if not self.page_cells[entry.cell].leases and self.dependents(entry)]

    def matched(self, claim: Request) -> int:
        ends = range(self.page_size, len(claim.tokens) + 1, self.page_size)
        return max((end for end in ends if self.page_at(claim, end)), default=0)

    def lease_hit(self, claim: Request) -> None:
        ends = range(self.page_size, claim.hit + 1, self.page_size)
        if all(self.page_at(claim, end) for end in ends):
            return super().lease_hit(claim)
        for column, end in enumerate(ends):
            entry = self.page_at(claim, end)
            claim.columns.append(entry.cell if entry else NULL)
            if entry:
                self.lease_page(claim, column, entry)
        return self.claim_snapshot(claim)
