"""The theorems hold, each file is one, and the prover says so when one does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import z3

import milepost.proofs.theorems as theorems
from milepost.proofs.induction import kept
from milepost.proofs.invariants import INVARIANTS
from milepost.proofs.prover import RESOURCES, Argument, Obligation, Theorem, decide, prove
from milepost.proofs.scope import SMALL, UNBOUNDED
from milepost.proofs.tables import Tables
from milepost.proofs.theorems import NAMES, all_theorems, theorem
from milepost.proofs.world import any_world, background
from milepost.spec.ownership import SLOT_ROWS

ARITHMETIC = ("boundaries_are_the_common_multiples", "flooring_gives_the_greatest_below", "off_grid_resumes_stay_off",
              "resume_is_sound", "resume_asks_for_no_more")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_proved_with_a_tenth_of_the_resources(name: str) -> None:
    result = prove(theorem(name))
    assert result.verdict == "proved", (result.failed and result.failed.label, result.reason)
    assert result.obligations > 0 and result.dearest * 10 <= RESOURCES


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_does_not_depend_on_a_lucky_seed(name: str) -> None:
    assert [prove(theorem(name), seed=seed).verdict for seed in range(3)] == ["proved"] * 3


def test_each_file_is_a_theorem_and_states_it() -> None:
    folder = Path(theorems.__file__).parent
    assert sorted(NAMES) == sorted(path.stem for path in folder.glob("[a-z]*.py"))
    assert all(one.sentence.endswith(".") and one.scope for one in all_theorems())


def test_whatever_the_induction_assumes_is_proved_by_a_theorem() -> None:
    base = background(UNBOUNDED)
    assumed = {name for invariant in INVARIANTS for name in invariant(base, any_world(UNBOUNDED))}
    labels = {one.label.partition(";")[0] for each in all_theorems() if each.scope == "unbounded"
              for one in each.obligations(Tables(), UNBOUNDED) if one.label.endswith("; fresh cache")}
    assert labels == assumed


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_an_invariant_can_be_broken(invariant: object) -> None:
    base, world = background(SMALL), any_world(SMALL)
    for name, statement in invariant(base, world).items():  # type: ignore[operator]
        assert decide(Obligation(name, tuple(base.axioms()), statement))[0] == "refuted"


def test_a_false_statement_is_refuted_with_a_counterexample() -> None:
    x = z3.Int("x")
    false = Theorem("false", "Every number is positive.", "unbounded",
                    lambda tables, scope: [Obligation("it is", (), x > 0)])
    result = prove(false)
    assert (result.verdict, result.failed and result.failed.label) == ("refuted", "it is")
    assert result.counterexample.eval(x, model_completion=True).as_long() <= 0


def test_a_theorem_about_a_broken_table_fails() -> None:
    rows = tuple(replace(row, guards=()) if row.name == "donate" else row for row in SLOT_ROWS)
    broken = Tables(slots=rows)
    for name in ("one_owner", "endpoints_are_exact"):
        assert prove(theorem(name), broken, SMALL).verdict == "refuted"


def test_too_small_a_limit_is_unknown_and_not_proved() -> None:
    result = prove(theorem("landing"), resources=1000)
    assert result.verdict == "unknown" and result.reason


def test_a_lemma_uses_only_what_was_shown() -> None:
    x = z3.Int("x")
    argument = Argument(x > 1)
    shown = argument.shows("first", x > 0)
    argument.shows("second", x >= 0, shown)
    with pytest.raises(ValueError, match="'third' uses what was not shown before it"):
        argument.shows("third", x > 5, x > 6)
    assert [len(one.assumptions) for one in argument.obligations] == [1, 2]


def test_an_induction_starts_from_a_fresh_cache() -> None:
    def never(base: object, world: object) -> dict[str, z3.BoolRef]:
        return {"nothing holds": z3.BoolVal(False)}

    false = Theorem("never", "Nothing holds.", "unbounded", kept(never))
    result = prove(false, scope=SMALL)
    assert result.verdict == "refuted" and result.failed and result.failed.label == "nothing holds; fresh cache"
