"""Bounded model checking: the same moves as terms, so that Z3 confirms how short an order can be.

Nothing of the search is used, neither its canonical scenes nor its levels. Requests are not sorted here; the first that
is free comes, and slots have no names to be permuted. A step without a move changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import z3

from milepost.proofs.schedules.goals import Goal, Passage
from milepost.proofs.schedules.moves import carry_out, moves_of
from milepost.proofs.schedules.scene import Scene, Scope

EFFORT = 400_000_000
"""Z3's resource limit for one depth; the same on every machine."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Whether a goal can be reached within some moves, and within one fewer; None where Z3 ran out of its limit."""

    goal: str
    depth: int
    within: bool | None
    sooner: bool | None

    @property
    def confirmed(self) -> bool:
        """True where the depth is the least."""
        return self.within is True and self.sooner is False


@dataclass(frozen=True, slots=True)
class _Template:
    """One step over the facts before it, those after it, and the choice of its move: all Bool constants."""

    before: list[Any]
    after: list[Any]
    choices: list[Any]
    steps: Any
    reached: Any


def confirm(goal: Goal, scope: Scope, depth: int) -> Bound:
    """Ask Z3 whether `depth` moves can reach a goal, and whether fewer can."""
    template = _template(goal, scope)
    sooner = _reachable(template, scope, depth - 1) if depth > 1 else False
    return Bound(goal.name, depth, _reachable(template, scope, depth), sooner)


def _reachable(template: _Template, scope: Scope, depth: int) -> bool | None:
    solver = z3.SolverFor("QF_FD")
    solver.set("rlimit", EFFORT)
    facts = [[z3.Bool(f"{fact}@{time}") for fact in scope.facts()] for time in range(depth + 1)]
    solver.add(*(z3.Not(fact) for fact in facts[0]))
    goals = []
    for time in range(depth):
        choices = [z3.Bool(f"{choice}@{time}") for choice in template.choices]
        pairs = [*zip(template.before, facts[time], strict=True), *zip(template.after, facts[time + 1], strict=True),
                 *zip(template.choices, choices, strict=True)]
        solver.add(z3.AtMost(*choices, 1), z3.substitute(template.steps, *pairs))
        goals.append(z3.substitute(template.reached, *pairs))
    solver.add(z3.Or(goals))
    result = solver.check()
    return None if result == z3.unknown else bool(result == z3.sat)


def _template(goal: Goal, scope: Scope) -> _Template:
    names = scope.facts()
    before = {fact: z3.Bool(f"{fact} before") for fact in names}
    after = [z3.Bool(f"{fact} after") for fact in names]
    choices: list[Any] = []
    clauses: list[Any] = []
    reached: list[Any] = []
    changes: dict[str, list[tuple[Any, Any]]] = {fact: [] for fact in names}
    for move in moves_of(scope):
        choice = z3.Bool(f"{move.verb} {move.request} {move.word}")
        scene = Scene(scope, dict(before), z3.BoolVal(True))
        allowed, changed = carry_out(scene, move)
        clauses.append(z3.Implies(choice, allowed))
        reached.append(z3.And(choice, goal.reached(Passage(move, scene, changed))))
        for fact in names:
            if changed.facts[fact] is not before[fact]:
                changes[fact].append((choice, changed.facts[fact]))
        choices.append(choice)
    for fact, later in zip(names, after, strict=True):
        kept = z3.And(before[fact], *(z3.Not(choice) for choice, _ in changes[fact]))
        clauses.append(later == z3.Or(kept, *(z3.And(choice, value) for choice, value in changes[fact])))
    return _Template(list(before.values()), after, choices, z3.simplify(z3.And(clauses)), z3.simplify(z3.Or(reached)))
