"""Liberties of publishing: what is offered, when, and which of two equal cells stays."""

from __future__ import annotations

from milepost.reference.cache import ReferenceCache
from milepost.reference.declaration import without_promises
from milepost.reference.requests import Entry, Request
from milepost.spec.answers import Landing
from milepost.spec.capabilities import Capabilities
from milepost.spec.geometry import floor_to


class PublishesNothing(ReferenceCache):
    """Is no cache at all."""

    def declare(self) -> Capabilities:
        return without_promises(super().declare(), "not-inert")

    def publishable(self, claim: Request) -> int:
        return 0


class PublishesSome(ReferenceCache):
    """Publishes up to the last boundary only: pages beyond it could not be resumed at anyway."""

    def publishable(self, claim: Request) -> int:
        return floor_to(self.grid, super().publishable(claim))


class PublishesOnAbort(ReferenceCache):
    """Publishes at every close, whether that was asked for or not."""

    def close(self, request: str, keep: bool) -> Landing:
        return super().close(request, keep=True)


class KeepsNewerDuplicate(ReferenceCache):
    """Replaces what is published by what a later request computed for the same prefix, where nobody reads it."""

    def adopt_page(self, claim: Request, column: int, entry: Entry) -> None:
        if not self.page_cells.evictable(entry.cell):
            return super().adopt_page(claim, column, entry)
        del self.pages[entry.key]
        self.discard_page(entry, dependents=0)  # what depended on it depends on its successor
        return self.insert_page(claim, column)

    def donate(self, row: str, claim: Request, cell: int, position: int) -> bool:
        older = self.snapshot_at(claim, position)
        if older and self.slot_cells.evictable(older.cell):
            self.evict_snapshot(older)
        return super().donate(row, claim, cell, position)
