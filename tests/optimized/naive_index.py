"""The index in two dictionaries, pages by prefix and snapshots by prefix: slow, and short enough to be believed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from milepost.optimized.index import (
    FULL,
    RECURRENT,
    Cleared,
    Event,
    GivenUp,
    Holding,
    PagesStored,
    Published,
    Reason,
    Removed,
    StateStored,
)
from milepost.spec.geometry import floor_to
from milepost.spec.policies import EvictionPolicy
from milepost.spec.words import GroupKind

Key = tuple[Hashable, bytes]


@dataclass(eq=False)
class Entry:
    kind: GroupKind
    key: Key
    cell: Hashable
    stamp: int
    leases: int = 0


@dataclass
class NaiveMatch:
    tokens: bytes
    namespace: Hashable
    length: int
    cells: list[Hashable]
    state: Hashable
    kv_length: int
    known_length: int
    branch: int
    reasons: dict[str, str]


@dataclass(eq=False)
class NaiveLease:
    namespace: Hashable
    pages: list[Entry] = field(default_factory=list)
    snapshot: Entry | None = None
    stale: bool = False


class NaiveIndex:
    """Answers as the index must; it is only asked what the index did not refuse."""

    def __init__(self, page_size: int, grid: int, states: bool, ghosts: int, eviction: EvictionPolicy) -> None:
        self.page_size, self.grid, self.states, self.ghost_limit = page_size, grid, states, ghosts
        self.eviction = eviction
        self.page_bytes = 4 * page_size
        self.clock = 0
        self.entries: dict[str, dict[Key, Entry]] = {FULL: {}, RECURRENT: {}}
        self.ghosts: dict[Key, None] = {}
        self.leases: list[NaiveLease] = []
        self.forgotten: dict[tuple[str, Hashable], Entry] = {}
        self.log: list[Event] = []

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def run_of(self, keys: Mapping[Key, object], namespace: Hashable, prompt: bytes, start: int) -> int:
        while 4 * (start + self.page_size) <= len(prompt):
            if (namespace, prompt[: 4 * (start + self.page_size)]) not in keys:
                break
            start += self.page_size
        return start

    def match(self, prompt: bytes, namespace: Hashable, cap: int | None) -> NaiveMatch:
        kv = self.run_of(self.entries[FULL], namespace, prompt, 0)
        known = self.run_of(self.ghosts, namespace, prompt, kv)
        last = len(prompt) // 4 - 1
        top = floor_to(self.grid, min(kv, last))
        snapshots = self.entries[RECURRENT]
        offers = [n for n in range(self.grid, top + 1, self.grid)
                  if not self.states or (namespace, prompt[: 4 * n]) in snapshots]  # fmt: skip
        length = max((n for n in offers if cap is None or n <= cap), default=0)
        ends = range(self.page_size, length + 1, self.page_size)
        cells = [self.entries[FULL][namespace, prompt[: 4 * end]].cell for end in ends]
        snapshot = snapshots.get((namespace, prompt[: 4 * length]))
        point = floor_to(self.grid, min(known, last))
        return NaiveMatch(
            prompt, namespace, length, cells, snapshot.cell if snapshot else None, kv, known,
            point if point > length else 0,
            self.reasons(prompt, namespace, (kv, known, length, top, max(offers, default=0))),
        )  # fmt: skip

    def reasons(self, prompt: bytes, namespace: Hashable, lengths: tuple[int, ...]) -> dict[str, str]:
        kv, known, length, top, deepest = lengths
        prefix = prompt[: 4 * kv]
        keys = [run for space, run in (*self.entries[FULL], *self.ghosts) if space == namespace]
        full = Reason.UNSEEN
        if any(len(run) > len(prefix) and run.startswith(prefix) for run in keys):
            full = Reason.DIVERGED
        if known > kv:
            full = Reason.EVICTED
        if kv == floor_to(self.page_size, len(prompt) // 4):
            full = Reason.COMPLETE
        if not self.states:
            return {FULL: full if length == top else Reason.CAPPED}
        if length < deepest:
            return {FULL: full, RECURRENT: Reason.CAPPED}
        return {FULL: full, RECURRENT: Reason.COMPLETE if length == top else Reason.NO_SNAPSHOT}

    def has_state(self, lease: NaiveLease, tokens: bytes, length: int) -> bool:
        return (lease.namespace, tokens[: 4 * length]) in self.entries[RECURRENT]

    def lease(self, match: NaiveMatch) -> NaiveLease:
        lease = NaiveLease(match.namespace)
        self.leases.append(lease)
        for end in range(self.page_size, match.length + 1, self.page_size):
            self.lease_page(lease, self.entries[FULL][match.namespace, match.tokens[: 4 * end]])
        if match.length:
            lease.pages[-1].stamp = self.tick()
        if match.length and self.states:
            lease.snapshot = self.entries[RECURRENT][match.namespace, match.tokens[: 4 * match.length]]
            lease.snapshot.leases += 1
            lease.snapshot.stamp = self.tick()
        return lease

    def lease_page(self, lease: NaiveLease, entry: Entry) -> None:
        entry.leases += 1
        lease.pages.append(entry)

    def release_state(self, lease: NaiveLease) -> GivenUp:
        entry, lease.snapshot = lease.snapshot, None
        return self.release_entry(entry) if entry else []

    def release(self, lease: NaiveLease) -> GivenUp:
        given_up = [one for entry in reversed(lease.pages) for one in self.release_entry(entry)]
        given_up += self.release_state(lease)
        self.leases.remove(lease)
        return given_up

    def release_entry(self, entry: Entry) -> GivenUp:
        entry.leases -= 1
        if entry.leases or (entry.kind, entry.cell) not in self.forgotten:
            return []
        del self.forgotten[entry.kind, entry.cell]
        return [(entry.kind, entry.cell)]

    def publish(
        self, lease: NaiveLease, whole: bytes, cells: Sequence[int], states: Mapping[int, Hashable], adopt: bool
    ) -> Published:
        """`whole` are all tokens from 0 and `cells` all columns."""
        published = Published(len(lease.pages) * self.page_size)
        if lease.stale:
            published.refused = dict.fromkeys(states, "no-page")
            return published
        self.publish_pages(lease, whole, cells, adopt, published)
        for n in sorted(states):
            self.donate(lease, whole, n, states[n], published)
        return published

    def publish_pages(
        self, lease: NaiveLease, whole: bytes, cells: Sequence[int], adopt: bool, published: Published
    ) -> None:
        new: list[int] = []
        first = len(lease.pages)
        for column in range(len(lease.pages), len(cells)):
            key = (lease.namespace, whole[: (column + 1) * self.page_bytes])
            entry = self.entries[FULL].get(key)
            if entry and not adopt:
                published.blocked = True
                break
            if entry:
                assert isinstance(entry.cell, int)
                published.repointed[column] = entry.cell
                published.duplicates.append(cells[column])
                first = column + 1
            else:
                entry = self.entries[FULL][key] = Entry(FULL, key, cells[column], self.tick())
                self.ghosts.pop(key, None)
                new.append(cells[column])
            self.lease_page(lease, entry)
        published.length = len(lease.pages) * self.page_size
        if new:
            run = whole[first * self.page_bytes : len(lease.pages) * self.page_bytes]
            parent = lease.pages[first - 1].cell if first else None
            assert parent is None or isinstance(parent, int)
            self.log.append(PagesStored(lease.namespace, first * self.page_size, run, tuple(new), parent))

    def donate(self, lease: NaiveLease, whole: bytes, n: int, cell: Hashable, published: Published) -> None:
        key = (lease.namespace, whole[: 4 * n])
        page = self.entries[FULL].get(key)
        if page is None:
            published.refused[n] = "no-page"
        elif key in self.entries[RECURRENT]:
            published.refused[n] = "taken"
        else:
            self.entries[RECURRENT][key] = Entry(RECURRENT, key, cell, self.tick())
            published.donated.append(n)
            assert isinstance(page.cell, int)
            self.log.append(StateStored(lease.namespace, n, cell, page.cell))

    def evict(self, counts: Mapping[str, int]) -> GivenUp:
        given_up: GivenUp = []
        for kind, count in counts.items():
            for _ in range(count):
                victims = [entry for entry in self.entries[kind].values() if self.may_go(entry)]
                if not victims:
                    break
                given_up += self.give_up(min(victims, key=lambda entry: (self.rank(entry), entry.stamp)))
        return given_up

    def may_go(self, entry: Entry) -> bool:
        if entry.leases:
            return False
        size = len(entry.key[1]) + self.page_bytes
        return entry.kind == RECURRENT or not any(
            len(run) == size and space == entry.key[0] and run.startswith(entry.key[1])
            for space, run in self.entries[FULL]
        )

    def rank(self, entry: Entry) -> int:
        if entry.kind == FULL:
            return self.eviction.page_rank(entry.key in self.entries[RECURRENT])
        namespace, run = entry.key
        deeper = (key for key in self.entries[RECURRENT] if key[0] == namespace and len(key[1]) > len(run))
        return self.eviction.snapshot_rank(any(key[1].startswith(run) for key in deeper))

    def give_up(self, entry: Entry) -> GivenUp:
        del self.entries[entry.kind][entry.key]
        self.log.append(Removed(entry.kind, entry.cell))
        given_up: GivenUp = [(entry.kind, entry.cell)]
        if entry.kind == RECURRENT:
            return given_up
        self.ghosts[entry.key] = None
        if len(self.ghosts) > self.ghost_limit:
            del self.ghosts[next(iter(self.ghosts))]
        snapshot = self.entries[RECURRENT].get(entry.key)
        return given_up + (self.give_up(snapshot) if snapshot else [])

    def reset(self) -> GivenUp:
        given_up: GivenUp = []
        for kind, entries in self.entries.items():
            for entry in entries.values():
                if entry.leases:
                    self.forgotten[kind, entry.cell] = entry
                else:
                    given_up.append((kind, entry.cell))
            entries.clear()
        self.ghosts.clear()
        for lease in self.leases:
            lease.stale = True
        self.log.append(Cleared())
        return given_up

    def evictable(self, kind: GroupKind) -> int:
        return sum(not entry.leases for entry in self.entries[kind].values())

    def protected(self, kind: GroupKind) -> int:
        return sum(one.forgotten or one.leases > 0 for (other, _), one in self.inventory().items() if other == kind)

    def inventory(self) -> dict[tuple[str, Hashable], Holding]:
        live = [entry for entries in self.entries.values() for entry in entries.values()]
        listed: dict[tuple[str, Hashable], Holding]
        listed = {(one.kind, one.cell): Holding(len(one.key[1]) // 4, one.leases) for one in live}
        for (kind, cell), one in self.forgotten.items():
            listed[kind, cell] = Holding(len(one.key[1]) // 4, one.leases, True)
        return listed
