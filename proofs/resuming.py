"""Any number of groups over one prefix: what each needs by the rule of `spec.resume`, and what its forward reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import z3

from milepost.proofs.interpreter import interpret
from milepost.proofs.scope import Term, enumeration
from milepost.spec.resume import NEEDS, aligned, first_needed
from milepost.spec.words import GroupKind

Function = Callable[..., Term]


@dataclass(frozen=True)
class Groups:
    """Groups of unknown kinds, windows and ratios, and what is there of one request's own prefix, by content."""

    sort: Term
    kind: Function
    window: Function
    ratio: Function
    has_entry: Function
    has_state: Function

    def axioms(self) -> list[Term]:
        """Windows and ratios are positive."""
        group = z3.Const("any group", self.sort)
        return [z3.ForAll([group], z3.And(self.window(group) >= 1, self.ratio(group) >= 1))]

    def by_kind(self, group: Term, terms: dict[GroupKind, Term]) -> Term:
        """Return the term that belongs to the group's kind."""
        joined = terms[GroupKind.FULL]
        for kind, term in terms.items():
            joined = z3.If(self.is_of(group, kind), term, joined)
        return joined

    def is_of(self, group: Term, kind: GroupKind) -> Term:
        """Return that a group is of a kind."""
        return self.kind(group) == enumeration("GroupKind", tuple(GroupKind))[1][kind]

    def is_recurrent(self, group: Term) -> Term:
        """Return that a group keeps one state."""
        return self.is_of(group, GroupKind.RECURRENT)

    # The rule, as `spec.resume` has it.

    def first(self, group: Term, n: Term) -> Term:
        """Return the first entry that is needed to resume at n."""
        return self.by_kind(group, {kind: interpret(_first_of(kind), n, self.window(group)) for kind in GroupKind})

    def aligned(self, group: Term, n: Term) -> Term:
        """Return that a group can end at n."""
        return self.by_kind(group, {kind: interpret(_aligned_of(kind), n, self.ratio(group)) for kind in GroupKind})

    def needs_state(self, group: Term) -> Term:
        """Return that a group needs a snapshot."""
        return self.by_kind(group, {kind: z3.BoolVal(NEEDS[kind].snapshot) for kind in GroupKind})

    def allows(self, group: Term, n: Term) -> Term:
        """Return that a group has at n all that it needs."""
        i = z3.Int("needed entry")
        entries = z3.ForAll([i], z3.Implies(z3.And(self.first(group, n) <= i, i < n), self.has_entry(group, i)))
        state = z3.Implies(self.needs_state(group), self.has_state(group, n))
        return z3.Or(n == 0, z3.And(entries, state, self.aligned(group, n)))

    def all_allow(self, n: Term) -> Term:
        """Return that every group allows n."""
        group = z3.Const("every group", self.sort)
        return z3.ForAll([group], self.allows(group, n))

    # What a forward does.

    def reads(self, group: Term, q: Term, i: Term) -> Term:
        """Return that the forward at token q reads entry i of a group that keeps entries."""
        complete = i < q - q % self.ratio(group)
        return z3.And(i >= 0, self.by_kind(group, {
            GroupKind.FULL: i <= q,
            GroupKind.WINDOW: z3.And(q - self.window(group) < i, i <= q),
            GroupKind.RECURRENT: z3.BoolVal(False),
            GroupKind.COMPRESSED: complete,
        }))

    def compresses_at(self, group: Term, q: Term) -> Term:
        """Return that token q completes a group of `ratio` tokens, whose own tokens are then read."""
        return z3.And(self.is_of(group, GroupKind.COMPRESSED), (q + 1) % self.ratio(group) == 0)


def _first_of(kind: GroupKind) -> Callable[..., Term]:
    return lambda n, window: first_needed(kind, n, window)


def _aligned_of(kind: GroupKind) -> Callable[..., Term]:
    return lambda n, ratio: aligned(kind, n, ratio)


def groups() -> Groups:
    """Return groups of which nothing is known."""
    sort = z3.DeclareSort("Group")
    kinds, _ = enumeration("GroupKind", tuple(GroupKind))
    integer, truth = z3.IntSort(), z3.BoolSort()
    return Groups(
        sort, z3.Function("kind", sort, kinds), z3.Function("window", sort, integer),
        z3.Function("ratio", sort, integer), z3.Function("has_entry", sort, integer, truth),
        z3.Function("has_state", sort, integer, truth),
    )


def possible(n: Term, prompt: Term, shared: Term) -> Term:
    """Return that n is the greatest that leaves a token of the prompt and is shared."""
    return z3.Or(n == shared, n == prompt - 1)
