"""What a cache is asked wrongly is told, in its type and in one sentence, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from milepost.conformance.layouts import FIRST
from milepost.optimized.cache import PrefixCache, make
from milepost.optimized.errors import BadInput, BadPolicy, UnknownRequest
from milepost.optimized.memory import Memory, Payloads, Shapes
from milepost.optimized.pools import CellPool, PoolError
from milepost.reference.cache import make as make_reference
from milepost.spec.answers import Grant, Hit, Phase, Refused
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.layout import make_layout
from milepost.spec.words import GroupKind

PROMPT = tuple(range(20))
LAYOUT = make_layout(Configuration(page_size=4))


def busy_cache() -> PrefixCache:
    """A cache with something published, one open request, and a step in flight."""
    cache = make(Configuration())
    run_whole(cache, "r0", PROMPT)
    cache.open("r1", (*PROMPT[:16], 99, 98), (), {})
    cache.extend("r1", 18)
    cache.launch()
    return cache


def run_whole(cache: PrefixCache, name: str, tokens: tuple[int, ...]) -> Hit | Refused:
    """Open, compute and keep a prompt."""
    answer = cache.open(name, tokens, (), {})
    assert isinstance(answer, Hit)
    assert isinstance(cache.extend(name, len(tokens)), Grant)
    cache.land(cache.launch().step, {}, {name: (7,)})
    cache.close(name, keep=True)
    return answer


def books(cache: PrefixCache) -> tuple[Any, ...]:
    """Everything that a cache holds and knows."""
    return (
        cache.inventory(), cache.account(), {name: claim.table() for name, claim in cache.requests.items()},
        [flight.step for flight in cache.flights], cache.opened, cache.steps, cache.index.inventory(),
    )


@pytest.mark.parametrize(("ask", "error", "says"), [
    (lambda cache: cache.open("r2", (), (), {}), BadInput, "request 'r2' has no tokens"),
    (lambda cache: cache.open("r1", PROMPT, (), {}), BadInput, "request 'r1' is open already"),
    (lambda cache: cache.open("r2", (1 << 31,), (), {}), BadInput, "token ids are integers from 0 to 2147483647"),
    (lambda cache: cache.open("r2", (1, -1), (), {}), BadInput, "token ids are integers from 0 to 2147483647"),
    (lambda cache: cache.open("r2", ("a",), (), {}), BadInput, "token ids are integers from 0 to 2147483647"),
    (lambda cache: cache.close("r9", keep=True), UnknownRequest, "request 'r9' is not open"),
    (lambda cache: cache.close("r0", keep=True), UnknownRequest, "request 'r0' is not open"),
    (lambda cache: cache.preempt("r9"), UnknownRequest, "request 'r9' is not open"),
    (lambda cache: cache.publish("r9"), UnknownRequest, "request 'r9' is not open"),
    (lambda cache: cache.freeze("r9"), UnknownRequest, "request 'r9' is not open"),
    (lambda cache: cache.extend("r9", 4), UnknownRequest, "request 'r9' is not open"),
    (lambda cache: cache.explain("r9"), UnknownRequest, "request 'r9' is not open"),
    (lambda cache: cache.land(7, {}, {}), UnknownRequest, "step 7 is not in flight"),
    (lambda cache: cache.land(2, {}, {"r1": (1 << 40,)}), BadInput, "token ids are integers from 0 to 2147483647"),
    (lambda cache: cache.evict("window", 1), BadInput, "groups are kv and state"),
    (lambda cache: cache.evict("kv", -1), BadInput, "cannot evict -1 cells"),
])
def test_a_mistake_is_told_and_changes_nothing(
    ask: Callable[[PrefixCache], object], error: type[Exception], says: str
) -> None:
    cache = busy_cache()
    before = books(cache)
    with pytest.raises(error) as told:
        ask(cache)
    assert says in str(told.value)
    assert books(cache) == before
    cache.check()


@pytest.mark.parametrize(("ask", "reason"), [
    (lambda cache: cache.open("r2", tuple(range(1000)), (), {}), "prompt-too-long"),
    (lambda cache: cache.extend("r1", 18), "no-progress"),
    (lambda cache: cache.extend("r1", 0), "no-progress"),
    (lambda cache: cache.freeze("r1"), "in-flight"),
])
def test_what_cannot_be_now_is_refused_with_its_reason(ask: Callable[[PrefixCache], Any], reason: str) -> None:
    cache = busy_cache()
    before = books(cache)
    answer = ask(cache)
    assert isinstance(answer, Refused)
    assert answer.reason == reason
    assert books(cache) == before
    assert cache.counts.refused.total() == 1
    cache.check()


def test_a_second_close_is_told() -> None:
    cache = busy_cache()
    cache.close("r1", keep=False)
    with pytest.raises(UnknownRequest, match="request 'r1' is not open"):
        cache.close("r1", keep=False)
    cache.land(2, {}, {})
    cache.check()


def test_publishing_without_an_extension_changes_nothing() -> None:
    cache = make(Configuration())
    cache.open("r1", PROMPT, (), {})
    before = books(cache)
    cache.publish("r1")
    assert books(cache) == before
    cache.check()


def test_publishing_in_flight_offers_what_has_landed_alone() -> None:
    cache = make(Configuration())
    cache.open("r1", PROMPT, (), {})
    cache.extend("r1", 8)
    cache.land(cache.launch().step, {}, {})
    cache.extend("r1", 20)
    step = cache.launch().step
    cache.publish("r1")
    assert cache.account()["kv"]["protected"] == 2
    cache.land(step, {}, {})
    cache.publish("r1")
    assert cache.account()["kv"]["protected"] == 5
    cache.check()


def test_a_reset_while_requests_are_open_leaves_them_what_they_read() -> None:
    cache = busy_cache()
    held = cache.requests["r1"].table()
    assert cache.reset().done
    assert cache.requests["r1"].table() == held
    cache.check()
    cache.land(2, {}, {})
    cache.publish("r1")
    assert cache.account()["kv"]["evictable"] == 0
    cache.close("r1", keep=True)
    assert {holding.state for holding in cache.inventory().values()} == {"free"}
    cache.check()


@pytest.mark.parametrize(("pools", "admitted", "hit"), [
    ({"kv": 0, "state": 0}, False, 0), ({"kv": 12, "state": 0}, False, 0), ({"kv": 0, "state": 3}, False, 0),
    ({"kv": 4, "state": 3}, False, 0), ({"kv": 12, "state": 1}, True, 0), ({"kv": 12, "state": 2}, True, 16),
])
def test_pools_of_hardly_any_cell_refuse_or_run_cold(pools: dict[str, int], admitted: bool, hit: int) -> None:
    cache = make(Configuration(pools=pools))
    answer = cache.open("r1", PROMPT, (), {})
    cache.check()
    if not admitted:
        assert isinstance(answer, Refused)
        assert answer.reason == "prompt-too-long"
        return
    cache.close("r1", keep=False)
    run_whole(cache, "r2", PROMPT)
    again = run_whole(cache, "r3", PROMPT)
    assert isinstance(again, Hit)
    assert again.length == hit
    cache.check()


def test_a_pool_of_fewer_than_no_cells_is_told() -> None:
    with pytest.raises(PoolError, match="pool 'kv' cannot have -1 cells"):
        make(Configuration(pools={"kv": -1, "state": 3}))


class OffTheGrid:
    """A freeze policy that names a place where no kernel can write a state out."""

    def points(self, prompt: int, branch: int, grid: int, start: int, stop: int) -> tuple[int, ...]:
        return (stop - 1,)


def test_a_policy_that_freezes_off_the_grid_is_told_before_anything_is_granted() -> None:
    cache = PrefixCache(Configuration(), freeze=OffTheGrid(), warns=False)
    cache.open("r1", PROMPT, (), {})
    before = books(cache)
    with pytest.raises(BadPolicy, match=r"no step over \[0, 20\) on a grid of 8 freezes at 19"):
        cache.extend("r1", 20)
    assert books(cache) == before
    cache.check()


def test_a_cell_is_taken_and_given_back_by_its_owner_alone() -> None:
    pool = CellPool("kv", 1)
    cell = pool.take(1, "private")
    with pytest.raises(PoolError, match="no cell of pool 'kv' is free"):
        pool.take(2, "private")
    with pytest.raises(PoolError, match="kv 0 is private, of 1 and not of 2"):
        pool.give_back(cell, 2)
    with pytest.raises(PoolError, match="not of 0"):
        pool.give_back(cell, 0)
    pool.publish(cell, 1, 4)
    with pytest.raises(PoolError, match="kv 0 is published"):
        pool.give_back(cell, 1)
    pool.give_back(cell, 0)
    with pytest.raises(PoolError, match="kv 0 is free"):
        pool.give_back(cell, 0)
    pool.check()


@pytest.mark.parametrize("spoil", [
    lambda pool: pool.free.append(0), lambda pool: setattr(pool, "published", 1),
    lambda pool: pool.owners.__setitem__(0, 0), lambda pool: pool.states.__setitem__(1, "live"),
])
def test_books_of_a_pool_that_disagree_are_told(spoil: Callable[[CellPool], object]) -> None:
    pool = CellPool("state", 2)
    assert pool.take(1, "live") == 1
    pool.owners.reverse()
    pool.states.reverse()
    pool.free = [1]
    pool.check()
    spoil(pool)
    with pytest.raises(PoolError):
        pool.check()


def test_a_phase_of_another_pool_is_told() -> None:
    memory = Memory(Shapes(), LAYOUT, {"kv": 2, "state": 2})
    with pytest.raises(BadInput, match="a phase may only touch slots of pool 'state'"):
        memory.run(Phase((("kv", 0, 1),)), "state")


def test_payloads_need_whole_words() -> None:
    with pytest.raises(BadInput, match="in whole words of 8 bytes"):
        Payloads(Memory(Shapes(kv_dim=3), LAYOUT, {"kv": 2, "state": 2}))


FULL, WINDOW = Group("kv", GroupKind.FULL, "kv", page_size=4), Group("w", GroupKind.WINDOW, "w", window=5)


@pytest.mark.parametrize(("sizes", "says"), [
    (Configuration(groups=(WINDOW,)), "there is exactly one full group"),
    (Configuration(groups=(FULL, WINDOW)), "pool 'w' has no size"),
    (Configuration(groups=(FULL, replace(WINDOW, pool="kv", window=0))), "'w' is a window group without a window"),
    (Configuration(groups=(FULL, replace(WINDOW, name="full", pool="kv"))), "side groups have names of their own"),
    (Configuration(groups=(FULL, Group("s", GroupKind.RECURRENT, "kv"))), "shares pool 'kv' with states"),
    (Configuration(groups=(FULL, Group("c", GroupKind.COMPRESSED, "kv", page_size=4, ratio=3))),
     "'c' has a page that is not a multiple of its ratio"),
    (Configuration(groups=(FULL, replace(FULL, name="other"))), "there is exactly one full group"),
    (Configuration(speculates=-1), "speculates starts at 0, not -1"),
    (Configuration(0, 8), "'kv' has a page, ratio or layer count below 1"),
])
def test_groups_that_cannot_be_are_refused_when_the_cache_is_built(sizes: Configuration, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PrefixCache(sizes, warns=False)


def speculating() -> PrefixCache:
    """Return a cache in which r1 decodes with two drafts in flight."""
    cache = PrefixCache(replace(FIRST["hybrid-window"], speculates=2), warns=False)
    cache.open("r1", PROMPT, (), {})
    cache.extend("r1", len(PROMPT))
    cache.land(cache.launch().step, {}, {"r1": (7,)})
    granted = cache.extend("r1", len(PROMPT) + 1, 5)
    assert isinstance(granted, Grant)
    assert granted.draft == 2  # no more than it speculates on
    cache.launch()
    return cache


@pytest.mark.parametrize(("accepted", "says"), [
    ({"r1": 3}, "'r1' has 2 drafts, and 3 of them are accepted"),
    ({"r1": -1}, "'r1' has 2 drafts, and -1 of them are accepted"),
    ({"r1": None}, "'r1' has 2 drafts, and None of them are accepted"),
    (None, "accepted drafts are counted by request, not None"),
])
def test_a_landing_of_impossible_drafts_changes_nothing(accepted: Any, says: str) -> None:
    cache = speculating()
    before = cache.inventory()
    with pytest.raises(BadInput, match=says):
        cache.land(2, accepted, {"r1": (8, 9)})
    assert cache.inventory() == before
    cache.check()
    cache.land(2, {"r1": 2}, {"r1": (8, 9, 10)})
    cache.check()


def test_a_request_s_steps_land_in_their_order() -> None:
    cache = PrefixCache(Configuration(), warns=False)
    cache.open("r1", PROMPT, (), {})
    steps = []
    for stop in (8, 20):
        cache.extend("r1", stop)
        steps.append(cache.launch().step)
    with pytest.raises(BadInput, match="step 2 of request 'r1' cannot land before its earlier step"):
        cache.land(steps[1], {}, {"r1": (7,)})
    for step in steps:
        cache.land(step, {}, {})
    cache.close("r1", keep=True)
    cache.check()


def test_a_step_that_its_window_has_no_pages_for_is_refused() -> None:
    groups = (FULL, replace(WINDOW, page_size=2, window=23))
    for build in (make, make_reference):
        cache: Any = build(Configuration(4, 8, {"kv": 20, "w": 4}, groups=groups))
        cache.open("r1", tuple(range(7)), (), {})
        for stop in (7, 8):
            assert isinstance(cache.extend("r1", stop), Grant)
            cache.land(cache.launch().step, {}, {"r1": (7,)})
        assert cache.extend("r1", 9).reason == "no-page"


@pytest.mark.parametrize("call", [
    lambda cache: cache.extend("r1", "8"), lambda cache: cache.extend("r1", 8, None),
    lambda cache: cache.evict("kv", 1.5), lambda cache: cache.evict("kv", "1"),
    lambda cache: cache.open("r2", PROMPT, 5, {}), lambda cache: cache.open("r2", PROMPT, (("salt", []),), {}),
])
def test_what_is_no_number_and_no_namespace_is_told(call: Callable[[PrefixCache], object]) -> None:
    cache = PrefixCache(Configuration(), warns=False)
    cache.open("r1", PROMPT, (), {})
    with pytest.raises(ValueError, match=r"whole number|cannot evict|namespace"):
        call(cache)
    cache.check()

