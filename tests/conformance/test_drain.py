"""Drain and fill: what is lost shows as less than a fresh cache grants, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.conformance.drain import FIRST_TOKEN, TRIES, Capacity, admission, filler, filling, fresh_capacity
from milepost.conformance.driver import Driver
from milepost.conformance.outcome import Outcome
from milepost.reference.cache import ReferenceCache, make, make_explicit
from milepost.reference.liberties import LIBERTIES
from milepost.reference.requests import Request
from milepost.spec.answers import Drained, Grant, Refused, ResetDone
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.operations import Close, Drain, Extend, Open, Operation

from .endless import PAGED, TEXT, Endless, schedule

SIZES = Configuration(page_size=4, chunk_size=8, pools={"kv": 12, "state": 4}, max_live=4)
WORK: tuple[Operation, ...] = (
    Open("r1", (*TEXT, 1)), Extend("r1", 9), Close("r1", keep=True), Open("r2", (*TEXT, 2)), Extend("r2", 9),
)


def drained(cache: ReferenceCache | Endless, *operations: Operation, capacity: Capacity | None = None) -> Outcome:
    """Run operations and a drain, against a fresh cache of the same kind."""
    fresh = capacity or fresh_capacity(lambda: make(SIZES))
    return Driver(cache).run(schedule(*operations, Drain()), filler(lambda: fresh))


def last(outcome: Outcome) -> Drained:
    answer = outcome.lines[-1].answer
    assert isinstance(answer, Drained)
    return answer


# -- filling


@pytest.mark.parametrize(
    ("pools", "tokens"),
    [
        ({"kv": 12, "state": 4}, 4 * 4 + 2 * 24),  # four slots; then two halves of twelve pages
        ({"kv": 12, "state": 3}, 3 * 4 + 2 * 24),
        ({"kv": 12, "state": 1}, 1 * 4 + 1 * 24),
        ({"kv": 3, "state": 4}, 3 * 4 + 2 * 6 - 6),  # three pages; one request of half of them leaves one
    ],
)
def test_a_filling_takes_all_slots_in_its_first_round_and_all_pages_in_its_second(
    pools: dict[str, int], tokens: int
) -> None:
    assert fresh_capacity(lambda: make(replace(SIZES, pools=pools))).filling == tokens


def test_a_filling_leaves_nothing_behind() -> None:
    driver = Driver(make(SIZES))
    driver.run(schedule())
    once = filling(driver)
    assert not driver.state.claims and not driver.state.flights
    assert [filling(driver), filling(driver)] == [once, once]


def test_a_filling_is_of_tokens_that_no_prompt_has() -> None:
    driver = Driver(make(SIZES))
    driver.run(schedule())
    filling(driver)
    opened = [line.operation for line in driver.outcome.lines if isinstance(line.operation, Open)]
    assert all(min(one.tokens) >= FIRST_TOKEN for one in opened)
    assert len({one.tokens[0] for one in opened}) == len(opened)


def test_an_admission_is_one_request_of_half_a_pool() -> None:
    driver = Driver(make(SIZES))
    driver.run(schedule())
    assert admission(driver) == fresh_capacity(lambda: make(SIZES)).single == 24


def test_a_cache_that_faults_at_once_has_no_capacity() -> None:
    class Broken(Endless):
        def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
            raise ValueError("no")

    assert fresh_capacity(Broken) == Capacity(0, 0)


# -- leaks


class Leaking(ReferenceCache):
    """Loses a page or a slot at the end of each request that was extended."""

    pool = "kv"

    def give_up(self, claim: Request) -> None:
        super().give_up(claim)
        if claim.landed and not claim.name.startswith("fill"):
            self.pools[self.pool].free.pop()


class LeakingSlots(Leaking):
    pool = "state"


@pytest.mark.parametrize("maker", [Leaking, LeakingSlots])
def test_one_lost_cell_is_a_leak(maker: type[Leaking]) -> None:
    outcome = drained(maker(SIZES), *WORK[:3])
    assert outcome.code == "leak" and outcome.fault is not None
    assert outcome.fault.numbers["granted"] < outcome.fault.numbers["fresh"]
    assert (outcome.lines[-1].operation, outcome.lines[-1].part) == (Drain(), "")


@pytest.mark.parametrize("maker", [make, make_explicit])
def test_a_cache_that_loses_nothing_is_drained_again_and_again(maker: type[ReferenceCache]) -> None:
    outcome = drained(maker(SIZES), *WORK, Drain(), *WORK, Drain())
    assert not outcome.failed and last(outcome).granted == last(outcome).fresh


def test_everything_is_closed_landed_and_reset_before_the_filling() -> None:
    cache = Endless(replace(PAGED, pools={"kv": 4}))
    drained(cache, *WORK, capacity=Capacity(0, 0))
    assert cache.calls[6:12] == ["launch r2", "close r2", "land 1", "land 2", "reset", "open fill0.0 5"]
    assert cache.calls.count("reset") == 1


def test_a_wedged_pool_is_a_leak() -> None:
    class Wedged(ReferenceCache):
        """Admits nothing any more once something was published."""

        def declare(self) -> Capabilities:
            return replace(super().declare(), promises=())

        def objection(self, tokens: tuple[int, ...]) -> str:
            return "busy" if self.clock else super().objection(tokens)

    assert drained(Wedged(SIZES), *WORK[:3]).code == "leak"


def test_a_cache_whose_reset_does_not_come_off_when_idle_has_leaked() -> None:
    class Stuck(Endless):
        def reset(self) -> ResetDone:
            return ResetDone(False)

    outcome = drained(Stuck(replace(PAGED, resets="idle")), capacity=Capacity(0, 0))
    assert outcome.code == "leak" and outcome.lines[-1].operation.verb == "reset"


def test_a_cache_without_a_reset_is_filled_and_not_compared() -> None:
    cache = Endless(replace(PAGED, resets="never", max_live=4))
    cache.refusals = 3
    outcome = drained(cache, capacity=Capacity(10**9, 10**9))
    assert not outcome.failed and not last(outcome).comparable
    assert "reset" not in cache.calls


def test_a_lower_capacity_of_a_fresh_cache_is_never_held_against_it() -> None:
    assert not drained(make(SIZES), *WORK, capacity=Capacity(1, 1)).failed


# -- liberties


@pytest.mark.parametrize("name", LIBERTIES)
def test_a_liberty_is_not_taken_for_a_leak(name: str) -> None:
    fresh = fresh_capacity(lambda: LIBERTIES[name](SIZES))
    outcome = Driver(LIBERTIES[name](SIZES)).run(schedule(*WORK, Drain(), *WORK, Drain()), filler(lambda: fresh))
    assert not outcome.failed and last(outcome).fresh == fresh.filling > 0


def test_an_open_that_leases_nothing_is_extended_at_once_by_a_filling() -> None:
    cache = Endless(replace(PAGED, leases_on_open=False, pools={"kv": 4}))
    driver = Driver(cache)
    driver.run(schedule())
    filling(driver)
    opens = [at for at, call in enumerate(cache.calls) if call.startswith("open")]
    assert all(cache.calls[at + 1].startswith("extend") for at in opens)


# -- admits-when-idle


class Hoarding(ReferenceCache):
    """Holds on to published cells for a while: each refusal gives one up."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), inventories=False)

    def shortage(self, pages: dict[str, int], slots: int) -> str:
        short = sum(pages.values()) > len(self.page_cells.pool.free) or slots > len(self.slot_cells.pool.free)
        if short:
            for pool in self.pools.values():
                self.evict_least_recent(pool)
            return "no-page"
        return ""


LONG: tuple[Operation, ...] = (
    Open("r1", tuple(range(45))), Extend("r1", 45), Close("r1", keep=True),
)


def test_what_a_fresh_cache_takes_is_taken_within_a_few_tries() -> None:
    assert "admits-when-idle" in make(SIZES).capabilities.promises
    outcome = drained(make(SIZES), *LONG)
    assert not outcome.failed
    asked = [line for line in outcome.lines if isinstance(line.operation, Open)]
    assert sum(line.operation.request == "fill2.0" for line in asked if isinstance(line.operation, Open)) == 1


def test_a_cache_that_keeps_what_an_idle_moment_needs_breaks_its_promise() -> None:
    outcome = drained(Hoarding(SIZES), *LONG)
    assert outcome.code == "promise:admits-when-idle" and outcome.broken is not None
    assert f"{TRIES} tries for one request of 24 tokens were granted 0 at most" in outcome.broken.sentence


def test_a_promise_that_was_not_made_is_not_looked_at() -> None:
    class Silent(Hoarding):
        def declare(self) -> Capabilities:
            return replace(super().declare(), promises=())

    assert not drained(Silent(SIZES), *LONG).failed
