"""vLLM's block tables as a trace has them: columns of pages, and for states the live slot, frozen ones, the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from milepost_record.guard import Unknown

NULL = -1
ENDLESS = 1 << 60
POOL = "blocks"

Row = list[int]


class Group:
    """One KV cache group: its kind in the trace's words, and vLLM's manager of it."""

    def __init__(self, number: int, spec: Any, manager: Any) -> None:
        kinds = {kind.__name__ for kind in type(spec).__mro__}
        self.manager = manager
        self.size = int(spec.block_size)
        self.window = 0
        if "MambaSpec" in kinds and spec.mamba_cache_mode == "align" and not spec.num_speculative_blocks:
            self.kind = "recurrent"
        elif "SlidingWindowSpec" in kinds:
            self.kind, self.window = "window", int(spec.sliding_window)
        elif type(spec).__name__ in ("FullAttentionSpec", "MLAAttentionSpec"):
            self.kind = "full"
        else:
            raise Unknown(f"a group of {type(spec).__name__} in this mode")
        self.recurrent = self.kind == "recurrent"
        self.exports = self.kind == "recurrent" and spec.num_prefill_checkpoint_blocks > 0
        self.export_alignment = spec.prefill_checkpoint_alignment if self.exports else None
        self.name = f"{self.kind}{number}"

    def declare(self) -> dict[str, Any]:
        """Return the group as a trace's capabilities name it."""
        window = {"window": self.window} if self.window else {}
        page = {} if self.recurrent else {"page_size": self.size}
        return {"name": self.name, "kind": self.kind, "pool": POOL, **page, **window}

    def held(self, request: str) -> Sequence[Any]:
        """Return the blocks that the request holds, null blocks included."""
        return self.manager.req_to_blocks.get(request) or ()

    def column(self, length: int) -> int:
        """Return the column of the state of `length` tokens, -1 for none."""
        return (length - 1) // self.size


class Part:
    """A request's blocks in one group. `row` is the table as the worker has it, which only ever grows.

    Of a recurrent group, `columns` are those that hold a state and `positions` the length that each encodes; of a
    window group `first` is the first column that is still held. `shown` and `at` are the slots and the live column as
    they were written last.
    """

    __slots__ = ("at", "columns", "first", "group", "positions", "row", "shown", "source")

    def __init__(self, group: Group, row: Row) -> None:
        self.group, self.row = group, row
        self.first, self.shown, self.source, self.at = 0, "", NULL, -1
        self.columns = [column for column, block in enumerate(row) if block] if group.recurrent else []
        self.positions: dict[int, int] = {}

    def offer(self, row: Row, length: int) -> Any:
        """Return what a hit of `length` tokens offers, as a member of its table."""
        if not self.group.recurrent:
            return [cell(block) for block in row]
        self.source = cell(row[-1]) if row else NULL
        self.positions[self.group.column(length)] = length
        return {"source": self.source}

    def grow(self, blocks: Row) -> None:
        """Append what the worker is sent."""
        if self.group.recurrent:
            self.columns += [len(self.row) + place for place, block in enumerate(blocks) if block]
        self.row.extend(blocks)

    def whole(self, request: str, length: int) -> str:
        """Return all that the request holds at a length, as JSON."""
        if self.group.recurrent:
            self.shown = self._slots(request, length)
            return self.shown
        pairs = zip(self.group.held(request), self.row, strict=False)  # the worker's row may be longer
        cells = [NULL if block.is_null else cell(one) for block, one in pairs]
        self.first = next((place for place, one in enumerate(cells) if one != NULL), len(cells))
        return f"[{','.join(map(str, cells))}]"

    def restored(self, request: str, length: int) -> str:
        """Let go of the source, and return the slots without it."""
        self.source = NULL
        self.shown = self._slots(request, length)
        return self.shown

    def changes(self, request: str, length: int, grown: int) -> str:
        """Return what changed since it was last shown, `grown` columns among it, as JSON; '' where nothing did."""
        if self.group.recurrent:
            text = self._slots(request, length)
            if text == self.shown:
                return ""
            self.shown = text
            return text
        if not grown and self.group.kind == "full":
            return ""
        row = self.row
        pairs = [f"[{column},{cell(row[column])}]" for column in range(len(row) - grown, len(row))]
        if self.group.kind == "window":
            pairs += self._slid_out(request)
        return f"[{','.join(pairs)}]" if pairs else ""

    def _slid_out(self, request: str) -> list[str]:
        held, start = self.group.held(request), self.first
        while self.first < len(held) and held[self.first].is_null:
            self.first += 1
        return [f"[{column},{NULL}]" for column in range(start, self.first)]

    def lets_go(self, request: str) -> bool:
        """Tell whether a block that it held when it was last looked at is gone."""
        if self.group.recurrent:
            return not self._all_held(request)
        held = self.group.held(request)
        return self.first < len(held) and held[self.first].is_null

    def _all_held(self, request: str) -> bool:
        held = self.group.held(request)
        return all(column < len(held) and not held[column].is_null for column in self.columns)

    def _slots(self, request: str, length: int) -> str:
        group, row, source, live = self.group, self.row, self.source, NULL
        held, size = group.held(request), group.size
        at, count, columns, frozen = (length - 1) // size, len(held), [], []
        for column in self.columns:
            if column >= count or held[column].is_null:
                continue
            columns.append(column)
            if column == at:
                live = row[column]
            elif row[column] != source:
                frozen.append(f'"{self.positions.get(column, (column + 1) * size)}":{row[column]}')
        self.at, self.columns = at, columns
        members = [f'"live":{live}'] if live != NULL else []
        if frozen:
            members.append(f'"frozen":{{{",".join(frozen)}}}')
        if source != NULL:
            members.append(f'"source":{source}')
        return f"{{{','.join(members)}}}"


