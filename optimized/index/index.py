"""The prefix index of one full-attention group and, where wanted, a recurrent group, windows and compressed groups."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, KeysView, Mapping, Sequence

from milepost.optimized.index.answers import (
    FULL,
    RECURRENT,
    Cleared,
    Event,
    GivenUp,
    Holding,
    Published,
    SidePublished,
    SideStored,
)
from milepost.optimized.index.checking import check, inventory
from milepost.optimized.index.edge import NOWHERE, Edge, holder
from milepost.optimized.index.errors import BadCell, BadLength, BadTokens, CellInUse, NothingNew, NotLeased, StaleMatch
from milepost.optimized.index.leases import Lease
from milepost.optimized.index.matching import Match, look_up, seek, still_true
from milepost.optimized.index.packing import TOKEN_BYTES, Tokens, packed, whole
from milepost.optimized.index.publishing import Offer, donate, page_before, publish_pages
from milepost.optimized.index.sides import must_fit_beside
from milepost.optimized.index.tree import AnySide, Tree
from milepost.optimized.index.windows import Window
from milepost.spec.capabilities import Group
from milepost.spec.policies import BranchAndPromptEnd, EvictionPolicy, FreezePolicy, LeastRecentlyUsed

BEYOND_CELLS = 1 << 31
"""Page cells lie below."""

UNKNOWN_LEASE = "the lease was released already, or is another index's"


class PrefixIndex:
    """Published prefixes: pages, and with `states` the snapshots that stand at some of their ends.

    `page_size` and `grid` are in tokens; hits and states end at multiples of `grid` (default: any page end). `ghosts`
    is how many evicted pages are remembered by their tokens, by custom as many as the pool has. With `listened`,
    events are kept until `events()` is called. `sides` are the window and compressed groups beside the full one, each
    known by its name. One thread at a time; no call blocks, recurses or reads a clock.
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
        sides: Sequence[Group] = (),
    ) -> None:
        self.page_size, self.grid, self.states = page_size, page_size if grid is None else grid, states
        if not whole(page_size, self.grid, ghosts):
            raise BadLength("page_size, grid and ghosts are whole numbers")
        if page_size < 1 or self.grid < 1 or self.grid % page_size or ghosts < 0:
            raise BadLength("page_size starts at 1, the grid is a multiple of it, and ghosts start at 0")
        self.freeze = freeze or BranchAndPromptEnd()
        must_fit_beside(sides, self.grid)
        self.tree = Tree(page_size, ghosts, eviction or LeastRecentlyUsed(), listened, sides)
        self._sides = {side.name: side for side in self.tree.sides}
        self._evict_first: dict[str, Callable[[], GivenUp]] = {
            FULL.value: self.tree.evict_first_page, RECURRENT.value: self.tree.evict_first_snapshot,
            **{side.name: side.evict_first for side in self.tree.sides},
        }
        self.leases: set[Lease] = set()
        self.epoch = 0

    # Finding.

    def match(self, tokens: Tokens, namespace: Hashable = (), cap: int | None = None) -> Match:
        """Look up the longest prefix to resume from; nothing changes. `cap` bounds the hit, and not the branch point.

        The hit ends before the last token, which is always computed. BadTokens where the tokens are none.
        """
        match = Match(self.tree, packed(tokens), namespace, cap)
        if cap is not None and not (whole(cap) and cap >= 0):
            raise BadLength(f"a cap is a whole number from 0, not {cap}")
        try:
            look_up(match, self.page_size, self.grid, self.states)
        except TypeError as error:
            raise BadTokens(f"a namespace can be a key, and a cap is a number: {error}") from None
        return match

    def refresh(self, match: Match) -> Match:
        """Return the match itself if nothing that it saw has changed, else a new one."""
        generation = self.tree.generation
        if match.tree is not self.tree:
            raise StaleMatch("another index gave the match")
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

        Of a window only what the hit needs is leased, and all of that becomes recent. StaleMatch where the match is no
        longer true.
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
            for side in tree.sides:
                match.side(side.name)  # it stays what it is now, whatever becomes of the path
                side.lease(lease, match.path, match.live, match.length)
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
        for side in self.tree.sides:
            given_up += side.release(lease)
        if lease.edge is not None:
            edge = holder(lease.edge, lease.end)
            if lease.epoch != self.epoch:
                freed = self.tree.abandon(edge, lease.end)
                for cell in freed:
                    del self.tree.held_pages[cell]
                given_up += [(FULL, cell) for cell in freed]
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
            if not (n.__class__ is int or whole(n)) or n < 1 or n % self.grid or n > stop or not self.states:
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

    def publish_side(self, lease: Lease, name: str, cells: Mapping[int, int], busy: int = NOWHERE) -> SidePublished:
        """Make whole pages of a side group matchable, given by column, where the lease covers the full pages there.

        Where a page is there already the lease goes on with that one; a duplicate in a column from `busy` on is in use
        by a step in flight, and to be offered again: a window passes it over, a compressed group, whose columns come
        in order behind those that are leased, stops there. A stale lease publishes nothing.
        """
        self.must_be_leased(lease)
        side = self._side(name)
        if not whole(*cells, busy):
            raise BadLength(f"columns are whole numbers: {list(cells)}, busy from {busy}")
        if misfit := side.misfit(lease, cells):
            raise BadLength(misfit)
        if not whole(*cells.values()) or any(not 0 <= cell < BEYOND_CELLS for cell in cells.values()):
            raise BadCell(f"a page cell is an integer from 0 to 2**31 - 1: {list(cells.values())}")
        new = set(cells.values())
        if len(new) < len(cells) or not side.held_pages.keys().isdisjoint(new):
            raise CellInUse(f"a page of '{name}' is held already, or was given twice")
        if lease.stale or not cells:
            return SidePublished()
        self.tree.generation += 1
        published = side.publish(lease, cells, busy)
        if self.tree.log is not None:
            self.tree.log.extend(self._stored(lease, side, cells, published))
        return published

    def leased_columns(self, lease: Lease, name: str) -> KeysView[int] | range:
        """Return the columns of a side group that a lease has: of a compressed group, the first ones."""
        self.must_be_leased(lease)
        side = self._side(name)
        return lease.windows[side.number].keys() if isinstance(side, Window) else range(lease.strip_ends[side.number])

    def _stored(
        self, lease: Lease, side: AnySide, cells: Mapping[int, int], published: SidePublished
    ) -> Iterator[SideStored]:
        for column in published.inserted:
            page = page_before(lease, side.page_of(column + 1))
            assert page is not None
            length = (column + 1) * side.page_size
            yield SideStored(lease.namespace, side.name, length, cells[column], page)

    def release_columns(self, lease: Lease, name: str, columns: Iterable[int]) -> GivenUp:
        """End the lease of a window's pages that slid out; return those that a reset has forgotten meanwhile."""
        self.must_be_leased(lease)
        side = self._side(name)
        if not isinstance(side, Window):
            raise BadLength(f"'{name}' is no window: its pages stay leased as long as the path")
        columns = list(columns)
        if len(set(columns)) < len(columns) or not lease.windows[side.number].keys() >= set(columns):
            raise NotLeased(f"the lease has not all of columns {columns} of '{name}'")
        return [one for column in columns for one in side.release_column(lease, column)]

    def _side(self, name: str) -> AnySide:
        side = self._sides.get(name)
        if side is None:
            raise BadLength(f"there is no side group '{name}'")
        return side

    # Giving up.

    def evict(self, counts: Mapping[str, int]) -> GivenUp:
        """Evict cells of each group one by one, lowest (rank, stamp) first; fewer where nothing is left.

        A full page takes the snapshot at its end with it, and what other groups have on it, which follow it in the list
        and are not counted. Nothing else ever falls with what is evicted.
        """
        for name, count in counts.items():
            if name not in self._evict_first or not (count.__class__ is int or whole(count)) or count < 0:
                known = ", ".join(self._evict_first)
                raise BadLength(f"there is no eviction of {count} {name}: counts start at 0, groups are {known}")
        self.tree.generation += 1
        given_up: GivenUp = []
        for name, count in counts.items():
            evict_first = self._evict_first[name]
            for _ in range(count):
                evicted = evict_first()
                if not evicted:
                    break
                given_up += evicted
        return given_up

    def evict_one_of(self, names: Sequence[str]) -> GivenUp:
        """Evict the cell that goes first among groups that share a pool, and what falls with it."""
        orders = [(order, name) for name in names if (order := self._order(name)) is not None]
        return self.evict({min(orders)[1]: 1}) if orders else []

    def _order(self, name: str) -> tuple[int, int] | None:
        if name == FULL:
            return self.tree.page_queue.order
        return self.tree.snapshot_queue.order if name == RECURRENT else self._side(name).order

    def reset(self) -> GivenUp:
        """Forget everything published; return the cells that nobody reads. Open leases stay, stale from then on."""
        self.tree.generation += 1
        self.epoch += 1
        given_up = self.tree.forget()
        if self.tree.log is not None:
            self.tree.log.append(Cleared())
        return given_up

    # Counting and telling.

    def evictable(self, name: str) -> int:
        """Count the published cells of a group that nobody leases; exact, at no cost."""
        if name == RECURRENT:
            return self.tree.evictable_snapshots
        return self.tree.evictable_pages if name == FULL else self._side(name).evictable_pages

    def protected(self, name: str) -> int:
        """Count the leased cells of a group, those that a reset forgot too; exact, at no cost."""
        if name == RECURRENT:
            return self.tree.protected_snapshots
        return self.tree.protected_pages if name == FULL else self._side(name).protected_pages

    def events(self) -> list[Event]:
        """Return what happened since the last call; nothing where the index was not built to be `listened` to."""
        log = self.tree.log
        if not log:
            return []
        self.tree.log = []
        return log

    def inventory(self) -> dict[tuple[str, Hashable], Holding]:
        """Return every cell that the index holds; a walk over everything, for tests and audits."""
        return inventory(self)

    def check(self) -> None:
        """Verify everything that the index believes; Broken names the first invariant that does not hold."""
        check(self)
