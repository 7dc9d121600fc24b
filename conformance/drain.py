"""Drain and fill: after everything is closed and reset, a cache must grant what a fresh one grants.

The filling takes small requests until one is refused, which exhausts slots, then large ones, which exhaust pages.
Its tokens are met nowhere else, so nothing of it can hit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from milepost.conformance.driver import Driver, Stop
from milepost.spec.answers import Drained, Grant, Hit, ResetDone
from milepost.spec.operations import Close, Extend, Launch, Open, Reset
from milepost.spec.schedule import Header, Schedule
from milepost.spec.seam import Adapter

FIRST_TOKEN = 1 << 24
REQUESTS = 64
TRIES = 3


def filling(driver: Driver) -> int:
    """Fill the cache and empty it again; return the tokens that were granted in both rounds."""
    return _fill_round(driver, driver.capabilities.page_size, 0) + _fill_round(driver, _half(driver), 1)


def _half(driver: Driver) -> int:
    page = driver.capabilities.page_size
    paged = (group for group in driver.capabilities.groups if group.kind.paged)
    tokens = min((driver.capabilities.pools[group.pool] * group.page_size for group in paged), default=page)
    return max(tokens // 2, page)


def _fill_round(driver: Driver, length: int, number: int, requests: int = REQUESTS) -> int:
    granted = 0
    opened: list[str] = []
    for count in range(requests):
        request = f"fill{number}.{count}"
        first = FIRST_TOKEN + (number * REQUESTS + count) * (1 << 12)
        if not isinstance(driver.ask(Open(request, tuple(range(first, first + length + 1)))), Hit):
            break
        opened.append(request)
        got = _extend(driver, request, length)
        granted += got
        if got < length:
            break
    for request in opened:
        if driver.claim(request):
            driver.ask(Close(request, keep=False))
    driver.land_down_to(0)
    return granted


def _extend(driver: Driver, request: str, length: int) -> int:
    while (claim := driver.claim(request)) is not None and claim.length < length:
        driver.land_down_to(0)
        if not isinstance(driver.ask(Extend(request, length)), Grant):
            break
        driver.ask(Launch())
        driver.land_down_to(0)
    claim = driver.claim(request)
    return claim.length if claim else 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a fresh instance grants, in tokens: to a filling, and to one request of half a pool."""

    filling: int
    single: int


def fresh_capacity(make: Callable[[], Adapter], beat: Callable[[int], None] | None = None) -> Capacity:
    """Measure two fresh instances; one that faults grants nothing, and the schedule itself will say why."""
    return Capacity(_measure(make(), filling, beat), _measure(make(), admission, beat))


def _measure(adapter: Adapter, ask: Callable[[Driver], int], beat: Callable[[int], None] | None) -> int:
    driver = Driver(adapter, beat=beat)
    driver.run(Schedule(Header(id="fresh"), ()))
    try:
        return ask(driver)
    except Stop:
        return 0


def admission(driver: Driver) -> int:
    """Ask for one request of half a pool; return the tokens that it was granted."""
    return _fill_round(driver, _half(driver), 2, requests=1)


def filler(fresh: Callable[[], Capacity]) -> Callable[[Driver], None]:
    """Return the function that carries out the rest of a drain; `fresh` gives the capacity of a fresh cache.

    Before the reset the cache is idle and may be full of published cells: the moment for `admits-when-idle`.
    """

    def fill(driver: Driver) -> None:
        if "admits-when-idle" in driver.capabilities.promises:
            _check_admission(driver, fresh().single)
        done = False
        if driver.capabilities.resets != "never":
            answer = driver.ask(Reset())
            done = isinstance(answer, ResetDone) and answer.done
        granted = filling(driver)
        driver.judge_drain(Drained(granted, fresh().filling if done else granted, done))

    return fill


def _check_admission(driver: Driver, wanted: int) -> None:
    granted = 0
    for _ in range(TRIES):
        granted = admission(driver)
        if granted >= wanted:
            return
    driver.break_promise(
        "admits-when-idle",
        f"with nothing open, {TRIES} tries for one request of {wanted} tokens were granted {granted} at most; "
        "a fresh cache grants all of it",
    )
