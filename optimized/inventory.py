"""What the cache holds, cell by cell and in numbers, and whether its books agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.optimized.errors import CacheError
from milepost.optimized.pools import FREE, PUBLISHED
from milepost.spec.geometry import columns_for
from milepost.spec.ownership import PageState, SlotState
from milepost.spec.seam import Holding
from milepost.spec.words import NULL, Cell

if TYPE_CHECKING:
    from milepost.optimized.cache import PrefixCache
    from milepost.optimized.requests import Request


class Inconsistent(CacheError, AssertionError):
    """Two books of the cache disagree: a bug of the cache."""


def inventory(cache: PrefixCache) -> dict[Cell, Holding]:
    """Return the ownership state of every cell."""
    published = {(cache.pool_of(key).name, cell): held for (key, cell), held in cache.index.inventory().items()}
    holdings: dict[Cell, Holding] = {}
    for pool in cache.pools.values():
        for cell, (state, owner, endpoint) in enumerate(zip(pool.states, pool.owners, pool.endpoints, strict=True)):
            leases = published[pool.name, cell].leases if state == PUBLISHED else 0
            if state == PUBLISHED:
                state = published_state(pool is cache.slots, leases)
            holdings[pool.name, cell] = Holding(state, cache.names.get(owner, ""), endpoint, leases)
    return holdings


def published_state(slot: bool, leases: int) -> str:
    """Return the word of the ownership tables for a published slot or page."""
    if not slot:
        return PageState.SHARED.value
    return SlotState.PROTECTED.value if leases else SlotState.DONATED.value


def account(cache: PrefixCache) -> dict[str, dict[str, int]]:
    """Return cells by pool and by `free`, `private`, `evictable`, `protected`."""
    return {
        name: {
            "free": len(pool.free),
            "private": pool.private,
            "evictable": sum(cache.index.evictable(key) for key in cache.sharing[name]),
            "protected": sum(cache.index.protected(key) for key in cache.sharing[name]),
        }
        for name, pool in cache.pools.items()
    }


def verify(cache: PrefixCache) -> None:
    """Verify pools, index and requests against each other; Inconsistent says which disagree."""
    listed = cache.index.inventory()
    for pool in cache.pools.values():
        pool.check()
        held = [cell for key, cell in listed if cache.pool_of(key) is pool]
        theirs = set(held)
        if len(held) > len(theirs):
            raise Inconsistent(f"a cell of pool '{pool.name}' is held for two groups")
        ours = {cell for cell, state in enumerate(pool.states) if state == PUBLISHED}
        if ours != theirs:
            raise Inconsistent(f"pool '{pool.name}' calls {sorted(ours)} published, and the index holds {theirs}")
        if pool is cache.slots and cache.audit and cache.audit.donations.keys() != ours:
            raise Inconsistent(f"slots {sorted(ours)} are published, and the audit knows {[*cache.audit.donations]}")
    cache.index.check()
    _verify_owners(cache)
    for name, counts in account(cache).items():
        if sum(counts.values()) != cache.capabilities.pools[name]:
            raise Inconsistent(f"the accounts of pool '{name}' do not add up: {counts}")


def _verify_owners(cache: PrefixCache) -> None:
    """Every private cell is named by the request that owns it, once."""
    claims = {claim.serial: claim for claim in cache.requests.values()}
    claims |= {claim.serial: claim for flight in cache.flights for claim, _, _ in flight.spans}
    named = [one for claim in claims.values() for one in _private_cells(cache, claim)]
    owned = [
        (pool.name, cell, owner)
        for pool in cache.pools.values()
        for cell, (state, owner) in enumerate(zip(pool.states, pool.owners, strict=True))
        if state not in (FREE, PUBLISHED)
    ]
    if sorted(named) != sorted(owned):
        raise Inconsistent(f"requests hold {sorted(named)}, and the pools gave out {sorted(owned)}")
    if claims.keys() != cache.names.keys():
        raise Inconsistent(f"{sorted(claims)} are open or in flight, and {sorted(cache.names)} have names")


def _private_cells(cache: PrefixCache, claim: Request) -> list[tuple[str, int, int]]:
    leased = columns_for(cache.page_size, claim.lease.length)
    cells = [(cache.pages.name, cell, claim.serial) for cell in claim.columns[leased:]]
    for name, side in claim.sides.items():
        shared = cache.index.leased_columns(claim.lease, name)
        pool = cache.group_pools[name].name
        private = [cell for column, cell in enumerate(side.cells) if cell != NULL and column not in shared]
        cells += [(pool, cell, claim.serial) for cell in private]
    slots = [claim.live, *([claim.frozen.cell] if claim.frozen else []), *claim.drafts]
    return cells + [(cache.slots.name, cell, claim.serial) for cell in slots if cell != NULL]
