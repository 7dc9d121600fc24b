"""The joint hit only shrinks, comes to rest, and rests at the deepest n that every group offers, in whatever order.

So it is never the maximum over groups, and no group's length is taken for another's. Each cut names a group that
refuses every length that the cut took away, the cuts lie end to end from the limit to the hit, and without a cut the
hit is the limit. `spec.resume.joint` is cut at its two loops, for any number of offers and any limit; that `deepest`
gives the deepest is `the_hit_is_the_deepest`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import z3

from milepost.proofs.interpreter import bare, outcomes
from milepost.proofs.loops import Source, around, source_of
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables
from milepost.proofs.theorems.the_hit_is_the_deepest import is_deepest, none_between
from milepost.spec.resume import joint

Function = Callable[..., Term]
NAMES, ALL = "limit n cuts calm", "(n, cuts, calm)"
LIMIT = z3.Int("limit")
OFFER = z3.DeclareSort("Offer")
HOLDS: Function = z3.Function("holds", OFFER, z3.IntSort(), z3.BoolSort())


def reached(offer: Term) -> Function:
    """Return the deepest length that one offer holds at, from any length on."""
    deepest = z3.Function("deepest", OFFER, z3.IntSort(), z3.IntSort())
    return lambda n: deepest(offer, n)


def by_all(n: Term) -> Term:
    """Return that every offer holds."""
    offer = z3.Const("each offer", OFFER)
    return z3.ForAll([offer], HOLDS(offer, n))


def searched() -> Term:
    """Return what `deepest` gives for one offer."""
    offer, n = z3.Const("any offer", OFFER), z3.Int("any n")
    return z3.ForAll([offer, n], z3.Implies(
        n >= 0, is_deepest(reached(offer)(n), n, lambda m: HOLDS(offer, m))))


def deepest_of(n: Term, offers: tuple[Function, ...]) -> Term:
    """Stand for `deepest` with one offer; it is known by what it holds at."""
    probe = z3.Int("probe")
    (offer,) = offers
    asked: Term = bare(offer(probe))
    assert asked.decl().eq(HOLDS(z3.Const("any", OFFER), probe).decl())
    return reached(asked.arg(0))(n)


@dataclass(frozen=True)
class Cuts:
    """Any number of cuts, numbered from 0."""

    count: Term
    name: Function
    before: Function
    after: Function

    def added(self, cuts: tuple[Any, ...]) -> Cuts:
        """Return these and some more."""
        made = self
        for name, before, after in cuts:
            made = Cuts(made.count + 1, *(_with(old, made.count, new) for old, new in (
                (made.name, name), (made.before, before), (made.after, after))))
        return made

    def lead_to(self, n: Term) -> Term:
        """Return that the cuts lie end to end from the limit to n, and that each names one that refuses its lengths."""
        i = z3.Int("i")
        last = self.count - 1
        each = z3.And(self.after(i) >= 0, self.after(i) < self.before(i), z3.Or(
            self.after(i) == 0, HOLDS(self.name(i), self.after(i))),
            none_between(self.after(i), self.before(i), lambda m: HOLDS(self.name(i), m)))
        chain = z3.Implies(i < last, self.after(i) == self.before(i + 1))
        ends = z3.If(self.count == 0, n == LIMIT, z3.And(self.before(0) == LIMIT, self.after(last) == n, n < LIMIT))
        return z3.And(self.count >= 0, ends, z3.ForAll([i], z3.Implies(
            z3.And(i >= 0, i < self.count), z3.And(each, chain))))


def _with(function: Function, at: Term, value: Term) -> Function:
    return lambda i: z3.If(i == at, value, function(i))


def any_cuts() -> Cuts:
    """Return cuts of which nothing is known."""
    integer = z3.IntSort()
    return Cuts(z3.Int("cuts"), z3.Function("cut by", integer, OFFER), z3.Function("cut before", integer, integer),
                z3.Function("cut after", integer, integer))


def no_cuts() -> Cuts:
    """Return that there is no cut yet."""
    return Cuts(z3.IntVal(0), *(getattr(any_cuts(), name) for name in ("name", "before", "after")))


def between_rounds(n: Term, cuts: Cuts, calm: Term) -> Term:
    """Return what holds before each round and after the last: nothing deeper was offered by all, and rest is rest."""
    offer = z3.Const("offer at rest", OFFER)
    return z3.And(n >= 0, n <= LIMIT, none_between(n, LIMIT, by_all), cuts.lead_to(n),
                  z3.Implies(calm, z3.ForAll([offer], z3.Or(n == 0, HOLDS(offer, n)))))


def inside_round(n: Term, cuts: Cuts, calm: Term, start: Term, asked: Function) -> Term:
    """Return what holds between two offers of a round that started at `start`: no rest means that it has shrunk."""
    offer = z3.Const("offer asked", OFFER)
    return z3.And(n >= 0, n <= LIMIT, start <= LIMIT, none_between(n, LIMIT, by_all), cuts.lead_to(n),
                  z3.If(calm, n == start, n < start),
                  z3.Implies(calm, z3.ForAll([offer], z3.Implies(asked(offer), z3.Or(n == 0, HOLDS(offer, n))))))


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield what is true of the fixed point as it stands."""
    yield from of_source(source_of(joint))


