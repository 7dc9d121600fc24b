"""A cache without any reuse and with endless pages, which remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from milepost.conformance.driver import Driver, Observer
from milepost.conformance.outcome import Outcome
from milepost.spec.answers import (
    Evicted,
    Frozen,
    Grant,
    Hit,
    Landing,
    Launched,
    Pages,
    Refused,
    ResetDone,
    Table,
)
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.operations import Operation
from milepost.spec.schedule import Header, Schedule, parse_tokens
from milepost.spec.words import GroupKind, Namespace

PAGED = Capabilities(
    engine="endless",
    version="1",
    groups=(Group("kv", GroupKind.FULL, "kv", page_size=4),),
    pools={"kv": 1_000},
    resets="always",
    evicts=True,
    preempts=True,
    overlap=1,
)


class Endless:
    """Grants fresh pages for ever; `grain` is the most that one step is granted, `refusals` counts down."""

    def __init__(self, capabilities: Capabilities = PAGED, grain: int = 1_000) -> None:
        self.capabilities = capabilities
        self.grain = grain
        self.refusals = 0
        self.calls: list[str] = []
        self.pages: dict[str, tuple[int, ...]] = {}
        self.lengths: dict[str, int] = {}
        self.planned: dict[str, int] = {}
        self.learnt: dict[str, tuple[int, ...]] = {}
        self.steps = 0
        self.next_page = 0

    def note(self, *words: object) -> None:
        """Remember a call."""
        self.calls.append(" ".join(str(word) for word in words))

    def table(self, request: str) -> Table:
        """Return the pages of a request."""
        return {"kv": Pages(self.pages[request])}

    def refuses(self) -> bool:
        """Count down the refusals that were asked for."""
        self.refusals -= self.refusals > 0
        return self.refusals > 0

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        self.note("open", request, len(tokens), *sorted(content.items()))
        self.pages[request], self.lengths[request] = (), 0
        return Hit(0, {"kv": Pages()})

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        self.note("extend", request, to, *([draft] if draft else []))
        if self.refuses():
            return Refused("no-page")
        length = min(to, self.lengths[request] + self.grain)
        wanted = -(-length // 4) - len(self.pages[request])
        self.pages[request] += tuple(range(self.next_page, self.next_page + wanted))
        self.next_page += wanted
        self.planned[request] = length
        return Grant(length, self.table(request))

    def launch(self) -> Launched:
        self.note("launch", *self.planned)
        self.lengths |= self.planned
        self.planned.clear()
        self.steps += 1
        return Launched(self.steps)

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        self.note("land", step, *([dict(accepted)] if accepted else []))
        for request, tokens in sampled.items():
            self.learnt[request] = self.learnt.get(request, ()) + tokens
        return Landing()

    def freeze(self, request: str) -> Frozen | Refused:
        self.note("freeze", request)
        return Refused("nothing-to-freeze")

    def publish(self, request: str) -> Landing | Refused:
        self.note("publish", request)
        return Landing()

    def preempt(self, request: str) -> Landing:
        self.note("preempt", request)
        self.planned.pop(request, None)
        return Landing()

    def close(self, request: str, keep: bool) -> Landing:
        self.note("close", request, *(["keep"] if keep else []))
        self.planned.pop(request, None)
        return Landing()

    def reset(self) -> ResetDone:
        self.note("reset")
        return ResetDone(True)

    def evict(self, group: str, cells: int) -> Evicted:
        self.note("evict", group, cells)
        return Evicted()


def schedule(*operations: Operation) -> Schedule:
    """Return a schedule of these operations."""
    return Schedule(Header(id="by-hand"), operations)


def drive(
    cache: Endless,
    operations: Iterable[Operation],
    observers: Iterable[Observer] = (),
    fill: Callable[[Driver], None] | None = None,
) -> Outcome:
    """Run operations on a cache, and see no fault."""
    outcome = Driver(cache, list(observers)).run(schedule(*operations), fill)
    assert not outcome.failed, outcome.fault
    return outcome


def calls(operations: Iterable[Operation], grain: int = 1_000, **changes: object) -> list[str]:
    """Run operations on a cache with changed capabilities, and return what it was asked."""
    cache = Endless(replace(PAGED, **changes), grain)  # type: ignore[arg-type]
    drive(cache, operations)
    return cache.calls


TEXT = parse_tokens("abcdefgh")
MORE = parse_tokens("ijkl")
