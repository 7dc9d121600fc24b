"""A resume off the chunk grid never gets back on it: however many chunks follow, each ends off the grid.

So a grid that is counted from the resume point is another grid. For every positive chunk size.
"""

from collections.abc import Iterable

import z3

from milepost.proofs.interpreter import interpret
from milepost.proofs.prover import Argument, Obligation
from milepost.proofs.scope import Scope
from milepost.proofs.tables import Tables
from milepost.proofs.theorems.flooring_gives_the_greatest_below import remainder
from milepost.spec.geometry import lies_on


def obligations(tables: Tables, scope: Scope) -> Iterable[Obligation]:
    """Return that n = chunk * q + r, any number of chunks later, is on the grid only if it was at n."""
    chunk, n, q, r, steps = z3.Ints("chunk n q r steps")
    later = n + steps * chunk
    argument = Argument(chunk >= 1, n == chunk * q + r, r >= 0, r < chunk, z3.Not(interpret(lies_on, chunk, n)))
    now = remainder(argument, chunk, n, q, r)
    order = argument.shows("chunks in another order", steps * chunk + chunk * q == chunk * (q + steps), alone=True)
    argument.shows("the later position in factors", later == chunk * (q + steps) + r, order)
    rest = remainder(argument, chunk, later, q + steps, r)
    argument.shows("no later chunk ends on it", z3.Not(interpret(lies_on, chunk, later)), now, rest)
    return argument.obligations


OBLIGATIONS = obligations
