"""Each guard and each row of the tables is needed: without it a named theorem fails, and the kit sees a cache fail.

The list of edits is made from the tables. Who is tempted stands in `slot_temptations` and `page_temptations`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.proofs.decode import STORIES, schedule_of
from milepost.proofs.moves import model
from milepost.proofs.scope import SMALL
from milepost.proofs.tables import Tables
from milepost.proofs.teeth import Bite, Edit, all_edits, bite, possible
from milepost.reference.pools import Cells, Occupant
from milepost.spec.ownership import SLOT_ROWS, Guard

from . import draft_temptations, page_temptations, slot_temptations  # noqa: F401  # they register their temptations
from .tempted import TEMPTATIONS, Tempted, run
from .window_temptations import KeepsTombstones

EDITS = {edit.name: edit for edit in all_edits()}

FOLLOWS = {
    "slot protect, donated to protected: leases == 0", "slot protect, protected to protected: 1 <= leases",
    "slot evict, donated to evicted: leases == 0", "page lease, shared to shared: 0 <= leases",
    "page revive, tombstone to shared: leases == 0",
}
"""Guards that the other theorems imply: they speak to readers of the table, and refuse nothing that is reachable."""

def cache_for(edit: Edit) -> type[Tempted]:
    if edit.guard:
        return TEMPTATIONS[edit.table, edit.row.name, edit.row.before, str(edit.guard)]
    return KeepsTombstones if "tombstone" in (edit.row.before, edit.row.after) else Tempted


def test_each_row_and_each_guard_is_in_the_list_once() -> None:
    rows = list(Tables())
    assert len(EDITS) == len(all_edits()) == len(rows) + sum(len(row.guards) for _, row in rows)


def test_what_no_edit_is_tried_for_is_listed() -> None:
    assert set(STORIES) == {(table, row.name) for table, row in Tables()}
    needed = {edit.name for edit in EDITS.values() if edit.guard} - FOLLOWS
    tempted = {name for name, edit in EDITS.items() if edit.guard and (
        edit.table, edit.row.name, edit.row.before, str(edit.guard)) in TEMPTATIONS}
    assert tempted == needed


@pytest.mark.parametrize("name", EDITS)
def test_without_it_a_theorem_fails_and_the_kit_reports_the_cache(name: str) -> None:
    edit = EDITS[name]
    found = bite(edit)
    assert found.follows == (name in FOLLOWS)
    assert bool(found.theorem) != found.follows
    if not found.follows:
        check_on_the_kit(edit, found)


def check_on_the_kit(edit: Edit, found: Bite) -> None:
    """The decoded schedule passes where the table is whole, and fails where it is not."""
    schedule, cache = schedule_of(found), cache_for(edit)
    whole, broken = run(cache, schedule), run(cache, schedule, edit.tables)
    assert not whole.failed, whole.fault
    assert broken.failed


def test_each_story_takes_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[tuple[str, str]] = set()
    move = Cells.move

    def recorded(self: Cells, row: str, index: int, **facts: int) -> Occupant:
        before = self[index].state
        occupant = move(self, row, index, **facts)
        taken.add((row, before))
        return occupant

    monkeypatch.setattr(Cells, "move", recorded)
    for edit in EDITS.values():
        if edit.guard is None:
            taken.clear()
            outcome = run(cache_for(edit), schedule_of(Bite(edit)))
            assert not outcome.failed, (edit.name, outcome.fault)
            assert (edit.row.name, edit.row.before) in taken


def test_each_step_is_possible_and_changes_something() -> None:
    whole = model(Tables(), SMALL)
    found = possible(whole, whole.moves)
    assert len(found) == len(whole.moves) and all(found.values()), found


def test_a_step_that_is_impossible_is_noticed() -> None:
    row = EDITS["slot evict, donated to evicted"].row
    never = replace(row, guards=(Guard(1, "<=", "leases"),))
    whole = model(Tables(tuple(never if one == row else one for one in SLOT_ROWS), only=never), SMALL)
    assert list(possible(whole, whole.moves).values()) == [False]
