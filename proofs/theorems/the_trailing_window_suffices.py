"""Two-tier leases suffice: a request never needs a window page that has slid out, whatever it computes later.

It resumed at n with the pages from that of the first needed entry on, and after landing at a length L >= n it has
given up those before the page of the first entry that is needed at L. Whatever token q >= L comes, every entry that it
reads lies in a page that is still held; and of the pages given up no entry is read any more. For every window, page
size, n and L, and so for drafts too: they are read from L on, where L counts only what was accepted.
"""

from collections.abc import Iterable

import z3

from milepost.proofs.interpreter import interpret
from milepost.proofs.prover import Argument, Obligation
from milepost.proofs.resuming import groups
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables
from milepost.proofs.theorems.whole_pages_hold_what_is_needed import column_of, first_column_of, not_negative
from milepost.spec.resume import first_needed
from milepost.spec.words import GroupKind


def obligations(tables: Tables, scope: Scope) -> Iterable[Obligation]:
    """Return that later reads stay within what is held, that nothing kept is in vain, and that no page comes back."""
    known = groups()
    page, n, landed, q, i = z3.Ints("page n landed q i")
    group = z3.Const("group", known.sort)
    window = known.window(group)
    kept = interpret(first_column_of, page, landed, window)
    ranges = (*known.axioms(), known.is_of(group, GroupKind.WINDOW), page >= 1, n >= 0, landed >= n, q >= landed)
    reading = Argument(*ranges, known.reads(group, q, i))
    at_least = reading.shows("it reads nothing before the first that is needed", i >= interpret(_first, landed, window))
    reading.shows("what is read is in a page that is held", i / page >= kept, at_least, *_in_order(
        reading, page, interpret(_first, landed, window), i))
    gone = Argument(*ranges, i >= 0, i / page < kept)
    before = gone.shows("what was given up lies before the first that is needed", i < interpret(
        _first, landed, window), *_in_order(gone, page, interpret(_first, landed, window), i))
    gone.shows("no page that was given up is read", z3.Not(known.reads(group, q, i)), before)
    later = Argument(*ranges)
    earlier = interpret(_first, n, window)
    grown = later.shows("the first that is needed only moves on", earlier <= interpret(_first, landed, window))
    at_resume = interpret(first_column_of, page, n, window)
    later.shows("what was not leased at the resume is not needed later", at_resume <= kept, grown, *_in_order(
        later, page, earlier, interpret(_first, landed, window)))
    return reading.obligations + gone.obligations + later.obligations


def _in_order(argument: Argument, page: Term, low: Term, high: Term) -> tuple[Term, ...]:
    """Show what puts the columns of two entries in the order of the entries."""
    order = argument.shows("factors of columns", page * (high / page - low / page) == (
        page * (high / page) - page * (low / page)), alone=True)
    return (column_of(argument, page, low, "the first entry"), column_of(argument, page, high, "the other"), order,
            not_negative(argument, page, high / page - low / page))


def _first(n: int, window: int) -> int:
    return first_needed(GroupKind.WINDOW, n, window)


OBLIGATIONS = obligations
