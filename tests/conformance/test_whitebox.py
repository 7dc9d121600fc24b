"""An inventory that disagrees with the tables is a fault; one that agrees is left alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from milepost.conformance.driver import Driver
from milepost.conformance.errors import AdapterError
from milepost.conformance.outcome import Outcome
from milepost.conformance.whitebox import accounting_complaint, accounting_observer, inventory_observer
from milepost.conformance.whitebox_tables import reachable
from milepost.reference.cache import ReferenceCache, make, make_explicit
from milepost.reference.liberties import LIBERTIES
from milepost.reference.mutants import MUTANTS
from milepost.spec.capabilities import Configuration
from milepost.spec.ownership import PAGE_ROWS, SLOT_ROWS
from milepost.spec.seam import Adapter, Holding
from milepost.spec.state import State, initial
from milepost.spec.words import Cell

from .bench import Make, generated, run, write

Inventory = dict[Cell, Holding]
Edit = Callable[["Doctored", Inventory], None]

HIT = "open r1 a9\nextend r1 9\nclose r1 keep\nland\nopen r2 a8|b4"
RUNNING = "open r1 a9\nextend r1 9\nland"
FROZEN = "open r1 a9\nextend r1 8\nland"


class Doctored(ReferenceCache):
    """The reference with an inventory that is edited from the given operation on."""

    def __init__(self, edit: Edit, after: int) -> None:
        super().__init__(Configuration())
        self.edit, self.after, self.asked = edit, after, 0

    def inventory(self) -> Inventory:
        self.asked += 1
        inventory = super().inventory()
        if self.asked >= self.after:
            self.edit(self, inventory)
        return inventory


def change(pool: str, before: str, /, **fields: Any) -> Edit:
    """Edit the first cell of a pool that is in this state."""

    def edit(cache: Doctored, inventory: Inventory) -> None:
        for cell, holding in inventory.items():
            if cell[0] == pool and holding.state == before:
                inventory[cell] = replace(holding, **fields)
                return

    return edit


def drop(cache: Doctored, inventory: Inventory) -> None:
    del inventory["kv", 0]


def observe(text: str, edit: Edit, after: int = 1) -> Outcome:
    cache = Doctored(edit, after)
    return Driver(cache, [inventory_observer(cache, cache.capabilities)]).run(write(text))


DISAGREEMENTS: list[tuple[str, str, Edit, str]] = [
    ("a cell is missing", "open r1 a9", drop, "leak"),
    ("a lease count is negative", HIT, change("kv", "free", leases=-1), "lease-underflow"),
    ("a page that is read is free", HIT, change("kv", "shared", state="free"), "evicted-while-leased"),
    ("a page that is read has slid out", HIT, change("kv", "shared", state="tombstone"), "evicted-while-leased"),
    ("a snapshot that is restored from is evicted", HIT, change("state", "protected", state="evicted"),
     "evicted-while-leased"),
    ("a page has fewer leases than readers", HIT, change("kv", "shared", leases=0), "lease-underflow"),
    ("a snapshot has fewer leases than readers", HIT, change("state", "protected", state="donated", leases=0),
     "lease-underflow"),
    ("an offered page is still owned by another", HIT, change("kv", "shared", owner="r9"), "reads-private"),
    ("an offered snapshot is somebody's live slot", HIT, change("state", "protected", state="live", owner="r9"),
     "reads-private"),
    ("a live slot is free", RUNNING, change("state", "live", state="free", owner=""), "double-grant"),
    ("a live slot is donated", RUNNING, change("state", "live", state="donated", owner=""), "double-grant"),
    ("a live slot belongs to another", RUNNING, change("state", "live", owner="r9"), "double-grant"),
    ("a private page belongs to nobody", RUNNING, change("kv", "private", owner=""), "double-grant"),
    ("a page of a running request is evicted", RUNNING, change("kv", "private", state="evicted", owner=""),
     "double-grant"),
    ("a frozen slot is live", FROZEN, change("state", "frozen", state="live"), "double-grant"),
    ("a frozen slot has another position", FROZEN, change("state", "frozen", endpoint=4), "illegal-boundary"),
    ("an owner is gone", "open r1 a9", change("kv", "free", state="private", owner="r9"), "leak"),
    ("a private cell has no owner", "open r1 a9", change("state", "free", state="live", endpoint=3), "leak"),
    ("a snapshot claims more than it has read", HIT, change("state", "protected", endpoint=16), "torn-hit"),
    ("a snapshot claims less than it has read", HIT, change("state", "protected", endpoint=4), "over-advanced"),
]


@pytest.mark.parametrize(("text", "edit", "code"), [row[1:] for row in DISAGREEMENTS],
                         ids=[row[0] for row in DISAGREEMENTS])
def test_a_disagreement_is_a_fault(text: str, edit: Edit, code: str) -> None:
    assert observe(text, edit).code == code


def test_a_tombstone_may_be_computed_again_where_it_is() -> None:
    assert not observe(RUNNING, change("kv", "private", state="tombstone", owner="")).failed


def test_an_offered_page_is_private_to_nobody() -> None:
    text = "open r1 a9\nextend r1 9\npublish r1\nopen r2 a8|b4"
    assert observe(text, change("kv", "shared", state="private", owner="r1"), after=6).code == "reads-private"


def test_a_published_page_does_not_become_private_while_it_is_held() -> None:
    text = "open r1 a9\nextend r1 8\npublish r1\nopen r2 b4"
    outcome = observe(text, change("kv", "shared", state="private", owner="r1"), after=6)
    assert outcome.code == "double-grant"
    assert outcome.fault
    assert outcome.fault.detail == "it went from shared to private, and no row leads there while it is held"


def test_what_only_leads_through_a_free_cell_is_no_move_of_a_held_one() -> None:
    slots, pages = reachable(SLOT_ROWS), reachable(PAGE_ROWS)
    assert ("live", "protected") in slots
    assert ("frozen", "donated") in slots
    assert ("protected", "live") not in slots
    assert ("private", "shared") in pages
    assert ("shared", "private") not in pages


def test_a_state_that_the_tables_do_not_know_is_the_adapters_error() -> None:
    with pytest.raises(AdapterError, match="unknown state 'borrowed'"):
        observe("open r1 a9", change("kv", "free", state="borrowed"))


def test_a_slot_is_in_no_state_of_a_page() -> None:
    with pytest.raises(AdapterError, match="unknown state 'shared'"):
        observe("open r1 a9", change("state", "free", state="shared"))


def test_an_inventory_must_be_there_where_it_is_offered() -> None:
    plain: Any = object()
    with pytest.raises(AdapterError, match="has none"):
        inventory_observer(plain, make(Configuration()).capabilities)
    with pytest.raises(AdapterError, match="has none"):
        accounting_observer(plain, make(Configuration()).capabilities)


@pytest.mark.parametrize("cache", [make, make_explicit, *LIBERTIES.values()])
def test_a_correct_cache_agrees_with_the_tables(cache: Make) -> None:
    for number in range(12):
        outcome = run(cache, generated(cache, number))
        assert not outcome.failed, (number, outcome.fault, outcome.broken)


@pytest.mark.parametrize("mutant", ["lease-is-released-twice", "published-page-stays-private"])
def test_a_mutant_with_an_inventory_dies_by_it(mutant: str) -> None:
    cache = MUTANTS[mutant].make
    codes = {run(cache, generated(cache, number)).code for number in range(20)}
    assert codes & set(MUTANTS[mutant].codes)


class Counting(ReferenceCache):
    """The reference with counts that are changed by the given amounts."""

    def __init__(self, **changes: int) -> None:
        super().__init__(Configuration())
        self.changes = changes

    def account(self) -> dict[str, dict[str, int]]:
        counts = super().account()
        for heading, change in self.changes.items():
            counts["kv"][heading] += change
        return counts


def complaint(cache: ReferenceCache, state: State | None = None) -> str | None:
    idle = initial(cache.capabilities)
    return accounting_complaint(cache, cache.capabilities, idle, state or idle)


def test_exact_counts_are_not_complained_about() -> None:
    assert complaint(Counting()) is None


def test_counts_add_up_to_the_pool() -> None:
    assert complaint(Counting(free=-1)) == (
        "pool kv has 12 cells and its counts are 11 free, 0 private, 0 evictable, 0 protected"
    )


def test_no_count_is_negative() -> None:
    assert complaint(Counting(free=1, private=-1)) == (
        "pool kv has a negative count: 13 free, -1 private, 0 evictable, 0 protected"
    )


def test_an_idle_cache_counts_nothing_as_held() -> None:
    assert complaint(Counting(free=-1, private=1)) == (
        "nothing is open or in flight, and pool kv still counts 11 free, 1 private, 0 evictable, 0 protected"
    )


def test_a_broken_count_ends_a_schedule_and_names_the_promise() -> None:
    def careless(configuration: Configuration) -> Adapter:
        return Counting(evictable=1)

    outcome = run(careless, write("open r1 a4"))
    assert outcome.code == "promise:exact-accounting"
    assert outcome.broken
    assert outcome.broken.sentence.startswith("after operation 1, open: pool kv has 12 cells")
