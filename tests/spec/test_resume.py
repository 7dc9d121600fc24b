"""The resume rule and the arithmetic under it, against definitions that count one by one."""

from __future__ import annotations

from math import lcm

from hypothesis import given
from hypothesis import strategies as st

from milepost.spec.geometry import boundary_grid, columns_for, floor_to, lies_on
from milepost.spec.resume import NEEDS, aligned, deepest, first_needed, longest_possible
from milepost.spec.words import GroupKind

sizes = st.integers(1, 200)
lengths = st.integers(0, 2_000)


@given(lengths, st.integers(1, 64))
def test_a_window_needs_what_its_next_query_sees_and_no_more(n: int, window: int) -> None:
    """The query at n sees `window` tokens, its own among them."""
    seen = [token for token in range(n) if n - token < window]
    assert list(range(first_needed(GroupKind.WINDOW, n, window), n)) == seen


@given(lengths, sizes)
def test_full_and_compressed_groups_need_everything(n: int, window: int) -> None:
    assert first_needed(GroupKind.FULL, n, window) == first_needed(GroupKind.COMPRESSED, n, window) == 0


@given(lengths, sizes)
def test_a_recurrent_group_needs_a_snapshot_and_no_entries(n: int, window: int) -> None:
    assert first_needed(GroupKind.RECURRENT, n, window) == n
    assert [kind for kind in GroupKind if NEEDS[kind].snapshot] == [GroupKind.RECURRENT]


@given(lengths, st.integers(1, 16))
def test_only_a_compressed_group_minds_where_it_ends(n: int, ratio: int) -> None:
    assert [aligned(kind, n, ratio) for kind in GroupKind] == [True, True, True, n % ratio == 0]


@given(st.integers(1, 100), st.integers(0, 100))
def test_the_last_token_of_a_prompt_is_always_computed(prompt: int, shared: int) -> None:
    assert longest_possible(prompt, shared) == max(n for n in range(prompt) if n <= max(shared, 0))


@given(st.integers(0, 60), st.lists(st.sets(st.integers(0, 60)), max_size=4))
def test_a_joint_hit_is_the_deepest_length_that_every_group_offers(limit: int, offers: list[set[int]]) -> None:
    joint = [n for n in range(1, limit + 1) if all(n in offer for offer in offers)]
    assert deepest(limit, (offer.__contains__ for offer in offers)) == max(joint, default=0)


def test_a_joint_hit_is_never_the_maximum_over_groups() -> None:
    assert deepest(20, ({8, 16}.__contains__, {4, 8}.__contains__)) == 8
    assert deepest(20, ({16}.__contains__, {8}.__contains__)) == 0


def test_every_kind_has_a_rule_and_a_reason() -> None:
    assert set(NEEDS) == set(GroupKind) and all(need.reason for need in NEEDS.values())
    assert [kind for kind in GroupKind if kind.paged] == [GroupKind.FULL, GroupKind.WINDOW, GroupKind.COMPRESSED]


# -- geometry


@given(sizes, sizes)
def test_boundaries_are_the_positions_that_are_both_page_ends_and_chunk_ends(page: int, chunk: int) -> None:
    grid = boundary_grid(page, chunk)
    assert grid == lcm(page, chunk)
    both = [position for position in range(2 * grid + 1) if position % page == 0 == position % chunk]
    assert both == [0, grid, 2 * grid]


@given(sizes, lengths)
def test_a_floor_is_the_last_position_of_the_grid_that_is_not_behind(grid: int, position: int) -> None:
    assert floor_to(grid, position) == max(n for n in range(position + 1) if n % grid == 0)
    assert lies_on(grid, position) == (floor_to(grid, position) == position)


@given(sizes, lengths)
def test_columns_are_counted_with_the_one_that_is_not_full(page: int, length: int) -> None:
    assert columns_for(page, length) == len({token // page for token in range(length)})


def test_the_chapters_example_lies_on_no_common_boundary() -> None:
    assert floor_to(boundary_grid(8, 64), 1_000) == 960
    assert not lies_on(boundary_grid(8, 64), 1_000) and lies_on(boundary_grid(8, 64), 1_024)
