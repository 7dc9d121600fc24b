"""The pages from that of the first needed entry to the end hold all that a resume needs, and none of them is in vain.

For every window, page size and length, so for windows below, at and above the page size that are no multiple of it. A
window needs at most one page more than its last W - 1 tokens fill, `most_columns`, and at the end of a page not even
that. Where a compressed group's page is a multiple of its ratio, every page end is a length at which it can end.
"""

from collections.abc import Iterable

import z3

from milepost.proofs.interpreter import interpret
from milepost.proofs.prover import Argument, Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Tables
from milepost.spec.capabilities import Group
from milepost.spec.geometry import columns_for
from milepost.spec.layout import first_column, most_columns
from milepost.spec.resume import aligned, first_needed
from milepost.spec.words import GroupKind


def obligations(tables: Tables, scope: Scope) -> Iterable[Obligation]:
    """Return the chains of lemmas."""
    return [*held(), *how_many(), *compressed()]


def not_negative(argument: Argument, page: Term, factor: Term) -> Term:
    """Show that a multiple of the page has the sign of its factor, and is at least a page away from 0."""
    return argument.shows("a multiple of the page is a page away from 0", z3.Implies(page >= 1, z3.And(
        z3.Implies(factor >= 1, page * factor >= page), z3.Implies(factor <= -1, page * factor <= -page))), alone=True)


def column_of(argument: Argument, page: Term, x: Term, name: str) -> Term:
    """Show which tokens the column x // page has."""
    return argument.shows(f"the column of {name}", z3.Implies(page >= 1, z3.And(
        page * (x / page) <= x, x < page * (x / page) + page)), alone=True)


def columns_of(argument: Argument, page: Term, length: Term, name: str) -> Term:
    """Show that the columns of a length hold it, and that one less does not, by `flooring_gives_the_greatest_below`."""
    count = interpret(columns_for, page, length)
    below = -length
    divided = argument.shows(f"quotient and remainder of {name}", z3.Implies(page >= 1, z3.And(
        page * (below / page) <= below, below < page * (below / page) + page)), alone=True)
    sign = argument.shows(f"the sign of {name}", page * count == -(page * (below / page)), alone=True)
    return argument.shows(f"the columns of {name}", z3.Implies(page >= 1, z3.And(
        page * count >= length, page * count - page < length)), divided, sign)


def held() -> list[Obligation]:
    """Return that a needed entry lies in a page that is held, and that each such page has one."""
    page, n, window, i, k = z3.Ints("page n window i k")
    first, count = interpret(_of_window, n, window), interpret(columns_for, page, n)
    argument = Argument(page >= 1, window >= 1, n >= 1, first <= i, i < n)
    low, own = column_of(argument, page, first, "the first entry"), column_of(argument, page, i, "an entry")
    all_of_n = columns_of(argument, page, n, "the length")
    up, down = (not_negative(argument, page, one) for one in (i / page - first / page, i / page - count))
    order = argument.shows("factors of columns", z3.And(
        page * (i / page - first / page) == page * (i / page) - page * (first / page),
        page * (i / page - count) == page * (i / page) - page * count), alone=True)
    argument.shows("a needed entry is in a page that is held", z3.And(first / page <= i / page, i / page < count),
                   low, own, all_of_n, up, down, order)
    page_of = Argument(page >= 1, window >= 1, n >= 1, first < n, first / page <= k, k < count)
    low, all_of_n = column_of(page_of, page, first, "the first entry"), columns_of(page_of, page, n, "the length")
    up, down = (not_negative(page_of, page, one) for one in (k - first / page, k - count))
    order = page_of.shows("factors of columns", z3.And(
        page * (k - first / page) == page * k - page * (first / page),
        page * (k - count) == page * k - page * count), alone=True)
    entry = z3.If(page * k < first, first, page * k)
    page_of.shows("a page that is held has a needed entry", z3.And(
        first <= entry, entry < n, page * k <= entry, entry < page * k + page), low, all_of_n, up, down, order)
    return argument.obligations + page_of.obligations


