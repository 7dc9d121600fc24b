"""The requests that decode: one row each, one call a step, and work only for those that fill a page."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from milepost.optimized.index.answers import Published
from milepost.optimized.index.errors import BadCell, BadLength, BadTokens, CellInUse, NotLeased
from milepost.optimized.index.index import PrefixIndex
from milepost.optimized.index.leases import Lease
from milepost.optimized.index.packing import TOKEN_BYTES, Tokens, packed
from milepost.spec.words import NULL


@dataclass(slots=True)
class Appended:
    """What became of a step. `full` are the rows that filled their page: give each the cell of its next one.

    `published` says for each of them what became of the page, as `PrefixIndex.publish` does. `left` are those of them
    that have left the batch, because a duplicate stopped them with `adopt=False`: publish for them again later.
    """

    full: list[int] = field(default_factory=list)
    published: dict[int, Published] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)


class Running:
    """The open pages of up to `rows` requests. `cells[row]` is the page that a row fills, NULL until it is given one.

    An engine joins a request when it begins to decode, appends one token for each after each step, writes `cells` for
    those that need a new page, and takes a request out before it releases its lease.
    """

    def __init__(self, index: PrefixIndex, rows: int) -> None:
        if rows < 1:
            raise BadLength(f"a batch has at least one row, not {rows}")
        self.index = index
        self.cells = np.full(rows, NULL, np.int64)
        self._tokens = np.zeros((rows, index.page_size), np.int32)
        self._filled = np.zeros(rows, np.int64)
        self._leases: list[Lease | None] = [None] * rows
        self._free = list(range(rows - 1, -1, -1))

    def join(self, lease: Lease, tail: Tokens, cell: int = NULL) -> int:
        """Give a request a row and return its number; `tail` are its computed tokens behind the lease's end.

        They are less than a page; b"" where there are none. `cell` is the page that they are in.
        """
        self.index.must_be_leased(lease)
        run = packed(tail) if len(tail) else b""
        filled = len(run) // TOKEN_BYTES
        if filled >= self.index.page_size:
            raise BadLength(f"a tail of {filled} tokens fills a page: publish it first")
        if not self._free:
            raise BadLength(f"all {len(self._leases)} rows are taken")
        row = self._free.pop()
        self._tokens[row, :filled] = np.frombuffer(run, "<i4")
        self._filled[row], self.cells[row], self._leases[row] = filled, cell, lease
        return row

    def leave(self, row: int) -> bytes:
        """Take a request out; return its tokens behind the last full page."""
        if not 0 <= row < len(self._leases) or self._leases[row] is None:
            raise NotLeased(f"row {row} is not taken")
        tail = self._tokens[row, : self._filled[row]].tobytes()
        self._filled[row], self.cells[row], self._leases[row] = 0, NULL, None
        self._free.append(row)
        return tail

    def append(self, rows: np.ndarray, tokens: np.ndarray, adopt: bool = True) -> Appended:
        """Append one token, whose KV has been computed, to each of some rows, all different; publish the full pages.

        `tokens` are int32. What `PrefixIndex.publish` would refuse is refused here before anything has changed.
        """
        if tokens.dtype != np.int32 or tokens.shape != rows.shape:
            raise BadTokens("tokens are int32, one for each row")
        filled = self._filled[rows]
        full = rows[filled == self.index.page_size - 1].tolist()
        if full:
            self._must_fit(full)
        self._tokens[rows, filled] = tokens
        self._filled[rows] = filled + 1
        appended = Appended(full)
        for row in full:
            self._publish(row, adopt, appended)
        return appended

    def _must_fit(self, full: list[int]) -> None:
        cells = self.cells[full].tolist()
        for row in full:
            lease = self._leases[row]
            if lease is None:
                raise NotLeased(f"row {row} is not taken")
            self.index.must_be_leased(lease)
        if min(cells) < 0:
            raise BadCell(f"row {full[cells.index(min(cells))]} fills a page that has no cell")
        if len(set(cells)) != len(cells) or not self.index.tree.held_pages.keys().isdisjoint(cells):
            raise CellInUse("a page is held already, or was given twice")

    def _publish(self, row: int, adopt: bool, appended: Appended) -> None:
        lease = self._leases[row]
        assert lease is not None
        published = self.index.publish(
            lease, self._tokens[row].tobytes(), [int(self.cells[row])], start=lease.length, adopt=adopt
        )
        appended.published[row] = published
        self._filled[row], self.cells[row] = 0, NULL
        if published.blocked:
            self.leave(row)
            appended.left.append(row)
