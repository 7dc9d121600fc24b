"""The prefix index of one full-attention group and, if wanted, one recurrent group."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence

from milepost.optimized.index.answers import FULL, KINDS, RECURRENT, Cleared, Event, GivenUp, Holding, Published
from milepost.optimized.index.checking import check, inventory
from milepost.optimized.index.edge import Edge, holder
from milepost.optimized.index.errors import BadCell, BadLength, BadTokens, CellInUse, NothingNew, NotLeased, StaleMatch
from milepost.optimized.index.leases import Lease
from milepost.optimized.index.matching import Match, look_up, seek, still_true
from milepost.optimized.index.packing import TOKEN_BYTES, Tokens, packed
from milepost.optimized.index.publishing import Offer, donate, publish_pages
from milepost.optimized.index.tree import Tree
from milepost.spec.policies import BranchAndPromptEnd, EvictionPolicy, FreezePolicy, LeastRecentlyUsed
from milepost.spec.words import GroupKind

UNKNOWN_LEASE = "the lease was released already, or is another index's"


class PrefixIndex:
    """Published prefixes: pages, and with `states` the snapshots that stand at some of their ends.

    `page_size` and `grid` are in tokens; hits and states end at multiples of `grid` (default: any page end). `ghosts`
    is how many evicted pages are remembered by their tokens, by custom as many as the pool has. With `listened`,
    events are kept until `events()` is called. One thread at a time; no call blocks, recurses or reads a clock.
    """

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
        self.page_size, self.grid, self.states = page_size, page_size if grid is None else grid, states
        if page_size < 1 or self.grid < 1 or self.grid % page_size or ghosts < 0:
            raise BadLength("page_size starts at 1, the grid is a multiple of it, and ghosts start at 0")
        self.freeze = freeze or BranchAndPromptEnd()
        self.tree = Tree(page_size, ghosts, eviction or LeastRecentlyUsed(), listened)
        self.leases: set[Lease] = set()
        self.epoch = 0

    # Finding.

    def match(self, tokens: Tokens, namespace: Hashable = (), cap: int | None = None) -> Match:
        """Look up the longest prefix to resume from; nothing changes. `cap` bounds the hit, and not the branch point.

        The hit ends before the last token, which is always computed. BadTokens where the tokens are none.
        """
        match = Match(self.tree, packed(tokens), namespace, cap)
        if cap is not None and cap < 0:
            raise BadLength(f"a cap starts at 0, not {cap}")
        try:
            look_up(match, self.page_size, self.grid, self.states)
        except TypeError as error:
            raise BadTokens(f"a namespace can be a key, and a cap is a number: {error}") from None
        return match

    def refresh(self, match: Match) -> Match:
        """Return the match itself if nothing that it saw has changed, else a new one."""
        generation = self.tree.generation
        if match.generation == generation:
            return match
        if not still_true(match):
            return self.match(match.tokens, match.namespace, match.cap)
        match.generation = generation
        return match

    def refresh_all(self, matches: Sequence[Match]) -> list[Match]:
        """Refresh the matches of all waiting requests; those that nothing has happened to cost one comparison."""
        generation = self.tree.generation
        return [match if match.generation == generation else self.refresh(match) for match in matches]

    def has_state(self, lease: Lease, tokens: Tokens, length: int) -> bool:
        """Tell whether a state of exactly the first `length` tokens can be matched now, whoever published it.

        `tokens` are all of the request's from token 0. The lease saves the walk to where it stands, unless it is stale.
        """
        if not self.states or length < 1 or length % self.page_size or lease.namespace not in self.tree.roots:
            return False
        run, target = packed(tokens), length // self.page_size
        edge: Edge
        if lease.edge is None or lease.stale:
            edge, end = self.tree.roots[lease.namespace], 0
        else:
            end = min(target, lease.end)
            edge = holder(lease.edge, end)
        place = seek(self.tree, edge, end, run, end * self.tree.page_bytes, target)
        return place is not None and place.snapshot_at(target) is not None

    def freeze_points(self, lease: Lease, start: int, stop: int) -> tuple[int, ...]:
        """Return where a step over [start, stop) should leave a snapshot, ascending, as the freeze policy wants it."""
        return self.freeze.points(lease.prompt, lease.branch, self.grid, start, stop)

    # Leases.

    def lease(self, match: Match) -> Lease:
        """Lease a hit: its pages and its snapshot; only its last page and the snapshot become recent.

        StaleMatch where the match is no longer true.
        """
        tree = self.tree
        if match.tree is not tree or (match.generation != tree.generation and self.refresh(match) is not match):
            raise StaleMatch("another index gave the match, or what it saw has changed since: refresh it first")
        lease = Lease(self, match.namespace, len(match.tokens) // TOKEN_BYTES, match.branch)
        self.leases.add(lease)
        if match.edge is not None:
            edge, end = match.edge, match.end
            tree.stand(edge, end)
            edge.stamps[end - edge.start - 1] = tree.tick()
            lease.edge, lease.end = edge, end
        if match.snapshot is not None:
            tree.claim_snapshot(match.snapshot)
            lease.snapshot = match.snapshot
        return lease

    def release_state(self, lease: Lease) -> GivenUp:
        """End the claim on the snapshot before the rest, once the restore has executed.

        Its cell is returned where a reset has forgotten it and nobody else reads it.
        """
        self.must_be_leased(lease)
        return [] if lease.snapshot is None else self._release_snapshot(lease)

    def release(self, lease: Lease) -> GivenUp:
        """End a lease; return what a reset forgot and nobody else reads: pages, the deepest first, then the state."""
        if lease not in self.leases:
            raise NotLeased(UNKNOWN_LEASE)
        self.leases.remove(lease)
        given_up: GivenUp = []
        if lease.edge is not None:
            edge = holder(lease.edge, lease.end)
            if lease.epoch != self.epoch:
                freed = self.tree.abandon(edge, lease.end)
                for cell in freed:
                    del self.tree.held_pages[cell]
                given_up = [(FULL, cell) for cell in freed]
            else:
                self.tree.leave(edge, lease.end)
        if lease.snapshot is not None:
            given_up += self._release_snapshot(lease)
        return given_up

    def _release_snapshot(self, lease: Lease) -> GivenUp:
        snapshot, lease.snapshot = lease.snapshot, None
        if snapshot is None or not self.tree.release_snapshot(snapshot):
            return []
        del self.tree.held_states[snapshot.cell]
        return [(RECURRENT, snapshot.cell)]

    def must_be_leased(self, lease: Lease) -> None:
        """Raise NotLeased unless a lease is open."""
        if lease not in self.leases:
            raise NotLeased(UNKNOWN_LEASE)

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
        """Make whole pages, and states by the length that they encode, matchable; the lease then reaches as far.

        `tokens` begin at `start`, a page boundary that the lease reaches, with one of `cells` for each whole page of
        them; pages that are leased already are passed over. Where a page is published already the lease goes on with
        that one, and the caller's own is a duplicate; with `adopt=False`, for a step in flight that still uses the
        caller's pages, the publish stops there instead, and is to be tried again. A stale lease publishes nothing.
        BadLength, BadCell, CellInUse, NothingNew or NotLeased before anything has changed.
        """
        self.must_be_leased(lease)
        states = {} if states is None else states
        run = packed(tokens) if len(cells) or states else b""
        offer = self._offer(lease, run, cells, start, adopt)
        if not offer.cells and not states:
            raise NothingNew("the lease reaches as far, and there is no state")
        self._must_be_new_states(states, start + len(run) // TOKEN_BYTES)
        published = Published(lease.length)
        if lease.stale:
            published.refused = dict.fromkeys(states, "no-page")
            return published
        self.tree.generation += 1
        if offer.cells:
            publish_pages(self.tree, lease, offer, published)
        for n in sorted(states):
            self._donate(lease, offer, n, states[n], published)
        return published

    def _offer(self, lease: Lease, run: bytes, cells: Sequence[int], start: int, adopt: bool) -> Offer:
        """Return what lies behind the lease; raise where it does not fit or is held already."""
        size, first = self.tree.page_bytes, lease.end - start // self.page_size
        if start < 0 or start % self.page_size or first < 0 or len(cells) != len(run) // size:
            raise BadLength("start is a page boundary within the lease, with one cell for each whole page of tokens")
        try:
            new = array("i", cells[first:]).tolist()
        except (TypeError, OverflowError) as error:
            raise BadCell(f"a page cell is an integer from 0 to 2**31 - 1: {error}") from None
        if new and min(new) < 0:
            raise BadCell(f"a page cell is an integer from 0 to 2**31 - 1, not {min(new)}")
        if len(set(new)) != len(new) or not self.tree.held_pages.keys().isdisjoint(new):
            raise CellInUse("a page is held already, or was given twice")
        return Offer(run, first * size, new, adopt)

    def _must_be_new_states(self, states: Mapping[int, Hashable], stop: int) -> None:
        for n in states:
            if n < 1 or n % self.grid or n > stop or not self.states:
                raise BadLength(f"no state can stand at {n}: its grid is {self.grid}, and the tokens end at {stop}")
        try:
            cells = set(states.values())
        except TypeError as error:
            raise BadCell(f"a state cell can be a key: {error}") from None
        if len(cells) != len(states) or not self.tree.held_states.keys().isdisjoint(cells):
            raise CellInUse("a slot is held already, or was given twice")

    def _donate(self, lease: Lease, offer: Offer, n: int, cell: Hashable, published: Published) -> None:
        reason = donate(self.tree, lease, offer, n // self.page_size, cell)
        if reason:
            published.refused[n] = reason
        else:
            published.donated.append(n)

    # Giving up.

    def evict(self, counts: Mapping[GroupKind, int]) -> GivenUp:
        """Evict cells of each kind one by one, lowest (rank, stamp) first; fewer where nothing is left.

        A page takes the snapshot at its end with it, which follows it in the list and is not counted.
        """
        for kind, count in counts.items():
            if kind not in KINDS or count < 0:
                raise BadLength(f"there is no eviction of {count} {kind}: counts start at 0, kinds are full, recurrent")
        self.tree.generation += 1
        given_up: GivenUp = []
        for kind, count in counts.items():
            evict_first = self.tree.evict_first_page if kind == FULL else self.tree.evict_first_snapshot
            for _ in range(count):
                evicted = evict_first()
                if not evicted:
                    break
                given_up += evicted
        return given_up

    def reset(self) -> GivenUp:
        """Forget everything published; return the cells that nobody reads. Open leases stay, stale from then on."""
        self.tree.generation += 1
        self.epoch += 1
        given_up = self.tree.forget()
        if self.tree.log is not None:
            self.tree.log.append(Cleared())
        return given_up

    # Counting and telling.

    def evictable(self, kind: GroupKind) -> int:
        """Count the published cells that nobody leases; exact, at no cost."""
        return self.tree.evictable_pages if kind == FULL else self.tree.evictable_snapshots

    def protected(self, kind: GroupKind) -> int:
        """Count the leased cells, those that a reset forgot too; exact, at no cost."""
        return self.tree.protected_pages if kind == FULL else self.tree.protected_snapshots

    def events(self) -> list[Event]:
        """Return what happened since the last call; nothing where the index was not built to be `listened` to."""
        log = self.tree.log
        if not log:
            return []
        self.tree.log = []
        return log

    def inventory(self) -> dict[tuple[GroupKind, Hashable], Holding]:
        """Return every cell that the index holds; a walk over everything, for tests and audits."""
        return inventory(self)

    def check(self) -> None:
        """Verify everything that the index believes; Broken names the first invariant that does not hold."""
        check(self)
