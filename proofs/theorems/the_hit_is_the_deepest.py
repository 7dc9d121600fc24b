"""The hit is the deepest n that every group offers: all offer it, of no deeper one all do, and 0 is left otherwise.

It is never the maximum over groups. `spec.resume.deepest` is cut at its loop, for any limit, over one offer and
all the others together. Which lengths are legal to offer is `resume_is_sound`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

import z3

from milepost.proofs.interpreter import outcomes
from milepost.proofs.loops import Source, around, source_of
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables
from milepost.spec.resume import deepest

Offered = Callable[[Term], Term]


def none_between(low: Term, high: Term, offered: Offered) -> Term:
    """Return that no length above `low` and up to `high` is offered."""
    m = z3.Int("between")
    return z3.ForAll([m], z3.Implies(z3.And(low < m, m <= high), z3.Not(offered(m))))


def is_deepest(n: Term, limit: Term, offered: Offered) -> Term:
    """Return that n is the deepest length up to `limit` that is offered, 0 where none is."""
    return z3.And(n >= 0, n <= limit, z3.Or(n == 0, offered(n)), none_between(n, limit, offered))


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield what is true of the search as it stands."""
    yield from of_source(source_of(deepest))


def of_source(source: Source) -> Iterator[Obligation]:
    """Yield that the loop starts right, keeps what it has to, and ends right, and that it goes down one by one."""
    before, loop, behind = around(source.statements(), ast.For)
    limit, n = z3.Ints("limit n")
    one, others = (z3.Function(f"offered by {name}", z3.IntSort(), z3.BoolSort()) for name in ("one", "the others"))
    offers = [lambda at: one(at), lambda at: others(at)]
    yield Obligation("all offers are asked", (), z3.BoolVal(all(asks_all(source, before, count) for count in range(5))))

    def offer(at: Term) -> Term:
        return z3.And(one(at), others(at))

    header = replace(source, known={**source.known, "range": lambda start, stop, step=1: (start, stop, step)})
    (_, (start, stop, step)), = outcomes(header.value(loop.iter, "limit"), limit)
    yield Obligation("it goes down from the limit to 1", (limit >= 0,), z3.And(start == limit, stop == 0, step == -1))
    kept = (n > 0, n <= limit, none_between(n, limit, offer))
    yield Obligation("it starts right", (limit > 0,), none_between(limit, limit, offer))
    body = source.piece(loop.body, "n limit checks")
    for number, (way, result) in enumerate(outcomes(body, n, limit, offers)):
        claim = none_between(n - 1, limit, offer) if result is None else is_deepest(result, limit, offer)
        yield Obligation(f"it goes on right, way {number}", (*kept, way), claim)
    (_, last), = outcomes(source.piece(behind, "limit"), limit)
    yield Obligation("it ends right", (limit >= 0, none_between(z3.IntVal(0), limit, offer)),
                     is_deepest(z3.IntVal(0) + last, limit, offer))


def asks_all(source: Source, before: list[ast.stmt], count: int) -> bool:
    """Tell whether what comes before the loop keeps every offer, in its order."""
    offers = [str(number) for number in range(count)]
    return list(source.piece(before, "limit offers", "checks")(0, offers)) == offers


OBLIGATIONS = obligations
