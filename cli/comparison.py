"""What two caches answer and hold, compared field by field.

Cells are compared up to a bijection that grows as answers name them. A pair ends when either of its cells was given up,
or granted anew; what neither has given up must stay paired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from milepost.spec.answers import Evicted, Pages, Phase, Slots, Table
from milepost.spec.ownership import PageState, SlotState
from milepost.spec.seam import Holding
from milepost.spec.words import NULL, Cell

FREE = PageState.FREE.value
GRANTED = frozenset({PageState.PRIVATE, SlotState.LIVE, SlotState.FROZEN, SlotState.DRAFT})

class Difference(AssertionError):
    """The two caches part: which operation, which field, both values."""


class Bijection:
    """Which cell of the reference stands for which of the cache's."""

    def __init__(self) -> None:
        self.there: dict[Cell, Cell] = {}
        self.back: dict[Cell, Cell] = {}

    def match(self, place: str, ours: Cell, theirs: Cell) -> None:
        """Pair two cells that stand in the same place; Difference where either has another partner."""
        if self.there.setdefault(ours, theirs) != theirs or self.back.setdefault(theirs, ours) != ours:
            partner = self.there.get(ours, "none")
            raise Difference(
                f"{place}: the reference says {_cell(ours)}, which is the cache's {_cell(partner)}, "
                f"and the cache says {_cell(theirs)}"
            )

    def part(self, pairs: list[tuple[Cell, Cell]]) -> None:
        """End pairs."""
        for ours, theirs in pairs:
            del self.there[ours], self.back[theirs]


