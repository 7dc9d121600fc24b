"""The hit is the deepest n that every group offers: all offer it, of no deeper one all do, and 0 is left otherwise.

It is never the maximum over groups. The search of `spec.resume.deepest` itself is run over groups that offer any set
of lengths; which lengths are legal to offer is `resume_is_sound`.
"""

from collections.abc import Iterator

import z3

from milepost.proofs.interpreter import interpret
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope
from milepost.proofs.tables import Tables
from milepost.spec.resume import deepest

TOKENS, GROUPS = 24, 4
BOUND = f"up to {TOKENS} tokens and {GROUPS} groups"


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield for each number of tokens and of groups that the hit is offered by all and nothing deeper is."""
    n = z3.Int("n")
    for count in range(1, GROUPS + 1):
        offers = [z3.Function(f"offer {index}", z3.IntSort(), z3.BoolSort()) for index in range(count)]
        asked = [lambda at, offer=offer: offer(at) for offer in offers]
        for limit in range(TOKENS + 1):
            hit = z3.IntVal(0) + interpret(deepest, limit, asked)
            offered = z3.Or(hit == 0, z3.And(*(offer(hit) for offer in offers)))
            deeper = z3.And(n > hit, n <= limit, *(offer(n) for offer in offers))
            yield Obligation(f"{limit} tokens, {count} groups", (),
                             z3.And(hit >= 0, hit <= limit, offered, z3.Not(deeper)))


OBLIGATIONS = obligations
