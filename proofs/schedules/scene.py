"""What the search knows of a cache: named facts, each a value that `&`, `|` and `~` combine.

The same model runs on two kinds of value: on whole numbers, bit i of which belongs to the i-th of many states that
are searched side by side, and on Z3's terms. Slots have no names, only occupants, and requests that are gone leave
nothing behind: two states that differ by a renaming of slots are one, and those of requests are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Value = Any
"""A truth value for each of many states at once (an int), or a term."""

NODES: tuple[str, ...] = ("x", "a", "b")
"""Prefixes that end at a boundary: x at the first, and after it a or b at the second."""

PAIRS: tuple[tuple[str, str], ...] = (("x", "a"), ("x", "b"), ("a", "b"))

PROMPTS: dict[str, tuple[bool, bool, bool]] = {
    "X": (False, False, True), "A": (True, False, True), "B": (True, True, True), "E": (True, False, False),
}
"""Prompts as (reaches the second boundary, turns to b there, goes on to an end that no other prompt shares)."""

OF_REQUEST: tuple[str, ...] = (
    "open", "closing", "keep", "deep", "on_b", "tail", "len1", "len2", "end", "landed1", "landed2", "landed_end",
    "planned", "to1", "to2", "to_end", "older_flight", "newer_flight", "live", "frozen1", "frozen2", "freezes",
    "source1", "source2", "lease1", "lease2", "stale", "branch",
)
"""Facts of one request.

`len*` and `landed*` say how far it was launched and landed, `to*` how far its plan goes; `freezes` that its frozen
slot is to be written by the plan; `source*` which snapshot it has still to be restored from; `stale` that it was
opened before a reset; `branch` that others left its path at the first boundary.
"""

OF_NODE: tuple[str, ...] = ("page", "snap", "tombstone", "ghost", "orphan")
"""Facts of one prefix: its pages and its snapshot are published, its snapshot was evicted and its pages were kept, its
pages were evicted, a forgotten snapshot of it is still being read."""

OF_CACHE: tuple[str, ...] = ("batch", "alone", "aborted", *(f"older.{first}{second}" for first, second in PAIRS))
"""`batch`: extends are planned until a launch comes. `alone`: an extend was launched by itself, and a launch that came
now would be taken for its own. `aborted`: the slot that is granted next was written by a request that was closed in
flight. `older.xa`: of two snapshots the first was used less recently."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How many requests may be there at a time, and how many slots there are."""

    requests: int = 3
    slots: int = 4

    def shared_facts(self) -> list[str]:
        """Return the facts that belong to no request."""
        return [*OF_CACHE, *(f"{node}.{fact}" for node in NODES for fact in OF_NODE)]

    def of_request(self) -> tuple[str, ...]:
        """Return the facts of one request."""
        return OF_REQUEST

    def facts(self) -> list[str]:
        """Return all facts, those of each request together."""
        return [*self.shared_facts(), *(f"{one}.{fact}" for one in range(self.requests) for fact in self.of_request())]


