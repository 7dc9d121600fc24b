"""White box: an engine's own inventory against the ownership tables and against what the judge knows.

The tables of `spec.ownership` are read here over the engine's own states, after every operation. A black-box law
sees a wrong owner only when somebody is hurt; here it shows at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from milepost.conformance.errors import AdapterError
from milepost.conformance.outcome import Broken, Line
from milepost.conformance.whitebox_tables import GONE, PAGE_STATES, PRIVATE, SLOT_STATES, held_path
from milepost.spec.answers import Hit, Pages, Slots
from milepost.spec.capabilities import Capabilities
from milepost.spec.faults import Fault
from milepost.spec.operations import Open
from milepost.spec.ownership import PageState, SlotState
from milepost.spec.payload import Provenance, find_provenance
from milepost.spec.seam import Accounted, Adapter, Holding, Inventoried
from milepost.spec.state import Claim, State
from milepost.spec.words import NULL, Cell

Inventory = Mapping[Cell, Holding]


class InventoryObserver:
    """Compares the inventory of one cache with the tables after every operation."""

    def __init__(self, adapter: Adapter, capabilities: Capabilities) -> None:
        if not isinstance(adapter, Inventoried):
            raise AdapterError("the capabilities offer an inventory, and the adapter has none")
        self._adapter: Inventoried = adapter
        self._pools = capabilities.pools
        slots = {group.pool for group in capabilities.groups if not group.kind.paged}
        pages = {group.pool for group in capabilities.groups if group.kind.paged}
        self._states = {
            pool: (SLOT_STATES if pool in slots else frozenset()) | (PAGE_STATES if pool in pages else frozenset())
            for pool in self._pools
        }
        self._last: Inventory = {}
        self._compared: dict[Cell, tuple[Holding, int]] = {}

    def __call__(self, before: State, line: Line, after: State) -> Fault | None:
        """Return the first disagreement."""
        inventory = self._adapter.inventory()
        self._check_form(inventory)
        found = next(self._faults(before, line, after, inventory), None)
        self._last = inventory
        return found

    def _check_form(self, inventory: Inventory) -> None:
        for (pool, index), holding in inventory.items():
            if pool not in self._states:
                raise AdapterError(f"the inventory names an unknown pool '{pool}'")
            if holding.state not in self._states[pool]:
                raise AdapterError(f"the inventory gives {pool} {index} the unknown state '{holding.state}'")

    def _faults(self, before: State, line: Line, after: State, inventory: Inventory) -> Iterator[Fault]:
        yield from self._uncounted(inventory)
        if isinstance(line.operation, Open) and isinstance(line.answer, Hit):
            yield from _offered_privately(after, after.claims[line.operation.request], inventory)
        for claim in after.claims.values():
            yield from _leases(claim, inventory, after)
            yield from _roles(claim, inventory, after)
        yield from self._revoked(before, after, inventory)
        yield from self._ownerless(after, inventory)
        yield from _owned_though_published(inventory)
        yield from self._mislabelled(after, inventory)

    def _uncounted(self, inventory: Inventory) -> Iterator[Fault]:
        """Every usable cell is there once, and no lease count is negative."""
        counts = Counter(pool for pool, _ in inventory)
        for pool, size in self._pools.items():
            if counts[pool] < size:
                numbers = {"inventory": counts[pool], "pool": size}
                detail = "cells are missing from the inventory"
                yield Fault("leak", "", cell=(pool, NULL), numbers=numbers, detail=detail)
        for cell, holding in inventory.items():
            if holding.leases < 0:
                yield Fault("lease-underflow", holding.owner, cell=cell, numbers={"leases": holding.leases})

    def _revoked(self, before: State, after: State, inventory: Inventory) -> Iterator[Fault]:
        """What a request holds before and after an operation was not free in between."""
        for claim in after.claims.values():
            earlier = before.claims.get(claim.request)
            for cell in claim.cells & earlier.cells if earlier else ():
                old, new = self._last.get(cell), inventory.get(cell)
                if old and new and old.state != new.state and (old.state, new.state) not in held_path(cell, after):
                    detail = f"it went from {old.state} to {new.state}, and no row leads there while it is held"
                    yield Fault("double-grant", claim.request, cell=cell, other=new.owner, detail=detail)

    def _ownerless(self, after: State, inventory: Inventory) -> Iterator[Fault]:
        """A private cell belongs to a request that is open or in flight."""
        for cell, holding in inventory.items():
            if holding.state in PRIVATE and holding.owner not in after.claims:
                detail = f"it is {holding.state}, and its owner is gone"
                yield Fault("leak", holding.owner, cell=cell, detail=detail)

    def _mislabelled(self, after: State, inventory: Inventory) -> Iterator[Fault]:
        """The endpoint of a published state is the length that its content encodes; a page may end anywhere."""
        for cell, holding in inventory.items():
            content = after.contents.get(cell)
            if holding.state not in SNAPSHOTS or not isinstance(content, int) or not content:
                continue
            if self._compared.get(cell) == (holding, content):
                continue
            origin = find_provenance(reversed(after.streams), content)
            if origin is None or origin.length != holding.endpoint:
                yield _mislabel(cell, holding, origin)
            self._compared[cell] = (holding, content)


def _mislabel(cell: Cell, holding: Holding, origin: Provenance | None) -> Fault:
    length = origin.length if origin else NULL
    code = "stale-state" if origin is None else "torn-hit" if length < holding.endpoint else "over-advanced"
    return Fault(
        code,
        "",
        cell=cell,
        position=holding.endpoint,
        found=origin,
        detail="the inventory gives it another endpoint than its content has",
        numbers={"endpoint": holding.endpoint, "content": length},
    )


SNAPSHOTS = frozenset({SlotState.DONATED.value, SlotState.PROTECTED.value})
PUBLISHED = SNAPSHOTS | {PageState.SHARED.value}

OWN_PAGES = (PageState.PRIVATE, PageState.SHARED, PageState.TOMBSTONE)
"""What a page can be that a request names and does not read of others; a tombstone is computed again where it is."""


def _offered_privately(after: State, claim: Claim, inventory: Inventory) -> Iterator[Fault]:
    """No cell of a hit belongs to another request."""
    for cell in claim.leases | claim.restoring:
        holding = inventory.get(cell)
        if holding and (holding.owner or holding.state in PRIVATE) and holding.owner != claim.request:
            detail = f"the inventory says {holding.state}, owned by {holding.owner or 'nobody'}"
            numbers = {"hit": claim.hit}
            yield Fault("reads-private", claim.request, cell=cell, other=holding.owner, detail=detail, numbers=numbers)


def _owned_though_published(inventory: Inventory) -> Iterator[Fault]:
    """What is published belongs to an entry of the cache and to no request."""
    for cell, holding in inventory.items():
        if holding.owner and holding.state in PUBLISHED:
            detail = f"the inventory says {holding.state}, and that {holding.owner} owns it"
            yield Fault("reads-private", holding.owner, cell=cell, other=holding.owner, detail=detail)


def _leases(claim: Claim, inventory: Inventory, after: State) -> Iterator[Fault]:
    """What an open request reads is published, with a lease for each reader."""
    for cell in () if claim.closed else claim.leases | claim.restoring:
        holding = inventory.get(cell)
        if holding is None or holding.state in PRIVATE:
            continue
        if holding.state in (*GONE, PageState.TOMBSTONE):
            yield Fault("evicted-while-leased", claim.request, cell=cell, other=claim.request,
                        detail=f"the inventory says {holding.state}")
        readers = sum(cell in one.leases or cell in one.restoring for one in after.open_claims())
        if holding.leases < readers:
            numbers = {"leases": holding.leases, "readers": readers}
            yield Fault("lease-underflow", claim.request, cell=cell, numbers=numbers,
                        detail="fewer leases than open requests that read it")


def _roles(claim: Claim, inventory: Inventory, after: State) -> Iterator[Fault]:
    """What a table names as live, frozen or its own page is so in the inventory, and belongs to that request."""
    for name, part in claim.table.items():
        pool = after.pools[name]
        if isinstance(part, Slots):
            if part.live not in (NULL, part.source):
                yield from _role(claim, inventory, (pool, part.live), (SlotState.LIVE,))
            for position, slot in part.frozen:
                yield from _role(claim, inventory, (pool, slot), (SlotState.FROZEN,), position)
        elif isinstance(part, Pages):
            for index in part.columns:
                if index != NULL and (pool, index) not in claim.leases:
                    yield from _role(claim, inventory, (pool, index), OWN_PAGES)


def _role(
    claim: Claim, inventory: Inventory, cell: Cell, states: tuple[str, ...], endpoint: int | None = None
) -> Iterator[Fault]:
    holding = inventory.get(cell)
    if holding is None:
        return
    if holding.state not in states:
        detail = f"the inventory says {holding.state}, and the table of {claim.request} names it as {states[0]}"
        yield Fault("double-grant", claim.request, cell=cell, other=holding.owner, detail=detail)
    elif holding.state in PRIVATE and holding.owner != claim.request:
        detail = f"the inventory gives it to {holding.owner or 'nobody'}"
        yield Fault("double-grant", claim.request, cell=cell, other=holding.owner, detail=detail)
    elif endpoint is not None and holding.endpoint != endpoint:
        numbers = {"endpoint": holding.endpoint, "table": endpoint}
        yield Fault("illegal-boundary", claim.request, cell=cell, position=endpoint, numbers=numbers,
                    detail="the inventory and the table give it different positions")


def inventory_observer(adapter: Adapter, capabilities: Capabilities) -> InventoryObserver:
    """Return the observer for an adapter whose capabilities offer an inventory."""
    return InventoryObserver(adapter, capabilities)


def accounting_complaint(adapter: Accounted, capabilities: Capabilities, before: State, after: State) -> str | None:
    """Return how the counts of `account` break the promise `exact-accounting`, None where they keep it.

    They add up to the pool after every operation; once the last request has gone, every cell is free or evictable.
    """
    counts = adapter.account()
    idle = not after.claims and not after.flights
    for pool, size in capabilities.pools.items():
        cells = counts.get(pool, {})
        listed = ", ".join(f"{count} {heading}" for heading, count in cells.items()) or "nothing"
        if sum(cells.values()) != size:
            return f"pool {pool} has {size} cells and its counts are {listed}"
        if min(cells.values(), default=0) < 0:
            return f"pool {pool} has a negative count: {listed}"
        held = cells.get("private", 0) + cells.get("protected", 0)
        if idle and held:
            return f"nothing is open or in flight, and pool {pool} still counts {listed}"
    return None


class AccountingObserver:
    """Holds one cache to `exact-accounting`."""

    def __init__(self, adapter: Adapter, capabilities: Capabilities) -> None:
        if not isinstance(adapter, Accounted):
            raise AdapterError("the capabilities offer accounting, and the adapter has none")
        self._adapter: Accounted = adapter
        self._capabilities = capabilities

    def __call__(self, before: State, line: Line, after: State) -> Broken | None:
        """Return the first sum that is not what it should be."""
        complaint = accounting_complaint(self._adapter, self._capabilities, before, after)
        if complaint is None:
            return None
        return Broken("exact-accounting", f"after operation {line.index}, {line.operation.verb}: {complaint}")


def accounting_observer(adapter: Adapter, capabilities: Capabilities) -> AccountingObserver:
    """Return the observer for an adapter that promises exact accounting."""
    return AccountingObserver(adapter, capabilities)
