"""A declaration that is impossible is told so, in a sentence that names the culprit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from milepost.reference.cache import make, make_explicit
from milepost.reference.liberties import LIBERTIES
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, FreezeGrid, Group, complaints
from milepost.spec.words import GroupKind

from .world import COMPRESSED, FULL, HYBRID, LITERAL, PAGED, SHARED, SQUEEZED, STATE, WINDOW, WINDOWED


@pytest.mark.parametrize("declared", [HYBRID, LITERAL, PAGED, SHARED, SQUEEZED, WINDOWED])
def test_a_sound_declaration_is_not_complained_of(declared: Capabilities) -> None:
    assert complaints(declared) == []


@pytest.mark.parametrize("maker", [make, make_explicit, *LIBERTIES.values()])
def test_our_own_caches_declare_what_is_possible(maker: Any) -> None:
    assert complaints(maker(Configuration()).capabilities) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"groups": ()}, "groups need at least one member and distinct names"),
        ({"groups": (FULL, FULL)}, "groups need at least one member and distinct names"),
        ({"pools": {"kv": 4}}, "pool 'state' of group 'state' has no size"),
        ({"groups": (replace(FULL, page_size=0), STATE)}, "group 'kv' has a page, ratio or layer count below 1"),
        ({"groups": (replace(FULL, ratio=0), STATE)}, "group 'kv' has a page, ratio or layer count below 1"),
        ({"groups": (replace(FULL, layers=0), STATE)}, "group 'kv' has a page, ratio or layer count below 1"),
        (
            {"groups": (replace(COMPRESSED, pool="kv", ratio=3),)},
            "group 'far' has a page that is not a multiple of its ratio",
        ),
        ({"groups": (replace(WINDOW, pool="kv", window=0),)}, "group 'near' is a window group without a window"),
        (
            {"groups": (replace(FULL, executes="gpu"), STATE)},
            "group 'kv' executes in 'gpu', which is none of shadow, engine",
        ),
        ({"cells_per_request": {"state": 9}}, "pool 'state' has fewer cells than the 9 that one request needs"),
        ({"cells_per_request": {"slots": 1}}, "pool 'slots' has fewer cells than the 1 that one request needs"),
        *(
            ({name: 0}, "hit_alignment, chunk_size, the freeze grid and max_live start at 1")
            for name in ("hit_alignment", "chunk_size", "max_live")
        ),
        ({"freeze_grid": FreezeGrid(0)}, "hit_alignment, chunk_size, the freeze grid and max_live start at 1"),
        ({"freeze_grid": FreezeGrid(8, "here")}, "freeze_grid.origin 'here' is none of zero, step"),
        ({"end_donation": "never"}, "end_donation 'never' is none of any, page, boundary"),
        ({"resets": "often"}, "resets 'often' is none of always, idle, never"),
        ({"fidelity": Fidelity("perfect")}, "fidelity.level 'perfect' is none of in-situ, imported, shimmed"),
        ({"overlap": 2}, "overlap '2' is none of 0, 1"),
        ({"drops_planned": ("close", "reset")}, "drops_planned 'reset' is none of close, preempt"),
        ({"independent_evict": ("pages",)}, "independent_evict 'pages' is none of kv, state"),
        (
            {"promises": ("determinstic",)},
            "promise 'determinstic' is none of deterministic, not-inert, maximal-hit, retains-until-pressure, "
            "admits-when-idle, exact-accounting, strict-boundaries",
        ),
    ],
)
def test_what_is_impossible_is_named(change: dict[str, Any], complaint: str) -> None:
    assert complaints(replace(HYBRID, **change)) == [complaint]


def test_every_complaint_is_made_at_once() -> None:
    assert len(complaints(replace(HYBRID, pools={}, resets="often", overlap=7))) == 4


def test_a_group_of_any_other_kind_has_one_token_for_each_entry() -> None:
    assert [replace(COMPRESSED, kind=kind).stride for kind in GroupKind] == [1, 1, 1, 2]


def test_a_group_is_found_by_its_name() -> None:
    assert HYBRID.group("state") is STATE
    with pytest.raises(KeyError):
        HYBRID.group("kV")


def test_the_page_size_of_a_cache_is_that_of_its_first_paged_group() -> None:
    coarse = Group("coarse", GroupKind.FULL, "kv", page_size=16)
    assert replace(HYBRID, groups=(STATE, coarse, FULL)).page_size == 16
    assert replace(HYBRID, groups=(STATE,)).page_size == 1
