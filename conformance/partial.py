"""What a judge of a recording has to do beyond `step`: tokens that are told late, and memory that nobody saw written.

A cell of unknown content is given the benefit of the doubt: its first reader is believed, and the next one is judged
by what the first must have found there. So two readers of one cell with different prefixes still contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b
from itertools import count

from milepost.spec.answers import Answer, Hit, Pages, Phase, Table
from milepost.spec.capabilities import Group
from milepost.spec.faults import Fault
from milepost.spec.operations import Open
from milepost.spec.payload import Content, Stream, make_stream
from milepost.spec.state import State
from milepost.spec.words import NULL, Cell

UNKNOWN = -2
"""The payload of memory that nobody saw written."""


class Chain:
    """Grows a stream token by token; the digests are those of `make_stream`, which a test holds it to."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._hash = blake2b(repr((stream.namespace, stream.epoch)).encode(), digest_size=8)
        for token in stream.identities:
            self._hash.update(b"%d," % token if isinstance(token, int) else repr(token).encode() + b",")

    def grow(self, tokens: tuple[int, ...]) -> Stream:
        """Append tokens and return the stream."""
        digests = list(self.stream.digests)
        for token in tokens:
            self._hash.update(b"%d," % token)
            digests.append((int.from_bytes(self._hash.digest(), "big") >> 1) or 1)
        old = self.stream
        self.stream = replace(
            old, tokens=old.tokens + tokens, identities=old.identities + tokens, digests=tuple(digests)
        )
        return self.stream


class Doubt:
    """Which memory is unknown, and what its readers say of it. `all_unknown`: nothing of the beginning was seen."""

    def __init__(self, all_unknown: bool) -> None:
        self._all_unknown = all_unknown
        self.assumed = 0

    def unsee(self, state: State, cells: Iterable[Cell]) -> None:
        """Forget what lies in cells that somebody unseen writes."""
        for cell in cells:
            state.fill(cell, UNKNOWN)

    def believe_hit(self, state: State, operation: Open, hit: Hit) -> None:
        """Believe what a hit says of unknown memory, before it is judged."""
        if not hit.length:
            return
        stream = None
        for group, column, cell in _offered(state, hit.table):
            if _unknown(self._content(state, cell)):
                stream = stream or make_stream(
                    operation.namespace, state.epoch, operation.tokens + operation.samples, operation.content
                )
                self._believe(state, group, cell, stream, column, hit.length)

    def believe_reader(self, state: State, answer: Answer, fault: Fault) -> bool:
        """Believe a read that did not find its prefix, where memory is unknown; False where it is known and wrong."""
        if fault.expected is None or fault.cell[1] == NULL:
            return False
        cell = _origin(getattr(answer, "phases", ()), fault.cell)
        if not _unknown(self._content(state, cell)):
            return False
        group = state.capabilities.group(fault.group)
        column, limit = fault.position // group.page_size, fault.position + group.kind.paged
        return self._believe(state, group, cell, fault.expected.stream, column, limit)

    def _content(self, state: State, cell: Cell) -> Content:
        return state.contents.get(cell, UNKNOWN if self._all_unknown else None)

    def _believe(self, state: State, group: Group, cell: Cell, stream: Stream, column: int, length: int) -> bool:
        """Fill the unknown entries of a cell that lie below `length` with what a reader needs there."""
        before = self._content(state, cell)
        after: Content = stream.digests[length]
        if group.kind.paged:
            size, stride = group.page_size // group.stride, group.stride
            entries = list(before) if isinstance(before, tuple) else [before] * size
            for entry, found in enumerate(entries):
                end = column * group.page_size + stride * (entry + 1)
                if found == UNKNOWN and end <= length:
                    entries[entry] = stream.digests[end]
            after = tuple(entries)
        self.assumed += after != before
        state.contents[cell] = after
        return after != before


def _unknown(content: Content) -> bool:
    return content == UNKNOWN or (isinstance(content, tuple) and UNKNOWN in content)


def _origin(phases: Iterable[Phase], cell: Cell) -> Cell:
    """Return the cell whose content the phases of an answer brought into another."""
    for phase in reversed(list(phases)):
        for pool, source, target in phase.copies:
            if (pool, target) == cell:
                cell = (pool, source)
                break
    return cell


def _offered(state: State, table: Table) -> Iterator[tuple[Group, int, Cell]]:
    """Yield the group, column and cell of all that a table names; for a state its source, or the live slot."""
    for name, part in table.items():
        if name not in state.pools:
            continue
        group = state.capabilities.group(name)
        indexes = part.columns if isinstance(part, Pages) else (part.live if part.source == NULL else part.source,)
        yield from ((group, column, (group.pool, index)) for column, index in enumerate(indexes) if index != NULL)


GUESSES = count(1)


def guesses(tokens: int) -> tuple[int, ...]:
    """Return tokens that equal no others, in place of those that the engine was never told."""
    return tuple(-next(GUESSES) for _ in range(tokens))
