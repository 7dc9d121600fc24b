"""Folding `boundary_grid` over any number of sizes gives their least common grid: n lies on it if it lies on all.

One step of the fold, for what all sizes before it have in common: that a multiple of two sizes is one of their grid,
and the other way round, is `boundaries_are_the_common_multiples`. A hit at which groups of several page sizes, ratios
and a chunk can end together is such an n, and the first one is the grid itself, however far away that is.
"""

from collections.abc import Iterable

import z3

from milepost.proofs.prover import Argument, Obligation
from milepost.proofs.scope import Scope
from milepost.proofs.tables import Tables


def obligations(tables: Tables, scope: Scope) -> Iterable[Obligation]:
    """Return that the step keeps it, and that nothing below the grid is common to all."""
    x, grid, size, joined, m = z3.Ints("x grid size joined m")
    integer, truth = z3.IntSort(), z3.BoolSort()
    divides = z3.Function("divides", integer, integer, truth)
    common = z3.Function("common to the sizes so far", integer, truth)
    two_sizes = z3.ForAll([x], divides(joined, x) == z3.And(divides(grid, x), divides(size, x)))
    so_far = z3.ForAll([x], divides(grid, x) == common(x))
    step = Argument(two_sizes, so_far)
    step.shows("one more size", z3.ForAll([x], divides(joined, x) == z3.And(common(x), divides(size, x))))
    least = Argument(joined >= 1, x >= 1, x == joined * m)
    moved = least.shows("a positive multiple has a positive factor", z3.Implies(z3.And(
        joined >= 1, m <= 0), joined * m <= 0), alone=True)
    once = least.shows("a factor of one at least is a grid at least", z3.Implies(z3.And(
        joined >= 1, m >= 1), joined * m >= joined), alone=True)
    least.shows("no common length is shorter than the grid", x >= joined, moved, once)
    return [*step.obligations, *least.obligations]


OBLIGATIONS = obligations
