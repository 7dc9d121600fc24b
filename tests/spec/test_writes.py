"""Immutability: an owner appends behind what others read in a page, and never touches a slot that others may read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.spec.answers import Pages, Table

from .world import COMPRESSED, LITERAL, PAGED, SHARED, SQUEEZED, World, copy, faulty, hybrid, legal, zero

PROMPT = "abcdefghijklmnop"


def common_page(hit: int = 6, text: str = PROMPT[:6] + "zzzz") -> World:
    """r1 has computed 6 tokens in pages 0 1; r2 was offered `hit` of them and reads page 1 too."""
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 6, {"kv": Pages((0, 1))})
    legal(world.open("r2", text, hit, {"kv": Pages((0, 1))}))
    return world


def test_the_owner_appends_behind_the_entries_that_others_read() -> None:
    world = common_page()
    world.run("r1", 12, {"kv": Pages((0, 1, 2))})


def test_a_reader_does_not_append_in_place_where_the_owner_has_gone_on() -> None:
    """Both write token 6 into entry 2 of page 1: whoever comes second overwrites what the first reads."""
    world = common_page()
    world.run("r1", 8, {"kv": Pages((0, 1))})
    legal(world.extend("r2", 8, {"kv": Pages((0, 1))}))
    fault = faulty(world.launch(), "write-to-published")
    assert (fault.request, fault.other, fault.cell) == ("r2", "r1", ("kv", 1))


def test_the_first_to_append_may_be_the_reader() -> None:
    world = common_page()
    world.run("r2", 8, {"kv": Pages((0, 1))})
    legal(world.extend("r1", 8, {"kv": Pages((0, 1))}))
    fault = faulty(world.launch(), "write-to-published")
    assert (fault.request, fault.other) == ("r1", "r2")


def test_two_readers_of_one_page_append_in_turn_only_once() -> None:
    world = common_page()
    legal(world.open("r3", PROMPT[:6] + "yyyy", 6, {"kv": Pages((0, 1))}))
    legal(world.extend("r2", 8, {"kv": Pages((0, 5))}))
    legal(world.extend("r3", 8, {"kv": Pages((0, 6))}))
    legal(world.launch(copy(1, 5, pool="kv"), copy(1, 6, pool="kv")))


def test_an_entry_that_is_cached_and_read_by_nobody_may_be_written() -> None:
    """r1 is gone: its page 1 is cached with 8 tokens, r2 takes it over behind token 6."""
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 8, {"kv": Pages((0, 1))})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT[:6] + "zzzz", 6, {"kv": Pages((0, 1))}))
    world.run("r2", 8, {"kv": Pages((0, 1))})
    faulty(world.open("r3", PROMPT, 8, {"kv": Pages((0, 1))}), "stale-kv")


def test_entries_of_a_compressed_page_are_counted_by_its_ratio() -> None:
    """A page of 4 tokens has 2 entries: r2 reads one of them, r1 appends the other."""
    world = World(SQUEEZED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 6, {"far": Pages((0, 1))})
    legal(world.open("r2", PROMPT[:6] + "zzzz", 6, {"far": Pages((0, 1))}))
    world.run("r1", 8, {"far": Pages((0, 1))})
    legal(world.extend("r2", 8, {"far": Pages((0, 1))}))
    faulty(world.launch(), "write-to-published")


def test_a_half_filled_group_of_a_compressed_page_is_no_entry_of_anybody() -> None:
    """At 7 tokens with a ratio of 2 the fourth entry of the page does not exist: whoever completes it writes it."""
    world = World(replace(SQUEEZED, groups=(replace(COMPRESSED, page_size=8),)))
    legal(world.open("r1", PROMPT))
    world.run("r1", 7, {"far": Pages((0,))})
    legal(world.open("r2", PROMPT[:6] + "zzzz", 6, {"far": Pages((0,))}))
    world.run("r1", 8, {"far": Pages((0,))})


def snapshot() -> World:
    """r1 is gone; r2 is to be restored from slot 5, which holds 8 tokens; r3 has 8 tokens of its own, live slot 3."""
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=4, to=8, frozen={8: 5})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
    legal(world.open("r3", PROMPT, 8, hybrid((0, 1), source=5)))
    return world


def test_a_snapshot_that_another_is_to_be_restored_from_is_not_written() -> None:
    """r3 goes on in the snapshot itself, which r2 has not read yet."""
    world = snapshot()
    legal(world.extend("r3", 12, hybrid((0, 1, 7), live=5, source=5)))
    fault = faulty(world.launch(), "write-to-published")
    assert (fault.request, fault.other, fault.cell) == ("r3", "r2", ("state", 5))


def test_a_freeze_does_not_write_a_snapshot_that_another_is_to_be_restored_from() -> None:
    world = snapshot()
    legal(world.extend("r3", 12, hybrid((0, 1, 7), live=6, source=5), frozen={12: 5}))
    faulty(world.launch(copy(5, 6)), "write-to-published")


def test_a_snapshot_is_handed_over_to_its_last_reader() -> None:
    world = snapshot()
    legal(world.extend("r2", 12, hybrid((0, 1, 8), live=6, source=5)))
    legal(world.launch(copy(5, 6), tables={"r2": hybrid((0, 1, 8), live=6)}))
    legal(world.extend("r3", 12, hybrid((0, 1, 7), live=5, source=5)))
    legal(world.launch())


@pytest.mark.parametrize("table", [hybrid((0, 1, 2), live=0), hybrid((0, 1), live=0)])
def test_a_slot_that_two_tables_name_is_written_by_none(table: Table) -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.open("r2", PROMPT))
    legal(world.publish("r2", {"r2": hybrid(source=0)}))
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0)))
    faulty(world.launch(), "write-to-published")


def test_a_slot_is_one_whole_though_it_is_written_as_a_page() -> None:
    """In a shared pool r2 appends to what it takes for the second half of a page, and it is r1's live slot."""
    world = World(SHARED)
    world.compute("r1", PROMPT, (0, 1), live=2, to=8)
    legal(world.open("r2", "zyxwvuts"))
    world.run("r2", 2, hybrid((3,), live=4), zero(4, pool="cells"))
    legal(world.publish("r2", {"r2": hybrid((2,), live=4)}))
    legal(world.extend("r2", 4, hybrid((2,), live=4)))
    faulty(world.launch(), "write-to-published")


