"""An engine with real memory of a kind, for tests of what the harness writes there and reads back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from milepost.conformance.driver import Driver
from milepost.conformance.outcome import Outcome
from milepost.spec.answers import Frozen, Grant, Hit, Pages, Phase, Refused, Slots, Table
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.operations import Operation
from milepost.spec.payload import GARBAGE, ZERO, Content
from milepost.spec.seam import Adapter
from milepost.spec.words import Cell, GroupKind, Namespace

from .endless import PAGED, Endless, schedule

KV = Group("kv", GroupKind.FULL, "kv", page_size=4, executes="engine")
STATE = Group("state", GroupKind.RECURRENT, "state", executes="engine")
HYBRID = replace(PAGED, groups=(KV, STATE), pools={"kv": 1_000, "state": 100}, explicit_freeze=True)
ONE_POOL = replace(HYBRID, groups=(replace(KV, pool="cells"), replace(STATE, pool="cells")), pools={"cells": 1_000})
GROUPS = {"kv": KV, "state": STATE}


class Tensors:
    """Real memory of a kind: a dictionary whose cells hold what was last put there, garbage at first."""

    def __init__(self) -> None:
        self.cells: dict[Cell, Content] = {}
        self.log: list[str] = []

    def read(self, cell: Cell, group: str) -> Content:
        found = self.cells.get(cell, GARBAGE)
        if group == "kv":
            return found if isinstance(found, tuple) else (found,) * 4
        return GARBAGE if isinstance(found, tuple) else found

    def write(self, cell: Cell, group: str, content: Content) -> None:
        self.log.append(f"write {group} {cell[1]}")
        if isinstance(content, tuple):
            old = self.read(cell, "kv")
            assert isinstance(old, tuple)
            content = tuple(was if one is None else one for was, one in zip(old, content, strict=True))
        self.cells[cell] = content

    def run(self, phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
        """Carry phases out, and return them."""
        for phase in phases:
            moved = {(pool, target): self.cells.get((pool, source), GARBAGE) for pool, source, target in phase.copies}
            self.cells |= moved | dict.fromkeys(phase.zeros, ZERO)
        return phases


class Engine(Endless):
    """A cache over `Tensors` that gives each request a live slot of its number, and freezes into that plus 50."""

    def __init__(self, capabilities: Capabilities = HYBRID) -> None:
        super().__init__(capabilities)
        self.tensors = Tensors()
        self.frozen: dict[str, int] = {}
        self.pool = capabilities.group("state").pool
        self.offer: Hit | None = None

    def read(self, cell: Cell, group: str) -> Content:
        return self.tensors.read(cell, group)

    def write(self, cell: Cell, group: str, content: Content) -> None:
        self.tensors.write(cell, group, content)
        self.note("write", group, cell[1])

    def slot(self, request: str) -> int:
        """Return the live slot of a request, far from its pages."""
        return 20 + int(request[1:])

    def table(self, request: str) -> Table:
        frozen = ((self.lengths[request], self.frozen[request]),) if request in self.frozen else ()
        return {**super().table(request), "state": Slots(self.slot(request), frozen)}

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        super().open(request, tokens, namespace, content)
        if self.offer is None:
            return Hit(0, {"kv": Pages()})
        pages = self.offer.table["kv"]
        assert isinstance(pages, Pages)
        self.pages[request], self.lengths[request] = pages.columns, self.offer.length
        return self.offer

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        answer = super().extend(request, to, draft)
        slot = self.slot(request) if self.lengths[request] else None
        return replace(answer, initial_state={"state": slot}) if isinstance(answer, Grant) else answer

    def freeze(self, request: str) -> Frozen | Refused:
        self.note("freeze", request)
        self.frozen[request] = slot = self.slot(request) + 50
        phases = self.tensors.run((Phase(((self.pool, self.slot(request), slot),)),))
        return Frozen(self.lengths[request], (("state", slot),), self.table(request), phases=phases)


def run(engine: Adapter, *operations: Operation) -> Outcome:
    return Driver(engine).run(schedule(*operations))


def same(engine: Engine, outcome: Outcome) -> None:
    """Assert that memory holds what the judge says, wherever that is known."""
    assert not outcome.failed, outcome.fault
    for cell, content in outcome.state.contents.items():
        if isinstance(content, tuple):
            found = engine.read(cell, "kv")
            assert isinstance(found, tuple)
            assert [two for one, two in zip(content, found, strict=True) if one is not None] == [
                one for one in content if one is not None
            ]
        elif content is not None:
            assert engine.read(cell, "state") == content
