"""Flooring a position to a grid gives the greatest multiple that is not above it, and only that one.

For every positive grid. It is monotone, flooring twice changes nothing more, a position lies on the grid exactly where
nothing is taken off, and the page columns of a length are as few as hold it.
"""

from collections.abc import Iterable

import z3

from milepost.proofs.interpreter import interpret
from milepost.proofs.prover import Argument, Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables
from milepost.spec.geometry import columns_for, floor_to, lies_on


def obligations(tables: Tables, scope: Scope) -> Iterable[Obligation]:
    """Return the chains of lemmas; each division has its quotient and remainder as witnesses."""
    return [*greatest(), *monotone(), *columns()]


def at_least_one(argument: Argument, grid: Term, factor: Term) -> Term:
    """Show that a multiple by a factor that is not 0 is at least one grid away from 0."""
    return argument.shows("a factor that is not 0 moves by a grid", z3.Implies(grid >= 1, z3.And(
        z3.Implies(factor >= 1, grid * factor >= grid), z3.Implies(factor <= -1, grid * factor <= -grid))), alone=True)


def remainder(argument: Argument, grid: Term, x: Term, q: Term, r: Term) -> Term:
    """Show that r is the remainder of x = grid * q + r."""
    d, e = x / grid, x % grid
    divided = argument.shows("quotient and remainder give the position", z3.Implies(grid >= 1, z3.And(
        x == grid * d + e, e >= 0, e < grid)), alone=True)
    moved = at_least_one(argument, grid, q - d)
    order = argument.shows("one order of factors is another", grid * (q - d) == grid * q - grid * d, alone=True)
    return argument.shows("the remainder is the witness", e == r, divided, moved, order)


def greatest() -> list[Obligation]:
    """Return that the floor is a multiple, not above, and that a multiple above it is above the position."""
    grid, x, q, r, k = z3.Ints("grid x q r k")
    floored = interpret(floor_to, grid, x)
    argument = Argument(grid >= 1, x == grid * q + r, r >= 0, r < grid)
    rest = remainder(argument, grid, x, q, r)
    multiple = argument.shows("it is a multiple", floored == grid * q, rest)
    argument.shows("it is not above, and less than a grid below", z3.And(floored <= x, x - floored < grid), rest)
    moved = at_least_one(argument, grid, k - q)
    order = argument.shows("factors in another order", grid * (k - q) == grid * k - grid * q, alone=True)
    argument.shows("every greater multiple is above", z3.Implies(grid * k > floored, grid * k > x),
                   multiple, moved, order)
    argument.shows("it lies on the grid where nothing is taken off", interpret(lies_on, grid, x) == (floored == x))
    again = Argument(grid >= 1, x == grid * q)
    rest = remainder(again, grid, x, q, z3.IntVal(0))
    again.shows("flooring a multiple changes nothing", floored == x, rest)
    return argument.obligations + again.obligations


def monotone() -> list[Obligation]:
    """Return that of two positions the lower one has no greater floor."""
    grid, x, y, q, r, s, t = z3.Ints("grid x y q r s t")
    argument = Argument(grid >= 1, x == grid * q + r, r >= 0, r < grid, y == grid * s + t, t >= 0, t < grid, x <= y)
    first, second = remainder(argument, grid, x, q, r), remainder(argument, grid, y, s, t)
    moved = at_least_one(argument, grid, q - s)
    order = argument.shows("factors of the two", grid * (q - s) == grid * q - grid * s, alone=True)
    argument.shows("it is monotone", interpret(floor_to, grid, x) <= interpret(floor_to, grid, y),
                   first, second, moved, order)
    return argument.obligations


def columns() -> list[Obligation]:
    """Return that the columns of a length hold it, and that one column less does not."""
    page, length, q, r = z3.Ints("page length q r")
    needed = interpret(columns_for, page, length)
    argument = Argument(page >= 1, length >= 0, -length == page * q + r, r >= 0, r < page)
    rest = remainder(argument, page, -length, q, r)
    divided = argument.shows("the quotient is the witness", z3.Implies(page >= 1, (-length) == (
        page * ((-length) / page) + (-length) % page)), alone=True)
    order = argument.shows("a sign can be taken out", page * needed == -(page * ((-length) / page)), alone=True)
    holds = argument.shows("the columns hold the length", page * needed >= length, rest, divided, order)
    argument.shows("one less does not", page * needed - page < length, rest, divided, order, holds)
    return argument.obligations


OBLIGATIONS = obligations