def test_what_a_closed_request_still_names_is_protected_only_where_nothing_is_ordered() -> None:
    """r2 holds page 1 in common with r1, whose step in flight reads it, and writes it after r1's close."""
    for capabilities in (PAGED, replace(PAGED, ordered_steps=False)):
        world = World(capabilities)
        legal(world.open("r1", PROMPT))
        world.run("r1", 8, {"kv": Pages((0, 1))})
        legal(world.open("r2", PROMPT[:6] + "zzzz", 6, {"kv": Pages((0, 1))}))
        legal(world.extend("r1", 12, {"kv": Pages((0, 1, 2))}))
        legal(world.launch())
        legal(world.close("r1", {"r1": {"kv": Pages((0, 1, 2))}}))
        legal(world.extend("r2", 8, {"kv": Pages((0, 1))}))
        result = world.launch()
        legal(result) if capabilities.ordered_steps else faulty(result, "write-to-published")


def test_without_an_order_writes_are_judged_by_the_same_rules() -> None:
    world = World(LITERAL)
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    world.run("r1", 12, hybrid((0, 1, 2), live=0))
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 12, hybrid((0, 1, 2), source=0)))
    legal(world.extend("r2", 16, hybrid((0, 1, 2, 3), live=6, source=0)))
    legal(world.launch(copy(0, 6)))
    legal(world.land())
