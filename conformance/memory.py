"""The harness as model runner where an engine's memory can be reached: it writes what the forward would write.

A step's writes are kept back until the engine's next call that may copy, or the landing: an engine whose bookkeeping
runs ahead of the device meets the memory that it would meet there.
"""

from __future__ import annotations

from collections.abc import Iterable

from milepost.spec.answers import Phase, Slots
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.payload import ZERO, Content
from milepost.spec.seam import Adapter, Remembered
from milepost.spec.state import State
from milepost.spec.words import NULL, Cell


class Memory:
    """Moves payloads between the judge's contents and the engine's memory, for groups with `executes="engine"`."""

    def __init__(self, adapter: Adapter, capabilities: Capabilities) -> None:
        self._groups = {group.pool: group for group in capabilities.groups if group.executes == "engine"}
        if self._groups and not isinstance(adapter, Remembered):
            raise TypeError("a group declares executes='engine' and the adapter has no read and write")
        self._remembered = adapter if isinstance(adapter, Remembered) else None
        self._pending: list[tuple[Cell, Group, Content]] = []

    @property
    def real(self) -> bool:
        """True where some group lives in the engine's own memory."""
        return bool(self._groups)

    def hold_back(self, state: State) -> None:
        """Remember what the newest step writes; `state` is the judge's state right after its launch."""
        if not self._groups:
            return
        for cell, (_, first, last) in state.flights[-1].writes.items():
            group = self._groups.get(cell[0])
            if group is not None:
                content = state.contents[cell]
                if isinstance(content, tuple):
                    kept = range(first, last)
                    content = tuple(one if entry in kept else None for entry, one in enumerate(content))
                self._pending.append((cell, group, content))

    def flush(self) -> None:
        """Write what was held back: the device has caught up."""
        for cell, group, content in self._pending:
            self._store(cell, group, content)
        self._pending.clear()

    def before(self, state: State) -> dict[Cell, Content]:
        """Read the slots whose content the engine's next call may change and not report."""
        return {cell: self._load(cell) for cell in self._watched(state)} if self._groups else {}

    def differences(
        self, state: State, phases: Iterable[Phase], earlier: dict[Cell, Content], named: Iterable[Cell] = ()
    ) -> dict[Cell, Content]:
        """Compare memory with what the reported phases must have left; return the readings that differ.

        An unwritten cell that the engine did not touch stays unwritten, whatever an earlier tenant left in it.
        """
        if not self._groups:
            return {}
        predicted = dict(state.contents)
        touched: set[Cell] = set()
        for phase in phases:
            values = [((pool, target), predicted.get((pool, source))) for pool, source, target in phase.copies]
            values += [(cell, ZERO) for cell in phase.zeros]
            predicted.update(values)
            touched.update(cell for cell, _ in values)
        held_back = {cell for cell, _, _ in self._pending}  # memory lags behind the judge there, by our own doing
        readings: dict[Cell, Content] = {}
        for cell in {*touched, *earlier, *named} - held_back:
            if cell[0] in self._groups:
                actual = self._load(cell)
                expected = predicted.get(cell)
                unseen = expected is None and (cell not in earlier or earlier[cell] == actual)
                if actual != expected and not unseen:
                    readings[cell] = actual
        return readings

    def _watched(self, state: State) -> set[Cell]:
        cells: set[Cell] = set()
        for claim in state.claims.values():
            for name, part in claim.table.items():
                if isinstance(part, Slots) and state.pools[name] in self._groups:
                    indexes = (part.live, part.source, *(slot for _, slot in part.frozen))
                    cells.update((state.pools[name], index) for index in indexes if index != NULL)
        return cells

    def _load(self, cell: Cell) -> Content:
        assert self._remembered is not None
        return self._remembered.read(cell, self._groups[cell[0]].name)

    def _store(self, cell: Cell, group: Group, content: Content) -> None:
        assert self._remembered is not None
        self._remembered.write(cell, group.name, content)
