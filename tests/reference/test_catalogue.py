"""The lists of liberties and mutants are complete, named alike, and every one of them can be built."""

import re
from collections.abc import Callable

import pytest

from milepost.conformance.layouts import FIRST
from milepost.conformance.profiles import PROFILES
from milepost.reference.cache import make
from milepost.reference.liberties import LIBERTIES, LIBERTY_PROFILES
from milepost.reference.mutants import MUTANTS
from milepost.spec.capabilities import Configuration, complaints
from milepost.spec.faults import FAULTS
from milepost.spec.laws import FREEDOMS, LAWS, PROMISES
from milepost.spec.seam import Accounted, Adapter, Inventoried

KEBAB = re.compile(r"[a-z]+(-[a-z]+)+")
PRECEDENT = re.compile(r"[A-Za-z0-9.-]+(/[A-Za-z0-9.-]+)?#[0-9]+")
OTHER_CLASSES = {"F20"}
"""Types: no digest tells how many bits a state was rounded to."""

MAKERS: dict[str, Callable[[Configuration], Adapter]] = {
    **LIBERTIES,
    **{name: mutant.make for name, mutant in MUTANTS.items()},
}


@pytest.mark.parametrize("name", MAKERS)
def test_everything_listed_can_be_built_and_declares_soundly(name: str) -> None:
    for page, chunk in ((4, 8), (1, 4), (8, 4)):
        cache = MAKERS[name](Configuration(page, chunk))
        assert not complaints(cache.capabilities)
        assert isinstance(cache, Inventoried)
        assert isinstance(cache, Accounted)


def test_every_freedom_has_a_liberty() -> None:
    assert set(LIBERTIES) == set(FREEDOMS)


def test_every_law_has_a_mutant() -> None:
    codes = {code for mutant in MUTANTS.values() for code in mutant.codes if code in FAULTS}
    assert {FAULTS[code].law for code in codes} == {law.number for law in LAWS}


def test_every_code_is_the_first_choice_of_some_mutant() -> None:
    assert {mutant.codes[0] for mutant in MUTANTS.values()} >= set(FAULTS)


def test_every_promise_of_the_reference_has_a_mutant() -> None:
    broken = {code.removeprefix("promise:") for mutant in MUTANTS.values() for code in mutant.codes}
    assert broken >= set(make(Configuration()).capabilities.promises)


def test_every_class_of_public_fault_that_can_be_seen_has_a_mutant() -> None:
    wanted = {f"F{number}" for number in range(1, 24)} - OTHER_CLASSES
    assert {mutant.fault_class for mutant in MUTANTS.values()} == wanted


def test_codes_and_promises_exist() -> None:
    known = set(FAULTS) | {f"promise:{promise}" for promise in PROMISES}
    for mutant in MUTANTS.values():
        assert mutant.codes
        assert set(mutant.codes) <= known, mutant.name


def test_names_and_precedents_have_their_form() -> None:
    for name, mutant in MUTANTS.items():
        assert mutant.name == name
        assert KEBAB.fullmatch(name), name
        assert PRECEDENT.fullmatch(mutant.precedent), name
        assert mutant.sentence.endswith("."), name


def test_there_are_enough_mutants() -> None:
    assert len(MUTANTS) >= 45
    assert sum(mutant.fault_class in ("F3", "F10", "F11", "F12", "F22") for mutant in MUTANTS.values()) >= 20


def test_profiles_of_odd_references_exist() -> None:
    named = {mutant.profile for mutant in MUTANTS.values()} | set(LIBERTY_PROFILES.values())
    assert named - {""} <= set(PROFILES)
    assert set(LIBERTY_PROFILES) <= set(LIBERTIES)
    assert "window-gap" in {code for mutant in MUTANTS.values() for code in mutant.codes}


@pytest.mark.parametrize("profile", FIRST)
def test_every_liberty_can_be_built_with_the_groups_of_every_profile(profile: str) -> None:
    for name in LIBERTIES:
        declared = LIBERTIES[name](FIRST[profile]).capabilities
        assert not complaints(declared), name
        assert {group.kind for group in declared.groups} == PROFILES[profile].kinds
