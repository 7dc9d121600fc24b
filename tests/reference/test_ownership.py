"""The ownership tables are interpreted: what they forbid cannot happen, and what is taken out of them can."""

from dataclasses import replace

import pytest

from milepost.reference.cache import ReferenceCache
from milepost.reference.pools import PageCells, Pool, SlotCells
from milepost.reference.requests import Request
from milepost.spec.capabilities import Configuration
from milepost.spec.ownership import PAGE_ROWS, SLOT_ROWS, Row, Violation

from .player import Player

TEXT = "abcdefghijklmnopqrstuvwxyz"


def without_guard(rows: tuple[Row, ...], name: str, guard: str) -> tuple[Row, ...]:
    """Return a copy of a table in which the rows called `name` have lost one guard."""
    assert any(row.name == name and guard in map(str, row.guards) for row in rows)
    return tuple(
        replace(row, guards=tuple(one for one in row.guards if str(one) != guard)) if row.name == name else row
        for row in rows
    )


class EagerCache(ReferenceCache):
    """Asks for every donation that the tables may forbid."""

    def may_end_at(self, length: int) -> bool:
        return length % self.page_size == 0


def close_unaligned(cache: ReferenceCache) -> None:
    """Close a request at token 12, a page end that is no boundary."""
    player = Player(cache)
    player.open("r1", TEXT[:12])
    player.run("r1", 12)
    cache.close("r1", keep=True)


def test_the_grid_guard_alone_keeps_an_unaligned_state_out() -> None:
    with pytest.raises(Violation, match="grid divides endpoint"):
        close_unaligned(EagerCache(Configuration()))
    cache = EagerCache(Configuration())
    cache.slot_cells.rows = without_guard(SLOT_ROWS, "donate final", "grid divides endpoint")
    close_unaligned(cache)
    assert 12 in {entry.depth for entry in cache.snapshots.values()}


class HastyCache(ReferenceCache):
    """Publishes launched tokens."""

    def publishable(self, claim: Request) -> int:
        return claim.length


def publish_in_flight(cache: ReferenceCache) -> None:
    """Publish while the step that writes the pages is in flight."""
    player = Player(cache)
    player.open("r1", TEXT)
    player.plan("r1", 7)
    cache.launch()
    cache.publish("r1")


def test_the_landing_guard_alone_keeps_unwritten_pages_out() -> None:
    with pytest.raises(Violation):
        publish_in_flight(HastyCache(Configuration()))
    cache = HastyCache(Configuration())
    rows = without_guard(PAGE_ROWS, "publish", "in_flight == 0")
    cache.page_cells.rows = without_guard(rows, "publish", "filled == page_size")
    publish_in_flight(cache)
    assert len(cache.pages) == 1


def test_a_missing_row_stops_its_transition() -> None:
    player = Player(ReferenceCache(Configuration()))
    player.whole("r1", TEXT[:9])
    player.open("r2", TEXT[:9])
    player.cache.slot_cells.rows = tuple(row for row in SLOT_ROWS if row.name != "restore")
    with pytest.raises(Violation, match="restore from free: no such row"):
        player.plan("r2", 9)


def test_a_restore_needs_a_protected_source() -> None:
    cells = SlotCells(Pool("state", 2))
    source = cells.admit(1)
    with pytest.raises(Violation, match="source_leases"):
        cells.restore(2, 0, source)


def test_only_the_owner_returns_a_cell() -> None:
    cells = SlotCells(Pool("state", 2))
    slot = cells.admit(1)
    with pytest.raises(Violation, match="request == owner"):
        cells.vacate("return", slot, request=2)
    cells.vacate("return", slot, request=1)
    assert cells.pool.next_free() == slot


def test_leases_count_to_zero_and_no_further() -> None:
    cells = PageCells(Pool("kv", 1))
    page = cells.allocate(1)
    cells.hand_over("publish", page, 4, request=1, filled=4, page_size=4, same_prefix=1, entry_occupied=0)
    cells.lease(page)
    with pytest.raises(Violation, match="leases == 0"):
        cells.evict(page, dependents=0)
    cells.release(page)
    with pytest.raises(Violation, match="1 <= leases"):
        cells.release(page)
    with pytest.raises(Violation, match="dependents == 0"):
        cells.evict(page, dependents=1)
    cells.evict(page, dependents=0)
    cells.pool.in_flight[page] = 1
    with pytest.raises(Violation, match="in_flight == 0"):
        cells.reclaim(page)


def test_cells_are_granted_from_the_highest_and_last_freed_first() -> None:
    cells = PageCells(Pool("kv", 4))
    assert [cells.allocate(1) for _ in range(3)] == [3, 2, 1]
    cells.vacate("return", 3, request=1)
    assert cells.allocate(1) == 3
    assert cells.allocate(1) == 0