@dataclass(slots=True)
class Scene:
    """The facts at one moment, and what happened since it was copied, by name."""

    scope: Scope
    facts: dict[str, Value]
    true: Value
    events: dict[str, Value] = field(default_factory=dict)

    @property
    def false(self) -> Value:
        """What never holds."""
        return ~self.true

    @property
    def requests(self) -> range:
        """The numbers of the requests."""
        return range(self.scope.requests)

    def copy(self) -> Scene:
        """Return a scene that can change without this one, in which nothing has happened yet."""
        return Scene(self.scope, dict(self.facts), self.true)

    def of(self, request: int, fact: str) -> Value:
        """Return a fact of a request."""
        return self.facts[f"{request}.{fact}"]

    def put(self, name: str, value: Value, when: Value) -> None:
        """Give a fact a value where `when` holds."""
        self.facts[name] = (when & value) | (~when & self.facts[name])

    def set(self, request: int, fact: str, value: Value, when: Value) -> None:
        """Give a fact of a request a value where `when` holds."""
        self.put(f"{request}.{fact}", value, when)

    def happen(self, event: str, when: Value) -> None:
        """Record an event where `when` holds."""
        self.events[event] = self.events.get(event, self.false) | when

    def happened(self, event: str) -> Value:
        """Tell where an event happened."""
        return self.events.get(event, self.false)

    def any_of(self, values: list[Value]) -> Value:
        """Tell where at least one holds."""
        found = self.false
        for value in values:
            found = found | value
        return found

    def at_least(self, count: int, values: list[Value]) -> Value:
        """Tell where at least `count` hold."""
        reached = [self.false] * count
        for value in values:
            for index in reversed(range(count)):
                reached[index] = reached[index] | ((reached[index - 1] if index else self.true) & value)
        return reached[-1]

    # A request's path.

    def on(self, request: int, node: str) -> Value:
        """Tell where a prefix lies on a request's path."""
        if node == "x":
            return self.of(request, "open") | self.of(request, "closing")
        turns = self.of(request, "on_b")
        return self.of(request, "deep") & (turns if node == "b" else ~turns)

    def at(self, request: int, depth: int, fact: str) -> Value:
        """Return a fact of the prefix at depth 1 or 2 of a request's path."""
        if depth == 1:
            return self.facts[f"x.{fact}"]
        return self.any_of([self.on(request, node) & self.facts[f"{node}.{fact}"] for node in ("a", "b")])

    def put_at(self, request: int, depth: int, fact: str, value: Value, when: Value) -> None:
        """Give a fact of the prefix at a depth of a request's path a value."""
        for node in ("x",) if depth == 1 else ("a", "b"):
            self.put(f"{node}.{fact}", value, when & self.on(request, node))

    def in_flight(self, request: int) -> Value:
        """Tell where a step of a request is in flight."""
        return self.of(request, "older_flight") | self.of(request, "newer_flight")

    # Snapshots and slots.

    def reads(self, request: int, node: str) -> Value:
        """Tell where a request has still to be restored from the published snapshot of a prefix."""
        depth = 1 if node == "x" else 2
        return self.of(request, f"source{depth}") & ~self.of(request, "stale") & self.on(request, node)

    def leases(self, request: int, node: str) -> Value:
        """Tell where a request leases the published pages that end a prefix."""
        depth = 1 if node == "x" else 2
        return self.of(request, f"lease{depth}") & ~self.of(request, "stale") & self.on(request, node)

    def protected(self, node: str) -> Value:
        """Tell where somebody has still to be restored from a published snapshot."""
        return self.any_of([self.reads(one, node) for one in self.requests])

    def leased(self, node: str) -> Value:
        """Tell where somebody leases the published pages of a prefix."""
        return self.any_of([self.leases(one, node) for one in self.requests])

    def idle(self, node: str) -> Value:
        """Tell where a snapshot could be evicted."""
        return self.facts[f"{node}.snap"] & ~self.protected(node)

    def older(self, first: str, second: str) -> Value:
        """Tell where the first of two snapshots was used less recently."""
        if (first, second) in PAIRS:
            return self.facts[f"older.{first}{second}"]
        return ~self.facts[f"older.{second}{first}"]

    def touch(self, node: str, when: Value) -> None:
        """Make a snapshot the most recently used one."""
        for first, second in PAIRS:
            if node in (first, second):
                self.put(f"older.{first}{second}", self.true if node == second else self.false, when)

    def victim(self, node: str) -> Value:
        """Tell where a snapshot goes next: the least recently used of those that nobody reads."""
        first = self.idle(node)
        for other in NODES:
            if other != node:
                first = first & (~self.idle(other) | self.older(node, other))
        return first

    def occupants(self) -> list[Value]:
        """Return for each possible occupant of a slot where it has one."""
        found = [self.facts[f"{node}.{fact}"] for node in NODES for fact in ("snap", "orphan")]
        for one in self.requests:
            found += [self.of(one, "live"), self.of(one, "frozen1") | self.of(one, "frozen2")]
        return found

    def full(self) -> Value:
        """Tell where every slot is occupied."""
        return self.at_least(self.scope.slots, self.occupants())

    def obtainable(self) -> Value:
        """Tell where a slot can be had, if need be from the least recently used snapshot."""
        return ~self.full() | self.any_of([self.idle(node) for node in NODES])

    def take_slot(self, when: Value) -> Value:
        """Grant a slot where `when` holds and one can be had; return where it was."""
        full = self.full()
        victims = {node: self.victim(node) for node in NODES}
        granted = when & (~full | self.any_of(list(victims.values())))
        for node, victim in victims.items():
            self.evict_snapshot(node, when & full & victim)
        self.happen("granted aborted", granted & self.facts["aborted"])
        self.put("aborted", self.false, granted)
        return granted

    def evict_snapshot(self, node: str, when: Value) -> None:
        """Withdraw a snapshot; its pages stay, as a tombstone."""
        self.happen(f"evicted {node}", when)
        self.put(f"{node}.snap", self.false, when)
        self.put(f"{node}.tombstone", self.true, when)
