"""Once nothing is in flight, every occupied cell has a row that brings it nearer to free.

Its owner returns a private one, its readers release a leased one, the cache evicts what nobody reads, the deepest
page first. The distance is that of the table itself, and a release counts as nearer since it leaves one lease less;
so after finitely many rows every cell is free.
"""

from collections.abc import Iterator

import z3

from milepost.proofs.moves import Move, model
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables, table_of
from milepost.proofs.world import KINDS, STATES, World, state_term
from milepost.spec.ownership import Row, edges


def distances(rows: tuple[Row, ...]) -> dict[str, int]:
    """Return how many rows each state is away from free; a state from which none leads there is missing."""
    found, steps = {"free": 0}, edges(rows)
    while more := {one: found[other] + 1 for one, other in steps if other in found and one not in found}:
        found |= more
    return found


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield for each state but free that some row leads nearer to it."""
    whole = model(tables, scope)
    known = whole.known
    for kind in KINDS:
        away = distances(tables.rows_of(kind))
        for state in STATES[kind]:
            if state != "free":
                moves = [move for move, row in whole.row_moves() if move.table == kind and nearer(row, state, away)]
                yield Obligation(f"{kind.lower()} {state}", tuple(known), way_back(whole.before, kind, state, moves),
                                 (table_of(kind), state))


def nearer(row: Row, state: str, away: dict[str, int]) -> bool:
    """Tell whether a row from `state` ends nearer to free, or with one lease less."""
    if row.before != state or row.after not in away:
        return False
    return away[row.after] < away[state] or row.name == "release"


def way_back(before: World, table: str, state: str, moves: list[Move]) -> Term:
    """Return that in a quiet cache one of the moves is allowed for the request that has or reads the cell."""
    if not moves:
        return z3.BoolVal(False)
    names, cells = moves[0].names, before.cells(table)
    cell, request = names.cell, names.request
    last = cells.holder(cell, cells.leases(cell) - 1)
    quiet = z3.And(cells.state(cell) == state_term(table, state), names.in_flight == 0, names.dependents == 0,
                   request == z3.If(cells.leases(cell) > 0, last, cells.owner(cell)))
    return z3.Implies(quiet, z3.Or(*(z3.And(*move.demands) for move in moves)))


OBLIGATIONS = obligations
