"""When several codes fit one read, the first of the registry wins."""

from __future__ import annotations

import pytest

from milepost.spec.answers import Pages
from milepost.spec.faults import READ_PRECEDENCE
from milepost.spec.words import NULL

from .world import LITERAL, PAGED, World, copy, faulty, hybrid, legal

PROMPT = "abcdefghijklmnop"
SALT, OTHER = (("salt", "x"),), (("adapter", "x"),)


def test_the_order_is_the_written_one() -> None:
    assert READ_PRECEDENCE == (
        "uninitialized-read", "read-before-landing", "reset-survivor", "cross-namespace", "torn-hit", "over-advanced",
        "kv-gap", "window-gap", "stale-kv", "stale-state",
    )


def left(namespace: tuple[tuple[str, str], ...] = ()) -> World:
    """A closed request left pages 0 1 2 and states of 4, 8 and 12 tokens in slots 1, 2 and 3."""
    world = World()
    world.compute("r1", PROMPT, (0, 1, 2), live=3, to=12, frozen={4: 1, 8: 2}, namespace=namespace)
    legal(world.close("r1"))
    return world


def test_never_written_comes_before_everything_that_the_last_tenant_left() -> None:
    world = left(SALT)
    legal(world.reset())
    legal(world.open("r2", "zzzz"))
    legal(world.extend("r2", 4, hybrid((0,), live=1)))
    faulty(world.open("r3", PROMPT, 8, hybrid((0, 1), source=1)), "uninitialized-read")


@pytest.mark.parametrize("slot", [1, 2, 3])
def test_another_epoch_comes_before_another_namespace_and_another_length(slot: int) -> None:
    world = left(SALT)
    legal(world.reset())
    world.compute("r2", PROMPT, (8, 9), live=0, to=8)
    faulty(world.open("r3", PROMPT, 8, hybrid((8, 9), source=slot)), "reset-survivor")


@pytest.mark.parametrize("slot", [1, 2, 3])
def test_another_namespace_comes_before_another_length(slot: int) -> None:
    world = left(SALT)
    world.compute("r2", PROMPT, (8, 9), live=0, to=8)
    faulty(world.open("r3", PROMPT, 8, hybrid((8, 9), source=slot)), "cross-namespace")


def test_equal_values_of_different_kinds_are_different_namespaces() -> None:
    world = left(SALT)
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=2), namespace=SALT))
    faulty(world.open("r3", PROMPT, 8, hybrid((0, 1), source=2), namespace=OTHER), "cross-namespace")
    faulty(world.open("r4", PROMPT, 8, hybrid((0, 1), source=2)), "cross-namespace")


def test_an_own_prefix_that_is_shorter_is_torn_and_a_longer_one_over_advanced() -> None:
    world = left()
    faulty(world.open("r2", PROMPT, 8, hybrid((0, 1), source=1)), "torn-hit")
    faulty(world.open("r3", PROMPT, 8, hybrid((0, 1), source=3)), "over-advanced")


def test_a_shorter_state_of_another_text_is_stale_and_not_torn() -> None:
    world = left()
    world.compute("r2", "zyxwvuts", (8, 9), live=0, to=4)
    legal(world.close("r2"))
    faulty(world.open("r3", PROMPT, 8, hybrid((0, 1), source=0)), "stale-state")


def test_a_longer_state_that_parted_before_the_hit_is_stale_and_not_over_advanced() -> None:
    """It has read 12 tokens, and differs from the reader's from token 6 on."""
    world = left()
    world.compute("r2", PROMPT[:6] + "zzzzzz", (8, 9, 10), live=0, to=12)
    legal(world.close("r2"))
    faulty(world.open("r3", PROMPT, 8, hybrid((0, 1), source=0)), "stale-state")
    legal(world.open("r4", PROMPT[:6] + "zz", 4, hybrid((0,), source=1)))
    faulty(world.open("r5", PROMPT[:6] + "yyy", 6, hybrid((8, 9), source=0)), "over-advanced")


def test_memory_of_unknown_origin_is_stale() -> None:
    world = left()
    legal(world.launch(copy(9, 0, pool="kv")))
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 4, {"kv": Pages((0,))})
    legal(world.launch())
    faulty(world.open("r2", "zzzzzz", 4, {"kv": Pages((0,))}), "stale-kv")


def test_without_an_order_what_no_step_has_written_is_uninitialized_though_a_step_writes_beside_it() -> None:
    """r1's column 1 is a page without its first entries; its step in flight writes the other two."""
    world = World(LITERAL)
    world.compute("r1", PROMPT, (0, 1), live=0, to=6)
    legal(world.extend("r1", 8, hybrid((0, 1), live=0)))
    legal(world.launch())
    legal(world.open("r2", PROMPT[:7], 0))
    fault = faulty(world.open("r3", PROMPT, 8, hybrid((0, 1), source=0)), "read-before-landing")
    assert fault.position == 6
    faulty(world.open("r4", PROMPT, 8, hybrid((9, 1), source=0)), "uninitialized-read")


def test_a_gap_is_a_gap_whatever_lies_in_the_pages_that_are_there() -> None:
    world = left(SALT)
    faulty(world.open("r2", PROMPT, 8, hybrid((NULL, 1), source=2), namespace=SALT), "kv-gap")


def test_a_state_of_zero_tokens_is_torn_above_zero() -> None:
    world = left()
    legal(world.launch())
    faulty(world.open("r2", PROMPT, 8, hybrid((0, 1), source=NULL)), "torn-hit")


def test_a_lease_comes_before_a_table_where_both_forbid_a_grant() -> None:
    world = left()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=2)))
    legal(world.open("r3", "zzzz"))
    faulty(world.extend("r3", 4, hybrid((0,), live=5)), "evicted-while-leased")
    world.compute("r4", "yyyyyyyy", (7,), live=6, to=4)
    faulty(world.extend("r3", 4, hybrid((7,), live=5)), "double-grant")
