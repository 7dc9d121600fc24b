"""In any reachable world at most one row of a name applies to a cell, so that the order of a table means nothing."""

from collections.abc import Iterator
from itertools import combinations

import z3

from milepost.proofs.moves import model
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope
from milepost.proofs.tables import Tables


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield for each two rows of one name that not both apply."""
    whole = model(tables, scope)
    known = whole.known
    for (move, row), (other, another) in combinations(whole.row_moves(), 2):
        if move.table == other.table and row.name == another.name:
            both = z3.And(*move.demands, *other.demands)
            for subject in (move, other):
                yield Obligation(f"{move.label}, or {other.label}", (*known, *move.conduct), z3.Not(both), subject)


OBLIGATIONS = obligations
