"""Python and the solver agree on the rows, the operations and the arithmetic: every state of a small scope is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import gcd

import pytest
import z3

from milepost.proofs.interpreter import interpret
from milepost.proofs.moves import Move, row_move
from milepost.proofs.scope import SMALL, Term
from milepost.proofs.tables import Tables
from milepost.proofs.world import PRIVATE, STATES, World, any_world, background, state_term
from milepost.reference.pools import Cells, Occupant, PageCells, Pool, SlotCells
from milepost.spec import geometry, resume
from milepost.spec.ownership import PAGE_ROWS, SLOT_ROWS, Row, Violation
from milepost.spec.words import GroupKind

NUMBERS = range(3)
REQUESTS = SMALL.elements("Request")
SCOPE = SMALL
ROWS = list(Tables().uses())
IDS = [f"{table} {row.name} {row.before}" for table, row in ROWS]


@dataclass(frozen=True)
class Case:
    """One cell before an operation, and the facts that come with the operation."""

    state: str
    owner: int
    leases: int
    facts: dict[str, int]


def facts_named(rows: list[Row]) -> list[str]:
    named = {side for row in rows for guard in row.guards for side in (guard.left, guard.right)
             if isinstance(side, str)}
    return sorted(named - {"request", "owner", "leases"})


def cases(table: str, row: Row) -> Iterator[Case]:
    """Yield every state, owner and count of leases, and all small values of the facts that the row's guards name."""
    names = facts_named([row])
    leases = NUMBERS if any("leases" in (guard.left, guard.right) for guard in row.guards) else (0,)
    for state, owner, count in product(STATES[table], (1, 2), leases):
        for values in product(*(RANGES.get(name, NUMBERS) for name in names)):
            yield Case(state, owner, count, dict(zip(names, values, strict=True)))


RANGES = dict.fromkeys(("same_prefix", "entry_occupied", "closing", "in_flight"), range(2)) | dict.fromkeys(
    ("grid", "page_size"), range(1, 3))
ACTOR = 1


def in_python(table: str, row: Row, case: Case) -> Occupant | None:
    """Take the row on a pool of one cell; None where the table forbids it."""
    pool = Pool("pool", 1)
    cells: Cells = SlotCells(pool, (row,)) if table == "Slot" else PageCells(pool, (row,))
    endpoint = case.facts.get("endpoint", 0)
    pool.occupants[0] = Occupant(case.state, case.owner, endpoint, case.leases)
    pool.in_flight[0] = case.facts.get("in_flight", 0)
    before, free = replace(pool.occupants[0]), list(pool.free)
    try:
        METHODS.get(row.name, moved)(cells, row, case)
    except Violation:
        assert pool.occupants[0] == before and pool.free == free, "a refused row changes nothing"
        return None
    return pool.occupants[0]


Method = Callable[[Cells, Row, Case], object]


def moved(cells: Cells, row: Row, case: Case) -> None:
    cells.move(row.name, 0, request=ACTOR, **case.facts)


def occupied(cells: Cells, row: Row, case: Case) -> None:
    facts = {name: value for name, value in case.facts.items() if name != "endpoint"}
    cells.occupy(row.name, ACTOR, case.facts.get("endpoint", 0), **facts)


def vacated(cells: Cells, row: Row, case: Case) -> None:
    cells.vacate(row.name, 0, request=ACTOR)


def handed_over(cells: Cells, row: Row, case: Case) -> None:
    facts = {name: value for name, value in case.facts.items() if name not in ("endpoint", "depth", "in_flight")}
    cells.hand_over(row.name, 0, case.facts.get("depth", 0), request=ACTOR, **facts)


def advanced(cells: Cells, row: Row, case: Case) -> None:
    assert isinstance(cells, SlotCells)
    cells.advance(0, ACTOR, case.facts["new_endpoint"])


def protected(cells: Cells, row: Row, case: Case) -> None:
    assert isinstance(cells, SlotCells)
    cells.protect(0)


