"""What the cache holds, cell by cell and in numbers, and whether its books agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.optimized.declaration import KV, STATE
from milepost.optimized.errors import CacheError
from milepost.optimized.index import FULL, RECURRENT
from milepost.optimized.pools import FREE, PUBLISHED
from milepost.spec.geometry import columns_for
from milepost.spec.ownership import PageState, SlotState
from milepost.spec.seam import Holding
from milepost.spec.words import NULL, Cell

if TYPE_CHECKING:
    from milepost.optimized.cache import PrefixCache
    from milepost.optimized.requests import Request

KINDS = {KV: FULL, STATE: RECURRENT}


class Inconsistent(CacheError, AssertionError):
    """Two books of the cache disagree: a bug of the cache."""


def inventory(cache: PrefixCache) -> dict[Cell, Holding]:
    """Return the ownership state of every cell."""
    published = cache.index.inventory()
    holdings: dict[Cell, Holding] = {}
    for pool in (cache.pages, cache.slots):
        for cell, (state, owner, endpoint) in enumerate(zip(pool.states, pool.owners, pool.endpoints, strict=True)):
            leases = published[KINDS[pool.name], cell].leases if state == PUBLISHED else 0
            if state == PUBLISHED:
                state = published_state(pool.name, leases)
            holdings[pool.name, cell] = Holding(state, cache.names.get(owner, ""), endpoint, leases)
    return holdings


def published_state(pool: str, leases: int) -> str:
    """Return the word of the ownership tables for a published cell."""
    if pool == KV:
        return PageState.SHARED.value
    return SlotState.PROTECTED.value if leases else SlotState.DONATED.value


def account(cache: PrefixCache) -> dict[str, dict[str, int]]:
    """Return cells by pool and by `free`, `private`, `evictable`, `protected`."""
    return {
        pool.name: {
            "free": len(pool.free),
            "private": pool.private,
            "evictable": cache.index.evictable(KINDS[pool.name]),
            "protected": cache.index.protected(KINDS[pool.name]),
        }
        for pool in (cache.pages, cache.slots)
    }


def verify(cache: PrefixCache) -> None:
    """Verify pools, index and requests against each other; Inconsistent says which disagree."""
    for pool in (cache.pages, cache.slots):
        pool.check()
        theirs = {cell for kind, cell in cache.index.inventory() if kind is KINDS[pool.name]}
        ours = {cell for cell, state in enumerate(pool.states) if state == PUBLISHED}
        if ours != theirs:
            raise Inconsistent(f"pool '{pool.name}' calls {sorted(ours)} published, and the index holds {theirs}")
        if pool.name == STATE and cache.audit and cache.audit.donations.keys() != ours:
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
        for pool in (cache.pages, cache.slots)
        for cell, (state, owner) in enumerate(zip(pool.states, pool.owners, strict=True))
        if state not in (FREE, PUBLISHED)
    ]
    if sorted(named) != sorted(owned):
        raise Inconsistent(f"requests hold {sorted(named)}, and the pools gave out {sorted(owned)}")
    if claims.keys() != cache.names.keys():
        raise Inconsistent(f"{sorted(claims)} are open or in flight, and {sorted(cache.names)} have names")


def _private_cells(cache: PrefixCache, claim: Request) -> list[tuple[str, int, int]]:
    leased = columns_for(cache.page_size, claim.lease.length)
    cells = [(KV, cell, claim.serial) for cell in claim.columns[leased:]]
    slots = [claim.live, *([claim.frozen.cell] if claim.frozen else [])]
    return cells + [(STATE, cell, claim.serial) for cell in slots if cell != NULL]
