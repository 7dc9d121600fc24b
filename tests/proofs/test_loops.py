"""The loops of the resume rule are proved as they stand: with any edit the proof fails, and a small case shows why."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from types import ModuleType
from typing import Any

import pytest
import z3

from milepost.proofs.interpreter import outcomes
from milepost.proofs.loops import Source, around, source_of
from milepost.proofs.prover import Theorem, prove
from milepost.proofs.theorems import shrinking_ends_at_the_deepest, the_hit_is_the_deepest
from milepost.spec.resume import Cut, deepest, joint

DEEPEST = {
    "stops before 1": ("range(limit, 0, -1)", "range(limit, 1, -1)"),
    "takes the shallowest": ("range(limit, 0, -1)", "range(1, limit + 1)"),
    "is one too short": ("return n", "return n - 1"),
    "falls back to the limit": ("return 0", "return limit"),
    "takes the maximum over groups": ("all(check(n) for check in checks)", "not all(not check(n) for check in checks)"),
    "asks only the first": ("tuple(offers)", "tuple(offers)[:1]"),
}
JOINT = {
    "ends after a round": ("n, calm = at, False", "n = at"),
    "cuts one by one": ("n, calm = at, False", "n, calm = n - 1, False"),
    "rests after a short cut": ("n, calm = at, False", "n, calm = at, calm and n == at + 1"),
    "takes one group's length for another's": ("deepest(n, (offer,))", "deepest(limit, (offer,))"),
    "ends before the first round": ("limit, [], False", "limit, [], True"),
    "calls a cut longer than it was": ("Cut(name, n, at)", "Cut(name, limit, at)"),
    "calls a cut empty": ("Cut(name, n, at)", "Cut(name, at, at)"),
    "tells of no cut": ("cuts.append(Cut(name, n, at))", "pass"),
    "asks only the first": ("offers.items()", "list(offers.items())[:1]"),
    "gives the limit": ("return n, tuple", "return limit, tuple"),
}
EDITS: list[tuple[ModuleType, Callable[..., Any], str, tuple[str, str]]] = [
    *((the_hit_is_the_deepest, deepest, name, edit) for name, edit in DEEPEST.items()),
    *((shrinking_ends_at_the_deepest, joint, name, edit) for name, edit in JOINT.items()),
]
IDS = [f"{function.__name__} {name}" for _, function, name, _ in EDITS]


def offered(limit: int, groups: int) -> Iterator[dict[str, Callable[[int], bool]]]:
    """Yield every way in which groups can offer lengths."""
    for table in product(product((True,), *[(False, True)] * limit), repeat=groups):
        yield {f"group {number}": row.__getitem__ for number, row in enumerate(table)}


def is_right(function: Callable[..., Any], offers: dict[str, Callable[[int], bool]], limit: int) -> bool:
    """Tell whether a search, `deepest` or `joint`, gives the deepest that all offer, with cuts that say who did it."""
    wanted = max(n for n in range(limit + 1) if all(offer(n) for offer in offers.values()))
    if function.__name__ == "deepest":
        return bool(function(limit, offers.values()) == wanted)
    hit, cuts = function(limit, offers)
    ends = [limit, *(cut.after for cut in cuts)]
    chained = [cut.before for cut in cuts] == ends[:-1] and ends[-1] == hit == wanted
    return chained and all(isinstance(cut, Cut) and cut.after < cut.before and not any(
        offers[cut.name](n) for n in range(cut.after + 1, cut.before + 1)) for cut in cuts)


def edited(function: Callable[..., Any], edit: tuple[str, str]) -> Source:
    source = source_of(function)
    assert source.text.count(edit[0]) == 1
    return replace(source, text=source.text.replace(*edit))


def run(source: Source, name: str) -> Callable[..., Any]:
    """Return the function of a source."""
    made: dict[str, Any] = dict(source.known)
    exec(source.text, made)
    function: Callable[..., Any] = made[name]
    return function


@pytest.mark.parametrize(("theorem", "function", "name", "edit"), EDITS, ids=IDS)
def test_an_edited_loop_is_not_proved_and_goes_wrong(
    theorem: ModuleType, function: Callable[..., Any], name: str, edit: tuple[str, str]
) -> None:
    source = edited(function, edit)
    broken = Theorem(name, "", "unbounded", lambda tables, scope: theorem.of_source(source))
    assert prove(broken, resources=300_000).verdict != "proved"
    wrong = run(source, function.__name__)
    assert not all(is_right(wrong, offers, 3) for groups in (1, 2) for offers in offered(3, groups))


@pytest.mark.parametrize("function", [deepest, joint])
def test_the_real_loops_are_right_in_every_small_case(function: Callable[..., Any]) -> None:
    for limit, groups in ((0, 2), (4, 1), (3, 3)):
        assert all(is_right(function, offers, limit) for offers in offered(limit, groups))


def test_a_piece_is_the_source_between_two_loops() -> None:
    source = source_of(joint)
    before, rounds, behind = around(source.statements(), ast.While)
    limit = z3.Int("limit")
    (way, result), = outcomes(source.piece(before, "limit", "(n, cuts, calm)"), limit)
    assert z3.is_true(z3.simplify(way)) and result[0].eq(limit) and result[1:] == ((), False)
    assert len(rounds.body) == 2 and len(behind) == 1


def test_a_function_with_two_loops_on_end_is_not_cut() -> None:
    source = Source("def twice(limit):\n    for n in limit:\n        pass\n    for n in limit:\n        pass\n", {})
    with pytest.raises(ValueError, match="expected one for loop, found 2"):
        around(source.statements(), ast.For)
