"""What a hit may offer, for each kind of group, and which code names what it may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.spec.answers import Pages, Slots, Table
from milepost.spec.capabilities import Capabilities
from milepost.spec.words import NULL

from .world import (
    COMPRESSED,
    FULL,
    HYBRID,
    PAGED,
    SHARED,
    SQUEEZED,
    WINDOW,
    WINDOWED,
    World,
    copy,
    faulty,
    hybrid,
    legal,
)

PROMPT = "abcdefghijklmnop"


def cached(capabilities: Capabilities = HYBRID) -> World:
    """A closed request left pages 0 1 2 with 12 tokens, states of 6, 8 and 12 tokens in slots 4, 5 and 3."""
    world = World(capabilities)
    world.compute("r1", PROMPT, (0, 1, 2), live=3, to=12, frozen={6: 4, 8: 5})
    legal(world.close("r1"))
    return world


def windowed() -> World:
    """A closed request left 16 tokens in pages 0 to 3 of the full group and 0 to 3 of the window group."""
    world = World(WINDOWED)
    world.open("r1", PROMPT)
    world.run("r1", 16, {"kv": Pages((0, 1, 2, 3)), "near": Pages((0, 1, 2, 3))})
    legal(world.close("r1"))
    return world


def squeezed() -> World:
    """A closed request left 11 tokens in pages 0 to 2 of a compressed group with a ratio of 2."""
    world = World(SQUEEZED)
    world.open("r1", PROMPT)
    world.run("r1", 11, {"far": Pages((0, 1, 2))})
    legal(world.close("r1"))
    return world


# -- all kinds


@pytest.mark.parametrize("length", [0, 6, 8, 12])
def test_any_length_that_all_groups_reach_is_legal_whatever_else_was_possible(length: int) -> None:
    slots = {0: NULL, 6: 4, 8: 5, 12: 3}
    columns = (0, 1, 2)[: -(-length // 4)]
    legal(cached().open("r2", PROMPT, length, hybrid(columns, source=slots[length])))


def test_a_hit_never_reaches_the_last_token_of_the_prompt() -> None:
    legal(cached().open("r2", PROMPT[:9], 8, hybrid((0, 1), source=5)))
    fault = faulty(cached().open("r2", PROMPT[:8], 8, hybrid((0, 1), source=5)), "illegal-boundary")
    assert (fault.request, fault.position, fault.numbers) == ("r2", 8, {"prompt": 8})


def test_a_negative_length_is_no_boundary() -> None:
    faulty(cached().open("r2", PROMPT, -4), "illegal-boundary")


def test_a_hit_lies_on_the_declared_alignment() -> None:
    aligned = replace(HYBRID, hit_alignment=4)
    legal(cached(aligned).open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
    faulty(cached(aligned).open("r2", PROMPT, 6, hybrid((0, 1), source=4)), "illegal-boundary")


def test_an_undeclared_boundary_is_nobody_elses_rule() -> None:
    legal(cached(replace(HYBRID, chunk_size=64)).open("r2", PROMPT, 6, hybrid((0, 1), source=4)))


def test_a_hit_of_nothing_may_already_grant_a_live_slot() -> None:
    world = cached()
    legal(world.open("r2", "xyz", 0, hybrid(live=7)))
    assert world.claim("r2").cells == {("state", 7)}


def test_what_a_hit_of_nothing_names_is_judged_when_it_is_read() -> None:
    """A source at length 0 is none: the step that is restored from it must find zeros there."""
    world = cached()
    legal(world.open("r2", PROMPT, 0, hybrid(source=5)))
    assert world.claim("r2").restoring == frozenset()
    legal(world.extend("r2", 4, hybrid((9,), live=7, source=5)))
    faulty(world.launch(copy(5, 7)), "stale-state")


def test_pages_beyond_the_hit_keep_what_they_hold() -> None:
    world = cached()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1, 2), source=5)))
    legal(world.open("r3", PROMPT, 12, hybrid((0, 1, 2), source=3)))


# -- full


def test_a_hit_may_end_inside_a_page() -> None:
    world = cached()
    legal(world.open("r2", PROMPT[:6] + "zz", 6, hybrid((0, 1), source=4)))
    assert world.claim("r2").leases == {("kv", 0), ("kv", 1)}


def test_only_the_entries_below_the_hit_are_read() -> None:
    faulty(cached().open("r2", PROMPT[:5] + "zzz", 6, hybrid((0, 1), source=4)), "stale-kv")


@pytest.mark.parametrize("columns", [(NULL, 1), (0,), ()])
def test_a_page_that_is_not_there_is_a_kv_gap(columns: tuple[int, ...]) -> None:
    fault = faulty(cached().open("r2", PROMPT, 8, hybrid(columns, source=5)), "kv-gap")
    assert fault.cell == ("kv", NULL)
    assert fault.position == (0 if not columns or columns[0] == NULL else 4)


def test_a_table_without_the_group_is_a_kv_gap() -> None:
    faulty(cached().open("r2", PROMPT, 8, {"state": Slots(source=5)}), "kv-gap")


def test_pages_in_the_wrong_order_are_stale() -> None:
    fault = faulty(cached().open("r2", PROMPT, 8, hybrid((1, 0), source=5)), "stale-kv")
    assert (fault.group, fault.cell, fault.position) == ("kv", ("kv", 1), 0)
    assert fault.expected is not None and fault.expected.length == 1
    assert fault.found is not None and (fault.found.request, fault.found.length) == ("r1", 5)


def test_pages_of_another_text_are_stale() -> None:
    faulty(cached().open("r2", "abcdEFGHijkl", 8, hybrid((0, 1), source=5)), "stale-kv")


def test_a_page_that_nothing_wrote_is_uninitialized() -> None:
    fault = faulty(cached().open("r2", PROMPT, 8, hybrid((0, 9), source=5)), "uninitialized-read")
    assert fault.cell == ("kv", 9)


# -- recurrent


@pytest.mark.parametrize(
    ("length", "slot", "code"),
    [
        (8, 4, "torn-hit"),  # 6 tokens
        (8, NULL, "torn-hit"),
        (8, 3, "over-advanced"),  # 12 tokens
        (12, 5, "torn-hit"),
        (6, 5, "over-advanced"),
        (8, 7, "uninitialized-read"),
    ],
)
def test_a_state_of_another_length_is_torn_or_over_advanced(length: int, slot: int, code: str) -> None:
    columns = (0, 1, 2)[: -(-length // 4)]
    fault = faulty(cached().open("r2", PROMPT, length, hybrid(columns, source=slot)), code)
    assert (fault.group, fault.cell, fault.position) == ("state", ("state", slot), length)


def test_a_state_that_read_on_in_another_text_is_over_advanced_too() -> None:
    faulty(cached().open("r2", PROMPT[:8] + "zzzz", 8, hybrid((0, 1), source=3)), "over-advanced")


def test_a_state_of_another_text_is_stale() -> None:
    world = cached()
    world.compute("r3", "zzzzzzzz", (5, 6), live=0)
    legal(world.close("r3"))
    faulty(world.open("r2", PROMPT, 8, hybrid((0, 1), source=0)), "stale-state")


def test_a_hit_needs_a_state_though_the_table_leaves_the_group_out() -> None:
    faulty(cached().open("r2", PROMPT, 8, {"kv": Pages((0, 1))}), "torn-hit")


def test_a_source_may_be_handed_over_as_the_live_slot() -> None:
    world = cached()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), live=5, source=5)))
    world.run("r2", 12, hybrid((0, 1, 7), live=5, source=5))


def test_every_recurrent_group_must_end_at_the_hit() -> None:
    other = replace(HYBRID.groups[1], name="conv", pool="conv")
    capabilities = replace(HYBRID, groups=(*HYBRID.groups, other), pools={**HYBRID.pools, "conv": 4})
    world = World(capabilities)
    legal(world.open("r1", PROMPT))
    table: Table = {**hybrid((0, 1), live=0), "conv": Slots(0)}
    legal(world.extend("r1", 8, table, initial={"state": None, "conv": None}))
    legal(world.launch())
    legal(world.land())
    legal(world.close("r1"))
    fault = faulty(world.open("r2", PROMPT, 8, hybrid((0, 1), source=0)), "torn-hit")
    assert fault.group == "conv"


# -- window


def test_a_window_needs_its_entries_and_no_earlier_ones() -> None:
    """At 12 with a window of 6, tokens 7 to 11 are read: columns 1 and 2."""
    legal(windowed().open("r2", PROMPT, 12, {"kv": Pages((0, 1, 2)), "near": Pages((NULL, 1, 2))}))
    fault = faulty(
        windowed().open("r2", PROMPT, 12, {"kv": Pages((0, 1, 2)), "near": Pages((NULL, NULL, 2))}), "window-gap"
    )
    assert (fault.group, fault.position) == ("near", 7)


def test_a_window_counts_the_querys_own_token() -> None:
    """At 13, tokens 8 to 12 are read: column 1 has slid out."""
    legal(windowed().open("r2", PROMPT, 13, {"kv": Pages((0, 1, 2, 3)), "near": Pages((NULL, NULL, 2, 3))}))


def test_what_lies_before_the_window_may_hold_anything() -> None:
    legal(windowed().open("r2", PROMPT, 13, {"kv": Pages((0, 1, 2, 3)), "near": Pages((3, 0, 2, 3))}))
    faulty(windowed().open("r2", PROMPT, 13, {"kv": Pages((0, 1, 2, 3)), "near": Pages((3, 0, 1, 3))}), "stale-kv")


def test_a_window_of_one_token_reads_nothing_of_the_past() -> None:
    narrow = replace(WINDOW, window=1)
    world = World(replace(WINDOWED, groups=(FULL, narrow)))
    legal(world.open("r1", PROMPT))
    world.run("r1", 7, {"kv": Pages((0, 1)), "near": Pages((0, 1))})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 6, {"kv": Pages((0, 1)), "near": Pages((NULL, NULL))}))


def test_a_window_is_never_as_long_as_the_full_group_says() -> None:
    faulty(windowed().open("r2", PROMPT, 12, {"kv": Pages((0, 1, 2)), "near": Pages((0, 1))}), "window-gap")


# -- compressed


def test_a_compressed_group_ends_at_multiples_of_its_ratio() -> None:
    legal(squeezed().open("r2", PROMPT, 10, {"far": Pages((0, 1, 2))}))
    faulty(squeezed().open("r2", PROMPT, 9, {"far": Pages((0, 1, 2))}), "illegal-boundary")


def test_a_compressed_group_needs_every_entry() -> None:
    faulty(squeezed().open("r2", PROMPT, 10, {"far": Pages((0, NULL, 2))}), "kv-gap")
    faulty(squeezed().open("r2", PROMPT, 10, {"far": Pages((0, 2, 1))}), "stale-kv")


def test_a_half_filled_group_has_no_entry_yet() -> None:
    """Of 11 tokens the last one is in no entry: page 2 has one of two."""
    assert squeezed().content(("far", 2)) is not None
    world = World(replace(SQUEEZED, groups=(replace(COMPRESSED, ratio=4),)))
    legal(world.open("r1", PROMPT))
    world.run("r1", 6, {"far": Pages((0, NULL))})  # no entry of column 1 is complete, so no page is needed
    world.run("r1", 8, {"far": Pages((0, 1))})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, {"far": Pages((0, 1))}))


# -- shared pools


def test_groups_may_share_a_pool() -> None:
    world = World(SHARED)
    world.compute("r1", PROMPT, (0, 1), live=2, to=8)
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=2)))


def test_a_state_is_never_taken_for_a_page_of_one_token() -> None:
    tiny = replace(SHARED, groups=(replace(SHARED.groups[0], page_size=1), SHARED.groups[1]))
    world = World(tiny)
    world.compute("r1", "ab", (0, 1), live=2)
    legal(world.close("r1"))
    faulty(world.open("r2", "abc", 2, hybrid((0, 2), source=2)), "stale-kv")


def test_a_page_is_never_taken_for_a_state() -> None:
    world = World(SHARED)
    world.compute("r1", PROMPT, (0, 1), live=2, to=8)
    legal(world.close("r1"))
    faulty(world.open("r2", PROMPT, 8, hybrid((0, 1), source=1)), "stale-state")


def test_a_paged_cache_has_no_state_to_tear() -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 7, {"kv": Pages((0, 1))})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 7, {"kv": Pages((0, 1))}))


def test_a_page_of_another_group_in_a_shared_pool_is_no_page_of_this_one() -> None:
    near = replace(WINDOW, pool="kv", page_size=2)
    world = World(replace(HYBRID, groups=(FULL, near), pools={"kv": 12}))
    legal(world.open("r1", "a8"))
    legal(world.extend("r1", 8, {"kv": Pages((0, 1)), "near": Pages((2, 3, 4, 5))}))
    legal(world.launch())
    faulty(world.open("r2", "a8", 4, {"kv": Pages((2,)), "near": Pages((2, 3))}), "stale-kv")