def of_source(source: Source) -> Iterator[Obligation]:
    """Yield that rounds start and end right, that each but the last shrinks, and that the last is at rest."""
    before, rounds, behind = around(source.statements(), ast.While)
    opening, asking, closing = around(rounds.body, ast.For)
    n, start, calm, cuts = z3.Int("n"), z3.Int("start"), z3.Bool("calm"), any_cuts()
    asked = z3.Function("asked", OFFER, z3.BoolSort())
    every = z3.Const("every offer", OFFER)
    known = (LIMIT >= 0, searched())
    (_, (first, new, rest)), = outcomes(source.piece(before, "limit", ALL), LIMIT)
    yield Obligation("it starts right", known, between_rounds(first, no_cuts().added(new), _truth(rest)))
    going = _asked(source, rounds.test, calm)
    (_, opened), = outcomes(source.piece(opening, "calm", "calm"), calm)
    yield Obligation("a round starts right", (*known, between_rounds(n, cuts, calm), going), inside_round(
        n, cuts, _truth(opened), n, lambda offer: z3.BoolVal(False)))
    yield from _each_offer(source, asking, known)
    whole = (*known, inside_round(n, cuts, calm, start, asked), z3.ForAll([every], asked(every)))
    (_, (after, none, still)), = outcomes(source.piece(closing, NAMES, ALL), LIMIT, n, [], calm)
    yield Obligation("a round ends right", whole, between_rounds(after, cuts.added(none), _truth(still)))
    yield Obligation("a round after which another comes has shrunk", (*whole, going), z3.And(n >= 0, n < start))
    (_, (hit, none)), = outcomes(source.piece(behind, "limit n cuts"), LIMIT, n, [])
    yield Obligation("it rests at the deepest", (*known, between_rounds(n, cuts, calm), z3.Not(going)), z3.And(
        is_deepest(hit, LIMIT, by_all), cuts.added(none).lead_to(hit)))


def _each_offer(source: Source, asking: ast.For, known: tuple[Term, ...]) -> Iterator[Obligation]:
    """Yield that every offer is asked once, and that each keeps what holds inside a round."""
    yield Obligation("all offers are asked", (), z3.BoolVal(ast.unparse(asking.iter) == "offers.items()"))
    n, start, calm, cuts = z3.Int("n"), z3.Int("start"), z3.Bool("calm"), any_cuts()
    asked, offer = z3.Function("asked", OFFER, z3.BoolSort()), z3.Const("this offer", OFFER)
    target = ast.unparse(asking.target).strip("()").replace(",", "")
    body = source.piece(asking.body, f"{NAMES} {target}", ALL)
    for number, (way, (after, new, rest)) in enumerate(outcomes(
            body, LIMIT, n, [], calm, offer, lambda at: HOLDS(offer, at), deepest=deepest_of)):
        kept = (*known, inside_round(n, cuts, calm, start, asked), way)
        yield Obligation(f"an offer keeps it, way {number}", kept, inside_round(
            after, cuts.added(new), _truth(rest), start, lambda one: z3.Or(one == offer, asked(one))))


def _asked(source: Source, test: ast.expr, calm: Term) -> Term:
    """Return the condition of a loop as a term."""
    return z3.Or(*(z3.And(way, _truth(result)) for way, result in outcomes(source.value(test, "calm"), calm)))


def _truth(value: object) -> Term:
    return z3.BoolVal(value) if isinstance(value, bool) else value


OBLIGATIONS = obligations
