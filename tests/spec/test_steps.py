"""The order inside a step, what its kernels are told, and what they must find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.spec.answers import Pages
from milepost.spec.capabilities import FreezeGrid
from milepost.spec.step import Contradiction
from milepost.spec.words import NULL

from .world import FULL, HYBRID, PAGED, STATE, WINDOWED, World, copy, faulty, hybrid, legal, zero

PROMPT = "abcdefghijklmnop"


def cached() -> World:
    """A closed request left pages 0 1 2 with 12 tokens, states of 4, 8 and 12 tokens in slots 4, 5 and 3."""
    world = World()
    world.compute("r1", PROMPT, (0, 1, 2), live=3, to=12, frozen={4: 4, 8: 5})
    legal(world.close("r1"))
    return world


def resumed(*, live: int = 7) -> World:
    """A second request was offered 8 tokens and has planned up to 12, in a fresh live slot."""
    world = cached()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
    legal(world.extend("r2", 12, hybrid((0, 1, 9), live=live, source=5)))
    return world


# -- planning


def test_less_may_be_granted_than_was_asked_for() -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 12, {"kv": Pages((0, 1))}, granted=5))
    legal(world.launch())
    assert world.claim("r1").length == 5


@pytest.mark.parametrize("granted", [0, 13])
def test_a_grant_makes_progress_and_no_more_than_was_asked_for(granted: int) -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    with pytest.raises(Contradiction, match="granted: "):
        world.extend("r1", 12, {"kv": Pages((0, 1, 2))}, granted=granted)


def test_no_step_reaches_beyond_what_the_model_says() -> None:
    world = World(PAGED)
    legal(world.open("r1", "abcd", samples="e"))
    with pytest.raises(Contradiction, match="5 tokens"):
        world.extend("r1", 6, {"kv": Pages((0, 1))})


def test_nobody_extends_what_is_not_open() -> None:
    world = World(PAGED)
    with pytest.raises(Contradiction, match="'r1' is not open"):
        world.extend("r1", 4, {"kv": Pages((0,))})


def test_decoded_tokens_are_known_when_their_step_lands() -> None:
    world = World(PAGED)
    legal(world.open("r1", "abcd", samples="efg"))
    assert world.claim("r1").known == 4
    world.run("r1", 4, {"kv": Pages((0,))})
    assert world.claim("r1").known == 5
    world.run("r1", 5, {"kv": Pages((0, 1))})
    assert world.claim("r1").known == 6


# -- phases come first


def test_a_restore_in_the_steps_phases_is_in_time() -> None:
    world = resumed()
    legal(world.launch(copy(5, 7)))


def test_a_kernel_may_read_the_snapshot_itself() -> None:
    world = cached()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
    legal(world.extend("r2", 12, hybrid((0, 1, 9), live=7, source=5), initial={"state": 5}))
    legal(world.launch())


def test_a_restore_that_is_not_carried_out_reads_what_was_there_before() -> None:
    fault = faulty(resumed().launch(), "uninitialized-read")
    assert (fault.request, fault.group, fault.cell, fault.position) == ("r2", "state", ("state", 7), 8)


@pytest.mark.parametrize(("slot", "code"), [(4, "torn-hit"), (3, "over-advanced")])
def test_a_restore_from_the_wrong_snapshot_is_seen(slot: int, code: str) -> None:
    faulty(resumed().launch(copy(slot, 7)), code)


def test_a_zeroed_state_has_read_no_token() -> None:
    faulty(resumed().launch(zero(7)), "torn-hit")


# -- initial states are read


def test_a_cold_step_starts_from_zeros_by_itself() -> None:
    world = World()
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 4, hybrid((0,), live=0), initial={"state": None}))
    legal(world.launch())


def test_a_cell_that_is_named_at_length_0_holds_zeros() -> None:
    for phases, code in (((zero(0),), ""), ((), "uninitialized-read")):
        world = World()
        legal(world.open("r1", PROMPT))
        legal(world.extend("r1", 4, hybrid((0,), live=0)))
        result = world.launch(*phases)
        faulty(result, code) if code else legal(result)


def test_a_cold_step_from_somebodys_state_is_stale() -> None:
    world = cached()
    legal(world.open("r2", "zzzz"))
    legal(world.extend("r2", 4, hybrid((9,), live=7), initial={"state": 5}))
    faulty(world.launch(), "stale-state")


@pytest.mark.parametrize("initial", [{"state": None}, {}])
def test_zeros_at_any_length_above_0_are_torn(initial: dict[str, int | None]) -> None:
    world = cached()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
    legal(world.extend("r2", 12, hybrid((0, 1, 9), live=7, source=5), initial=initial))
    faulty(world.launch(copy(5, 7)), "torn-hit")


def test_zeros_in_the_middle_of_a_prompt_are_torn_without_any_hit() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0), initial={"state": None}))
    faulty(world.launch(), "torn-hit")


def test_a_step_reads_states_before_any_is_written() -> None:
    """The rows of a batch are shifted: r2's kernel reads r1's live slot, as r1's last step left it."""
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    world.compute("r2", "z" + PROMPT, (4, 5), live=1, to=8)
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0)))
    legal(world.extend("r2", 12, hybrid((4, 5, 6), live=1), initial={"state": 0}))
    fault = faulty(world.launch(), "stale-state")
    assert fault.found is not None and fault.found.length == 8