def how_many() -> list[Obligation]:
    """Return how many pages a window needs at any length, and at the end of a page."""
    page, n, window, whole = z3.Ints("page n window whole")
    first, count, least = (interpret(_of_window, n, window), interpret(columns_for, page, n),
                           interpret(columns_for, page, window - 1))
    argument = Argument(page >= 1, window >= 1, n >= 0)
    known = [column_of(argument, page, first, "the first entry"), columns_of(argument, page, n, "the length"),
             columns_of(argument, page, window - 1, "the window"),
             not_negative(argument, page, count - first / page - least - 1)]
    order = argument.shows("factors of counts", page * (count - first / page - least - 1) == (
        page * count - page * (first / page) - page * least - page), alone=True)
    held = count - interpret(first_column_of, page, n, window)
    one_more = argument.shows("at most one more than W - 1 tokens fill", held <= least + 1, *known, order)
    column = argument.shows("no column is below 0", interpret(first_column_of, page, n, window) >= 0, known[0])
    argument.shows("a request that fits has room for them", held <= interpret(_most_columns, page, n, window),
                   one_more, column)
    ended = Argument(page >= 1, window >= 1, n >= window - 1, n == page * whole)
    known = [column_of(ended, page, first, "the first entry"), columns_of(ended, page, n, "the length"),
             columns_of(ended, page, window - 1, "the window"),
             not_negative(ended, page, count - first / page - least), not_negative(ended, page, count - whole)]
    order = ended.shows("factors of counts", z3.And(
        page * (count - first / page - least) == page * count - page * (first / page) - page * least,
        page * (count - whole) == page * count - page * whole), alone=True)
    ended.shows("at the end of a page just as many", count - first / page == least, *known, order)
    return argument.obligations + ended.obligations


def compressed() -> list[Obligation]:
    """Return that a compressed group can end wherever its pages do."""
    n, ratio, groups, pages = z3.Ints("n ratio groups pages")
    argument = Argument(ratio >= 1, n == (ratio * groups) * pages)
    order = argument.shows("the ratio as a factor", (ratio * groups) * pages == ratio * (groups * pages), alone=True)
    divided = argument.shows("a multiple leaves nothing", z3.Implies(z3.And(
        ratio >= 1, n == ratio * (groups * pages)), n % ratio == 0), *[_remainder(argument, ratio, n, groups * pages)])
    argument.shows("a page end is a length to end at", interpret(_of_compressed, n, ratio), order, divided)
    return argument.obligations


def _remainder(argument: Argument, ratio: Term, n: Term, quotient: Term) -> Term:
    moved = not_negative(argument, ratio, quotient - n / ratio)
    rest = column_of(argument, ratio, n, "a group")
    order = argument.shows("factors of groups", ratio * (quotient - n / ratio) == (
        ratio * quotient - ratio * (n / ratio)), alone=True)
    whole = argument.shows("the remainder is what is left", z3.Implies(
        ratio >= 1, n % ratio == n - ratio * (n / ratio)), alone=True)
    return argument.shows("of a multiple nothing is left", z3.Implies(
        n == ratio * quotient, n % ratio == 0), moved, rest, order, whole)


def _of_window(n: int, window: int) -> int:
    return first_needed(GroupKind.WINDOW, n, window)


def _window(page: int, window: int) -> Group:
    return Group("window", GroupKind.WINDOW, "window", page_size=page, window=window)


def first_column_of(page: int, n: int, window: int) -> int:
    """Return the first column that a window needs to go on at n."""
    return first_column(_window(page, window), n)


def _most_columns(page: int, n: int, window: int) -> int:
    return most_columns(_window(page, window), n)


def _of_compressed(n: int, ratio: int) -> bool:
    return aligned(GroupKind.COMPRESSED, n, ratio)


OBLIGATIONS = obligations
