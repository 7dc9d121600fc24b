"""A hand that plays a cache: tokens as text, each step launched and landed at once, samples known beforehand."""

from __future__ import annotations

from collections.abc import Mapping

from milepost.reference.cache import ReferenceCache
from milepost.spec.answers import Grant, Hit, Launched, Pages, Refused, Slots, Table
from milepost.spec.words import NULL, Cell, Namespace


class Player:
    """Drives one cache with the short forms that a test wants."""

    def __init__(self, cache: ReferenceCache) -> None:
        self.cache = cache
        self.said: dict[str, tuple[int, ...]] = {}

    def open(
        self, name: str, text: str, said: str = "", namespace: Namespace = (), content: Mapping[int, str] | None = None
    ) -> Hit:
        """Open a request that must be admitted; `said` is what the model will sample."""
        answer = self.try_open(name, text, said, namespace, content)
        assert isinstance(answer, Hit)
        return answer

    def try_open(
        self, name: str, text: str, said: str = "", namespace: Namespace = (), content: Mapping[int, str] | None = None
    ) -> Hit | Refused:
        """Open a request that may be refused."""
        self.said[name] = tuple(map(ord, said))
        return self.cache.open(name, tuple(map(ord, text)), namespace, content or {})

    def plan(self, name: str, to: int) -> Grant:
        """Plan an extend that must be granted."""
        answer = self.cache.extend(name, to)
        assert isinstance(answer, Grant)
        return answer

    def land(self, launched: Launched) -> None:
        """Land a step, and let the host see every token that its requests have sampled."""
        spans = next(flight.spans for flight in self.cache.flights if flight.step == launched.step)
        sampled = {claim.name: self.said[claim.name][len(claim.tokens) - claim.prompt :] for claim, _, _ in spans}
        self.cache.land(launched.step, {}, sampled)

    def run(self, name: str, to: int) -> Grant:
        """Plan, launch and land one extend."""
        grant = self.plan(name, to)
        self.land(self.cache.launch())
        return grant

    def whole(self, name: str, text: str, said: str = "", namespace: Namespace = ()) -> Hit:
        """Open a request, run all its tokens, and close it with everything published."""
        hit = self.open(name, text, said, namespace)
        if said:
            self.run(name, len(text))
        self.run(name, len(text) + len(said))
        self.cache.close(name, keep=True)
        return hit


def columns(table: Table) -> tuple[int, ...]:
    """Return the page columns of a table."""
    part = table["kv"]
    assert isinstance(part, Pages)
    return part.columns


def slots(table: Table) -> Slots:
    """Return the slots of a table."""
    part = table["state"]
    assert isinstance(part, Slots)
    return part


def inconsistencies(cache: ReferenceCache) -> list[str]:
    """Compare the inventory with everything that names a cell; return what does not add up."""
    wanted: dict[Cell, tuple[str, str, int]] = {}
    pools = cache.pools_of_groups
    flying = [claim for flight in cache.flights for claim, _, _ in flight.spans if claim.closing]
    for claim in {claim.serial: claim for claim in (*cache.requests.values(), *flying)}.values():
        sides = {name: (side.cells, side.leases) for name, side in claim.sides.items()}
        for name, (cells, leases) in {claim.full: (claim.columns, claim.leases), **sides}.items():
            for column, index in enumerate(cells):
                if column not in leases and index != NULL:
                    wanted[pools[name], index] = ("private", claim.name, 0)
            for entry in leases.values():
                cell = (pools[name], entry.cell)
                wanted[cell] = ("shared", "", wanted.get(cell, ("", "", 0))[2] + 1)
        slots = pools.get(claim.recurrent, "")
        if claim.live != NULL:
            wanted[slots, claim.live] = ("live", claim.name, 0)
        if claim.frozen:
            wanted[slots, claim.frozen.cell] = ("frozen", claim.name, 0)
        wanted |= {(slots, index): ("draft", claim.name, 0) for index in claim.drafts}
        if claim.source:
            cell = (slots, claim.source.cell)
            wanted[cell] = ("protected", "", wanted.get(cell, ("", "", 0))[2] + 1)
    for entry in cache.pages.values():
        wanted.setdefault((pools[entry.group or cache.layout.full.name], entry.cell), ("shared", "", 0))
    for entry in cache.snapshots.values():
        wanted.setdefault((cache.slot_cells.pool.name, entry.cell), ("donated", "", 0))
    found = {
        cell: (one.state, one.owner, one.leases) for cell, one in cache.inventory().items() if one.state != "free"
    }
    free = {(name, index) for name, pool in cache.pools.items() for index in pool.free}
    wrong = [f"{cell}: {found.get(cell)}, not {wanted.get(cell)}" for cell in found.keys() | wanted.keys()
             if found.get(cell) != wanted.get(cell)]
    return wrong + [f"{cell} is free and {found[cell]}" for cell in free & found.keys()]
