"""What a table grants, keeps and gives up, and who may be granted what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.spec.answers import Landing, Pages, Slots, Table, Tables
from milepost.spec.operations import Launch
from milepost.spec.step import Contradiction
from milepost.spec.words import NULL

from .world import HYBRID, LITERAL, PAGED, SHARED, World, copy, faulty, hybrid, legal, zero

PROMPT = "abcdefghijklmnop"


def two(text: str = "zyxwvutsrq") -> World:
    """r1 holds pages 0 1 and slot 0 after 8 tokens; r2 is open with a text of its own and holds nothing."""
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.open("r2", text))
    return world


def offered() -> World:
    """r1 is gone; r2 was offered pages 0 1 and the state in slot 5; r3 is open with a text of its own."""
    world = World()
    world.compute("r1", PROMPT, (0, 1, 2), live=3, to=12, frozen={8: 5})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
    legal(world.open("r3", "zyxwvutsrq"))
    return world


# -- a cell is granted once


@pytest.mark.parametrize(
    "table", [hybrid((0,), live=1), hybrid((2,), live=0), hybrid((2,), live=1, frozen={4: 0})]
)
def test_a_cell_that_another_table_names_is_not_granted(table: Table) -> None:
    fault = faulty(two().extend("r2", 4, table), "double-grant")
    assert (fault.request, fault.other, fault.cell[1]) == ("r2", "r1", 0)


def test_a_live_slot_that_another_table_names_is_not_granted_by_a_hit() -> None:
    world = two()
    faulty(world.open("r3", "zzz", 0, hybrid(live=0)), "double-grant")


def test_a_launch_grants_too() -> None:
    world = two()
    legal(world.extend("r2", 4, hybrid((2,), live=1)))
    faulty(world.launch(zero(1), tables={"r2": hybrid((2, 1), live=1)}), "double-grant")


def test_a_side_effect_on_another_request_grants_too() -> None:
    world = two()
    legal(world.open("r3", "zzz"))
    result = world.extend("r2", 4, hybrid((2,), live=1), tables={"r3": hybrid((0,))})
    assert faulty(result, "double-grant").request == "r3"


@pytest.mark.parametrize("table", [hybrid((2, 2), live=1), hybrid((2,), live=1, frozen={4: 1})])
def test_a_table_does_not_grant_one_cell_twice(table: Table) -> None:
    fault = faulty(two().extend("r2", 8, table), "double-grant")
    assert fault.other == "r2"


def test_two_requests_are_not_granted_one_cell_in_one_answer() -> None:
    world = two()
    legal(world.open("r3", "zzz"))
    faulty(world.extend("r2", 4, hybrid((2,), live=1), tables={"r3": hybrid((2,))}), "double-grant")


def test_two_groups_do_not_share_a_cell() -> None:
    world = World(SHARED)
    legal(world.open("r1", PROMPT))
    faulty(world.extend("r1", 4, hybrid((3,), live=3)), "double-grant")


def test_what_is_leased_is_not_granted() -> None:
    fault = faulty(offered().extend("r3", 4, hybrid((1,), live=7)), "evicted-while-leased")
    assert (fault.request, fault.other, fault.cell) == ("r3", "r2", ("kv", 1))
    faulty(offered().extend("r3", 4, hybrid((9,), live=5)), "evicted-while-leased")


def test_what_nobody_holds_is_granted_though_it_is_cached() -> None:
    legal(offered().extend("r3", 4, hybrid((2,), live=3)))


def test_an_own_cell_is_never_granted_twice() -> None:
    world = two()
    world.run("r1", 12, hybrid((0, 1, 2), live=0))
    world.run("r1", 16, hybrid((0, 1, 2, 3), live=0))


# -- a cell that is no longer named is given up


def test_cells_are_given_up_before_any_is_granted_whatever_the_order() -> None:
    """r1's page and slot go to r2 in the answer that takes them away."""
    world = two()
    legal(world.extend("r2", 4, hybrid((0,), live=0), tables={"r1": {}}))
    assert world.claim("r1").cells == frozenset()


