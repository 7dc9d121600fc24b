"""The resume rule asks for nothing that is not read: without any of what it needs at n, some forward would miss it.

So whatever is sound is allowed, and the deepest n that the rule allows is the deepest that is sound: for every kind and
any set of groups.
"""

from collections.abc import Iterator

import z3

from milepost.proofs.prover import Obligation
from milepost.proofs.resuming import groups
from milepost.proofs.scope import Scope
from milepost.proofs.tables import Tables


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield that each needed entry and each needed alignment is used by a token from n on."""
    known = groups()
    n, i, group = z3.Int("n"), z3.Int("i"), z3.Const("group", known.sort)
    rules = (*known.axioms(), n > 0)
    yield Obligation("a needed entry is read at n", (
        *rules, known.aligned(group, n), known.first(group, n) <= i, i < n), known.reads(group, n, i))
    yield Obligation("a needed state is read at n", (*rules, known.needs_state(group)), known.is_recurrent(group))
    ratio = known.ratio(group)
    ending = n - n % ratio + ratio - 1
    yield Obligation("a half-filled group's tokens are missed at its end", (*rules, z3.Not(known.aligned(group, n))),
                     z3.And(ending >= n, known.compresses_at(group, ending), ending + 1 - ratio < n))
    found = (z3.Implies(known.reads(group, n, i), known.has_entry(group, i)),
             z3.Implies(known.is_recurrent(group), known.has_state(group, n)),
             z3.Implies(known.compresses_at(group, ending), ending + 1 - ratio >= n))
    yield Obligation("what finds all that it reads is allowed", (*rules, *found), z3.And(
        known.aligned(group, n), z3.Implies(known.needs_state(group), known.has_state(group, n)),
        z3.Implies(z3.And(known.first(group, n) <= i, i < n), known.has_entry(group, i))))


OBLIGATIONS = obligations
