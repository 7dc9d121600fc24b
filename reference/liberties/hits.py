"""Liberties of the hit: how long it is, when it is visible, and how its state reaches the live slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from milepost.reference.cache import ReferenceCache
from milepost.reference.declaration import without_promises
from milepost.reference.pools import SlotCells
from milepost.reference.requests import Entry, Key, Request
from milepost.spec.answers import Frozen, Grant, Hit, Launched, Phase, Refused
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.ownership import SLOT_ROWS, Guard, Row
from milepost.spec.payload import ZERO, Content
from milepost.spec.words import NULL, Cell, Namespace


class ShorterHits(ReferenceCache):
    """Offers the shallowest boundary that can be resumed, and nothing at all to every other request."""

    def declare(self) -> Capabilities:
        return without_promises(super().declare(), "not-inert")

    def hit_length(self, claim: Request, shared: int) -> int:
        deepest = shallower = 0 if claim.serial % 2 else super().hit_length(claim, shared)
        while shallower:
            deepest = shallower
            shallower = super().hit_length(claim, deepest - 1)
        return deepest


class VisibleLater(ReferenceCache):
    """Offers what is published only after one more step was launched."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.published_at: dict[Key, int] = {}

    def declare(self) -> Capabilities:
        return without_promises(super().declare(), "not-inert")

    def make_entry(self, claim: Request, cell: int, depth: int) -> Entry:
        entry = super().make_entry(claim, cell, depth)
        self.published_at[entry.key] = self.steps
        return entry

    def hit_length(self, claim: Request, shared: int) -> int:
        while shared and self.published_at[self.key(claim, shared)] >= self.steps:
            shared -= self.page_size
        return super().hit_length(claim, shared)


class CopiesAtOpen(ReferenceCache):
    """Restores at open, where a slot can be had; the snapshot stays protected until the first step has landed."""

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        answer = super().open(request, tokens, namespace, content)
        claim = self.requests.get(request)
        if isinstance(answer, Refused) or claim is None or claim.source is None:
            return answer
        if not self.make_room(self.slot_cells.pool, 1):
            return answer
        self.grant_live(claim)
        return replace(answer, table=claim.table(), phases=self.first_phases([claim]))


class CopiesAtExtend(ReferenceCache):
    """Leases and restores with the first extend; if that is refused, the open was never there."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), leases_on_open=False)

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        claim = self.requests[request]
        answer = super().extend(request, to, draft)
        if isinstance(answer, Refused) and claim.live == NULL:
            self.depart(claim, keep=False)
            return replace(answer, tables={request: claim.table()})
        return answer


HAND_OVER = Row(
    "hand over", "protected", "live", (Guard("leases", "==", 1),), "the last reader takes the snapshot as its own"
)


class HandsOverLastCopy(ReferenceCache):
    """Gives the snapshot itself to a request that is its only reader, instead of a copy."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.slot_cells = SlotCells(self.slot_cells.pool, (*SLOT_ROWS, HAND_OVER))

    def declare(self) -> Capabilities:
        return replace(super().declare(), inventories=False)

    def grant_live(self, claim: Request) -> None:
        source = claim.source
        if claim.live != NULL or source is None or self.slot_cells[source.cell].leases > 1:
            return super().grant_live(claim)
        if self.snapshots.get(source.key) is source:
            del self.snapshots[source.key]
        occupant = self.slot_cells.move("hand over", source.cell)
        occupant.owner, occupant.leases = claim.serial, 0
        claim.live, claim.live_is_set, claim.source = source.cell, True, None
        return None


class OutsideState(ReferenceCache):
    """Keeps donated states in a store of its own as well, and supplies them after their snapshots were evicted.

    The judge sees no copy for that: it reads the state group's memory, which is this cache's own.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.memory: dict[int, Content] = {}
        self.outside: dict[Key, Content] = {}

    def declare(self) -> Capabilities:
        declared = super().declare()
        groups = tuple(one if one.kind.paged else replace(one, executes="engine") for one in declared.groups)
        return replace(declared, groups=groups)

    def read(self, cell: Cell, group: str) -> Content:
        """Return what a slot holds; `group` is always the recurrent one."""
        return self.memory.get(cell[1])

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write a slot as a forward would."""
        self.memory[cell[1]] = content

    def carry_out(self, phases: tuple[Phase, ...]) -> None:
        """Copy and zero in this cache's memory what the answer reports."""
        for phase in phases:
            moved = {target: self.memory.get(source) for _, source, target in phase.copies}
            self.memory.update(moved)
            self.memory.update((index, ZERO) for _, index in phase.zeros)

    def launch(self) -> Launched:
        answer = super().launch()
        self.carry_out(answer.phases)
        return answer

    def freeze(self, request: str) -> Frozen | Refused:
        answer = super().freeze(request)
        if isinstance(answer, Frozen):
            self.carry_out(answer.phases)
        return answer

    def donate(self, row: str, claim: Request, cell: int, position: int) -> bool:
        donated = super().donate(row, claim, cell, position)
        if donated:
            self.outside[self.key(claim, position)] = self.memory.get(cell)
        return donated

    def has_state(self, claim: Request, length: int) -> bool:
        room = self.slot_cells.pool.free or any(self.evictable_snapshots(self.slot_cells.pool))
        return super().has_state(claim, length) or bool(room and self.key(claim, length) in self.outside)

    def claim_snapshot(self, claim: Request) -> None:
        if super().has_state(claim, claim.hit):
            return super().claim_snapshot(claim)
        self.make_room(self.slot_cells.pool, 1)
        claim.live = self.slot_cells.occupy(
            "restore", claim.serial, claim.hit, source_leases=1, source_endpoint=claim.hit
        )
        claim.live_is_set = True
        self.memory[claim.live] = self.outside[self.key(claim, claim.hit)]
        return None

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        answer = super().open(request, tokens, namespace, content)
        if isinstance(answer, Refused) or self.requests[request].live == NULL:
            return answer
        cleared = (self.slot_cells.pool.name, self.requests[request].live)
        return replace(answer, phases=(Phase(zeros=(cleared,)),))

    def forget_all(self) -> None:
        super().forget_all()
        self.outside.clear()


class PinsLonger(ReferenceCache):
    """Protects the snapshot until the request closes, though its copy was made long ago."""

    def end_restore(self, claim: Request) -> None:
        pass
