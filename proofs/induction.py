"""The two forms of a theorem about steps: true of a fresh cache and kept by each step, or true of each step itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from milepost.proofs.invariants import Invariant
from milepost.proofs.moves import Model, Move, model
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables
from milepost.proofs.world import Background, World, fresh_world

Obligations = Callable[[Tables, Scope], Iterable[Obligation]]


def kept(*invariants: Invariant) -> Obligations:
    """Return that a fresh cache has the statements and every step keeps them."""
    def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
        whole = model(tables, scope)
        base, before = whole.background, whole.known
        for invariant in invariants if tables.only is None else ():
            for name, claim in invariant(base, fresh_world(scope)).items():
                yield Obligation(f"{name}; fresh cache", tuple(base.axioms()), claim)
        for move in whole.moves:
            for invariant in invariants:
                for name, claim in invariant(base, move.after).items():
                    yield Obligation(f"{name}; {move.label}", (*before, move.allowed), claim, move)
    return obligations


def kept_alone(invariant: Invariant) -> Obligations:
    """Return that a fresh cache has the statements and every row keeps them, whatever else is true of the world.

    Neither the other statements nor the conduct of callers are assumed.
    """
    def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
        whole = model(tables, scope)
        base = whole.background
        for name, claim in invariant(base, fresh_world(scope)).items() if tables.only is None else ():
            yield Obligation(f"{name}; alone, fresh cache", tuple(base.axioms()), claim)
        before = [*base.axioms(), *invariant(base, whole.before).values()]
        for move in whole.moves:
            for name, claim in invariant(base, move.after).items():
                yield Obligation(f"{name}; alone, {move.label}", (*before, *move.demands), claim, move)
    return obligations


StepClaim = Callable[[Background, World, Move], dict[str, Term]]


def true_of_each_step(claim: StepClaim) -> Obligations:
    """Return that a statement about before and after is true of every step from a reachable world."""
    def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
        whole: Model = model(tables, scope)
        before = whole.known
        for move in whole.moves:
            for name, term in claim(whole.background, whole.before, move).items():
                yield Obligation(f"{name}; {move.label}", (*before, move.allowed), term, move)
    return obligations


def also(*parts: Obligations) -> Obligations:
    """Return the obligations of several forms together."""
    def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
        for part in parts:
            yield from part(tables, scope)
    return obligations
