"""The prefix index of one full-attention group and, if wanted, one recurrent group.

This is the simple form: two dictionaries, and every question is answered by looking through them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from milepost.optimized.index.answers import (
    FULL,
    KINDS,
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
from milepost.optimized.index.errors import BadLength, BadTokens, Broken, CellInUse, NothingNew, NotLeased
from milepost.optimized.index.packing import TOKEN_BYTES, Tokens, packed
from milepost.spec.geometry import floor_to
from milepost.spec.policies import BranchAndPromptEnd, EvictionPolicy, FreezePolicy, LeastRecentlyUsed
from milepost.spec.words import GroupKind

Key = tuple[Hashable, bytes]


class Entry:
    """One published cell."""

    def __init__(self, kind: GroupKind, key: Key, cell: Hashable, stamp: int) -> None:
        self.kind, self.key, self.cell, self.stamp, self.leases = kind, key, cell, stamp, 0


class Match:
    """What a prompt finds: pure, and nothing is held by it."""

    tokens: bytes
    namespace: Hashable
    cap: int | None
    length: int
    cells: np.ndarray
    state: Hashable
    kv_length: int
    known_length: int
    branch: int
    reasons: dict[GroupKind, str]


class Lease:
    """A request's claim on a prefix; only the index changes it."""

    def __init__(self, namespace: Hashable, prompt: int, branch: int, epoch: int) -> None:
        self.namespace, self.prompt, self.branch, self.epoch = namespace, prompt, branch, epoch
        self.pages: list[Entry] = []
        self.snapshot: Entry | None = None
        self.length = 0
        self.stale = False


