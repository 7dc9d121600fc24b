"""For all positive page and chunk sizes the boundaries are exactly the common multiples of the two.

`boundary_grid` is run with a greatest common divisor g of which only this is known: page = g * a, chunk = g * b and,
with witnesses, a * u + b * v = 1. The quotient of a common multiple by the grid is given in these witnesses.
"""

from collections.abc import Iterable

import z3

from milepost.proofs.interpreter import interpret
from milepost.proofs.prover import Argument, Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables
from milepost.spec.geometry import boundary_grid


def obligations(tables: Tables, scope: Scope) -> Iterable[Obligation]:
    """Return both directions, each as a chain of lemmas."""
    page, chunk, g, a, b, u, v, m, n, x = z3.Ints("page chunk g a b u v m n x")
    grid = interpret(boundary_grid, page, chunk, gcd=lambda one, other: g)
    sizes = (page == g * a, chunk == g * b, g >= 1, a >= 1, b >= 1)
    return [*multiples_are_common(grid, sizes, page, chunk, g, a, b, m, x),
            *common_ones_are_multiples(grid, sizes, page, chunk, g, a, b, u, v, m, n, x)]


def grid_value(argument: Argument, grid: Term, g: Term, a: Term, b: Term) -> Term:
    """Show that the grid is g * (a * b)."""
    k = z3.Int("k")
    quotient = argument.shows("a product divided by a factor is the rest", z3.ForAll([k], z3.Implies(
        g >= 1, (g * k) / g == k)), alone=True)
    order = argument.shows("the product has g as a factor", (g * a) * (g * b) == g * (g * (a * b)), alone=True)
    exact = argument.shows("its quotient is the rest", ((g * a) * (g * b)) / g == g * (a * b), quotient, order)
    return argument.shows("the grid is g * a * b", grid == g * (a * b), exact)


def multiples_are_common(
    grid: Term, sizes: tuple[Term, ...], page: Term, chunk: Term, g: Term, a: Term, b: Term, m: Term, x: Term
) -> list[Obligation]:
    """Return that a multiple of the grid is one of page and chunk."""
    argument = Argument(*sizes, x == grid * m)
    value = grid_value(argument, grid, g, a, b)
    product = argument.shows("x in factors", x == (g * (a * b)) * m, value)
    order = argument.shows("either size can come first", z3.And(
        (g * (a * b)) * m == (g * a) * (b * m), (g * (a * b)) * m == (g * b) * (a * m)), alone=True)
    argument.shows("it is a multiple of both", z3.And(x == page * (b * m), x == chunk * (a * m)), product, order)
    return argument.obligations


def common_ones_are_multiples(
    grid: Term, sizes: tuple[Term, ...], page: Term, chunk: Term, g: Term, a: Term, b: Term, u: Term, v: Term,
    m: Term, n: Term, x: Term,
) -> list[Obligation]:
    """Return that a multiple of page and of chunk is one of the grid."""
    argument = Argument(*sizes, a * u + b * v == 1, x == page * m, x == chunk * n)
    value = grid_value(argument, grid, g, a, b)
    by_page = argument.shows("x by its page", x == g * a * m)
    by_chunk = argument.shows("x by its chunk", x == g * b * n)
    factors = argument.shows("the grid times the witness, in factors", (g * (a * b)) * (n * u + m * v) == (
        (g * b * n) * (a * u) + (g * a * m) * (b * v)), alone=True)
    first = argument.shows("x by its chunk put in", z3.Implies(
        x == g * b * n, (g * b * n) * (a * u) == x * (a * u)), alone=True)
    second = argument.shows("x by its page put in", z3.Implies(
        x == g * a * m, (g * a * m) * (b * v) == x * (b * v)), alone=True)
    whole = argument.shows("x times 1", z3.Implies(a * u + b * v == 1, x * (a * u) + x * (b * v) == x), alone=True)
    argument.shows("it is a multiple of the grid", x == grid * (n * u + m * v),
                   value, by_page, by_chunk, factors, first, second, whole)
    return argument.obligations


OBLIGATIONS = obligations
