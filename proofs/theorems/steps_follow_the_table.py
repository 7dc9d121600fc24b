"""Every step follows an edge of the ownership table, for every cell that it touches and every one that it does not.

Two rows may be taken in one step only where a page is evicted with the snapshot at its end.
"""

import z3

from milepost.proofs.induction import true_of_each_step
from milepost.proofs.moves import Move
from milepost.proofs.scope import Term
from milepost.proofs.world import Background, Cells, World, state_term
from milepost.spec.ownership import PAGE_ROWS, SLOT_ROWS, Row, edges


def follows(base: Background, before: World, move: Move) -> dict[str, Term]:
    """Each cell's states before and after are equal or an edge."""
    def along(old: Cells, new: Cells, rows: tuple[Row, ...]) -> Term:
        def edge(cell: Term) -> Term:
            return z3.Or(old.state(cell) == new.state(cell), *(
                z3.And(old.state(cell) == state_term(old.table, one), new.state(cell) == state_term(old.table, other))
                for one, other in sorted(edges(rows))))
        return base.scope.every(old.table, edge)

    return {"slots follow an edge": along(before.slots, move.after.slots, SLOT_ROWS),
            "pages follow an edge": along(before.pages, move.after.pages, PAGE_ROWS)}


OBLIGATIONS = true_of_each_step(follows)