def test_a_group_that_a_table_leaves_out_is_not_held() -> None:
    world = two()
    legal(world.publish("r1", {"r1": {"state": Slots(0)}}))
    legal(world.extend("r2", 8, hybrid((0, 1), live=1)))


def test_a_request_that_an_answer_leaves_out_holds_what_it_held() -> None:
    world = two()
    legal(world.publish("r2", {}))
    assert world.claim("r1").cells == {("kv", 0), ("kv", 1), ("state", 0)}


def test_the_lease_of_a_page_ends_when_the_table_drops_it() -> None:
    world = offered()
    legal(world.extend("r2", 12, hybrid((0, 8, 9), live=7, source=5)))
    legal(world.extend("r3", 4, hybrid((1,), live=6)))


# -- what keeps its content


def test_a_grant_makes_a_cell_unwritten_again() -> None:
    world = offered()
    legal(world.extend("r3", 4, hybrid((2,), live=3)))
    assert world.content(("kv", 2)) is None and world.content(("state", 3)) is None
    faulty(world.open("r4", PROMPT, 12, hybrid((0, 1, 2), source=3)), "uninitialized-read")


def test_a_re_point_at_landing_keeps_what_is_there() -> None:
    """r2 computed r1's prefix again and is given r1's pages for its own."""
    world = two(PROMPT)
    legal(world.extend("r2", 8, hybrid((4, 5), live=1)))
    legal(world.launch(zero(1)))
    legal(world.land(None, {"r2": hybrid((0, 1), live=1)}))
    world.run("r2", 12, hybrid((0, 1, 6), live=1))


def test_a_re_point_to_another_text_is_seen_by_the_next_step() -> None:
    world = two()
    legal(world.extend("r2", 8, hybrid((4, 5), live=1)))
    legal(world.launch(zero(1)))
    legal(world.land(None, {"r2": hybrid((0, 5), live=1)}))
    legal(world.extend("r2", 10, hybrid((0, 5, 6), live=1)))
    faulty(world.launch(), "stale-kv")


def test_a_change_of_role_inside_a_table_keeps_what_is_there() -> None:
    """The live slot becomes the snapshot, and the step goes on in a copy of it, as with one block for each state."""
    world = two()
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=6, frozen={8: 0})))
    legal(world.launch(copy(0, 6)))
    legal(world.land())
    legal(world.close("r1"))
    legal(world.open("r3", PROMPT, 8, hybrid((0, 1), source=0)))


def test_a_column_below_the_length_is_no_grant_and_one_that_reaches_past_it_is() -> None:
    """At 6 tokens, column 0 is full and column 1 is not."""
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 6, {"kv": Pages((0, 1))})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT))
    world.run("r2", 6, {"kv": Pages((4, 5))})
    legal(world.extend("r2", 8, {"kv": Pages((0, 1))}))
    assert world.content(("kv", 0)) is not None and world.content(("kv", 1)) is None
    assert faulty(world.launch(), "uninitialized-read").position == 4


def test_the_pages_of_a_hit_keep_what_they_hold_though_the_last_one_is_not_full() -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 6, {"kv": Pages((0, 1))})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 6, {"kv": Pages((0, 1))}))
    world.run("r2", 8, {"kv": Pages((0, 1))})


# -- the form of answers


def test_a_table_names_a_request_that_is_there() -> None:
    with pytest.raises(Contradiction, match="'r9', which is not open"):
        two().publish("r1", {"r9": {}})


def test_a_table_names_groups_that_are_declared() -> None:
    with pytest.raises(Contradiction, match="unknown group 'conv'"):
        two().publish("r1", {"r1": {"conv": Slots(0)}})


@pytest.mark.parametrize("table", [{"kv": Slots(0)}, {"state": Pages((0,))}])
def test_a_table_has_the_form_of_its_group(table: Table) -> None:
    with pytest.raises(Contradiction, match="wrong form"):
        two().publish("r1", {"r1": table})


def test_a_request_is_open_once() -> None:
    with pytest.raises(Contradiction, match="open already"):
        two().open("r1", PROMPT)


