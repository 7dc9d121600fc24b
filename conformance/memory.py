"""The harness as model runner where an engine's memory can be reached: it writes what the forward would write.

A step's writes are kept back until the engine's next call that may copy, or the landing: an engine whose bookkeeping
runs ahead of the device meets the memory that it would meet there. A draft column holds garbage until the landing that
accepts its token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from milepost.conformance.sampling import flight_of
from milepost.spec.answers import Answer, Frozen, Hit, Landing, Launched, Phase, Slots, Table, named_cells
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.launch import accept
from milepost.spec.operations import Land
from milepost.spec.payload import ZERO, Content
from milepost.spec.reads import FaultFound, entries_of
from milepost.spec.seam import Adapter, Remembered
from milepost.spec.state import Claim, State
from milepost.spec.words import Cell

Roles = dict[Cell, Group]
"""What each cell is used for: groups may share a pool, and one cell reads differently in each of them."""


class Memory:
    """Moves payloads between the judge's contents and the engine's memory, for groups with `executes="engine"`."""

    def __init__(self, adapter: Adapter, capabilities: Capabilities) -> None:
        self._groups = {group.name: group for group in capabilities.groups if group.executes == "engine"}
        if self._groups and not isinstance(adapter, Remembered):
            raise TypeError("a group declares executes='engine' and the adapter has no read and write")
        self._engine: Any = adapter
        self._pending: dict[Cell, tuple[Group, Content]] = {}

    def hold_back(self, state: State) -> None:
        """Remember what the newest step writes; `state` is the judge's state right after its launch."""
        for cell, (request, first, last) in state.flights[-1].writes.items() if self._groups else ():
            content = state.contents[cell]
            group = self._group(cell, self._roles([state.claims[request].table]), content)
            if isinstance(content, tuple):
                content = tuple(one if first <= entry < last else None for entry, one in enumerate(content))
            if group is not None:
                self._pending[cell] = group, content

    def flush(self) -> None:
        """Write what was held back: the device has caught up."""
        for cell, (group, content) in self._pending.items():
            self._engine.write(cell, group.name, content)
        self._pending.clear()

    def accept(self, state: State, operation: Land) -> State:
        """Write what the accepted drafts of a landing step hold; return the state of the judge in which they stand.

        The forward wrote them at the launch; which of them are the request's own text is known from now on only, and
        no one may read them before.
        """
        after, flight = state.copy(), flight_of(state, operation.step)
        for request, count in operation.accepted.items() if self._groups else ():
            claim = after.claims[request]
            try:
                accept(after, flight, claim, count)
            except FaultFound:
                return state  # what the judge will see for itself
            self._write_changes(state, after, claim)
        return after

    def _write_changes(self, state: State, after: State, claim: Claim) -> None:
        for cell, group in self._roles([claim.table]).items():
            content, old = after.contents.get(cell), state.contents.get(cell)
            if isinstance(content, tuple):
                former = entries_of(old, len(content))
                content = tuple(one if one != was else None for one, was in zip(content, former, strict=True))
            if content != old:
                self._engine.write(cell, group.name, content)

    def before(self, state: State) -> dict[Cell, Content]:
        """Read the slots whose content the engine's next call may change and not report."""
        slots = self._roles((claim.table for claim in state.claims.values()), Slots) if self._groups else {}
        return {cell: self._engine.read(cell, group.name) for cell, group in slots.items()}

    def differences(self, state: State, answer: Answer, earlier: dict[Cell, Content]) -> dict[Cell, Content]:
        """Compare memory with what an answer's phases must have left; return the readings that differ.

        What was never written stays so, whatever an earlier tenant left in it, unless the engine's call changed it.
        Where the harness holds back what a step writes, memory lags behind the judge by our own doing.
        """
        if not self._groups or not isinstance(answer, Hit | Launched | Landing | Frozen):
            return {}
        predicted, touched = _predict(state, answer.phases)
        given: list[Table] = [*answer.tables.values(), getattr(answer, "table", {})]
        roles = self._roles([*(claim.table for claim in state.claims.values()), *given])
        readings: dict[Cell, Content] = {}
        for cell in sorted({*touched, *earlier, *self._read_next(state, answer)} - self._pending.keys()):
            expected = predicted.get(cell)
            group = self._group(cell, roles, expected)
            if group is None or (expected is None and group.kind.paged):
                continue
            actual = self._engine.read(cell, group.name)
            found = _page(group, expected, actual) if group.kind.paged else actual
            unseen = expected is None and earlier.get(cell, actual) == actual
            if found != expected and not unseen:
                readings[cell] = found
        return readings

    def _read_next(self, state: State, answer: Answer) -> Roles:
        """Return the cells that the next reads will look at: what a hit offers, what the requests of a launch read."""
        tables = [answer.table] if isinstance(answer, Hit) else []
        if isinstance(answer, Launched):
            for claim in state.planned():
                table = answer.tables.get(claim.request, claim.table)
                states = claim.planned.initial_state.items() if claim.planned else ()
                tables += [table, {name: Slots(index) for name, index in states if index is not None}]
        return self._roles(tables)

    def _roles(self, tables: Iterable[Table], form: type = object) -> Roles:
        """Return the cells that tables name in the engine's own groups."""
        parts = [(self._groups[name], part) for table in tables for name, part in table.items()
                 if name in self._groups and isinstance(part, form)]
        return {cell: group for group, part in parts
                for cell in named_cells({group.name: part}, {group.name: group.pool})}

    def _group(self, cell: Cell, roles: Roles, content: Content) -> Group | None:
        """Return the group in whose memory a cell lies: by its role, or else by the form of its content."""
        if cell in roles:
            return roles[cell]
        fitting = [group for group in self._groups.values() if group.pool == cell[0]]
        alike = [group for group in fitting if group.kind.paged == isinstance(content, tuple)]
        return next(iter(alike or fitting), None)


def _predict(state: State, phases: Iterable[Phase]) -> tuple[dict[Cell, Content], set[Cell]]:
    """Return what cells hold after the reported phases, and which of them these touched."""
    predicted, touched = dict(state.contents), set[Cell]()
    for phase in phases:
        values = [((pool, target), predicted.get((pool, source))) for pool, source, target in phase.copies]
        values += [(cell, ZERO) for cell in phase.zeros]
        predicted.update(values)
        touched.update(cell for cell, _ in values)
    return predicted, touched


def _page(group: Group, expected: Content, actual: Content) -> Content:
    """Return what a page holds: memory decides, and entries that were never written stay so."""
    count = group.page_size // group.stride
    wanted, found = entries_of(expected, count), entries_of(actual, count)
    merged = tuple(None if one is None else other for one, other in zip(wanted, found, strict=True))
    return expected if merged == wanted else merged
