"""A state of 1,024 tokens at an entry of 1,000 is refused, and by exactly one guard: `endpoint == depth`.

Without that guard it would be donated, and twenty-four tokens that the request does not contain would come with it.
The same for every entry shorter than the state.
"""

from collections.abc import Iterator

import z3

from milepost.proofs.moves import Move, model
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables
from milepost.spec.ownership import Guard, Row, holds

STATE, ENTRY = 1_024, 1_000
THE_GUARD = "endpoint == depth"


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield for each row to an entry: that guard fails, the others hold, and what would follow without it."""
    whole = model(tables, scope)
    base, before = whole.background, whole.before
    known = whole.known
    for move, row in whole.row_moves():
        if move.table == "Slot" and row.after == "donated" and row.before in ("live", "frozen"):
            cell = move.names.cell
            at = [before.slots.endpoint(cell) == STATE, base.length(move.names.entry) == ENTRY]
            yield Obligation(f"refused; {move.label}", (*known, *at), z3.Not(z3.And(*move.demands)), move)
            good = {**{name: z3.Int(name) for name in move.facts}, "endpoint": z3.IntVal(STATE),
                    "depth": z3.IntVal(ENTRY)}
            yield Obligation(f"by that guard alone; {move.label}", legal(good), only_that(row, good), move)
            others = [holds(guard, move.facts) for guard in row.guards if str(guard) != THE_GUARD]
            yield Obligation(f"tokens too many without it; {move.label}",
                             (*known, *at, move.demands[0], *others, *move.conduct), too_many(base.length, move), move)
    yield from any_shorter_entry(tables, scope)


def legal(facts: dict[str, Term]) -> tuple[Term, ...]:
    """Return that everything else about the donation is as it should be."""
    return (facts["request"] == facts["owner"], facts["same_prefix"] == 1, facts["entry_occupied"] == 0,
            facts["closing"] == 1, facts["grid"] == 64)


def only_that(row: Row, facts: dict[str, Term]) -> Term:
    """Return that exactly one guard of a row fails."""
    def kept(guard: Guard) -> Term:
        return holds(guard, facts)

    return z3.And(*(z3.Not(kept(guard)) if str(guard) == THE_GUARD else kept(guard) for guard in row.guards))


def too_many(length: object, move: Move) -> Term:
    """Return that the state at the entry has read exactly the difference more than the entry has."""
    assert callable(length)
    slots, cell = move.after.slots, move.names.cell
    return length(slots.encodes(cell)) - length(slots.entry(cell)) == STATE - ENTRY


def any_shorter_entry(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield that no row lets a state to any entry shorter than itself."""
    whole = model(tables, scope)
    for move, row in whole.row_moves():
        if move.table == "Slot" and row.after == "donated" and row.before in ("live", "frozen"):
            longer = whole.before.slots.endpoint(move.names.cell) > whole.background.length(move.names.entry)
            yield Obligation(f"any shorter entry; {move.label}", (longer,), z3.Not(z3.And(*move.demands)), move)


OBLIGATIONS = obligations