def test_an_answer_belongs_to_its_verb() -> None:
    with pytest.raises(Contradiction, match="launch was answered with 'landing'"):
        two().ask(Launch(), Landing())


# -- the end of a request


def test_a_close_that_leaves_its_table_out_gave_everything_up() -> None:
    world = two()
    legal(world.close("r1", {}))
    legal(world.extend("r2", 8, hybrid((0, 1), live=0)))


def test_a_closed_request_holds_nothing_once_nothing_of_it_is_in_flight() -> None:
    with pytest.raises(Contradiction, match="'r1' is closed"):
        two().close("r1", {"r1": hybrid((0,))})


def in_flight() -> World:
    """As `two`, with r1's next step in flight: pages 0 1 2, slot 0."""
    world = two()
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0)))
    legal(world.launch())
    return world


def test_a_closed_request_may_keep_its_cells_until_its_last_step_lands() -> None:
    world = in_flight()
    legal(world.close("r1", {"r1": hybrid((0, 1, 2), live=0)}))
    fault = faulty(world.extend("r2", 4, hybrid((2,), live=1)), "double-grant")
    assert fault.other == "r1"
    legal(world.land(None, {}))
    assert "r1" not in world.state.claims
    legal(world.extend("r2", 4, hybrid((2,), live=0)))


def test_the_last_landing_of_a_closed_request_reports_it_empty() -> None:
    world = in_flight()
    legal(world.close("r1", {"r1": hybrid((0, 1, 2), live=0)}))
    with pytest.raises(Contradiction, match="'r1' is closed"):
        world.land(None, {"r1": hybrid((0,))})


def test_a_close_in_flight_may_give_everything_up_at_once() -> None:
    """On an ordered queue what comes later runs later: the closed request's table is empty, and left out."""
    world = in_flight()
    legal(world.close("r1", {}))
    legal(world.extend("r2", 4, hybrid((2,), live=0)))
    legal(world.launch(zero(0)))
    legal(world.land())
    legal(world.land())


def test_a_landing_that_leaves_a_closed_request_out_gives_up_its_cells_though_more_is_in_flight() -> None:
    world = in_flight()
    legal(world.extend("r1", 16, hybrid((0, 1, 2, 3), live=0)))
    legal(world.launch())
    legal(world.close("r1", {"r1": hybrid((0, 1, 2, 3), live=0)}))
    legal(world.land())
    assert world.claim("r1").cells == frozenset()
    legal(world.extend("r2", 4, hybrid((3,), live=0)))
    legal(world.land())
    assert "r1" not in world.state.claims


def test_a_close_may_report_side_effects_on_others() -> None:
    world = two()
    legal(world.extend("r2", 8, hybrid((4, 5), live=1)))
    legal(world.close("r1", {"r2": hybrid((4, 5), live=1)}))


def test_a_preempted_request_gives_up_all_and_may_come_back_by_its_name() -> None:
    world = two()
    legal(world.preempt("r1"))
    legal(world.extend("r2", 8, hybrid((0, 1), live=0)))
    legal(world.open("r1", PROMPT))


def test_a_preempted_request_may_hit_what_it_left_behind() -> None:
    world = two()
    legal(world.preempt("r1"))
    legal(world.open("r1", PROMPT, 8, hybrid((0, 1), source=0)))


def test_an_id_may_be_used_again() -> None:
    world = World()
    legal(world.open_refused("r1", PROMPT))
    world.compute("r1", PROMPT, (0,), live=0, to=4)
    legal(world.close("r1"))
    legal(world.open("r1", "other", 0))


def test_a_closed_request_is_not_asked_any_more() -> None:
    world = in_flight()
    legal(world.close("r1", {"r1": hybrid((0, 1, 2), live=0)}))
    with pytest.raises(Contradiction, match="'r1' is not open"):
        world.extend("r1", 16, hybrid((0, 1, 2, 3), live=0))


# -- leases of snapshots


