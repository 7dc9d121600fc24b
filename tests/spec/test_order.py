"""Promises, ordered and literal landing: what may be read, granted and dropped while a step is on its way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.spec.answers import Pages, Table

from .world import HYBRID, LITERAL, PAGED, World, copy, faulty, hybrid, legal, zero

PROMPT = "abcdefghijklmnop"


def in_flight(literal: bool = False) -> World:
    """r1 has landed 8 tokens in pages 0 1; its step up to 12 is in flight: page 2, live slot 0, snapshot 12 in 3."""
    world = World(LITERAL if literal else HYBRID)
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0, frozen={12: 3}), frozen={12: 3}))
    legal(world.launch())
    return world


# -- launched and not landed


@pytest.mark.parametrize("literal", [False, True])
def test_what_is_in_flight_is_offered_behind_an_ordered_queue_only(literal: bool) -> None:
    result = in_flight(literal).open("r2", PROMPT, 12, hybrid((0, 1, 2), source=3))
    faulty(result, "read-before-landing") if literal else legal(result)


def test_what_has_landed_is_offered_in_any_case() -> None:
    world = in_flight(literal=True)
    legal(world.land())
    legal(world.open("r2", PROMPT, 12, hybrid((0, 1, 2), source=3)))


def test_without_an_order_only_the_entries_that_a_step_writes_are_held_back() -> None:
    """r1's step in flight appends tokens 6 and 7 to page 1; its first two entries have landed."""
    world = World(replace(PAGED, ordered_steps=False))
    legal(world.open("r1", PROMPT))
    world.run("r1", 6, {"kv": Pages((0, 1))})
    legal(world.extend("r1", 8, {"kv": Pages((0, 1))}))
    legal(world.launch())
    legal(world.open("r2", PROMPT, 6, {"kv": Pages((0, 1))}))
    fault = faulty(world.open("r3", PROMPT, 8, {"kv": Pages((0, 1))}), "read-before-landing")
    assert fault.position == 6


def test_without_an_order_a_request_reads_what_its_own_step_in_flight_writes() -> None:
    world = in_flight(literal=True)
    legal(world.extend("r1", 16, hybrid((0, 1, 2, 5), live=0, frozen={12: 3})))
    legal(world.launch())


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("table", [hybrid((2,), live=6), hybrid((7,), live=0), hybrid((7,), live=3)])
def test_what_a_step_in_flight_writes_is_granted_behind_an_ordered_queue_only(table: Table, literal: bool) -> None:
    world = in_flight(literal)
    legal(world.close("r1", {}))
    legal(world.open("r2", "zyxwvuts"))
    result = world.extend("r2", 4, table)
    if literal:
        fault = faulty(result, "late-write")
        assert (fault.request, fault.other) == ("r2", "r1")
    else:
        legal(result)


def test_without_an_order_cells_that_no_step_writes_are_granted() -> None:
    world = in_flight(literal=True)
    legal(world.close("r1", {}))
    legal(world.open("r2", "zyxwvuts"))
    legal(world.extend("r2", 8, hybrid((0, 1), live=6)))


def test_without_an_order_the_copies_of_a_step_in_flight_are_writes_too() -> None:
    """r2's step copies page 1 to 5 before it appends to it."""
    for literal in (False, True):
        world = World(replace(PAGED, ordered_steps=not literal))
        legal(world.open("r1", PROMPT))
        world.run("r1", 8, {"kv": Pages((0, 1))})
        legal(world.open("r2", PROMPT[:6] + "zzzz", 6, {"kv": Pages((0, 1))}))
        legal(world.extend("r2", 8, {"kv": Pages((0, 5))}))
        legal(world.launch(copy(1, 5, pool="kv")))
        result = world.open("r3", PROMPT[:6] + "yyyy", 6, {"kv": Pages((0, 5))})
        faulty(result, "read-before-landing") if literal else legal(result)
        legal(world.close("r2", {}))
        legal(world.open("r4", "xxxxxxx"))
        if literal:
            faulty(world.extend("r4", 4, {"kv": Pages((5,))}), "late-write")


