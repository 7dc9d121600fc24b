"""Takes each guard and each row out of the tables and names the theorem that fails then.

The edits are made from the tables, so the list is complete as they change. A guard whose loss no theorem notices has
to follow from the others: that is proved, and it is then a check for readers who know less than the theorems do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import z3

from milepost.proofs.moves import Model, Move, model
from milepost.proofs.prover import Obligation, decide
from milepost.proofs.scope import SMALL, UNBOUNDED, Term
from milepost.proofs.tables import Tables, table_of
from milepost.proofs.theorems import all_theorems
from milepost.proofs.theorems import theorem as theorem_of
from milepost.spec.ownership import Guard, Row, holds


@dataclass(frozen=True)
class Edit:
    """The tables without one row, or without one guard of one row."""

    table: str
    row: Row
    guard: Guard | None
    tables: Tables

    @property
    def name(self) -> str:
        """The row, and the guard that was taken out of it, where it was not the whole row."""
        row = f"{self.table.lower()} {self.row.name}, {self.row.before} to {self.row.after}"
        return f"{row}: {self.guard}" if self.guard else row

    @property
    def edited(self) -> Row | None:
        """The row without the guard; None where the whole row was taken out."""
        if self.guard is None:
            return None
        return replace(self.row, guards=tuple(one for one in self.row.guards if one != self.guard))


@dataclass(frozen=True)
class Bite:
    """What an edit does: the theorem that fails and where, with the numbers of a counterexample; or that it follows."""

    edit: Edit
    theorem: str = ""
    obligation: str = ""
    numbers: dict[str, int] = field(default_factory=dict)
    follows: bool = False


ABOUT_MISSING_ROWS = ("every_cell_finds_its_way_back", "rows_allow_what_the_lifecycle_needs")
"""Fewer rows do less harm: only these theorems can tell that one is missing."""


LITTLE = 200_000
"""Resources for what follows at once, or not at all: ten times what the dearest of them takes."""


def all_edits() -> list[Edit]:
    """Return every edit of the tables of `spec`."""
    return [edit for table, row in Tables() for edit in _edits(table, row)]


def _edits(table: str, row: Row) -> Iterator[Edit]:
    yield Edit(table, row, None, _without(table, row, None))
    for guard in row.guards:
        edit = Edit(table, row, guard, Tables())
        yield replace(edit, tables=_without(table, row, edit.edited))


def _without(table: str, row: Row, edited: Row | None) -> Tables:
    """Return tables in which a row is replaced, and comes first, since the order of a table means nothing."""
    tables = Tables()
    rest = tuple(one for one in tables.rows(table) if one != row)
    rows = (edited, *rest) if edited else rest
    return replace(tables, slots=rows) if table == "Slot" else replace(tables, pages=rows)


def bite(edit: Edit) -> Bite:
    """Return that the lost guard follows from the others, or else the first theorem that fails under an edit."""
    if edit.guard is not None and follows(edit):
        return Bite(edit, follows=True)
    for theorem in map(theorem_of, ABOUT_MISSING_ROWS) if edit.guard is None else all_theorems():
        for obligation in theorem.obligations(_narrowed(edit), SMALL):
            if _concerns(obligation, edit):
                verdict, found, _, _ = decide(replace(obligation, assumptions=(
                    *obligation.assumptions, *everyday(obligation.subject))))
                if verdict == "refuted":
                    return Bite(edit, theorem.name, obligation.label, _numbers(obligation, found))
    return Bite(edit)


def _narrowed(edit: Edit) -> Tables:
    """Return tables of which only the edited row is taken; all rows where one is missing."""
    return edit.tables if edit.edited is None else replace(edit.tables, only=edit.edited)


def _concerns(obligation: Obligation, edit: Edit) -> bool:
    if isinstance(obligation.subject, Move):
        move = obligation.subject
        return edit.edited is not None and table_of(move.table) == edit.table and move.row == edit.edited
    return edit.edited is None and obligation.subject in (
        (edit.table, edit.row.name), (edit.table, edit.row.before))


def follows(edit: Edit) -> bool:
    """Tell whether the guard holds wherever the rest of its row and the other theorems do, for any number of things."""
    whole = model(replace(edit.tables, only=edit.edited), UNBOUNDED)
    moves = [move for move, _ in whole.row_moves() if table_of(move.table) == edit.table]
    assert edit.guard is not None and moves
    known = whole.known
    return all(decide(Obligation(edit.name, (*known, *move.demands), holds(edit.guard, move.facts)), LITTLE)[0] == (
        "proved") for move in moves)


LENGTHS = ("endpoint", "depth", "position", "step_start", "step_end", "new_endpoint", "accepted_length")


def everyday(subject: object) -> list[Term]:
    """Return that a counterexample has sizes as caches have them: several pages to a boundary, a few boundaries."""
    if not isinstance(subject, Move):
        return []
    facts = subject.facts
    grid, page = facts["grid"], facts["page_size"]
    short = [z3.And(facts[name] >= 0, facts[name] <= 2 * grid) for name in LENGTHS]
    begun = [facts["endpoint"] >= 1, facts["depth"] >= 1] if subject.table == "Slot" else []
    return [grid % page == 0, grid > page, facts["depth"] % page == 0, *short, *begun]


def _numbers(obligation: Obligation, found: Term) -> dict[str, int]:
    """Return the facts of the step in a counterexample that are numbers."""
    move = obligation.subject
    if not isinstance(move, Move):
        return {}
    values = {name: found.eval(term, model_completion=True) for name, term in move.facts.items()}
    return {name: value.as_long() for name, value in values.items() if isinstance(value, z3.IntNumRef)}


def possible(whole: Model, moves: Iterable[Move]) -> dict[str, bool]:
    """Tell of each step whether it can be taken in some reachable world of a small scope, and then changes it."""
    found: dict[str, bool] = {}
    solver = z3.Solver()
    solver.add(*whole.known)
    for move in moves:
        solver.push()
        solver.add(move.allowed, changed(whole, move))
        found[move.label] = solver.check() == z3.sat
        solver.pop()
    return found


def changed(whole: Model, move: Move) -> Term:
    """Return that a step changes some function of the cell that it is about."""
    before, after, cell = whole.before.cells(move.table), move.after.cells(move.table), move.names.cell
    request, step = move.names.request, move.names.step
    at = {"state": (cell,), "endpoint": (cell,), "leases": (cell,), "filled": (cell,), "names": (request, cell),
          "flying": (step, cell)}
    return z3.Or(*(getattr(before, name)(*where) != getattr(after, name)(*where) for name, where in at.items()))
