"""The ownership tables: every row can be reached and taken, every guard refuses something, and says which it is."""

from __future__ import annotations

import pytest

from milepost.spec.ownership import (
    PAGE_ROWS,
    RELATIONS,
    SLOT_ROWS,
    Guard,
    PageState,
    Row,
    SlotState,
    Violation,
    edges,
    holds,
    transition,
)

Facts = dict[str, int]

GOOD: Facts = {
    "request": 7, "owner": 7, "endpoint": 1_024, "depth": 1_024, "new_endpoint": 1_025, "same_prefix": 1,
    "entry_occupied": 0, "closing": 1, "grid": 64, "position": 1_024, "step_start": 1_000, "step_end": 1_100,
    "source_leases": 1, "source_endpoint": 1_024, "leases": 0, "in_flight": 0, "accepted_length": 1_024,
    "filled": 16, "page_size": 16, "dependents": 0,
}
"""Facts under which most rows are allowed; `FITTING` has what the others need."""

FITTING: dict[tuple[str, str, str], Facts] = {
    ("admit", "free", "live"): {"endpoint": 0},
    ("protect", "protected", "protected"): {"leases": 1},
    ("release", "protected", "protected"): {"leases": 2},
    ("release", "protected", "donated"): {"leases": 1},
    ("release", "shared", "shared"): {"leases": 1},
}
BAD: dict[str, Facts] = {
    "endpoint == 0": {"endpoint": 64}, "1 <= source_leases": {"source_leases": 0},
    "endpoint == source_endpoint": {"source_endpoint": 960}, "request == owner": {"owner": 8},
    "endpoint < new_endpoint": {"new_endpoint": 1_024}, "grid divides position": {"position": 1_050},
    "step_start <= position": {"step_start": 1_025}, "position <= step_end": {"step_end": 1_023},
    "endpoint == position": {"endpoint": 1_100}, "endpoint == depth": {"depth": 1_000},
    "same_prefix == 1": {"same_prefix": 0}, "entry_occupied == 0": {"entry_occupied": 1},
    "closing == 1": {"closing": 0}, "grid divides endpoint": {"endpoint": 1_000, "depth": 1_000},
    "leases == 0": {"leases": 1}, "1 <= leases": {"leases": 0}, "2 <= leases": {"leases": 0},
    "leases == 1": {"leases": 0}, "in_flight == 0": {"in_flight": 1}, "0 <= leases": {"leases": -1},
    "endpoint == accepted_length": {"accepted_length": 1_023}, "filled == page_size": {"filled": 15},
    "dependents == 0": {"dependents": 2},
}
"""For each guard facts under which it does not hold."""

TABLES = [(SLOT_ROWS, SlotState), (PAGE_ROWS, PageState)]
ROWS = [(rows, row) for rows, _ in TABLES for row in rows]


def names(rows: tuple[Row, ...]) -> list[str]:
    return [f"{row.name}: {row.before} to {row.after}" for row in rows]


def facts_for(row: Row) -> Facts:
    return GOOD | FITTING.get((row.name, row.before, row.after), {})


@pytest.mark.parametrize(("rows", "row"), ROWS, ids=names(SLOT_ROWS) + names(PAGE_ROWS))
def test_a_row_is_taken_when_its_guards_hold(rows: tuple[Row, ...], row: Row) -> None:
    assert transition(rows, row.name, row.before, facts_for(row)) == row.after


@pytest.mark.parametrize(
    ("row", "guard"),
    [(row, guard) for _, row in ROWS for guard in row.guards],
    ids=[f"{row.name}: {row.before} to {row.after}: {guard}" for _, row in ROWS for guard in row.guards],
)
def test_each_guard_refuses_and_is_named(row: Row, guard: Guard) -> None:
    with pytest.raises(Violation) as refused:
        transition((row,), row.name, row.before, facts_for(row) | BAD[str(guard)])
    assert refused.value.guard == guard
    assert (refused.value.row, refused.value.state) == (row.name, row.before)
    assert str(refused.value) == f"{row.name} from {row.before}: guard '{guard}' does not hold"