# -- KV is written, then read


def test_a_step_reads_its_own_entries_and_all_before_them() -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 6, {"kv": Pages((0, 1))})
    world.run("r1", 16, {"kv": Pages((0, 1, 2, 3))})


def test_tokens_without_a_page_are_a_gap_when_their_step_reads_them() -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 8, {"kv": Pages((0,))}))
    fault = faulty(world.launch(), "kv-gap")
    assert fault.position == 4


def test_a_page_that_is_re_pointed_keeps_what_it_holds_and_is_read() -> None:
    world = cached()
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
    legal(world.extend("r2", 12, hybrid((0, 2, 9), live=7, source=5)))
    fault = faulty(world.launch(copy(5, 7)), "stale-kv")
    assert (fault.cell, fault.position) == (("kv", 2), 4)


def test_a_window_step_reads_from_its_first_querys_window_on() -> None:
    world = World(WINDOWED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 12, {"kv": Pages((0, 1, 2)), "near": Pages((0, 1, 2))})
    legal(world.extend("r1", 16, {"kv": Pages((0, 1, 2, 3)), "near": Pages((NULL, 1, 2, 3))}))
    legal(world.launch())
    legal(world.land())
    world = World(WINDOWED)
    legal(world.open("r1", PROMPT))
    world.run("r1", 12, {"kv": Pages((0, 1, 2)), "near": Pages((0, 1, 2))})
    legal(world.extend("r1", 16, {"kv": Pages((0, 1, 2, 3)), "near": Pages((NULL, NULL, 2, 3))}))
    assert faulty(world.launch(), "window-gap").position == 7


def same_step(reads: bool) -> World:
    """Two requests of one text in one step; the second is offered what the first will write."""
    world = World(replace(PAGED, groups=(replace(FULL, same_step_reads=reads),)))
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 8, {"kv": Pages((0, 1))}))
    legal(world.open("r2", PROMPT, 8, {"kv": Pages((0, 1))}))
    legal(world.extend("r2", 12, {"kv": Pages((0, 1, 2))}))
    return world


def test_kv_of_the_same_step_is_read_where_the_forward_orders_it_so() -> None:
    legal(same_step(reads=True).launch())
    fault = faulty(same_step(reads=False).launch(), "read-before-landing")
    assert (fault.request, fault.other, fault.cell, fault.position) == ("r2", "r1", ("kv", 0), 0)


def test_same_step_reads_are_a_matter_of_what_is_read_and_not_of_what_is_named() -> None:
    """r2's hit ends before the entries that r1 appends to their common page."""
    world = World(replace(PAGED, groups=(replace(FULL, same_step_reads=False),)))
    legal(world.open("r1", PROMPT))
    world.run("r1", 6, {"kv": Pages((0, 1))})
    legal(world.open("r2", PROMPT[:6] + "zz", 6, {"kv": Pages((0, 1))}))
    legal(world.extend("r1", 8, {"kv": Pages((0, 1))}))
    legal(world.extend("r2", 8, {"kv": Pages((0, 5))}))
    legal(world.launch(copy(1, 5, pool="kv")))


def test_an_own_step_is_never_somebody_elses() -> None:
    world = World(replace(PAGED, groups=(replace(FULL, same_step_reads=False),)))
    legal(world.open("r1", PROMPT))
    world.run("r1", 6, {"kv": Pages((0, 1))})
    world.run("r1", 8, {"kv": Pages((0, 1))})


# -- frozen and live states are written


def test_a_frozen_state_encodes_the_position_that_the_kernel_was_told() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1, 2), live=0, to=12, frozen={8: 1})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=1)))


def test_a_wrong_label_is_seen_because_the_kernels_position_counts() -> None:
    """The table labels the snapshot with 8, the kernel was told 12."""
    world = World()
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0, frozen={8: 1}), frozen={12: 1}))
    legal(world.launch(zero(0)))
    legal(world.land())
    legal(world.close("r1"))
    faulty(world.open("r2", PROMPT, 8, hybrid((0, 1), source=1)), "over-advanced")


def test_one_step_may_freeze_several_times() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1, 2), live=0, to=12, frozen={4: 1, 8: 2, 12: 3})
    legal(world.close("r1"))
    for length, slot in ((4, 1), (8, 2), (12, 3)):
        legal(world.open(f"at{length}", PROMPT, length, hybrid((0, 1, 2)[: length // 4], source=slot)))


def test_a_live_state_encodes_the_length_that_was_granted() -> None:
    world = World()
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 12, hybrid((0, 1), live=0), granted=8))
    legal(world.launch(zero(0)))
    legal(world.land())
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=0)))


@pytest.mark.parametrize("position", [3, 13])
def test_a_step_freezes_within_its_own_range(position: int) -> None:
    world = World()
    world.compute("r1", PROMPT, (0,), live=0, to=4)
    table = hybrid((0, 1, 2), live=0, frozen={position: 1})
    fault = faulty(world.extend("r1", 12, table, frozen={position: 1}), "illegal-boundary")
    assert (fault.request, fault.position) == ("r1", position)


