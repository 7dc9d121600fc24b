"""The words of the field that every folder uses, each with one meaning.

Lengths and positions are in tokens; `length` always means tokens [0, length). A cell is a page or a slot and is named
by its pool and its index there: groups may share a pool.
"""

from __future__ import annotations

from enum import StrEnum

NULL = -1
"""The cell index that names nothing: a null block, a sentinel, a column outside the window."""

Cell = tuple[str, int]
"""(pool, index) of a page or a slot."""

Namespace = tuple[tuple[str, str], ...]
"""Sorted (kind, value) pairs that isolate a prefix: equal values of different kinds are different."""


class GroupKind(StrEnum):
    """What the layers of one group remember, and therefore when they may resume (see `resume`)."""

    FULL = "full"
    WINDOW = "window"
    RECURRENT = "recurrent"
    COMPRESSED = "compressed"

    @property
    def paged(self) -> bool:
        """True where the group keeps entries in pages, false where it keeps one state in a slot."""
        return self is not GroupKind.RECURRENT


GLOSSARY: dict[str, str] = {
    "group": "layers that share one table: kind full, window, recurrent or compressed",
    "page": "page_size tokens of a full, window or compressed group",
    "slot": "room for one whole recurrent state, all layers, convolution part included",
    "cell": "a page or a slot: (pool, index)",
    "chunk": "tokens between two positions where the forward path can write a state out",
    "boundary": "a multiple of lcm(page_size, chunk_size), counted from token 0",
    "live slot": "the one slot that a request's forward writes",
    "freeze": "write an immutable copy of the state at a boundary",
    "donate": "give a frozen or final live slot to the cache at the position that it encodes",
    "publish": "make computed cells matchable",
    "hit": "the reusable prefix that a lookup offers",
    "lease": "a reader's claim on published cells",
    "restore": "copy a snapshot into a fresh live slot before the next forward",
    "tombstone": "KV kept, state gone",
    "namespace": "isolation domain of a prefix",
    "branch point": "a KV match beyond the hit, floored to the grid: where the next pass should freeze",
    "epoch": "the number of resets before a request was opened",
}
