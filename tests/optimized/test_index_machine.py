"""The index equals two dictionaries, on whatever sequence of calls Hypothesis can think of."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from milepost.optimized.index import FULL, RECURRENT, packed
from milepost.spec.policies import LeastRecentlyUsed, SupersededFirst

from .index_pair import Pair, Request, Sizes

PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=14).map(packed)
NAMESPACES = st.sampled_from([(), (("salt", "a"),)])
CAPS = st.none() | st.integers(0, 12)


class IndexMachine(RuleBasedStateMachine):
    """Drives a pair; requests are picked by number, so that failing sequences shrink."""

    @initialize(
        page_size=st.integers(1, 2), coarse=st.booleans(), states=st.booleans(), ghosts=st.sampled_from([0, 2, 10]),
        superseded=st.booleans(),
    )  # fmt: skip
    def build(self, page_size: int, coarse: bool, states: bool, ghosts: int, superseded: bool) -> None:
        eviction = SupersededFirst() if superseded else LeastRecentlyUsed()
        self.pair = Pair(Sizes(page_size, page_size * (1 + coarse), states, ghosts, 10, 3, eviction))

    def request(self, number: int) -> Request:
        return self.pair.requests[number % len(self.pair.requests)]

    def some(self) -> bool:
        return bool(self.pair.requests)

    @rule(tokens=PROMPTS, namespace=NAMESPACES, cap=CAPS)
    def open(self, tokens: bytes, namespace: tuple[tuple[str, str], ...], cap: int | None) -> None:
        self.pair.open(tokens, namespace, cap)

    @rule(tokens=PROMPTS, namespace=NAMESPACES, cap=CAPS)
    def wait(self, tokens: bytes, namespace: tuple[tuple[str, str], ...], cap: int | None) -> None:
        self.pair.wait(tokens, namespace, cap)

    @precondition(some)
    @rule(
        number=st.integers(0, 5), pages=st.integers(0, 7), adopt=st.booleans(), whole=st.booleans(),
        states=st.lists(st.integers(1, 14), max_size=2), said=st.lists(st.integers(0, 1), max_size=3),
    )  # fmt: skip
    def publish(
        self, number: int, pages: int, adopt: bool, whole: bool, states: list[int], said: list[int]
    ) -> None:
        request = self.request(number)
        self.pair.generate(request, said)
        self.pair.publish(request, pages, adopt, states, whole)

    @precondition(some)
    @rule(number=st.integers(0, 5), length=st.integers(0, 14))
    def has_state(self, number: int, length: int) -> None:
        self.pair.has_state(self.request(number), length)

    @precondition(some)
    @rule(number=st.integers(0, 5))
    def release_state(self, number: int) -> None:
        self.pair.release_state(self.request(number))

    @precondition(some)
    @rule(number=st.integers(0, 5))
    def close(self, number: int) -> None:
        self.pair.close(self.request(number))

    @rule(kind=st.sampled_from([FULL, RECURRENT]), count=st.integers(1, 3))
    def evict(self, kind: object, count: int) -> None:
        self.pair.evict({FULL if kind == FULL else RECURRENT: count})

    @rule()
    def reset(self) -> None:
        self.pair.reset()

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "pair"):
            self.pair.refresh()
            self.pair.compare()


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
