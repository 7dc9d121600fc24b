"""What the walks and the self-check are worth: each illegal edit of the index is noticed by them."""

import pytest

from .index_edits import EDITS, Edit
from .index_pair import Pair
from .index_walks import Walk, sizes_for

SEEDS, STEPS = 150, 120


def seed_that_notices() -> int | None:
    """Return the first seed whose walk ends in a difference, a broken invariant or an error; None without."""
    for seed in range(SEEDS):
        walk = Walk(Pair(sizes_for(seed)), seed)
        try:
            for _ in range(STEPS):
                walk.step()
        except Exception:
            return seed
    return None


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_an_edit_is_noticed(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    edit.apply(monkeypatch)
    assert seed_that_notices() is not None


def test_edits_have_names_of_their_own() -> None:
    assert len({edit.name for edit in EDITS}) == len(EDITS) >= 20
