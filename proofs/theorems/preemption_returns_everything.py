"""Between any two operations a request can give up all that it has, what is published stays, and it may come again.

For each private cell of a request, live, frozen, draft or page, some row frees it once its steps have landed; for each
of its leases some row ends it. Neither changes anything published, what others have or read, or whether others run. A
request that has nothing left is not running, so that its next open is like any other: a live slot for a cold start, or
restored from what it leases then.
"""

from collections.abc import Iterator

import z3

from milepost.proofs.invariants import LEASED
from milepost.proofs.moves import Move, model
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables, table_of
from milepost.proofs.world import KINDS, PRIVATE, Background, Cells, World

GIVES_UP = ("return", "reject")


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield that a row is there for each cell and each lease, and that taking it touches nothing else."""
    whole = model(tables, scope)
    base, before = whole.background, whole.before
    known = whole.known
    moves = [(move, row) for move, row in whole.row_moves() if row.name in (*GIVES_UP, "release")]
    for kind in KINDS:
        cells = before.cells(kind)
        yield Obligation(f"a {kind.lower()} that is read counts its readers", tuple(known), scope.every(
            f"Request {kind}", lambda request, cell, cells=cells: z3.Implies(
                cells.holds(request, cell), cells.is_in(cell, LEASED[cells.table]))))
        for state in (*PRIVATE[kind], *LEASED[kind]):
            acts = ("release",) if state in LEASED[kind] else GIVES_UP
            rows = [move for move, row in moves if (move.table, row.before) == (kind, state) and row.name in acts]
            yield Obligation(f"a {kind.lower()} that is {state}", tuple(known), _given_up(before, kind, state, rows),
                             (table_of(kind), state))
    for move, _ in moves:
        yield Obligation(f"the rest stays; {move.label}", (*known, move.allowed), _rest_stays(base, before, move), move)
    request = scope.constant("Request", "some_request")
    nothing = [scope.every(kind, lambda cell, kind=kind: z3.Not(before.cells(kind).names(request, cell)))
               for kind in KINDS]
    yield Obligation("who has nothing does not run", (*known, *nothing), z3.Not(before.started(request)))


def _given_up(before: World, kind: str, state: str, rows: list[Move]) -> Term:
    """Return that a request which has or reads a cell in that state may take one of the rows."""
    if not rows:
        return z3.BoolVal(False)
    names, cells = rows[0].names, before.cells(kind)
    holds = cells.holds if state in LEASED[kind] else cells.names
    its = z3.And(cells.is_in(names.cell, (state,)), holds(names.request, names.cell), names.in_flight == 0)
    return z3.Implies(its, z3.Or(*(z3.And(*move.demands) for move in rows)))


def _rest_stays(base: Background, before: World, move: Move) -> Term:
    """Return that published cells keep their entries and contents, and everybody else what it has."""
    every, request, after = base.scope.every, move.names.request, move.after

    def published(old: Cells, new: Cells) -> Term:
        return every(old.table, lambda cell: z3.Implies(old.attached(cell), z3.And(
            new.attached(cell), new.entry(cell) == old.entry(cell), new.encodes(cell) == old.encodes(cell))))

    def others(old: Cells, new: Cells) -> Term:
        return every(f"Request {old.table}", lambda other, cell: z3.Implies(other != request, z3.And(
            new.names(other, cell) == old.names(other, cell), new.holds(other, cell) == old.holds(other, cell))))

    run = every("Request", lambda other: z3.Implies(other != request, z3.And(
        after.started(other) == before.started(other), after.live(other) == before.live(other))))
    kinds = list(zip(before.every_kind(), after.every_kind(), strict=True))
    return z3.And(run, *(one(old, new) for old, new in kinds for one in (published, others)))


OBLIGATIONS = obligations