class Claim:
    """A request that holds blocks: its parts, its length in tokens, and the tokens that are written down of it.

    `name` is its name in the trace and `request` the engine's. `moves` are the copies of states that the worker makes
    before the next step. Up to the length of `edge` its states stay in the blocks that it holds now; `loose` parts may
    let go of blocks before.
    """

    __slots__ = ("edge", "known", "length", "loose", "moves", "name", "parts", "request", "states", "windows")

    def __init__(self, name: str, request: str, parts: list[Part], hit: int, known: int) -> None:
        self.name, self.request, self.parts, self.length, self.known = name, request, parts, hit, known
        self.edge = 0
        self.loose: list[Part] = []
        self.windows = [part for part in parts if part.group.kind == "window"]
        self.moves: list[tuple[int, int]] = []
        self.states = [part for part in parts if part.group.recurrent]

    def advance(self, stop: int) -> None:
        """Go on to `stop`; where its state lies in another block the worker copies it there first."""
        start, self.length = self.length, stop
        for part in self.states:
            before, column = part.group.column(start), part.group.column(stop)
            if before not in (-1, column):
                part.positions[before] = start
                self.moves.append((part.row[before], block_at(part.row, column)))
            part.positions[column] = stop

    def lets_go(self) -> bool:
        """Tell whether a loose part let go of a block since it was last looked at."""
        return any(part.lets_go(self.request) for part in self.loose)

    def find_edge(self) -> None:
        """Look how far the states stay in their blocks: nowhere while one is to be restored."""
        edge, loose = ENDLESS, self.windows
        for part in self.states:
            edge = min(edge, (part.at + 1) * part.group.size if part.source == NULL else 0)
            if len(part.columns) > 1:
                loose = [*loose, part]
        self.edge, self.loose = edge, loose

    def whole(self, request: str) -> str:
        """Return the table as JSON."""
        members = [f'"{part.group.name}":{part.whole(request, self.length)}' for part in self.parts]
        self.find_edge()
        return f"{{{','.join(members)}}}"

    def changes(self, request: str, grown: Sequence[int]) -> str:
        """Return what changed in the table, as JSON; '' where nothing did."""
        members, length = [], self.length
        for part, count in zip(self.parts, grown, strict=True):
            text = part.changes(request, length, count)
            if text:
                members.append(f'"{part.group.name}":{text}')
        self.find_edge()
        return f"{{{','.join(members)}}}" if members else ""


def cell(block: int) -> int:
    """Return a block id as a cell: block 0 is vLLM's null block."""
    return block or NULL


def block_at(row: Row, column: int) -> int:
    """Return the worker's block at a column; beyond its row it reads the null block."""
    return row[column] if column < len(row) else 0
