"""Every step follows an edge of the ownership table, for every cell that it touches and every one that it does not.

Several rows are taken in one step only where a page is evicted with the snapshot and the window's pages at its end.
"""

import z3

from milepost.proofs.induction import true_of_each_step
from milepost.proofs.moves import Move
from milepost.proofs.scope import Term
from milepost.proofs.tables import Tables
from milepost.proofs.world import Background, Cells, World, state_term
from milepost.spec.ownership import Row, edges


def follows(base: Background, before: World, move: Move) -> dict[str, Term]:
    """Each cell's states before and after are equal or an edge."""
    def along(old: Cells, new: Cells, rows: tuple[Row, ...]) -> Term:
        def edge(cell: Term) -> Term:
            return z3.Or(old.state(cell) == new.state(cell), *(
                z3.And(old.state(cell) == state_term(old.table, one), new.state(cell) == state_term(old.table, other))
                for one, other in sorted(edges(rows))))
        return base.scope.every(old.table, edge)

    tables = Tables()
    return {f"{old.table.lower()}s follow an edge": along(old, new, tables.rows_of(old.table))
            for old, new in zip(before.every_kind(), move.after.every_kind(), strict=True)}


OBLIGATIONS = true_of_each_step(follows)
