"""What a refusal may have changed, and what it must leave as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.spec.answers import Pages, Refused, Table
from milepost.spec.operations import Freeze, Open, Publish
from milepost.spec.step import Contradiction
from milepost.spec.words import NULL

from .world import HYBRID, WINDOWED, World, copy, faulty, hybrid, legal

PROMPT = "abcdefghijklmnop"


def world_of_two() -> World:
    """r1 has 12 tokens in pages 0 1 2, live slot 3, a snapshot of 4 in 4; r2 was offered 8 tokens and slot 5."""
    world = World()
    world.compute("r0", PROMPT, (0, 1), live=6, to=8, frozen={8: 5})
    legal(world.close("r0"))
    world.compute("r1", "zyxwvutsrqponm", (7, 8, 9), live=3, to=12, frozen={4: 4})
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
    return world


def test_a_refusal_that_changed_nothing_is_legal() -> None:
    world = world_of_two()
    legal(world.extend_refused("r2", 16))
    legal(world.extend("r2", 12, hybrid((0, 1, 2), live=0, source=5)))
    legal(world.launch(copy(5, 0)))


def test_a_refused_open_leaves_no_trace() -> None:
    world = world_of_two()
    legal(world.open_refused("r3", PROMPT))
    legal(world.open_refused("r3", PROMPT, {"r3": hybrid((NULL,))}))
    assert "r3" not in world.state.claims


def test_a_refused_open_that_still_holds_cells_is_torn() -> None:
    fault = faulty(world_of_two().open_refused("r3", PROMPT, {"r3": hybrid((2,))}), "torn-refusal")
    assert fault.request == "r3"


@pytest.mark.parametrize(
    "table",
    [
        hybrid((0, 1), source=NULL),  # the snapshot is gone before the restore
        hybrid((0,), source=5),  # a page is gone
        hybrid((0, 2), source=5),  # another page is there
        hybrid((), source=5),
    ],
)
def test_a_refusal_that_takes_from_a_hit_is_torn(table: Table) -> None:
    assert faulty(world_of_two().extend_refused("r2", 16, {"r2": table}), "torn-refusal").request == "r2"


@pytest.mark.parametrize("table", [hybrid((7, 8, 9)), hybrid((7, 8, 9), live=1), hybrid((7, NULL, 9), live=3)])
def test_a_refusal_that_takes_from_a_running_request_is_torn(table: Table) -> None:
    assert faulty(world_of_two().extend_refused("r1", 14, {"r1": table}), "torn-refusal").request == "r1"


def test_a_refusal_must_not_take_from_others_either() -> None:
    fault = faulty(world_of_two().extend_refused("r2", 16, {"r1": hybrid((7, 8, 9))}), "torn-refusal")
    assert (fault.request, fault.cell) == ("r1", ("state", 3))
    fault = faulty(world_of_two().open_refused("r3", PROMPT, {"r2": hybrid((0,), source=5)}), "torn-refusal")
    assert (fault.request, fault.detail) == ("r2", "kv-gap")


def test_a_refusal_that_leaves_more_behind_than_there_was_is_torn() -> None:
    """Half of what was wanted was granted, and stays: nobody asked for it any more."""
    faulty(world_of_two().extend_refused("r2", 16, {"r2": hybrid((0, 1, 2), source=5)}), "torn-refusal")
    faulty(world_of_two().extend_refused("r2", 16, {"r2": hybrid((0, 1), live=0, source=5)}), "torn-refusal")


def test_superseded_states_may_be_freed_before_a_refusal() -> None:
    world = world_of_two()
    legal(world.extend_refused("r1", 14, {"r1": hybrid((7, 8, 9), live=3)}))


def test_pages_that_have_slid_out_of_the_window_may_be_freed_before_a_refusal() -> None:
    for near, torn in (((NULL, 1, 2), False), ((NULL, NULL, 2), True)):
        world = World(WINDOWED)
        legal(world.open("r1", PROMPT))
        world.run("r1", 12, {"kv": Pages((0, 1, 2)), "near": Pages((0, 1, 2))})
        result = world.extend_refused("r1", 16, {"r1": {"kv": Pages((0, 1, 2)), "near": Pages(near)}})
        faulty(result, "torn-refusal") if torn else legal(result)


def test_a_re_point_to_the_same_content_is_no_loss() -> None:
    """Another request has computed the same pages: r2 reads those."""
    world = world_of_two()
    world.compute("r3", PROMPT, (10, 11), live=1, to=8)
    legal(world.extend_refused("r2", 16, {"r2": hybrid((10, 11), source=5)}))


def planned() -> World:
    """As `world_of_two`, with r1's next step planned: page 10, and a snapshot of 14 in slot 1."""
    world = world_of_two()
    legal(world.extend("r1", 14, hybrid((7, 8, 9, 10), live=3, frozen={14: 1}), frozen={14: 1}))
    return world


@pytest.mark.parametrize(
    ("table", "torn"),
    [
        (hybrid((7, 8, 9, 10), live=3, frozen={14: 1}), False),
        (hybrid((7, 8, 9), live=3, frozen={14: 1}), True),
        (hybrid((7, 8, 9, 11), live=3, frozen={14: 1}), True),
        (hybrid((7, 8, 9, 10), live=3), True),
    ],
)
def test_a_refusal_must_not_take_what_a_planned_step_will_write(table: Table, torn: bool) -> None:
    result = planned().extend_refused("r2", 16, {"r1": table})
    faulty(result, "torn-refusal") if torn else legal(result)


def test_other_verbs_refuse_by_the_same_rule() -> None:
    for operation in (Freeze("r1"), Publish("r1")):
        world = world_of_two()
        legal(world.ask(operation, Refused("no-slot", tables={"r1": hybrid((7, 8, 9), live=3)})))
        world = world_of_two()
        faulty(world.ask(operation, Refused("no-slot", tables={"r1": hybrid((7, 8), live=3)})), "torn-refusal")


def test_a_refused_reset_changes_nothing() -> None:
    world = World(replace(HYBRID, resets="idle"))
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.reset(done=False))
    faulty(world.reset(done=False, tables={"r1": hybrid((0,), live=0)}), "torn-refusal")


def test_a_voided_open_that_still_holds_cells_is_torn() -> None:
    world = World(replace(HYBRID, leases_on_open=False))
    world.compute("r1", PROMPT, (0, 1), live=3, to=8)
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=3)))
    faulty(world.extend_refused("r2", 12, {"r2": hybrid((0, 1), source=3)}), "torn-refusal")


def test_only_the_first_extend_voids_an_open() -> None:
    world = World(replace(HYBRID, leases_on_open=False))
    world.compute("r1", PROMPT, (0, 1), live=3, to=8)
    legal(world.extend_refused("r1", 12))
    assert world.claim("r1").length == 8


def test_a_reason_comes_from_the_list() -> None:
    with pytest.raises(Contradiction, match="'out of luck' is no reason"):
        World().ask(Open("r1", (1, 2)), Refused("out of luck"))
