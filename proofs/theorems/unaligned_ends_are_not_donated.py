"""A state that ends off the grid is not donated, whatever its request does: nothing shorter is claimed for it.

The rows that lead to an entry are taken with a grid that both page and chunk divide; what they let through ends at a
multiple of the page size and of the chunk size.
"""

from collections.abc import Iterator

import z3

from milepost.proofs.moves import model
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope
from milepost.proofs.tables import Tables


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield for each row to an entry that the slot's endpoint is a boundary, before and after."""
    whole = model(tables, scope)
    base, known = whole.background, whole.known
    for move, row in whole.row_moves():
        if move.table == "Slot" and row.after == "donated" and row.before in ("live", "frozen"):
            slots, cell = whole.before.slots, move.names.cell
            ends = z3.And(slots.endpoint(cell) % base.grid == 0,
                          move.after.slots.endpoint(cell) == slots.endpoint(cell))
            yield Obligation(move.label, (*known, move.allowed), ends, move)
    n, grid, size, k, m = z3.Ints("n grid size k m")
    yield Obligation("a multiple of the grid is one of a size that divides it",
                     (grid == size * k, n == grid * m), n == size * (k * m))


OBLIGATIONS = obligations