def test_a_state_of_1024_tokens_at_an_entry_of_1000_is_refused_by_exactly_one_guard() -> None:
    facts = GOOD | {"endpoint": 1_024, "depth": 1_000}
    for row in SLOT_ROWS:
        if row.after == SlotState.DONATED and row.name.startswith("donate"):
            assert [str(guard) for guard in row.guards if not holds(guard, facts)] == ["endpoint == depth"]
            with pytest.raises(Violation, match="'endpoint == depth' does not hold"):
                transition(SLOT_ROWS, row.name, row.before, facts)


def test_no_row_leads_from_a_state_that_the_table_does_not_know() -> None:
    with pytest.raises(Violation, match="donate from free: no such row from state 'free'") as refused:
        transition(SLOT_ROWS, "donate", SlotState.FREE, GOOD)
    assert refused.value.guard is None


@pytest.mark.parametrize(("rows", "states"), TABLES)
def test_every_state_is_reached_from_free_and_leads_back_to_it(
    rows: tuple[Row, ...], states: type[SlotState] | type[PageState]
) -> None:
    forwards, backwards = reachable(edges(rows)), reachable(frozenset((after, one) for one, after in edges(rows)))
    assert forwards == backwards == {state.value for state in states}


def reachable(arrows: frozenset[tuple[str, str]]) -> set[str]:
    reached = {"free"}
    while more := {after for before, after in arrows if before in reached} - reached:
        reached |= more
    return reached


def test_a_protected_slot_is_neither_evicted_nor_freed_nor_written() -> None:
    assert {after for before, after in edges(SLOT_ROWS) if before == "protected"} == {"protected", "donated"}
    assert {after for before, after in edges(SLOT_ROWS) if before == "donated"} == {"protected", "evicted"}


def test_a_frozen_slot_is_never_written_again() -> None:
    assert ("frozen", "live") not in edges(SLOT_ROWS) and ("frozen", "frozen") not in edges(SLOT_ROWS)


def test_leases_are_counted_up_and_down_and_never_below_zero() -> None:
    state, leases = "donated", 0
    for name, expected in (("protect", "protected"), ("protect", "protected"), ("release", "protected"),
                           ("release", "donated")):
        state = transition(SLOT_ROWS, name, state, {"leases": leases})
        leases += 1 if name == "protect" else -1
        assert state == expected
    with pytest.raises(Violation):
        transition(SLOT_ROWS, "release", state, {"leases": leases})
    with pytest.raises(Violation):
        transition(SLOT_ROWS, "evict", "protected", {"leases": 1})


def test_guards_name_facts_and_relations_that_are_known() -> None:
    guards = [guard for _, row in ROWS for guard in row.guards]
    assert {guard.relation for guard in guards} == set(RELATIONS)
    named = {side for guard in guards for side in (guard.left, guard.right) if isinstance(side, str)}
    assert named == set(GOOD)
    assert {str(guard) for guard in guards} == set(BAD)


def test_a_guard_can_be_read_over_terms_as_well_as_over_numbers() -> None:
    class Term(str):
        """A stand-in for a solver's terms: comparisons give text."""

        def __le__(self, other: object) -> str:  # type: ignore[override]
            return f"({self} <= {other})"

    assert holds(Guard("position", "<=", "step_end"), {"position": Term("p"), "step_end": Term("e")}) == "(p <= e)"


def test_what_binds_our_own_caches_only_is_marked() -> None:
    assert [row.name for row in SLOT_ROWS if row.own_rule] == ["supersede", "return", "return", "reclaim", "reject"]
    assert [row.name for row in PAGE_ROWS if row.own_rule] == ["publish", "return", "reclaim", "revive"]


def test_every_row_says_what_it_means_and_stands_there_once() -> None:
    assert all(row.meaning for _, row in ROWS)
    assert len(set(names(SLOT_ROWS))) == len(SLOT_ROWS) and len(set(names(PAGE_ROWS))) == len(PAGE_ROWS)
