"""What the comparison is worth: every mutant of the reference, made again in the cache or its index, is noticed."""

from __future__ import annotations

import pytest

from milepost.cli.lockstep import lockstep
from milepost.optimized.cache import make
from milepost.reference.mutants import MUTANTS

from . import side_edits
from .cache_edits import CACHE_EDITS, IN_THE_INDEX, MEMORY_EDITS, NO_PLACE, OWN_EDITS
from .index_edits import EDITS as INDEX_EDITS
from .index_edits import Edit
from .lockstep_runs import compare, generated

SEED = 77
OPERATIONS = 12_000


def noticed(edit: Edit, patch: pytest.MonkeyPatch, remembers: bool) -> str:
    """Return what a run of the edited cache ends with, '' where nothing was noticed."""
    edit.apply(patch)
    pair = lockstep(make, remembers=remembers)
    try:
        return compare(pair, generated(pair, SEED, edit.profile), OPERATIONS).told
    except Exception as error:  # an edit may break what a run begins or ends with
        return repr(error)


@pytest.mark.parametrize("edit", [*CACHE_EDITS, *OWN_EDITS], ids=lambda edit: edit.name)
def test_an_edit_of_the_cache_is_noticed(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    assert noticed(edit, monkeypatch, remembers=False)


@pytest.mark.parametrize("edit", MEMORY_EDITS, ids=lambda edit: edit.name)
def test_an_edit_of_its_memory_is_noticed(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    assert noticed(edit, monkeypatch, remembers=True)


@pytest.mark.parametrize("name", sorted(set(IN_THE_INDEX.values())))
def test_the_edit_of_the_index_that_makes_a_mutants_mistake_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [edit] = [edit for edit in INDEX_EDITS if edit.name == name]
    assert noticed(edit, monkeypatch, remembers=False)


def test_every_mutant_has_its_place_or_a_reason() -> None:
    made_again = [edit.name for edit in CACHE_EDITS]
    assert len(made_again) == len(set(made_again))
    fitting = {name for name, mutant in MUTANTS.items() if not mutant.profile}
    assert set(made_again) | IN_THE_INDEX.keys() | NO_PLACE.keys() == fitting
    assert not set(made_again) & (IN_THE_INDEX.keys() | NO_PLACE.keys())


@pytest.mark.parametrize("edit", [*side_edits.MUTANT_EDITS, *side_edits.OWN_EDITS], ids=lambda edit: edit.name)
def test_an_edit_of_windows_compressed_groups_or_drafts_is_noticed(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    assert noticed(edit, monkeypatch, remembers=False)


def test_every_mutant_of_a_profile_has_its_place_or_a_reason() -> None:
    made_again = {edit.name for edit in side_edits.MUTANT_EDITS}
    placed = made_again | side_edits.IN_THE_INDEX.keys()
    assert placed | side_edits.NO_PLACE.keys() == {name for name, mutant in MUTANTS.items() if mutant.profile}
    assert not placed & side_edits.NO_PLACE.keys()
