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
