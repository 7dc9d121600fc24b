"""An operation that refuses changes nothing: a row whose guard fails leaves the whole world as it was.

Where one operation takes several rows, a page evicted with the snapshot at its end and the window's pages that only it
covers, the others are never refused once the first is allowed, so that none is left half done. Verbs that make room
before they refuse are not modelled.
"""

from collections.abc import Iterator

import z3

from milepost.proofs.moves import Model, Move, attempted, model
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables
from milepost.proofs.world import Cells, World, function_names, state_term
from milepost.spec.ownership import holds


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield that a refused row changes no function of any cell, and that a page's eviction is whole."""
    whole = model(tables, scope)
    known = whole.known
    for move, _ in whole.row_moves():
        after = attempted(whole.before, move)
        yield Obligation(f"refused; {move.label}", (z3.Not(z3.And(*move.demands)),),
                         same(scope, whole.before, after), move)
    for move, row in whole.row_moves():
        if (move.table, row.name) == ("Page", "evict"):
            for claim in (snapshot_may_go(whole.before, tables, move), windows_may_go(whole, tables, move)):
                yield Obligation(f"whole; {move.label}", (*known, move.allowed), claim, move)


def same(scope: Scope, before: World, after: World) -> Term:
    """Return that two worlds agree in every function of every cell, at a place of which nothing is known."""
    def agree(old: Cells, new: Cells) -> list[Term]:
        return [z3.And(*(getattr(old, name)(*at) == getattr(new, name)(*at) for at in places(scope, old.table, name)))
                for name in function_names()]

    request = scope.constant("Request", "some_request")
    kinds = zip(before.every_kind(), after.every_kind(), strict=True)
    return z3.And(*(one for old, new in kinds for one in agree(old, new)),
                  before.started(request) == after.started(request), before.live(request) == after.live(request))


def places(scope: Scope, table: str, name: str) -> Iterator[tuple[Term, ...]]:
    """Yield arguments of one function of cells."""
    some = {sort: scope.constant(sort, f"some_{sort}") for sort in ("Request", table, "Step", "Prefix", "Int")}
    shape = {"holds": ("Request", table), "place": ("Request", table), "names": ("Request", table),
             "holder": (table, "Int"), "flying": ("Step", table), "writing": ("Step", table),
             "has": ("Prefix",), "cell_of": ("Prefix",)}.get(name, (table,))
    yield tuple(some[sort] for sort in shape)


def snapshot_may_go(before: World, tables: Tables, move: Move) -> Term:
    """Return that the snapshot at an evictable page's end, if there is one, may be evicted by its own row."""
    slots, entry = before.slots, before.pages.entry(move.names.cell)
    return z3.Implies(slots.has(entry), may_go(slots, tables, slots.cell_of(entry)))


def windows_may_go(whole: Model, tables: Tables, move: Move) -> Term:
    """Return that the pages of a window that an evictable page covers may be evicted by their own rows."""
    base, windows, entry = whole.background, whole.before.windows, whole.before.pages.entry(move.names.cell)
    return base.scope.every("Window", lambda page: z3.Implies(
        z3.And(windows.attached(page), base.cover(windows.entry(page)) == entry), may_go(windows, tables, page)))


def may_go(cells: Cells, tables: Tables, cell: Term) -> Term:
    """Return that some row evicts a cell, on which nothing published depends."""
    facts = {"leases": cells.leases(cell), "dependents": z3.IntVal(0)}
    return z3.Or(*(z3.And(cells.state(cell) == state_term(cells.table, row.before),
                          *(holds(guard, facts) for guard in row.guards))
                   for row in tables.rows_of(cells.table) if row.name == "evict"))


OBLIGATIONS = obligations
