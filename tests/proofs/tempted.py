"""Caches that leave one decision to the ownership table: each tries an illegal act, and goes the right way if refused.

With the tables of `spec` such a cache is correct, since the table refuses. With the one guard taken out that stands in
its way it goes wrong, and the kit has to see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from milepost.conformance.drain import filler, fresh_capacity
from milepost.conformance.driver import Driver, Observer
from milepost.conformance.outcome import Outcome
from milepost.conformance.whitebox import accounting_observer, inventory_observer
from milepost.proofs.tables import Tables
from milepost.reference.cache import ReferenceCache
from milepost.reference.pools import Cells
from milepost.reference.requests import Entry, Key, Request
from milepost.spec.capabilities import Configuration
from milepost.spec.ownership import Violation
from milepost.spec.schedule import Schedule
from milepost.spec.words import NULL


class Tempted(ReferenceCache):
    """The reference over any pair of tables."""

    def __init__(self, configuration: Configuration, tables: Tables | None = None) -> None:
        super().__init__(configuration)
        if tables is not None:
            self.slot_cells.rows, self.page_cells.rows = tables.slots, tables.pages
            for cells in self.side_cells.values():
                cells.rows = tables.pages

    def tries(self, act: Callable[..., object], *arguments: object, **facts: int) -> bool:
        """Tell whether the tables let an act happen."""
        try:
            act(*arguments, **facts)
        except Violation:
            return False
        return True

    def others(self, claim: Request) -> list[Request]:
        """Return the other open requests of which no step is in flight and none is planned."""
        return [one for one in self.requests.values() if one is not claim and not one.in_flight and not one.planned]

    def gives(self, row: str, claim: Request, cell: int, key: Key, depth: int) -> bool:
        """Try to give a slot to the entry of any key and depth, whatever is there; the facts are told as they are."""
        own = self.key(claim, depth) if depth <= len(claim.tokens) else ()
        facts = {"request": claim.serial, "closing": int(claim.closing), "grid": self.end_grid,
                 "same_prefix": int(key == own), "entry_occupied": int(key in self.snapshots)}
        if not self.tries(self.slot_cells.hand_over, row, cell, depth, **facts):
            return False
        self.snapshots[key] = Entry(key, self.pages[key].parent, cell, depth, self.tick())
        return True


class Reclaims(Tempted):
    """Reclaims what is evicted at once, if it is let, and else when a step has landed."""

    def __init__(self, configuration: Configuration, tables: Tables | None = None) -> None:
        super().__init__(configuration, tables)
        self.waiting: list[tuple[Cells, int]] = []

    def discard_page(self, entry: Entry, dependents: int) -> None:
        self.page_cells.evict(entry.cell, dependents)
        self._reclaim(self.page_cells, entry.cell)

    def discard_snapshot(self, entry: Entry) -> None:
        self.slot_cells.evict(entry.cell)
        self._reclaim(self.slot_cells, entry.cell)

    def _reclaim(self, cells: Cells, index: int) -> None:
        if not self.tries(cells.reclaim, index):
            self.waiting.append((cells, index))

    def land_request(self, claim: Request, stop: int) -> None:
        waiting, self.waiting = self.waiting, []
        for cells, index in waiting:
            self._reclaim(cells, index)
        super().land_request(claim, stop)


Made = TypeVar("Made", bound=Tempted)
TEMPTATIONS: dict[tuple[str, str, str, str], type[Tempted]] = {}
"""For (table, row, state before, guard) the cache that only this guard keeps from going wrong."""


def stopped_by(table: str, row: str, before: str, *guards: str) -> Callable[[type[Made]], type[Made]]:
    """List a cache under the guards of a row that stand in its way."""
    def register(cache: type[Made]) -> type[Made]:
        for guard in guards:
            TEMPTATIONS[table, row, before, guard] = cache
        return cache
    return register


def run(cache: type[Tempted], schedule: Schedule, tables: Tables | None = None) -> Outcome:
    """Run a schedule on a cache over some tables, judged as the kit judges, with every white-box check."""
    adapter = cache(schedule.header.configuration, tables)
    capabilities = adapter.capabilities
    observers: list[Observer] = [inventory_observer(adapter, capabilities), accounting_observer(adapter, capabilities)]
    fresh = fresh_capacity(lambda: cache(schedule.header.configuration, tables))
    return Driver(adapter, observers).run(schedule, filler(lambda: fresh))


def has_live(claim: Request) -> bool:
    """Tell whether a request has a live slot."""
    return claim.live != NULL
