"""An allocation or a copy fails, at each place and time in turn: nothing is lost, what requests hold stays."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from milepost.conformance.layouts import FIRST
from milepost.kernels.copy import copy_slots
from milepost.kernels.zero import zero_slots
from milepost.optimized import memory
from milepost.optimized.cache import PrefixCache, make
from milepost.optimized.index import PrefixIndex
from milepost.optimized.memory import CopyFailed
from milepost.optimized.pools import CellPool
from milepost.spec.answers import Hit
from milepost.spec.capabilities import Configuration

SEED, ACTS = 5, 500
SIZES = Configuration(4, 8, {"kv": 14, "state": 4}, 3)
GROUPS = replace(
    FIRST["hybrid-compressed"], pools={"kv": 14, "compressed": 14, "coarse": 7, "window": 12, "state": 7}, max_live=3
)
VERBS = ("open", "open", *["extend", "launch", "land"] * 3, "publish", "freeze", "close", "evict")
SITES = ("take", "copy", "zero", "lease", "publish", "evict", "has_state", "match")
GROUP_SITES = ("take", "lease", "publish", "publish_side", "release_columns", "evict")
MOVES: dict[str, Callable[..., None]] = {"copy": copy_slots, "zero": zero_slots}


class Injected(MemoryError):
    """The planted failure."""


class Trap:
    """Counts calls of a site, and fails the one with this number; -1 for none."""

    def __init__(self, site: str, number: int) -> None:
        self.site, self.number = site, number
        self.calls = 0

    def springs(self) -> bool:
        self.calls += 1
        return self.calls - 1 == self.number

    def set(self, patch: pytest.MonkeyPatch) -> None:
        """Put the trap before the site; a copy fails when its first tensor is done."""
        if self.site in ("copy", "zero"):
            patch.setattr(memory, f"{self.site}_slots", self._half_way(MOVES[self.site]))
        else:
            owner = CellPool if self.site == "take" else PrefixIndex
            patch.setattr(owner, self.site, self._before(getattr(owner, self.site)))

    def _before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any, **named: Any) -> Any:
            if self.springs():
                raise Injected
            return function(*arguments, **named)

        return guarded

    def _half_way(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(tensors: Sequence[torch.Tensor], *cells: Any) -> Any:
            if self.springs():
                function(tensors[:1], *cells)
                raise Injected
            return function(tensors, *cells)

        return guarded


class Caller:
    """Calls a cache by chance, as an engine may, and looks at it again after each failure."""

    def __init__(self, cache: PrefixCache) -> None:
        self.cache, self.chance = cache, random.Random(SEED)
        self.failed: Counter[str] = Counter()
        self.opened = 0

    def act(self, site: str) -> None:
        """Do one thing; where it fails, nothing that a request holds has changed, and all books agree."""
        verb = self.chance.choice(VERBS)
        name = self.chance.choice([*self.cache.requests] or [""])
        held = {one.name: one.table() for one in self.cache.requests.values()}
        frozen = {one.name for one in self.cache.requests.values() if one.frozen}
        try:
            getattr(self, verb)(name)
        except (Injected, CopyFailed):
            self.failed[verb] += 1
            self.cache.check()
            if site == "publish_side":  # what came before it, the full pages, is published, and columns re-pointed
                return
            if verb in ("open", "extend", "launch", "publish", "evict") or (verb == "freeze" and name not in frozen):
                assert {one.name: one.table() for one in self.cache.requests.values()} == held

    def open(self, name: str) -> None:
        self.opened += 1
        shared = self.chance.choice(("a" * 24, "ab" * 12))[: self.chance.choice((8, 16, 24, 20, 3))]
        self.cache.open(f"r{self.opened}", tuple(map(ord, shared + self.chance.choice("xy"))), (), {})

    def extend(self, name: str) -> None:
        if name and len(self.cache.flights) < 2:
            claim = self.cache.requests[name]
            to = min(claim.length + self.chance.choice((4, 8, 24)), len(claim.tokens) // 4)
            self.cache.extend(name, to, self.up_to(self.cache.configuration.speculates))

    def up_to(self, most: int) -> int:
        return self.chance.randint(0, most) if most else 0

    def launch(self, name: str) -> None:
        if self.cache.planned and len(self.cache.flights) < 2:
            self.cache.launch()

    def land(self, name: str) -> None:
        if self.cache.flights:
            flight = self.cache.flights[0]
            accepted = {claim.name: self.up_to(claim.drafted) for claim, _, _ in flight.spans}
            heard = {
                claim.name: (7,) * (1 + accepted[claim.name])
                for claim, _, stop in flight.spans
                if stop >= len(claim.tokens) // 4
            }
            self.cache.land(flight.step, {name: count for name, count in accepted.items() if count}, heard)

    def publish(self, name: str) -> None:
        if name:
            self.cache.publish(name)

    def freeze(self, name: str) -> None:
        if name:
            self.cache.freeze(name)

    def close(self, name: str) -> None:
        if name:
            self.cache.close(name, keep=self.chance.random() < 0.8)

    def evict(self, name: str) -> None:
        self.cache.evict(self.chance.choice(list(self.cache.group_pools)), 1)

    def finish(self) -> None:
        """End everything: every cell is free again."""
        for name in list(self.cache.requests):
            self.cache.close(name, keep=False)
        while self.cache.flights:
            self.cache.land(self.cache.flights[0].step, {}, {})
        self.cache.reset()
        self.cache.check()
        assert {holding.state for holding in self.cache.inventory().values()} == {"free"}


def play(trap: Trap, patch: pytest.MonkeyPatch, sizes: Configuration = SIZES, acts: int = ACTS) -> Counter[str]:
    """Play once with a trap set; return in which calls it has sprung."""
    caller = Caller(make(sizes))
    with patch.context() as patched:
        trap.set(patched)
        for _ in range(acts):
            caller.act(trap.site)
    caller.finish()
    return caller.failed


@pytest.mark.parametrize("site", SITES)
def test_a_failure_at_any_call_of_a_site_loses_nothing(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dry = Trap(site, -1)
    assert not play(dry, monkeypatch)
    assert dry.calls > 3
    failed: Counter[str] = Counter()
    for number in range(dry.calls):
        sprung = play(Trap(site, number), monkeypatch)
        assert sprung.total() == 1, f"call {number} of {site}"
        failed += sprung
    assert failed.total() == dry.calls


@pytest.mark.parametrize("site", GROUP_SITES)
def test_a_failure_loses_nothing_of_windows_compressed_groups_and_drafts(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry = Trap(site, -1)
    assert not play(dry, monkeypatch, GROUPS, 300)
    assert dry.calls > 3
    for number in range(0, dry.calls, 1 + dry.calls // 40):
        assert play(Trap(site, number), monkeypatch, GROUPS, 300).total() == 1, f"call {number} of {site}"


def test_what_a_failure_leaves_behind_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaky(pool: CellPool, owner: int) -> Any:
        from contextlib import nullcontext

        return nullcontext([])

    monkeypatch.setattr(CellPool, "grants", leaky)
    with pytest.raises(Exception, match="requests hold"):
        for number in range(40):
            play(Trap("take", number), monkeypatch)


def test_a_failed_copy_leaves_its_step_planned_and_the_next_try_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = make(Configuration())
    for name in ("r1", "r2"):
        cache.open(name, tuple(range(20)), (), {})
        cache.extend(name, 20)
        if name == "r1":
            cache.write(("state", cache.slots.free[-1]), "state", 1)
            cache.land(cache.launch().step, {}, {"r1": (7,)})
            cache.close("r1", keep=True)
    source = cache.requests["r2"].source
    cache.write(("state", source), "state", 12345)
    with monkeypatch.context() as patched:
        Trap("copy", 0).set(patched)
        with pytest.raises(CopyFailed, match="a phase of 1 copies and 0 zeroings failed"):
            cache.launch()
    assert not cache.flights
    cache.check()
    cache.launch()
    assert cache.read(("state", cache.requests["r2"].live), "state") == 12345


def test_a_request_that_ends_ends_though_its_publishing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = make(Configuration())
    assert isinstance(cache.open("r1", tuple(range(20)), (), {}), Hit)
    cache.extend("r1", 20)
    cache.land(cache.launch().step, {}, {"r1": (7,)})
    with monkeypatch.context() as patched:
        Trap("publish", 0).set(patched)
        with pytest.raises(Injected):
            cache.close("r1", keep=True)
    assert not cache.requests
    assert {holding.state for holding in cache.inventory().values()} == {"free"}
    cache.check()
