"""The corpus tells public faults: legal for every correct cache, and each schedule is the end of some wrong one."""

import re
from functools import cache
from importlib.resources import files

import pytest

from milepost.conformance.corpus import load_corpus
from milepost.reference.cache import make, make_explicit
from milepost.reference.liberties import LIBERTIES
from milepost.reference.mutants import MUTANTS
from milepost.spec.capabilities import complaints
from milepost.spec.faults import FAULTS
from milepost.spec.laws import PROMISES
from milepost.spec.schedule import Schedule
from milepost.spec.words import GroupKind

from .bench import run

WHOLE = {schedule.header.id: schedule for schedule in load_corpus()}
CORPUS = {name: schedule for name, schedule in WHOLE.items() if not name.startswith("goal/")}
"""Those that are named after a fault or a promise; tests/proofs has the others, which a solver found for a goal."""

CORRECT = {"reference": make, "explicit": make_explicit, **LIBERTIES}
REFERENCE = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/issues/\d+")

HANGS = {name for name, mutant in MUTANTS.items() if "hang" in mutant.codes}
JUDGED_ELSEWHERE = {"promise:deterministic", "promise:not-inert", "promise:strict-boundaries"}
"""Promises that take a second process, a prompt of their own, or an observer that is not used here."""


@cache
def code(mutant: str, name: str) -> str:
    return run(MUTANTS[mutant].make, WHOLE[name]).code


def test_there_are_at_least_forty() -> None:
    assert len(WHOLE) == len(load_corpus())
    assert len(CORPUS) >= 40


@pytest.mark.parametrize("name", CORPUS)
def test_a_schedule_says_what_it_is_about_and_where_it_comes_from(name: str) -> None:
    header = CORPUS[name].header
    assert re.fullmatch(r"[a-z-]+/[a-z0-9-]+", name)
    assert name.split("/")[0] in {*FAULTS, *PROMISES}
    assert header.about.endswith(".")
    assert REFERENCE.fullmatch(header.origin) if header.origin else re.search(r"\([\w-]+#\d+\)\.$", header.about)
    assert set(header.needs) <= {kind.value for kind in GroupKind}


def test_the_reference_has_room_for_every_schedule() -> None:
    assert [name for name, one in CORPUS.items() if complaints(make(one.header.configuration).capabilities)] == []


def test_a_file_is_named_after_its_schedule() -> None:
    names = {entry.name for entry in files("milepost.conformance.schedules").iterdir() if ".jsonl" in entry.name}
    assert names == {f"{name.replace('/', '.')}.jsonl" for name in WHOLE}


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_cache_passes_the_corpus(name: str) -> None:
    for schedule in WHOLE.values():
        outcome = run(CORRECT[name], schedule)
        assert not outcome.failed, (schedule.header.id, outcome.fault, outcome.broken)


@pytest.mark.parametrize("name", CORPUS)
def test_nothing_in_the_corpus_is_in_vain(name: str) -> None:
    skipped = run(make, CORPUS[name]).skipped
    assert set(skipped) <= {"nothing is in flight", "the request is that long already"}


@pytest.mark.parametrize("name", CORPUS)
def test_a_schedule_kills_a_mutant(name: str) -> None:
    mutants = [mutant for mutant in MUTANTS if mutant not in HANGS]
    assert any(code(mutant, name) in MUTANTS[mutant].codes for mutant in mutants)


@pytest.mark.parametrize("name", [name for name in CORPUS if name.split("/")[0] in FAULTS and "hang/" not in name])
def test_a_schedule_shows_the_fault_that_it_is_named_after(name: str) -> None:
    wanted = name.split("/")[0]
    able = [mutant for mutant in MUTANTS if wanted in MUTANTS[mutant].codes]
    assert any(code(mutant, name) == wanted for mutant in able)


@pytest.mark.parametrize("mutant", [name for name in MUTANTS if name not in HANGS])
def test_a_mutant_dies_in_the_corpus(mutant: str) -> None:
    if not set(MUTANTS[mutant].codes) <= JUDGED_ELSEWHERE:
        assert any(code(mutant, name) in MUTANTS[mutant].codes for name in WHOLE)


def longest(schedule: Schedule) -> int:
    return len(schedule.operations)


def test_a_story_fits_on_a_screen() -> None:
    assert max(map(longest, WHOLE.values())) <= 24