def test_without_an_order_a_cell_that_a_step_in_flight_zeroes_for_nobody_is_not_granted() -> None:
    """The engine clears freed slots with the next step, and hands one out before that step has landed."""
    world = World(LITERAL)
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 4, hybrid((0,), live=0)))
    legal(world.launch(zero(0), zero(6)))
    legal(world.open("r2", "zyxwvuts"))
    fault = faulty(world.extend("r2", 4, hybrid((7,), live=6)), "late-write")
    assert (fault.request, fault.other, fault.cell) == ("r2", "r1", ("state", 6))


def test_a_donation_of_what_a_launched_step_completes_is_legal() -> None:
    world = in_flight()
    legal(world.close("r1", {}))
    legal(world.open("r2", PROMPT, 12, hybrid((0, 1, 2), source=0)))
    legal(world.extend("r2", 16, hybrid((0, 1, 2, 4), live=6, source=0)))
    legal(world.launch(copy(0, 6)))


# -- planned and not launched


def promised() -> World:
    """r1 has landed 4 tokens and planned up to 12: pages 0 1 2, live slot 0, a snapshot of 8 in slot 3."""
    world = World()
    world.compute("r1", PROMPT, (0,), live=0, to=4)
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0, frozen={8: 3}), frozen={8: 3}))
    return world


def test_what_a_planned_step_will_write_is_offered_behind_an_ordered_queue() -> None:
    world = promised()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=3)))
    assert world.claim("r2").promised == {("kv", 1), ("state", 3)}
    legal(world.launch())
    assert world.claim("r2").promised == frozenset()
    legal(world.extend("r2", 12, hybrid((0, 1, 7), live=6, source=3)))
    legal(world.launch(copy(3, 6)))


def test_a_live_slot_is_promised_at_the_length_that_was_planned() -> None:
    world = promised()
    legal(world.open("r2", PROMPT, 12, hybrid((0, 1, 2), source=0)))
    faulty(promised().open("r2", PROMPT, 10, hybrid((0, 1, 2), source=0)), "torn-hit")


def test_without_an_order_nothing_is_promised() -> None:
    world = World(LITERAL)
    world.compute("r1", PROMPT, (0,), live=0, to=4)
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0, frozen={8: 3}), frozen={8: 3}))
    fault = faulty(world.open("r2", PROMPT, 8, hybrid((0, 1), source=3)), "read-before-landing")
    assert (fault.cell, fault.position) == (("kv", 1), 4)


def test_a_promise_is_for_the_text_that_will_be_written() -> None:
    faulty(promised().open("r2", "abcdefgZijkl", 8, hybrid((0, 1), source=3)), "uninitialized-read")
    faulty(promised().open("r2", PROMPT, 12, hybrid((0, 2, 1), source=0)), "uninitialized-read")


def test_a_page_is_promised_as_a_whole_since_the_coming_copies_may_fill_its_first_entries() -> None:
    """r2 will append to a copy of a page that its hit ends in; r3 is offered the copy."""
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 8, {"kv": Pages((0, 1))})
    legal(world.open("r2", PROMPT[:6] + "zzzz", 6, {"kv": Pages((0, 1))}))
    legal(world.extend("r2", 8, {"kv": Pages((0, 5))}))
    legal(world.open("r3", PROMPT[:6] + "zzyy", 8, {"kv": Pages((0, 5))}))
    legal(world.launch(copy(1, 5, pool="kv")))
    world.run("r3", 9, {"kv": Pages((0, 5, 6))})


def test_what_was_promised_is_there_when_its_reader_runs() -> None:
    """The copy that should have filled the first entries never came."""
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 8, {"kv": Pages((0, 1))})
    legal(world.open("r2", PROMPT[:6] + "zzzz", 6, {"kv": Pages((0, 1))}))
    legal(world.extend("r2", 8, {"kv": Pages((0, 5))}))
    legal(world.open("r3", PROMPT[:6] + "zzyy", 8, {"kv": Pages((0, 5))}))
    assert faulty(world.launch(), "uninitialized-read").request == "r2"


