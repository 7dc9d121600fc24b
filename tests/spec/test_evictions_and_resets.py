"""What may be evicted, what an eviction teaches, and what a reset leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.spec.answers import Drained, Evicted
from milepost.spec.operations import Drain, Evict
from milepost.spec.step import Contradiction
from milepost.spec.words import Cell

from .world import HYBRID, World, copy, faulty, hybrid, legal, zero

PROMPT = "abcdefghijklmnop"


def offered() -> World:
    """r1 left pages 0 1 2 and slots 5 (8 tokens) and 6 (12); r2 was offered 8 tokens; r3 runs in page 7, slot 3."""
    world = World()
    world.compute("r1", PROMPT, (0, 1, 2), live=6, to=12, frozen={8: 5})
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=5)))
    world.compute("r3", "zyxwvuts", (7,), live=3, to=4, frozen={4: 4})
    return world


@pytest.mark.parametrize("cells", [(), (("kv", 2),), (("kv", 2), ("state", 6), ("kv", 11))])
def test_cells_that_nobody_holds_may_be_evicted_more_or_fewer_than_asked(cells: tuple[Cell, ...]) -> None:
    legal(offered().evict(*cells))


def test_an_eviction_need_not_be_listed() -> None:
    legal(offered().ask(Evict("kv", 3), Evicted(listed=False)))


@pytest.mark.parametrize("cell", [("kv", 0), ("state", 5)])
def test_what_a_hit_leases_is_not_evicted(cell: Cell) -> None:
    fault = faulty(offered().evict(cell), "evicted-while-leased")
    assert (fault.request, fault.cell) == ("r2", cell)


@pytest.mark.parametrize("cell", [("kv", 7), ("state", 3), ("state", 4)])
def test_what_a_request_holds_for_itself_is_not_evicted(cell: Cell) -> None:
    fault = faulty(offered().evict(cell), "evicted-while-leased")
    assert (fault.request, fault.cell) == ("r3", cell)


def test_a_frozen_slot_may_go_if_the_answer_takes_it_out_of_the_table() -> None:
    legal(offered().evict(("state", 4), tables={"r3": hybrid((7,), live=3)}))


def test_a_snapshot_may_go_once_its_restore_has_run() -> None:
    world = offered()
    legal(world.extend("r2", 12, hybrid((0, 1, 8), live=7, source=5)))
    legal(world.launch(copy(5, 7)))
    legal(world.evict(("state", 5)))


def test_what_was_listed_as_evicted_is_not_offered_again() -> None:
    world = offered()
    legal(world.evict(("kv", 2)))
    faulty(world.open("r4", PROMPT, 12, hybrid((0, 1, 2), source=6)), "uninitialized-read")
    world = offered()
    legal(world.evict(("state", 6)))
    faulty(world.open("r4", PROMPT, 12, hybrid((0, 1, 2), source=6)), "uninitialized-read")


def test_what_was_evicted_in_silence_may_be_offered_as_long_as_it_is_intact() -> None:
    world = offered()
    legal(world.ask(Evict("kv", 3), Evicted(listed=False)))
    legal(world.open("r4", PROMPT, 12, hybrid((0, 1, 2), source=6)))


def test_a_slot_may_be_evicted_and_its_pages_stay() -> None:
    world = offered()
    legal(world.evict(("state", 6), group="state"))
    legal(world.open("r4", PROMPT, 8, hybrid((0, 1), source=5)))


# -- resets


def test_nothing_of_before_a_reset_is_offered_after_it() -> None:
    world = offered()
    legal(world.reset())
    faulty(world.open("r4", PROMPT, 8, hybrid((0, 1), source=5)), "reset-survivor")


def test_a_state_of_before_a_reset_is_a_survivor_too() -> None:
    world = offered()
    legal(world.reset())
    world.compute("r4", PROMPT, (8, 9), live=0, to=8)
    faulty(world.open("r5", PROMPT, 8, hybrid((8, 9), source=5)), "reset-survivor")


def test_a_request_runs_on_over_a_reset_with_what_it_has() -> None:
    world = offered()
    legal(world.reset())
    world.run("r3", 8, hybrid((7, 10), live=3))
    legal(world.extend("r2", 12, hybrid((0, 1, 8), live=0, source=5)))
    legal(world.launch(copy(5, 0)))


def test_what_a_request_of_before_a_reset_writes_after_it_is_never_hit() -> None:
    world = offered()
    legal(world.reset())
    world.run("r3", 8, hybrid((7, 10), live=3))
    legal(world.close("r3"))
    faulty(world.open("r4", "zyxwvutsrq", 8, hybrid((7, 10), source=3)), "reset-survivor")


def test_what_is_written_after_a_reset_may_be_hit() -> None:
    world = offered()
    legal(world.reset())
    world.compute("r4", PROMPT, (8, 9), live=0, to=8)
    legal(world.close("r4"))
    legal(world.open("r5", PROMPT, 8, hybrid((8, 9), source=0)))


def test_a_preempted_request_comes_back_in_the_epoch_of_its_new_open() -> None:
    world = offered()
    legal(world.preempt("r3"))
    legal(world.reset())
    faulty(world.open("r3", "zyxwvuts", 4, hybrid((7,), source=3)), "reset-survivor")


def test_a_reset_does_not_protect_what_was_cached_nor_expose_what_is_held() -> None:
    world = offered()
    legal(world.reset())
    legal(world.open("r4", "yyyyyyyy"))
    legal(world.extend("r4", 4, hybrid((2,), live=6)))
    legal(world.open("r5", "xxxxxxxx"))
    faulty(world.extend("r5", 4, hybrid((0,), live=0)), "evicted-while-leased")


def test_a_busy_cache_may_refuse_a_reset() -> None:
    world = World(replace(HYBRID, resets="idle"))
    legal(world.open("r1", PROMPT))
    legal(world.reset(done=False))
    assert world.state.epoch == 0


def test_a_refused_reset_leaves_everything_matchable() -> None:
    world = World(replace(HYBRID, resets="idle"))
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.reset(done=False))
    legal(world.close("r1"))
    legal(world.open("r2", PROMPT, 8, hybrid((0, 1), source=0)))


@pytest.mark.parametrize("resets", ["idle", "always"])
def test_a_cache_that_is_not_empty_though_nobody_is_there_has_leaked(resets: str) -> None:
    world = World(replace(HYBRID, resets=resets))
    world.compute("r1", PROMPT, (0, 1), live=0, to=8)
    legal(world.close("r1"))
    faulty(world.reset(done=False), "leak")


def test_a_step_in_flight_keeps_a_cache_busy() -> None:
    world = World(replace(HYBRID, resets="idle"))
    legal(world.open("r1", PROMPT))
    legal(world.extend("r1", 4, hybrid((0,), live=0)))
    legal(world.launch(zero(0)))
    legal(world.close("r1"))
    legal(world.reset(done=False))


def test_a_cache_that_always_resets_does_so() -> None:
    world = World()
    legal(world.open("r1", PROMPT))
    with pytest.raises(Contradiction, match="'always'"):
        world.reset(done=False)


# -- drains


def test_a_drained_cache_grants_what_a_fresh_one_grants() -> None:
    legal(World().ask(Drain(), Drained(40, 40)))
    legal(World().ask(Drain(), Drained(44, 40)))


def test_less_than_a_fresh_cache_grants_is_a_leak() -> None:
    fault = faulty(World().ask(Drain(), Drained(36, 40)), "leak")
    assert fault.numbers == {"granted": 36, "fresh": 40}
    faulty(World().ask(Drain(), Drained(0, 40)), "leak")


def test_a_cache_without_a_reset_is_not_compared() -> None:
    legal(World(replace(HYBRID, resets="never")).ask(Drain(), Drained(36, 40, comparable=False)))