def accepted(cells: Cells, row: Row, case: Case) -> None:
    assert isinstance(cells, SlotCells)
    cells.accept(0, ACTOR, case.facts["accepted_length"])


def leased(cells: Cells, row: Row, case: Case) -> None:
    assert isinstance(cells, PageCells)
    cells.lease(0)


METHODS: dict[str, Method] = {
    **dict.fromkeys(("admit", "restore", "freeze", "speculate", "allocate"), occupied),
    **dict.fromkeys(("supersede", "return", "reclaim", "reject"), vacated),
    **dict.fromkeys(("donate", "donate final", "publish"), handed_over),
    "advance": advanced, "protect": protected, "lease": leased, "release": lambda cells, row, case: cells.release(0),
    "accept": accepted,
}
"""What the reference does for each row; the others only move, since it never takes them."""

ONLY_MOVED = {"evict", "slide out", "revive"}


class InSolver:
    """One row as a symbolic step from a world of which each function is one unknown, so that a case can be put in."""

    def __init__(self, table: str, row: Row) -> None:
        self.table, self.row = table, row
        self.base = background(SCOPE)
        self.unknown = {
            "state": z3.Const("the state", state_term(table, "free").sort()),
            "owner": z3.Const("the owner", SCOPE.sort("Request")),
            "endpoint": z3.Int("the endpoint"), "leases": z3.Int("the leases"),
        }
        self.move: Move = row_move(self.base, self._world(), table, row, Tables())
        cell, after = self.move.names.cell, self.move.after.cells(table)
        demands = z3.And(*self.move.demands)
        self.results = [demands, after.state(cell), after.owner(cell), after.endpoint(cell), after.leases(cell)]
        self.fact_names = {name: z3.Int(f"fact {name}") for name in self.move.facts if name not in (
            "request", "owner", "leases", "endpoint")}
        self.results = [z3.substitute(one, *self._facts_as_names()) for one in self.results]

    def _world(self) -> World:
        world = any_world(SCOPE)
        constant = {name: lambda *at, term=term: term for name, term in self.unknown.items()}
        return world.with_cells(replace(world.cells(self.table), **constant))  # type: ignore[arg-type]

    def _facts_as_names(self) -> list[tuple[Term, Term]]:
        """The facts that the row's guards name, as unknowns of their own."""
        named = [name for name in facts_named([self.row]) if name != "endpoint"]
        return [(self.move.facts[name], self.fact_names[name]) for name in named]

    def result(self, case: Case) -> Occupant | None:
        """Put a case in and read the cell after the step."""
        names, endpoint = self.move.names, case.facts.get("endpoint", 0)
        values = [
            (self.unknown["state"], state_term(self.table, case.state)),
            (self.unknown["owner"], REQUESTS[case.owner - 1]), (names.request, REQUESTS[ACTOR - 1]),
            (self.unknown["endpoint"], z3.IntVal(endpoint)), (names.claimed, z3.IntVal(endpoint)),
            (self.unknown["leases"], z3.IntVal(case.leases)),
            (names.goal, z3.IntVal(case.facts.get("new_endpoint", case.facts.get("accepted_length", 0)))),
            (self.base.length(names.entry), z3.IntVal(case.facts.get("depth", 0))),
            *((self.fact_names[name], z3.IntVal(value)) for name, value in case.facts.items()
              if name in self.fact_names),
        ]
        allowed, state, owner, ends, leases = (z3.simplify(z3.substitute(one, *values)) for one in self.results)
        assert z3.is_true(allowed) or z3.is_false(allowed), allowed
        if z3.is_false(allowed):
            return None
        return Occupant(str(state), _number(owner), ends.as_long(), leases.as_long())


def _number(owner: Term) -> int:
    return next((index + 1 for index, one in enumerate(REQUESTS) if one.eq(owner)), 0)


