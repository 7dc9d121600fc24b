"""Copies and zeroings: what they move, when they take effect, and what they must not touch."""

from __future__ import annotations

import pytest

from milepost.spec.answers import Pages, Phase
from milepost.spec.payload import ZERO

from .world import PAGED, World, copy, faulty, hybrid, legal, zero

PROMPT = "abcdefghijklmnop"


def states() -> World:
    """States of 4, 8 and 12 tokens of one text lie in slots 1, 2 and 3, and nobody holds them."""
    world = World()
    world.compute("r1", PROMPT, (0, 1, 2), live=3, to=12, frozen={4: 1, 8: 2})
    legal(world.close("r1"))
    return world


def moved(*phases: Phase) -> list[int | None]:
    """Return how many tokens the states in slots 1 to 4 have read after a launch with these phases.

    0 is zeroed memory, None memory that nothing has written.
    """
    world = states()
    legal(world.launch(*phases))
    digests = list(world.state.streams[0][1].digests)
    contents = [world.content(("state", slot)) for slot in (1, 2, 3, 4)]
    return [one if one in (None, ZERO) else digests.index(one) for one in contents if not isinstance(one, tuple)]


def test_all_sources_of_a_phase_are_read_before_any_destination_is_written() -> None:
    assert moved(Phase((("state", 1, 2), ("state", 2, 1)))) == [8, 4, 12, None]
    assert moved(Phase((("state", 1, 2), ("state", 2, 3), ("state", 3, 4)))) == [4, 4, 8, 12]


def test_phases_run_one_after_the_other() -> None:
    assert moved(copy(1, 2), copy(2, 1)) == [4, 4, 12, None]
    assert moved(copy(1, 2), copy(2, 3)) == [4, 4, 4, None]


def test_a_zeroing_does_not_reach_a_copy_of_its_own_phase() -> None:
    assert moved(Phase((("state", 1, 4),), zeros=(("state", 1),))) == [0, 8, 12, 4]


def test_without_an_order_a_copy_whose_source_is_a_destination_writes_nothing_certain() -> None:
    assert moved(Phase((("state", 1, 2), ("state", 2, 3)), unordered=True)) == [4, 4, None, None]


def test_without_an_order_a_copy_whose_source_is_zeroed_writes_nothing_certain() -> None:
    assert moved(Phase((("state", 1, 4),), zeros=(("state", 1),), unordered=True)) == [0, 8, 12, None]


def test_without_an_order_all_other_copies_are_as_good_as_ever() -> None:
    assert moved(Phase((("state", 1, 4), ("state", 2, 3)), unordered=True)) == [4, 8, 8, 4]


@pytest.mark.parametrize("source", [7, 1])
def test_a_copy_never_faults_for_what_it_moves(source: int) -> None:
    legal(states().launch(copy(source, 6)))


def test_a_copy_may_fill_a_cell_that_no_table_names() -> None:
    """A donation by copy: the snapshot is hit where the copy went."""
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.publish("r1", None, copy(0, 6)))
    world.run("r1", 12, hybrid((0, 1, 2), live=0))
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=6)))


def test_the_copy_of_a_page_brings_the_entries_that_were_there() -> None:
    """A page that ends a hit inside it is copied before it is written behind the hit."""
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 8, {"kv": Pages((0, 1))})
    legal(world.open("r2", PROMPT[:6] + "zzzz", 6, {"kv": Pages((0, 1))}))
    legal(world.extend("r2", 10, {"kv": Pages((0, 5, 6))}))
    legal(world.launch(copy(1, 5, pool="kv")))
    legal(world.land())
    world.run("r1", 12, {"kv": Pages((0, 1, 2))})


def test_a_page_that_was_not_copied_lacks_its_first_entries() -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 8, {"kv": Pages((0, 1))})
    legal(world.open("r2", PROMPT[:6] + "zzzz", 6, {"kv": Pages((0, 1))}))
    legal(world.extend("r2", 10, {"kv": Pages((0, 5, 6))}))
    fault = faulty(world.launch(), "uninitialized-read")
    assert (fault.cell, fault.position) == (("kv", 5), 4)


# -- phases of other answers


def test_the_phases_of_a_hit_run_at_the_open() -> None:
    world = states()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), live=6, source=2), phases=(copy(2, 6),)))
    world.run("r2", 12, hybrid((0, 1, 7), live=6, source=2))


def test_the_phases_of_a_hit_run_after_its_grants_and_before_its_checks() -> None:
    """The live slot alone is named, and the phase fills it from a state that is kept elsewhere."""
    world = states()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), live=6), phases=(copy(2, 6),)))
    faulty(states().open("r2", PROMPT, 8, hybrid((0, 1), live=6)), "uninitialized-read")


def test_the_phases_of_a_landing_run_behind_what_was_launched() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0)))
    legal(world.launch())
    legal(world.land(None, {"r1": hybrid((0, 1, 2), live=0, frozen={12: 6})}, copy(0, 6)))
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 12, hybrid((0, 1, 2), source=6)))


def test_the_phases_of_a_close_run_behind_the_step_that_is_in_flight() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0)))
    legal(world.launch())
    legal(world.close("r1", {}, copy(0, 6)))
    legal(world.open("r2", PROMPT, 12, hybrid((0, 1, 2), source=6)))


# -- what they must not touch