@pytest.mark.parametrize("verb", ["close", "preempt"])
def test_a_promise_whose_step_is_dropped_is_read_before_landing(verb: str) -> None:
    for source in (3, 0):
        world = promised()
        length = 8 if source == 3 else 12
        legal(world.open("r2", PROMPT, length, hybrid((0, 1, 2)[: length // 4], source=source)))
        legal(world.close("r1", {}) if verb == "close" else world.preempt("r1"))
        table = hybrid((*(0, 1, 2)[: length // 4], 7, 8), live=6, source=source)
        legal(world.extend("r2", 16, table))
        fault = faulty(world.launch(copy(source, 6)), "read-before-landing")
        assert fault.request == "r2"


def test_kv_that_is_promised_by_a_dropped_step_is_read_before_landing() -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 8, {"kv": Pages((0, 1))}))
    legal(world.open("r2", PROMPT, 8, {"kv": Pages((0, 1))}))
    legal(world.close("r1", {}))
    legal(world.extend("r2", 12, {"kv": Pages((0, 1, 2))}))
    assert faulty(world.launch(), "read-before-landing").cell == ("kv", 0)


@pytest.mark.parametrize("initial", [3, 6])
def test_a_state_is_not_read_in_the_step_that_makes_it(initial: int) -> None:
    """r2's kernel reads the promised snapshot itself, or a copy that the step's phases made of it."""
    world = promised()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=3)))
    legal(world.extend("r2", 12, hybrid((0, 1, 7), live=6, source=3), initial={"state": initial}))
    faulty(world.launch(copy(3, 6)), "read-before-landing")


def test_a_live_slot_is_not_read_in_the_step_that_advances_it() -> None:
    """It holds 4 tokens of the prefix when the step starts, and 12 only at its end."""
    world = promised()
    legal(world.open("r2", PROMPT, 12, hybrid((0, 1, 2), source=0)))
    legal(world.extend("r2", 16, hybrid((0, 1, 2, 7), live=6, source=0)))
    faulty(world.launch(copy(0, 6)), "read-before-landing")


def test_kv_is_read_in_the_step_that_makes_it() -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 8, {"kv": Pages((0, 1))}))
    legal(world.open("r2", PROMPT, 8, {"kv": Pages((0, 1))}))
    legal(world.extend("r2", 12, {"kv": Pages((0, 1, 2))}))
    legal(world.launch())


def test_a_page_that_was_promised_and_written_may_not_be_written_again() -> None:
    """r2 reads tokens 4 to 7 of page 1 since r1's step was launched."""
    world = promised()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=3)))
    legal(world.launch())
    legal(world.open("r3", PROMPT[:4] + "zzzzzzz"))
    legal(world.publish("r3", {"r3": hybrid((0, 1))}))
    legal(world.extend("r3", 8, hybrid((0, 1), live=6), initial={"state": None}))
    faulty(world.launch(), "write-to-published")


def test_a_snapshot_that_is_copied_before_a_planned_step_is_promised_too() -> None:
    """r1's table names a snapshot at its present length; the launch will copy it before the forward."""
    world = World()
    world.compute("r1", PROMPT, (0,), live=0, to=4)
    legal(world.extend("r1", 8, hybrid((0, 1), live=0, frozen={4: 3})))
    legal(world.open("r2", PROMPT[:4] + "zzzz", 4, hybrid((0,), source=3)))
    legal(world.extend("r2", 8, hybrid((0, 7), live=6, source=3)))
    legal(world.launch(copy(0, 3), copy(3, 6)))


def test_several_cold_requests_share_a_step() -> None:
    world = World()
    legal(world.open("r1", PROMPT))
    legal(world.open("r2", "zyxwvuts"))
    legal(world.extend("r1", 8, hybrid((0, 1), live=0)))
    legal(world.extend("r2", 4, hybrid((2,), live=1)))
    legal(world.launch(zero(0, 1)))
    assert world.state.flights[0].spans == {"r1": (0, 8), "r2": (0, 4)}


def test_a_dropped_plan_writes_nothing() -> None:
    world = promised()
    legal(world.close("r1", {}))
    legal(world.launch())
    faulty(world.open("r2", PROMPT, 8, hybrid((0, 1), source=3)), "uninitialized-read")


def test_nothing_at_all_is_launched_where_everything_was_dropped() -> None:
    world = promised()
    legal(world.close("r1", {}))
    legal(world.launch())
    legal(world.land())
    assert world.state.flights == ()