class Comparison:
    """Compares what two caches answer and hold, operation by operation."""

    def __init__(self, pools: Mapping[str, str]) -> None:
        self.pools = pools
        self.cells = Bijection()
        self.held: tuple[dict[Cell, Holding], dict[Cell, Holding]] = {}, {}

    def operation(
        self, place: str, ours: Any, theirs: Any, held: tuple[dict[Cell, Holding], dict[Cell, Holding]]
    ) -> None:
        """Compare what two caches answered, and `held`, what each of them holds since; Difference where they part."""
        if isinstance(ours, Evicted):  # it names what nobody holds any more
            self.answers(place, ours, theirs)
            self.renew(*held)
        else:
            self.renew(*held)
            self.answers(place, ours, theirs)
        self.inventories(place)

    def renew(self, ours: dict[Cell, Holding], theirs: dict[Cell, Holding]) -> None:
        """End the pairs of cells that an operation has given up or granted anew."""
        before_ours, before_theirs = self.held
        self.cells.part([
            (mine, other) for mine, other in self.cells.there.items()
            if _ended(before_ours.get(mine), ours.get(mine)) or _ended(before_theirs.get(other), theirs.get(other))
        ])
        self.held = ours, theirs

    def answers(self, place: str, ours: Any, theirs: Any) -> None:
        """Compare two answers field by field."""
        if type(ours) is not type(theirs):
            raise _differs(place, ours, theirs)
        for field in fields(ours):
            self._values(f"{place}, {field.name}", field.name, getattr(ours, field.name), getattr(theirs, field.name))

    def _values(self, place: str, name: str, ours: Any, theirs: Any) -> None:
        match name:
            case "table":
                self._table(place, ours, theirs)
            case "tables":
                _same_keys(place, ours, theirs)
                for request, table in ours.items():
                    self._table(f"{place} of {request}", table, theirs[request])
            case "phases":
                _same_length(place, ours, theirs)
                for mine, other in zip(ours, theirs, strict=True):
                    self._phase(place, mine, other)
            case "cells" | "frozen":
                self._listed(place, ours, theirs)
            case "initial_state":
                _same_keys(place, ours, theirs)
                for group, slot in ours.items():
                    self._index(f"{place} of {group}", group, slot, theirs[group])
            case "text":  # for people
                pass
            case _:
                if ours != theirs:
                    raise _differs(place, ours, theirs)

    def _table(self, place: str, ours: Table, theirs: Table) -> None:
        _same_keys(place, ours, theirs)
        for group, part in ours.items():
            other = theirs[group]
            if isinstance(part, Pages) and isinstance(other, Pages):
                _same_length(f"{place}, {group}", part.columns, other.columns)
                for column, pair in enumerate(zip(part.columns, other.columns, strict=True)):
                    self._index(f"{place}, {group} column {column}", group, *pair)
            elif isinstance(part, Slots) and isinstance(other, Slots):
                self._slots(f"{place}, {group}", group, part, other)
            else:
                raise _differs(f"{place}, {group}", part, other)

    def _slots(self, place: str, group: str, ours: Slots, theirs: Slots) -> None:
        self._index(f"{place} live", group, ours.live, theirs.live)
        self._index(f"{place} source", group, ours.source, theirs.source)
        mine, other = [at for at, _ in ours.frozen], [at for at, _ in theirs.frozen]
        if mine != other:
            raise _differs(f"{place} frozen positions", mine, other)
        for (position, slot), (_, another) in zip(ours.frozen, theirs.frozen, strict=True):
            self._index(f"{place} frozen at {position}", group, slot, another)
        _same_length(f"{place}, drafts", ours.drafts, theirs.drafts)
        for column, (slot, another) in enumerate(zip(ours.drafts, theirs.drafts, strict=True)):
            self._index(f"{place} draft {column}", group, slot, another)

    def _index(self, place: str, group: str, ours: int | None, theirs: int | None) -> None:
        if ours in (None, NULL) or theirs in (None, NULL):
            if ours != theirs:
                raise _differs(place, ours, theirs)
        else:
            self.cells.match(place, (self.pools[group], ours), (self.pools[group], theirs))

    def _phase(self, place: str, ours: Phase, theirs: Phase) -> None:
        if (ours.unordered, ours.at) != (theirs.unordered, theirs.at):
            raise _differs(f"{place}, order", (ours.unordered, ours.at), (theirs.unordered, theirs.at))
        _same_length(f"{place}, copies", ours.copies, theirs.copies)
        for mine, other in zip(ours.copies, theirs.copies, strict=True):
            self.cells.match(f"{place}, source of a copy", mine[:2], other[:2])
            self.cells.match(f"{place}, target of a copy", (mine[0], mine[2]), (other[0], other[2]))
        _same_length(f"{place}, zeros", ours.zeros, theirs.zeros)
        for cell, another in zip(ours.zeros, theirs.zeros, strict=True):
            self.cells.match(f"{place}, zeroed", cell, another)

    def _listed(self, place: str, ours: Any, theirs: Any) -> None:
        """Compare (pool, cell), (group, cell) or (group, cell, position), in order."""
        _same_length(place, ours, theirs)
        for mine, other in zip(ours, theirs, strict=True):
            if (mine[0], mine[2:]) != (other[0], other[2:]):
                raise _differs(place, mine, other)
            pool = self.pools.get(mine[0], mine[0])
            self.cells.match(place, (pool, mine[1]), (pool, other[1]))

    def inventories(self, place: str) -> None:
        """Compare all cells; what is not free must be paired, and equal."""
        ours, theirs = self.held
        for cell, holding in ours.items():
            if holding.state == FREE:
                continue
            partner = self.cells.there.get(cell)
            if partner is None:
                raise Difference(f"{place}: the reference holds {_cell(cell)} ({holding}), which the cache does not")
            if theirs[partner] != holding:
                raise _differs(f"{place}, inventory of {_cell(cell)}, the cache's {_cell(partner)}", holding,
                               theirs[partner])
        for cell, holding in theirs.items():
            if holding.state != FREE and cell not in self.cells.back:
                raise Difference(f"{place}: the cache holds {_cell(cell)} ({holding}), which the reference does not")


def _ended(before: Holding | None, after: Holding | None) -> bool:
    """Tell whether a cell has been given up in between, be it to be granted again at once."""
    if after is None or after.state == FREE:
        return True
    if after.state not in GRANTED or before is None:
        return False
    moved = after.state == SlotState.FROZEN and before.endpoint != after.endpoint
    return moved or (before.state, before.owner) != (after.state, after.owner)


def _cell(cell: Any) -> str:
    return " ".join(map(str, cell)) if isinstance(cell, tuple) else str(cell)


def _differs(place: str, ours: Any, theirs: Any) -> Difference:
    return Difference(f"{place}: the reference says {ours}, the cache {theirs}")


def _same_keys(place: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    if list(ours) != list(theirs):
        raise _differs(place, list(ours), list(theirs))


def _same_length(place: str, ours: Any, theirs: Any) -> None:
    if len(ours) != len(theirs):
        raise _differs(place, ours, theirs)