def shared() -> World:
    """r2 leases pages 0 1 and is to be restored from slot 2; r3 has computed 4 tokens in page 9 and slot 7."""
    world = states()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=2)))
    world.compute("r3", "zyxwvuts", (9,), live=7, to=4)
    return world


@pytest.mark.parametrize(
    "phase", [copy(7, 2), zero(2), copy(9, 1, pool="kv"), zero(0, pool="kv")]
)
def test_what_a_request_leases_is_not_overwritten_for_another(phase: Phase) -> None:
    world = shared()
    fault = faulty(world.publish("r3", None, phase), "write-to-published")
    assert fault.other == "r2"
    legal(world.extend("r3", 8, hybrid((9, 10), live=7)))
    faulty(world.launch(phase), "write-to-published")


def test_what_two_tables_name_is_not_overwritten() -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 8, {"kv": Pages((0, 1))})
    legal(world.open("r2", PROMPT))
    legal(world.extend("r2", 8, {"kv": Pages((4, 5))}))
    legal(world.launch())
    legal(world.land(None, {"r2": {"kv": Pages((0, 1))}}))
    faulty(world.publish("r1", None, zero(1, pool="kv")), "write-to-published")


def test_what_a_request_holds_alone_is_its_own_to_copy_over() -> None:
    """The law is about what another request may read; what the owner reads itself is judged when it reads."""
    world = shared()
    legal(world.extend("r2", 12, hybrid((0, 1, 8), live=6, source=2)))
    legal(world.launch(copy(2, 6), copy(6, 2)))
    world = shared()
    legal(world.extend("r2", 12, hybrid((0, 1, 8), live=6, source=2)))
    faulty(world.launch(zero(2), copy(2, 6)), "torn-hit")


def test_what_nobody_holds_may_be_overwritten_though_it_is_cached() -> None:
    world = states()
    legal(world.launch(zero(1), copy(1, 2)))
    faulty(world.open("r2", PROMPT, 8, hybrid((0, 1), source=2)), "torn-hit")


# -- outside the queue


def in_flight() -> World:
    """r1's step over tokens 8 to 11 is in flight: it writes page 2 and slot 0, and reads pages 0 1 and slot 0."""
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0, frozen={12: 3}), frozen={12: 3}))
    legal(world.launch())
    return world


def test_a_copy_at_once_of_what_a_step_in_flight_writes_comes_too_early() -> None:
    for at, code in (("queue", ""), ("now", "read-before-landing")):
        world = in_flight()
        legal(world.close("r1", {}, copy(3, 6, at=at)))
        result = world.open("r2", PROMPT, 12, hybrid((0, 1, 2), source=6))
        faulty(result, code) if code else legal(result)


def test_a_copy_of_a_copy_that_came_too_early_is_no_better() -> None:
    world = in_flight()
    legal(world.close("r1", {}, copy(3, 6, at="now"), copy(6, 5)))
    faulty(world.open("r2", PROMPT, 12, hybrid((0, 1, 2), source=5)), "read-before-landing")


def test_an_effect_at_once_is_overtaken_by_the_step_that_was_launched_before() -> None:
    """r1's snapshot slot goes to r2, which zeroes it at once; then r1's step writes into it."""
    for at, code in (("queue", ""), ("now", "late-write")):
        world = in_flight()
        legal(world.close("r1", {}))
        legal(world.open("r2", "zyxwvuts"))
        legal(world.extend("r2", 4, hybrid((9,), live=3)))
        result = world.launch(zero(3, at=at))
        faulty(result, code) if code else legal(result)


def test_an_effect_at_once_may_not_touch_what_a_step_in_flight_still_reads() -> None:
    world = in_flight()
    faulty(world.publish("r1", None, zero(1, pool="kv", at="now")), "write-to-published")


def test_an_effect_at_once_may_touch_what_a_step_in_flight_neither_reads_nor_writes() -> None:
    """Slot 4 is r1's snapshot of an earlier step."""
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8, frozen={8: 4})
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0, frozen={8: 4})))
    legal(world.launch())
    legal(world.close("r1", {}))
    legal(world.open("r2", "zyxwvuts"))
    legal(world.extend("r2", 4, hybrid((9,), live=4)))
    legal(world.launch(zero(4, at="now")))


def test_an_effect_at_once_is_harmless_once_the_step_has_landed() -> None:
    world = in_flight()
    legal(world.close("r1", {}))
    legal(world.land())
    legal(world.open("r2", "zyxwvuts"))
    legal(world.extend("r2", 4, hybrid((9,), live=3)))
    legal(world.launch(zero(3, at="now")))


def test_a_copy_at_once_of_what_a_queued_copy_will_fill_comes_too_early() -> None:
    """The launch copies slot 2 to 6 in the queue; slot 5 is filled from 6 at once."""
    for phases in ((copy(2, 6), copy(6, 5, at="now")), (copy(2, 6),)):
        world = states()
        legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=2)))
        legal(world.extend("r2", 12, hybrid((0, 1, 7), live=6, source=2)))
        legal(world.launch(*phases))
        if len(phases) == 1:
            legal(world.open("r3", "z"))
            legal(world.publish("r3", None, copy(2, 5)))
        result = world.open("r4", PROMPT, 8, hybrid((0, 1), source=5))
        faulty(result, "read-before-landing") if len(phases) == 2 else legal(result)
