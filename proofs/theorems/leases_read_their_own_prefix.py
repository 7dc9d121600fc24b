"""What a request reads under a lease holds exactly the payload of its own prefix: every token, and the same place.

A prefix carries its namespace. Epochs are not modelled.
"""

import z3

from milepost.proofs.induction import also, kept, true_of_each_step
from milepost.proofs.invariants import own_prefixes, page_contents
from milepost.proofs.moves import Move
from milepost.proofs.scope import Term
from milepost.proofs.world import Background, Cells, World


def read_right(base: Background, before: World, move: Move) -> dict[str, Term]:
    """After every step each cell under a lease holds the reader's own prefix."""
    def right(cells: Cells) -> Term:
        return base.scope.every(f"Request {cells.table}", lambda request, cell: z3.Implies(
            cells.holds(request, cell),
            cells.encodes(cell) == base.text(request, base.length(cells.entry(cell)))))

    return {f"{cells.table.lower()}s hold the reader's prefix": right(cells) for cells in move.after.every_kind()}


OBLIGATIONS = also(kept(own_prefixes, page_contents), true_of_each_step(read_right))
