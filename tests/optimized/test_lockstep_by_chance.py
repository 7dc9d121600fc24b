"""Hypothesis plays the caller of both caches: whatever it thinks of, they agree, and their books do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from milepost.cli.comparison import Difference
from milepost.cli.lockstep import Lockstep
from milepost.conformance.layouts import FIRST
from milepost.optimized.cache import PrefixCache, make
from milepost.reference.cache import make as make_reference
from milepost.spec.answers import Grant, Hit
from milepost.spec.capabilities import Configuration

NAMES = ("r1", "r2", "r3", "r4")
BASES = ("a" * 24, "a" * 8 + "b" * 16, "ab" * 12)
SPACES: tuple[tuple[tuple[str, str], ...], ...] = ((), (("salt", "x"),), (("adapter", "x"),))
IMAGES = (None, None, None, (2, "cat"), (2, "dog"))


class Caller(RuleBasedStateMachine):
    """Calls in any order that a caller may; the comparison is in the pair itself."""

    make_cache = staticmethod(make)

    def begin(self, sizes: Configuration) -> None:
        self.groups = [group.name for group in sizes.groups] or ["kv", "state"]
        self.cache: PrefixCache = self.make_cache(sizes)
        self.pair = Lockstep(make_reference(sizes), self.cache)
        self.lengths: dict[str, int] = {}
        self.planned: set[str] = set()
        self.drafted: dict[str, int] = {}
        self.flights: list[tuple[int, dict[str, int]]] = []
        self.known: dict[str, int] = {}

    @rule(name=st.sampled_from(NAMES), base=st.sampled_from(BASES), shared=st.sampled_from((9, 17, 24, 8, 3)),
          own=st.sampled_from(("", "x", "xyxy")), space=st.sampled_from(SPACES), image=st.sampled_from(IMAGES))
    def open(self, name: str, base: str, shared: int, own: str, space: Any, image: tuple[int, str] | None) -> None:
        if name in self.lengths or any(name in spans for _, spans in self.flights):
            return
        tokens = tuple(map(ord, base[:shared] + own))
        content = {image[0]: image[1]} if image and image[0] < len(tokens) else {}
        answer = self.pair.open(name, tokens, space, content)
        if isinstance(answer, Hit):
            self.lengths[name], self.known[name] = answer.length, len(tokens)

    @rule(data=st.data(), keep=st.booleans())
    def run_to_the_end(self, data: st.DataObject, keep: bool) -> None:
        name = self.some_request(data)
        if name is None:
            return
        self.extend_to(name, 24)
        if self.planned:
            self.launch()
        while self.flights:
            self.land(last=False)
        self.pair.publish(name)
        if keep:
            self.finish(name, keep)

    def some_request(self, data: st.DataObject) -> str | None:
        return data.draw(st.sampled_from(sorted(self.lengths))) if self.lengths else None

    @rule(data=st.data(), tokens=st.sampled_from((8, 1, 4, 16)), draft=st.integers(0, 3))
    def extend(self, data: st.DataObject, tokens: int, draft: int) -> None:
        name = self.some_request(data)
        if name is not None:
            self.extend_to(name, tokens, draft)

    def extend_to(self, name: str, tokens: int, draft: int = 0) -> None:
        if name in self.planned or len(self.flights) > 1:
            return
        to = min(self.lengths[name] + tokens, max(self.known[name], self.lengths[name] + 1))
        granted = self.pair.extend(name, to, min(draft, self.cache.configuration.speculates))
        if isinstance(granted, Grant):
            self.lengths[name] = granted.length
            self.drafted[name] = granted.draft
            self.planned.add(name)

    @precondition(lambda self: self.planned)
    @rule()
    def launch(self) -> None:
        step = self.pair.launch().step
        self.flights.append((step, {name: self.lengths[name] for name in self.planned}))
        self.planned.clear()

    @precondition(lambda self: self.flights)
    @rule(last=st.booleans(), taken=st.integers(0, 3))
    def land(self, last: bool, taken: int = 0) -> None:
        # A request's own steps land in order; those of others may overtake them.
        alone = not any(self.flights[0][1].keys() & spans.keys() for _, spans in self.flights[1:])
        step, spans = self.flights.pop(-1 if last and alone else 0)
        said, accepted = {}, {}
        for name, stop in spans.items():
            drafted = self.drafted.pop(name, 0) if name in self.lengths and self.lengths[name] == stop else 0
            accepted[name] = min(taken, drafted)
            reached = stop + accepted[name]
            if name in self.lengths:
                self.lengths[name] = max(self.lengths[name], reached)
            if reached >= self.known[name]:
                said[name] = tuple(range(self.known[name], reached + 1))
                self.known[name] = reached + 1
        self.pair.land(step, {name: count for name, count in accepted.items() if count}, said)

    @rule(data=st.data(), verb=st.sampled_from(("publish", "freeze")))
    def settle(self, data: st.DataObject, verb: str) -> None:
        name = self.some_request(data)
        if name is not None:
            getattr(self.pair, verb)(name)

    @rule(data=st.data(), keep=st.sampled_from((True, True, False, None)))
    def end(self, data: st.DataObject, keep: bool | None) -> None:
        name = self.some_request(data)
        if name is not None:
            self.finish(name, keep)

    def finish(self, name: str, keep: bool | None) -> None:
        if keep is None:
            self.pair.preempt(name)
        else:
            self.pair.close(name, keep)
        del self.lengths[name]
        self.drafted.pop(name, None)
        self.planned.discard(name)

    @rule(number=st.integers(0, 4), cells=st.integers(1, 4))
    def evict(self, number: int, cells: int) -> None:
        self.pair.evict(self.groups[number % len(self.groups)], cells)

    @rule(really=st.integers(0, 5))
    def reset(self, really: int) -> None:
        if not really:
            self.pair.reset()

    def teardown(self) -> None:
        if hasattr(self, "cache"):
            self.cache.check()


class CallerOfBoth(Caller):
    """Of caches with full KV and states."""

    @initialize(page=st.sampled_from((4, 2, 1)), chunk=st.sampled_from((4, 8)), pages=st.integers(4, 24),
                slots=st.integers(1, 6))
    def build(self, page: int, chunk: int, pages: int, slots: int) -> None:
        self.begin(Configuration(page, chunk, {"kv": pages, "state": slots}, 3))


SHORT = settings(
    max_examples=120, stateful_step_count=60, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)


def test_no_order_of_calls_parts_them() -> None:
    run_state_machine_as_test(CallerOfBoth, settings=SHORT)


@pytest.mark.soak
def test_no_order_of_calls_parts_them_in_many_tries() -> None:
    run_state_machine_as_test(CallerOfBoth, settings=settings(SHORT, max_examples=5_000, stateful_step_count=100))


class CallerOfAllKinds(Caller):
    """Of caches with windows, compressed groups and drafts; what they believe is verified at each call."""

    @initialize(profile=st.sampled_from(("paged-window", "hybrid-window", "hybrid-compressed")),
                window=st.sampled_from((1, 2, 3, 5, 6, 9, 12)), pages=st.integers(8, 24), slots=st.integers(2, 8))
    def build_groups(self, profile: str, window: int, pages: int, slots: int) -> None:
        first = FIRST[profile]
        groups = tuple(replace(one, window=window) if one.window else one for one in first.groups)
        pools = dict.fromkeys(first.pools, pages) | {"window": pages // 2 + 7, "state": slots}
        self.begin(replace(first, groups=groups, pools=pools, max_live=3))

    @invariant()
    def books_agree(self) -> None:
        if hasattr(self, "cache"):
            self.cache.check()


def test_no_order_of_calls_parts_them_for_any_groups() -> None:
    run_state_machine_as_test(CallerOfAllKinds, settings=SHORT)


@pytest.mark.soak
def test_no_order_of_calls_parts_them_for_any_groups_in_many_tries() -> None:
    run_state_machine_as_test(
        CallerOfAllKinds, settings=settings(SHORT, max_examples=3_000, stateful_step_count=100)
    )


class Sloppy(PrefixCache):
    """Forgets the namespace of a request."""

    def open(self, request: str, tokens: tuple[int, ...], namespace: Any, content: Any) -> Any:
        return super().open(request, tokens, (), content)


def make_sloppy(configuration: Configuration) -> PrefixCache:
    return Sloppy(configuration, warns=False)


class CallerOfASloppyOne(CallerOfBoth):
    make_cache = staticmethod(make_sloppy)


def test_the_caller_notices_a_planted_edit() -> None:
    with pytest.raises(Difference):
        run_state_machine_as_test(CallerOfASloppyOne, settings=settings(SHORT, phases=(Phase.generate,)))