@pytest.mark.parametrize("position", [4, 12])
def test_a_step_may_freeze_at_its_start_and_at_its_end(position: int) -> None:
    world = World()
    world.compute("r1", PROMPT, (0,), live=0, to=4)
    table = hybrid((0, 1, 2), live=0, frozen={position: 1})
    legal(world.extend("r1", 12, table, frozen={position: 1}))
    legal(world.launch())
    legal(world.land())
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, position, hybrid((0, 1, 2)[: position // 4], source=1)))


def test_a_launch_without_a_live_slot_makes_no_sense() -> None:
    world = World()
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 4, hybrid((0,)), initial={"state": None}))
    with pytest.raises(Contradiction, match="no live slot"):
        world.launch()


def test_two_steps_in_flight_have_two_numbers() -> None:
    world = World(PAGED)
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 4, {"kv": Pages((0,))}))
    legal(world.launch())
    legal(world.extend("r1", 8, {"kv": Pages((0, 1))}))
    world.steps = 0
    with pytest.raises(Contradiction, match="step 1"):
        world.launch()


def test_a_step_that_is_not_in_flight_does_not_land() -> None:
    with pytest.raises(Contradiction, match="not in flight"):
        World(PAGED).land(3)


# -- declared grids


@pytest.mark.parametrize(
    ("origin", "position", "on_grid"),
    [("zero", 8, True), ("zero", 6, False), ("zero", 10, False), ("step", 10, True), ("step", 8, False)],
)
def test_a_freeze_strictly_inside_a_step_lies_on_the_freeze_grid(origin: str, position: int, on_grid: bool) -> None:
    """The step starts at 2 and the grid is 8, counted from token 0 or from the step's start."""
    world = World(replace(HYBRID, freeze_grid=FreezeGrid(8, origin)))
    world.compute("r1", PROMPT, (0,), live=0, to=2)
    result = world.extend("r1", 16, hybrid((0, 1, 2, 3), live=0, frozen={position: 1}), frozen={position: 1})
    legal(result) if on_grid else faulty(result, "illegal-boundary")


@pytest.mark.parametrize("donation", ["any", "page", "boundary"])
@pytest.mark.parametrize("position", [2, 14])
def test_the_freeze_grid_does_not_bind_the_ends_of_a_step(position: int, donation: str) -> None:
    """Nor does `end_donation`: a state that is frozen and not on its grid is returned, and not donated."""
    world = World(replace(HYBRID, freeze_grid=FreezeGrid(8), end_donation=donation))
    world.compute("r1", PROMPT, (0,), live=0, to=2)
    legal(world.extend("r1", 14, hybrid((0, 1, 2, 3), live=0, frozen={position: 1}), frozen={position: 1}))


def test_a_cache_that_cannot_freeze_inside_a_step_does_not() -> None:
    world = World(replace(HYBRID, mid_prefill_freeze=False))
    legal(world.open("r1", PROMPT))
    with pytest.raises(Contradiction, match="strictly inside"):
        world.extend("r1", 12, hybrid((0, 1, 2), live=0, frozen={8: 1}), frozen={8: 1})
    legal(world.extend("r1", 12, hybrid((0, 1, 2), live=0, frozen={12: 1}), frozen={12: 1}))


# -- freezes that are asked for


def test_a_frozen_answer_holds_what_its_phase_copied() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.freeze("r1", 8, 1, hybrid((0, 1), live=0, frozen={8: 1}), copy(0, 1)))
    world.run("r1", 12, hybrid((0, 1, 2), live=0, frozen={8: 1}))
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=1)))


def test_a_freeze_that_copies_nothing_leaves_its_slot_unwritten() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.freeze("r1", 8, 1, hybrid((0, 1), live=0, frozen={8: 1})))
    legal(world.close("r1"))
    faulty(world.open("r2", PROMPT, 8, hybrid((0, 1), source=1)), "uninitialized-read")


def test_a_freeze_may_hand_the_live_slot_over_and_go_on_in_a_copy() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.freeze("r1", 8, 0, hybrid((0, 1), live=6, frozen={8: 0}), copy(0, 6)))
    world.run("r1", 12, hybrid((0, 1, 2), live=6, frozen={8: 0}))
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=0)))


def test_a_freeze_grants_a_slot_that_nobody_else_holds() -> None:
    world = World()
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    world.compute("r2", "z" + PROMPT, (2, 3), live=1, to=8)
    faulty(world.freeze("r1", 8, 1, hybrid((0, 1), live=0, frozen={8: 1}), copy(0, 1)), "double-grant")


def test_states_and_pages_may_come_from_several_groups() -> None:
    second = replace(STATE, name="tail", pool="tail")
    world = World(replace(HYBRID, groups=(FULL, STATE, second), pools={**HYBRID.pools, "tail": 4}))
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 4, {**hybrid((0,), live=0), "tail": hybrid(live=0)["state"]}))
    legal(world.launch(zero(0), zero(0, pool="tail")))