def test_the_lease_of_a_snapshot_ends_when_its_restore_has_run_in_the_queue() -> None:
    world = offered()
    legal(world.extend("r2", 12, hybrid((0, 1, 9), live=7, source=5)))
    legal(world.launch(copy(5, 7), tables={"r2": hybrid((0, 1, 9), live=7)}))
    legal(world.extend("r3", 4, hybrid((8,), live=5)))


def test_a_snapshot_that_a_table_still_names_is_not_granted_however_old_its_restore() -> None:
    world = offered()
    legal(world.extend("r2", 12, hybrid((0, 1, 9), live=7, source=5)))
    legal(world.launch(copy(5, 7)))
    legal(world.land())
    faulty(world.extend("r3", 4, hybrid((8,), live=5)), "double-grant")


def test_without_an_order_the_lease_of_a_snapshot_lasts_until_the_restore_has_landed() -> None:
    for lands in (False, True):
        world = World(LITERAL)
        world.compute("r1", PROMPT, (0, 1, 2), live=3, to=12, frozen={8: 5})
        legal(world.close("r1"))
        legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
        legal(world.open("r3", "zyxwvutsrq"))
        legal(world.extend("r2", 12, hybrid((0, 1, 9), live=7, source=5)))
        legal(world.launch(copy(5, 7), tables={"r2": hybrid((0, 1, 9), live=7)}))
        if lands:
            legal(world.land())
        result = world.extend("r3", 4, hybrid((8,), live=5))
        legal(result) if lands else faulty(result, "evicted-while-leased")


def test_without_an_order_a_close_in_flight_does_not_end_the_lease_of_a_snapshot() -> None:
    world = World(LITERAL)
    world.compute("r1", PROMPT, (0, 1, 2), live=3, to=12, frozen={8: 5})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
    legal(world.open("r3", "zyxwvutsrq"))
    legal(world.extend("r2", 12, hybrid((0, 1, 9), live=7, source=5)))
    legal(world.launch(copy(5, 7)))
    legal(world.close("r2", {"r2": hybrid((0, 1, 9), live=7)}))
    faulty(world.extend("r3", 4, hybrid((8,), live=5)), "evicted-while-leased")
    legal(world.land())
    legal(world.extend("r3", 4, hybrid((8,), live=5)))


def test_a_restore_at_open_ends_the_lease_at_once() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1, 2), live=3, to=12, frozen={8: 5})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), live=7, source=5), phases=(copy(5, 7),)))
    legal(world.open("r3", "zyxwvutsrq"))
    legal(world.extend("r3", 4, hybrid((8,), live=5), tables={"r2": hybrid((0, 1), live=7)}))
    legal(world.extend("r2", 12, hybrid((0, 1, 9), live=7)))
    legal(world.launch(zero(5)))


def test_a_restore_that_another_step_drained_ends_the_lease() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1, 2), live=3, to=12, frozen={8: 5})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), live=7, source=5)))
    legal(world.open("r3", "zyxwvutsrq"))
    legal(world.extend("r3", 4, hybrid((8,), live=6)))
    legal(world.launch(zero(6), copy(5, 7), tables={"r2": hybrid((0, 1), live=7)}))
    legal(world.open("r4", "yyy"))
    legal(world.extend("r4", 2, hybrid((9,), live=5)))


def test_a_longer_pin_is_a_freedom() -> None:
    world = offered()
    legal(world.extend("r2", 12, hybrid((0, 1, 9), live=7, source=5)))
    legal(world.launch(copy(5, 7)))
    legal(world.land())
    world.run("r2", 16, hybrid((0, 1, 9, 10), live=7, source=5))


def test_an_open_that_does_not_lease_is_voided_by_a_refusal() -> None:
    unleased = replace(HYBRID, leases_on_open=False)
    answers: list[Tables] = [{}, {"r2": {}}, {"r2": hybrid((NULL, NULL))}]
    for tables in answers:
        world = World(unleased)
        world.compute("r1", PROMPT, (0, 1), live=3, to=8)
        legal(world.close("r1"))
        legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=3)))
        legal(world.extend_refused("r2", 12, tables))
        assert "r2" not in world.state.claims
        legal(world.open("r2", PROMPT))
