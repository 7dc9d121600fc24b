"""A resume that the rule allows is sound: what a forward reads of the tokens before it is all there.

For each of the four kinds and any number of groups of any kinds together. A forward at token q >= n of a request that
resumed at n reads: in a full group every entry up to q; in a window group the last W entries, its own among them; in
a compressed group the entries of all groups of `ratio` tokens that are complete before q, and at the end of a group
that group's own tokens, which are kept for the group at hand only; in a recurrent group, at q = n, the state of
exactly n tokens. The rule leaves at least one token to compute and exceeds no shared prefix.
"""

from collections.abc import Iterator

import z3

from milepost.proofs.interpreter import interpret
from milepost.proofs.prover import Obligation
from milepost.proofs.resuming import Groups, groups, possible
from milepost.proofs.scope import Scope
from milepost.proofs.tables import Tables
from milepost.spec.resume import longest_possible


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield that entries, states and compressors find what they read, and that a token is left."""
    known: Groups = groups()
    n, q, i, group = z3.Ints("n q i")[0], z3.Int("q"), z3.Int("i"), z3.Const("group", known.sort)
    resumed = (*known.axioms(), n >= 0, known.all_allow(n), q >= n)
    yield Obligation("entries that are read are there", (*resumed, known.reads(group, q, i), i < n),
                     known.has_entry(group, i))
    yield Obligation("the state that is read is there", (*resumed, known.is_recurrent(group), n > 0),
                     known.has_state(group, n))
    yield Obligation("a compressor's own tokens come after the resume",
                     (*resumed, known.compresses_at(group, q)), q + 1 - known.ratio(group) >= n)
    prompt, shared = z3.Ints("prompt shared")
    limit = interpret(longest_possible, prompt, shared)
    yield Obligation("a token is left, and nothing is shared beyond", (prompt >= 1, shared >= 0),
                     z3.And(limit < prompt, limit <= shared, possible(limit, prompt, shared)))


OBLIGATIONS = obligations