class PrefixIndex:
    def __init__(
        self,
        page_size: int,
        grid: int | None = None,
        *,
        states: bool = True,
        ghosts: int = 0,
        freeze: FreezePolicy | None = None,
        eviction: EvictionPolicy | None = None,
        listened: bool = False,
    ) -> None:
        self.page_size, self.grid, self.states, self.ghost_limit = page_size, grid or page_size, states, ghosts
        if page_size < 1 or self.grid < 1 or self.grid % page_size or ghosts < 0:
            raise BadLength("page_size starts at 1, the grid is a multiple of it, and ghosts start at 0")
        self.freeze = freeze or BranchAndPromptEnd()
        self.eviction = eviction or LeastRecentlyUsed()
        self.page_bytes = page_size * TOKEN_BYTES
        self.listened = listened
        self.clock = self.epoch = self.generation = 0
        self.entries: dict[GroupKind, dict[Key, Entry]] = {FULL: {}, RECURRENT: {}}
        self.ghosts: dict[Key, None] = {}
        self.leases: set[Lease] = set()
        self.forgotten: dict[tuple[GroupKind, Hashable], Entry] = {}
        self.log: list[Event] = []

    # Finding.

    def match(self, tokens: Tokens, namespace: Hashable = (), cap: int | None = None) -> Match:
        """Look up the longest prefix to resume from; nothing changes. `cap` bounds the hit; the branch point not."""
        prompt = packed(tokens)
        match = Match()
        match.tokens, match.namespace, match.cap = prompt, namespace, cap
        match.kv_length = self._run(self.entries[FULL], namespace, prompt, 0)
        match.known_length = self._run(self.ghosts, namespace, prompt, match.kv_length)
        last = len(prompt) // TOKEN_BYTES - 1
        top = floor_to(self.grid, min(match.kv_length, last))
        at = [n for n in range(self.grid, top + 1, self.grid) if not self.states or self._at(RECURRENT, match, n)]
        match.length = max((n for n in at if cap is None or n <= cap), default=0)
        snapshot = self._at(RECURRENT, match, match.length)
        match.state = snapshot.cell if snapshot else None
        ends = range(self.page_size, match.length + 1, self.page_size)
        match.cells = np.array([self._at(FULL, match, end).cell for end in ends], np.int32)  # type: ignore[union-attr]
        point = floor_to(self.grid, min(match.known_length, last))
        match.branch = point if point > match.length else 0
        match.reasons = self._reasons(match, top, max(at, default=0))
        return match

    def _run(self, keys: Mapping[Key, object], namespace: Hashable, prompt: bytes, start: int) -> int:
        while (start + self.page_size) * TOKEN_BYTES <= len(prompt):
            if (namespace, prompt[: (start + self.page_size) * TOKEN_BYTES]) not in keys:
                return start
            start += self.page_size
        return start

    def _at(self, kind: GroupKind, match: Match, n: int) -> Entry | None:
        return self.entries[kind].get((match.namespace, match.tokens[: n * TOKEN_BYTES]))

    def _reasons(self, match: Match, top: int, deepest: int) -> dict[GroupKind, str]:
        prefix = (match.namespace, match.tokens[: match.kv_length * TOKEN_BYTES])
        going_on = (key for key in (*self.entries[FULL], *self.ghosts) if key[0] == prefix[0])
        full = Reason.UNSEEN
        if any(len(key[1]) > len(prefix[1]) and key[1].startswith(prefix[1]) for key in going_on):
            full = Reason.DIVERGED
        if match.known_length > match.kv_length:
            full = Reason.EVICTED
        if match.kv_length == floor_to(self.page_size, len(match.tokens) // TOKEN_BYTES):
            full = Reason.COMPLETE
        if not self.states:
            return {FULL: full if match.length == top else Reason.CAPPED}
        if match.length < deepest:
            return {FULL: full, RECURRENT: Reason.CAPPED}
        return {FULL: full, RECURRENT: Reason.COMPLETE if match.length == top else Reason.NO_SNAPSHOT}

    def refresh(self, match: Match) -> Match:
        """Return the match if nothing on its path has changed since, else a new one."""
        return self.match(match.tokens, match.namespace, match.cap)

    def refresh_all(self, matches: Sequence[Match]) -> list[Match]:
        """Refresh the matches of all waiting requests."""
        return [self.refresh(match) for match in matches]

    def has_state(self, lease: Lease, tokens: Tokens, length: int) -> bool:
        """Tell whether a state of exactly the first `length` tokens can be matched, now, whoever published it."""
        return (lease.namespace, packed(tokens)[: length * TOKEN_BYTES]) in self.entries[RECURRENT]

    # Leases.

    def lease(self, match: Match) -> Lease:
        """Lease a hit (refreshed first): its pages and its snapshot; only where it ends becomes recent."""
        match = self.refresh(match)
        lease = Lease(match.namespace, len(match.tokens) // TOKEN_BYTES, match.branch, self.epoch)
        self.leases.add(lease)
        for end in range(self.page_size, match.length + 1, self.page_size):
            self._lease_page(lease, self._at(FULL, match, end))
        if match.length:
            lease.pages[-1].stamp = self._tick()
            lease.snapshot = self._at(RECURRENT, match, match.length)
        if lease.snapshot:
            lease.snapshot.leases += 1
            lease.snapshot.stamp = self._tick()
        return lease

    def _lease_page(self, lease: Lease, entry: Entry | None) -> None:
        assert entry is not None
        entry.leases += 1
        lease.pages.append(entry)
        lease.length += self.page_size

    def _tick(self) -> int:
        self.clock += 1
        return self.clock

    def release_state(self, lease: Lease) -> GivenUp:
        """End the claim on the snapshot, before the rest; its cell is returned where a reset has forgotten it."""
        self._must_be_leased(lease)
        entry, lease.snapshot = lease.snapshot, None
        return self._release_entry(entry) if entry else []

    def release(self, lease: Lease) -> GivenUp:
        """End a lease; return what a reset forgot and nobody else reads: pages, the deepest first, then the state."""
        self._must_be_leased(lease)
        given_up = [one for entry in reversed(lease.pages) for one in self._release_entry(entry)]
        given_up += self.release_state(lease)
        self.leases.remove(lease)
        return given_up

    def _must_be_leased(self, lease: Lease) -> None:
        if lease not in self.leases:
            raise NotLeased("the lease was released already, or is another index's")

    def _release_entry(self, entry: Entry) -> GivenUp:
        entry.leases -= 1
        if entry.leases or (entry.kind, entry.cell) not in self.forgotten:
            return []
        del self.forgotten[entry.kind, entry.cell]
        return [(entry.kind, entry.cell)]

    # Publishing.

    def publish(
        self,
        lease: Lease,
        tokens: Tokens,
        cells: Sequence[int],
        states: Mapping[int, Hashable] | None = None,
        *,
        start: int = 0,
        adopt: bool = True,
    ) -> Published:
        """Publish whole pages and states; see the final form for what is demanded."""
        self._must_be_leased(lease)
        states = states or {}
        run = packed(tokens) if cells or states else b""
        if start % self.page_size or start > lease.length or len(cells) != len(run) // self.page_bytes:
            raise BadLength("start is a page boundary within the lease, with one cell for each whole page of tokens")
        stop = start + len(cells) * self.page_size
        if stop <= lease.length and not states:
            raise NothingNew("the lease reaches as far, and there is no state")
        for n in states:
            if n < 1 or n % self.grid or n > stop:
                raise BadLength(f"no state can stand at {n}")
        new = cells[(lease.length - start) // self.page_size :]
        held = {entry.cell for entry in self._entries(FULL)}
        if len(set(new)) != len(new) or held & set(new):
            raise CellInUse("a page is held already, or was given twice")
        slots = list(states.values())
        if len(set(slots)) != len(slots) or {entry.cell for entry in self._entries(RECURRENT)} & set(slots):
            raise CellInUse("a slot is held already, or was given twice")
        published = Published(lease.length)
        if lease.stale:
            published.refused = dict.fromkeys(states, "no-page")
            return published
        self.generation += 1
        prefix = lease.pages[start // self.page_size - 1].key[1] if start else b""
        whole = prefix + run
        self._publish_pages(lease, whole, list(new), adopt, published)
        for n in sorted(states):
            self._donate(lease, whole, n, states[n], published)
        return published

    def _entries(self, kind: GroupKind) -> list[Entry]:
        return [*self.entries[kind].values(), *(entry for entry in self.forgotten.values() if entry.kind == kind)]

    def _publish_pages(self, lease: Lease, whole: bytes, cells: list[int], adopt: bool, published: Published) -> None:
        first, new, size = lease.length, [], self.page_size
        parent = lease.pages[-1].cell if lease.pages else None
        for cell in cells:
            key = (lease.namespace, whole[: (lease.length + size) * TOKEN_BYTES])
            entry = self.entries[FULL].get(key)
            if entry and not adopt:
                published.blocked = True
                break
            if entry:
                published.repointed[lease.length // size] = entry.cell  # type: ignore[assignment]
                published.duplicates.append(cell)
                first, parent = lease.length + size, entry.cell
            else:
                entry = self.entries[FULL][key] = Entry(FULL, key, cell, self._tick())
                self.ghosts.pop(key, None)
                new.append(cell)
            self._lease_page(lease, entry)
        published.length = lease.length
        if new and self.listened:
            run = whole[first * TOKEN_BYTES : lease.length * TOKEN_BYTES]
            self.log.append(PagesStored(lease.namespace, first, run, tuple(new), parent))  # type: ignore[arg-type]

    def _donate(self, lease: Lease, whole: bytes, n: int, cell: Hashable, published: Published) -> None:
        key = (lease.namespace, whole[: n * TOKEN_BYTES])
        if key not in self.entries[FULL]:
            published.refused[n] = "no-page"
        elif key in self.entries[RECURRENT]:
            published.refused[n] = "taken"
        else:
            self.entries[RECURRENT][key] = Entry(RECURRENT, key, cell, self._tick())
            published.donated.append(n)
            if self.listened:
                self.log.append(StateStored(lease.namespace, n, cell, self.entries[FULL][key].cell))  # type: ignore

    # Giving up.

    def evict(self, counts: Mapping[GroupKind, int]) -> GivenUp:
        """Evict cells of each kind one by one, lowest (rank, stamp) first; fewer where nothing is left.

        A page takes the snapshot at its end with it, which follows it in the list and is not counted.
        """
        if any(kind not in KINDS or count < 0 for kind, count in counts.items()):
            raise BadLength("counts start at 0, and kinds are full and recurrent")
        given_up: GivenUp = []
        for kind, count in counts.items():
            for _ in range(count):
                victims = [entry for entry in self.entries[kind].values() if self._may_go(entry)]
                if not victims:
                    break
                given_up += self._give_up(min(victims, key=lambda entry: (self._rank(entry), entry.stamp)))
        return given_up

    def _may_go(self, entry: Entry) -> bool:
        if entry.leases:
            return False
        size = len(entry.key[1]) + self.page_bytes
        return entry.kind == RECURRENT or not any(
            len(run) == size and namespace == entry.key[0] and run.startswith(entry.key[1])
            for namespace, run in self.entries[FULL]
        )

    def _rank(self, entry: Entry) -> int:
        if entry.kind == FULL:
            return self.eviction.page_rank(entry.key in self.entries[RECURRENT])
        namespace, run = entry.key
        deeper = (key for key in self.entries[RECURRENT] if key[0] == namespace and len(key[1]) > len(run))
        return self.eviction.snapshot_rank(any(key[1].startswith(run) for key in deeper))

    def _give_up(self, entry: Entry) -> GivenUp:
        self.generation += 1
        del self.entries[entry.kind][entry.key]
        if self.listened:
            self.log.append(Removed(entry.kind, entry.cell))
        given_up: GivenUp = [(entry.kind, entry.cell)]
        if entry.kind == RECURRENT:
            return given_up
        self.ghosts[entry.key] = None
        if len(self.ghosts) > self.ghost_limit:
            del self.ghosts[next(iter(self.ghosts))]
        snapshot = self.entries[RECURRENT].get(entry.key)
        return given_up + (self._give_up(snapshot) if snapshot else [])

    def reset(self) -> GivenUp:
        """Forget everything published; return the cells that nobody reads. Leases stay, and are stale from then on."""
        given_up: GivenUp = []
        for kind in (RECURRENT, FULL):
            for entry in self.entries[kind].values():
                if entry.leases:
                    self.forgotten[kind, entry.cell] = entry
                else:
                    given_up.append((kind, entry.cell))
            self.entries[kind].clear()
        self.ghosts.clear()
        self.epoch += 1
        self.generation += 1
        for lease in self.leases:
            lease.stale = True
        if self.listened:
            self.log.append(Cleared())
        return given_up

    # Counting.

    def evictable(self, kind: GroupKind) -> int:
        """Count the published cells that nobody leases."""
        return sum(not entry.leases for entry in self.entries[kind].values())

    def protected(self, kind: GroupKind) -> int:
        """Count the leased cells, those that a reset forgot too."""
        return sum(entry.leases > 0 for entry in self._entries(kind))

    def inventory(self) -> dict[tuple[GroupKind, Hashable], Holding]:
        """Return every cell that the index holds."""
        return {
            (kind, entry.cell): Holding(
                len(entry.key[1]) // TOKEN_BYTES, entry.leases, (kind, entry.cell) in self.forgotten
            )
            for kind in KINDS
            for entry in self._entries(kind)
        }

    def freeze_points(self, lease: Lease, start: int, stop: int) -> tuple[int, ...]:
        """Return where a step over [start, stop) should leave a snapshot, ascending."""
        return self.freeze.points(lease.prompt, lease.branch, self.grid, start, stop)

    def events(self) -> list[Event]:
        """Return what happened since the last call, where the index was built with `listened=True`."""
        log, self.log = self.log, []
        return log

    def check(self) -> None:
        """Verify every invariant; Broken names the first that does not hold."""
        for key in self.entries[RECURRENT]:
            if key not in self.entries[FULL]:
                raise Broken("a snapshot stands at the end of a published page", str(key))


__all__ = ["BadTokens", "Lease", "Match", "PrefixIndex"]
