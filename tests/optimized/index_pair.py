"""The index and the naive model, driven side by side: every answer, count and holding is compared."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from milepost.optimized.index import FULL, RECURRENT, GivenUp, Lease, Match, PrefixIndex, Published
from milepost.spec.policies import EvictionPolicy, LeastRecentlyUsed
from milepost.spec.words import GroupKind

from .naive_index import NaiveIndex, NaiveLease, NaiveMatch


@dataclass(frozen=True)
class Sizes:
    """What a pair is built with; pages and slots are the pools that the caller of the index would keep."""

    page_size: int = 2
    grid: int = 4
    states: bool = True
    ghosts: int = 20
    pages: int = 20
    slots: int = 6
    eviction: EvictionPolicy = field(default_factory=LeastRecentlyUsed)


class Different(AssertionError):
    """The index and the model do not agree."""


def same(what: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        raise Different(f"{what}: the index says {ours}, the model {theirs}")


@dataclass(eq=False)
class Request:
    """An open request: its tokens so far, its columns, and its leases on both sides."""

    tokens: bytes
    namespace: Hashable
    columns: list[int]
    ours: Lease
    theirs: NaiveLease


class Pair:
    """Every method does one thing on both sides and compares; `compare` looks at everything."""

    def __init__(self, sizes: Sizes, build: Callable[..., PrefixIndex] = PrefixIndex) -> None:
        self.sizes = sizes
        self.ours = build(
            sizes.page_size, sizes.grid, states=sizes.states, ghosts=sizes.ghosts, eviction=sizes.eviction,
            listened=True,
        )  # fmt: skip
        self.theirs = NaiveIndex(sizes.page_size, sizes.grid, sizes.states, sizes.ghosts, sizes.eviction)
        self.free: dict[str, list[Hashable]] = {
            FULL: list(range(sizes.pages)),
            RECURRENT: [f"slot {number}" for number in range(sizes.slots)],
        }
        self.requests: list[Request] = []
        self.waiting: list[tuple[Match, int | None]] = []

    # Finding.

    def match(self, tokens: bytes, namespace: Hashable, cap: int | None) -> tuple[Match, NaiveMatch]:
        ours, theirs = self.ours.match(tokens, namespace, cap), self.theirs.match(tokens, namespace, cap)
        self.same_match(ours, theirs)
        return ours, theirs

    def same_match(self, ours: Match, theirs: NaiveMatch) -> None:
        same("cells", ours.cells.tolist(), theirs.cells)
        for name in ("length", "state", "kv_length", "known_length", "branch", "reasons"):
            same(name, getattr(ours, name), getattr(theirs, name))

    def wait(self, tokens: bytes, namespace: Hashable, cap: int | None) -> None:
        """Match a request that goes on waiting; it is refreshed with all others after each change."""
        self.waiting = [*self.waiting[-3:], (self.match(tokens, namespace, cap)[0], cap)]

    def refresh(self) -> None:
        found = self.ours.refresh_all([match for match, _ in self.waiting])
        for match, (before, cap) in zip(found, self.waiting, strict=True):
            self.same_match(match, self.theirs.match(before.tokens, before.namespace, cap))
        self.waiting = [(match, cap) for match, (_, cap) in zip(found, self.waiting, strict=True)]

    # Requests.

    def open(self, tokens: bytes, namespace: Hashable, cap: int | None) -> None:
        ours, theirs = self.match(tokens, namespace, cap)
        leases = self.ours.lease(ours), self.theirs.lease(theirs)
        same("lease", leases[0].length, theirs.length)
        self.requests.append(Request(tokens, namespace, ours.cells.tolist(), *leases))

    def generate(self, request: Request, tokens: Sequence[int]) -> None:
        """Append tokens that the model has sampled."""
        request.tokens += array("i", tokens).tobytes()

    def publish(self, request: Request, pages: int, adopt: bool, states: Sequence[int], whole: bool) -> None:
        """Publish up to `pages` more pages than are leased, as far as tokens and room reach."""
        size = self.sizes.page_size
        leased = request.ours.length // size
        count = min(leased + pages, len(request.tokens) // (4 * size))
        while len(request.columns) < count and (cell := self.take(FULL)) is not None:
            assert isinstance(cell, int)
            request.columns.append(cell)
        count = min(count, len(request.columns))
        slots: dict[int, Hashable] = {}
        for n in states:
            if 0 < n <= count * size and n % self.sizes.grid == 0 and n not in slots and self.sizes.states:
                cell = self.take(RECURRENT)
                slots |= {n: cell} if cell is not None else {}
        if count <= leased and not slots:
            return
        first = 0 if whole else max(0, leased - 1)
        run = request.tokens[4 * first * size : 4 * count * size]
        ours = self.ours.publish(
            request.ours, run, request.columns[first:count], slots, start=first * size, adopt=adopt
        )
        theirs = self.theirs.publish(request.theirs, request.tokens, request.columns[:count], slots, adopt)
        same("published", ours, theirs)
        self.settle(request, ours, slots)

    def settle(self, request: Request, published: Published, slots: dict[int, Hashable]) -> None:
        """Do what the owner of the pools does with an answer."""
        for column, cell in published.repointed.items():
            request.columns[column] = cell
        self.free[FULL] += published.duplicates
        self.free[RECURRENT] += [slots[n] for n in published.refused]
        same("lease", request.ours.length, published.length)

    def has_state(self, request: Request, length: int) -> None:
        if length * 4 <= len(request.tokens):
            ours = self.ours.has_state(request.ours, request.tokens, length)
            same("has_state", ours, self.theirs.has_state(request.theirs, request.tokens, length))

    def release_state(self, request: Request) -> None:
        self.give_back("released", self.ours.release_state(request.ours), self.theirs.release_state(request.theirs))

    def close(self, request: Request) -> None:
        self.requests.remove(request)
        private = request.columns[request.ours.length // self.sizes.page_size :]
        self.give_back("released", self.ours.release(request.ours), self.theirs.release(request.theirs))
        self.free[FULL] += private

    # Room.

    def take(self, kind: GroupKind) -> Hashable | None:
        if not self.free[kind]:
            self.evict({kind: 1})
        return self.free[kind].pop() if self.free[kind] else None

    def evict(self, counts: dict[str, int]) -> None:
        self.give_back("evicted", self.ours.evict(counts), self.theirs.evict(counts))

    def reset(self) -> None:
        self.give_back("reset", sorted(self.ours.reset(), key=repr), sorted(self.theirs.reset(), key=repr))

    def give_back(self, what: str, ours: GivenUp, theirs: GivenUp) -> None:
        same(what, ours, theirs)
        for kind, cell in ours:
            self.free[kind].append(cell)

    # Everything.

    def compare(self) -> None:
        """Compare what can be seen from outside, and let the index check itself."""
        for kind in (FULL, RECURRENT):
            same(f"evictable {kind}", self.ours.evictable(kind), self.theirs.evictable(kind))
            same(f"protected {kind}", self.ours.protected(kind), self.theirs.protected(kind))
        same("inventory", self.ours.inventory(), self.theirs.inventory())
        for request in self.requests:
            same("stale", request.ours.stale, request.theirs.stale)
            same("lease", request.ours.length, len(request.theirs.pages) * self.sizes.page_size)
        told, self.theirs.log = self.theirs.log, []
        same("events", self.ours.events(), told)
        held = [cell for kind, cell in self.ours.inventory() if kind == FULL]
        private = [cell for one in self.requests for cell in one.columns[one.ours.length // self.sizes.page_size :]]
        same("pages", sorted([*held, *private, *self.free[FULL]], key=repr), sorted(range(self.sizes.pages), key=repr))
        self.ours.check()
