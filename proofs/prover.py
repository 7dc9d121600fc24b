"""Theorems as obligations, and the solver that decides each: proved, refuted with a counterexample, or unknown.

Effort is the solver's own count of resources and a seed, so that a result does not depend on a busy machine; time is
only a backstop. `unknown` is a failure like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic

import z3

from milepost.proofs.scope import UNBOUNDED, Scope, Term
from milepost.proofs.tables import Tables

RESOURCES = 5_000_000
"""The solver's `rlimit` for one obligation: at least ten times what the dearest one takes."""

SEED = 20261130
BACKSTOP_SECONDS = 100


@dataclass(frozen=True)
class Obligation:
    """`claim` follows from `assumptions`. `subject` is what it is about: a row's step, or a lemma."""

    label: str
    assumptions: tuple[Term, ...]
    claim: Term
    subject: object = None


@dataclass(frozen=True)
class Theorem:
    """A statement in words, how far it reaches, and the obligations that make it true for a pair of tables."""

    name: str
    sentence: str
    scope: str
    obligations: Callable[[Tables, Scope], Iterable[Obligation]]


@dataclass
class Result:
    """What became of a theorem: `proved`, `refuted` or `unknown`, with the first obligation that was not proved."""

    theorem: Theorem
    verdict: str = "proved"
    obligations: int = 0
    resources: int = 0
    seconds: float = 0.0
    failed: Obligation | None = None
    counterexample: Term = None
    reason: str = ""
    dearest: int = field(default=0)


def decide(obligation: Obligation, resources: int = RESOURCES, seed: int = SEED) -> tuple[str, Term, str, int]:
    """Return the verdict on one obligation, a model where it is refuted, the solver's reason, and what it took.

    Each is decided in a context of its own, so that it takes the same whatever was decided before it. What is assumed
    word for word needs no solver: most steps leave most statements as they are.
    """
    if obligation.claim.get_id() in {one.get_id() for one in obligation.assumptions}:
        return "proved", None, "", 0
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("rlimit", resources)
    solver.set("random_seed", seed % 2**30)
    solver.set("timeout", BACKSTOP_SECONDS * 1000)
    solver.add(*(one.translate(context) for one in (*obligation.assumptions, z3.Not(obligation.claim))))
    before = _spent(solver)
    answer = solver.check()
    spent = _spent(solver) - before
    if answer == z3.unsat:
        return "proved", None, "", spent
    if answer == z3.sat:
        return "refuted", solver.model().translate(z3.main_ctx()), "", spent
    return "unknown", None, solver.reason_unknown(), spent


def _spent(solver: Term) -> int:
    counts = solver.statistics()
    return int(counts.get_key_value("rlimit count")) if "rlimit count" in counts.keys() else 0  # noqa: SIM118


def prove(
    theorem: Theorem, tables: Tables | None = None, scope: Scope = UNBOUNDED, resources: int = RESOURCES,
    seed: int = SEED,
) -> Result:
    """Decide a theorem's obligations in order, up to the first that is not proved."""
    result, started = Result(theorem), monotonic()
    for obligation in theorem.obligations(tables or Tables(), scope):
        verdict, found, reason, spent = decide(obligation, resources, seed)
        result.obligations += 1
        result.resources += spent
        result.dearest = max(result.dearest, spent)
        if verdict != "proved":
            result.verdict, result.failed, result.counterexample = verdict, obligation, found
            result.reason = reason
            break
    result.seconds = monotonic() - started
    return result


class Argument:
    """A chain of lemmas: each may use what is given and what has been shown before it, and nothing else."""

    def __init__(self, *given: Term) -> None:
        self._given = given
        self._shown: list[Term] = []
        self.obligations: list[Obligation] = []

    def shows(self, label: str, claim: Term, *uses: Term, alone: bool = False) -> Term:
        """Add a lemma and return its claim; `alone` where it needs nothing that is given and is found faster without.

        ValueError where it uses what has not been shown.
        """
        if not all(any(use is shown for shown in self._shown) for use in uses):
            raise ValueError(f"'{label}' uses what was not shown before it")
        self.obligations.append(Obligation(label, (*(() if alone else self._given), *uses), claim))
        self._shown.append(claim)
        return claim