@pytest.mark.parametrize(("table", "row"), ROWS, ids=IDS)
def test_a_row_does_the_same_to_a_cell_in_both(table: str, row: Row) -> None:
    solver, allowed = InSolver(table, row), 0
    for case in cases(table, row):
        python, proved = in_python(table, row, case), solver.result(case)
        assert (python is None) == (proved is None), case
        if python is None or proved is None:
            continue
        allowed += 1
        assert python.state == proved.state, case
        if row.name not in ONLY_MOVED and row.after not in ("free", "evicted"):
            assert python.leases == proved.leases, case
            if table == "Slot":
                assert python.endpoint == proved.endpoint, case
        if row.after in PRIVATE[table] and row.name not in ONLY_MOVED:
            assert python.owner == proved.owner, case
    assert allowed


def test_an_edited_row_does_not_agree() -> None:
    table, row = "Slot", next(row for row in SLOT_ROWS if row.name == "advance")
    solver = InSolver(table, replace(row, guards=row.guards[1:]))
    assert any((in_python(table, row, case) is None) != (solver.result(case) is None) for case in cases(table, row))


def test_every_row_has_a_case_in_the_reference_or_is_only_moved() -> None:
    assert {row.name for row in (*SLOT_ROWS, *PAGE_ROWS)} == set(METHODS) | ONLY_MOVED


def agrees(function: Callable[..., object], *ranges: range, **given: object) -> None:
    """Compare a function of `spec`, interpreted over unknowns, with what it gives for all small numbers."""
    unknown = [z3.Int(f"x{index}") for index in range(len(ranges))]
    term = interpret(function, *unknown, **given)  # type: ignore[arg-type]
    for values in product(*ranges):
        found = z3.simplify(z3.substitute(term, *((one, z3.IntVal(value)) for one, value in zip(
            unknown, values, strict=True)))) if isinstance(term, z3.ExprRef) else term
        expected = function(*values)
        number = found.as_long() if isinstance(found, z3.IntNumRef) else found
        assert (z3.is_true(number) if isinstance(expected, bool) and not isinstance(number, bool) else number) == (
            expected), values


SMALL_SIZES, LENGTHS = range(1, 7), range(0, 25)


def test_geometry_is_the_same_in_both() -> None:
    agrees(geometry.floor_to, SMALL_SIZES, LENGTHS)
    agrees(geometry.lies_on, SMALL_SIZES, LENGTHS)
    agrees(geometry.columns_for, SMALL_SIZES, LENGTHS)
    for page, chunk in product(SMALL_SIZES, SMALL_SIZES):
        term = interpret(geometry.boundary_grid, z3.IntVal(page), z3.IntVal(chunk),
                         gcd=lambda one, other: z3.IntVal(gcd(one.as_long(), other.as_long())))
        assert z3.simplify(term).as_long() == geometry.boundary_grid(page, chunk)


@pytest.mark.parametrize("kind", GroupKind)
def test_the_resume_rule_is_the_same_in_both(kind: GroupKind) -> None:
    agrees(lambda n, window: resume.first_needed(kind, n, window), LENGTHS, SMALL_SIZES)
    agrees(lambda n, ratio: resume.aligned(kind, n, ratio), LENGTHS, SMALL_SIZES)


def test_limits_and_hits_are_the_same_in_both() -> None:
    agrees(resume.longest_possible, range(1, 9), range(9))
    offers = [z3.Function("offer", z3.IntSort(), z3.BoolSort())]
    term = interpret(resume.deepest, 5, [lambda n: offers[0](n)])
    for offered in product((False, True), repeat=5):
        values = [(offers[0](n + 1), z3.BoolVal(offered[n])) for n in range(5)]
        assert z3.simplify(z3.substitute(z3.IntVal(0) + term, *values)).as_long() == resume.deepest(
            5, [lambda n, offered=offered: offered[n - 1]])  # type: ignore[misc]
