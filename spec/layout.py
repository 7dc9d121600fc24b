"""Which groups Milepost's own caches have: one full, the other paged ones beside it, and at most one recurrent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from milepost.spec.capabilities import Configuration, Group
from milepost.spec.geometry import boundary_grid, columns_for
from milepost.spec.resume import first_needed
from milepost.spec.words import GroupKind


@dataclass(frozen=True, slots=True)
class Layout:
    """The groups of one cache by their part in it; `sides` are windows and compressed groups."""

    full: Group
    sides: tuple[Group, ...]
    recurrent: Group | None

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, as they stand in tables."""
        return (self.full, *self.sides, *([self.recurrent] if self.recurrent else []))

    @property
    def windows(self) -> tuple[Group, ...]:
        """The groups whose pages slide out."""
        return tuple(group for group in self.sides if group.kind is GroupKind.WINDOW)

    def grid(self, chunk_size: int) -> int:
        """Return the distance of boundaries: the lcm of all pages, and of the chunk where a state is written out."""
        pages = (group.page_size for group in (self.full, *self.sides))
        return reduce(boundary_grid, pages, chunk_size if self.recurrent else 1)


def make_layout(configuration: Configuration) -> Layout:
    """Return the groups that a configuration asks for, else one full and one recurrent group.

    ValueError where they are none that this cache can have.
    """
    groups = configuration.groups or (
        Group("kv", GroupKind.FULL, "kv", page_size=configuration.page_size),
        Group("state", GroupKind.RECURRENT, "state"),
    )
    full = [group for group in groups if group.kind is GroupKind.FULL]
    recurrent = [group for group in groups if group.kind is GroupKind.RECURRENT]
    if len(full) != 1 or len(recurrent) > 1:
        raise ValueError("there is exactly one full group, and at most one recurrent group")
    unsized = sorted({group.pool for group in groups} - configuration.pools.keys())
    if unsized:
        raise ValueError(f"pool '{unsized[0]}' has no size")
    sides = tuple(group for group in groups if group.kind in (GroupKind.WINDOW, GroupKind.COMPRESSED))
    return Layout(full[0], sides, recurrent[0] if recurrent else None)


def most_columns(group: Group, length: int) -> int:
    """Return the most pages that a request of `length` tokens must hold at once: of a window, only what it spans.

    The last W - 1 tokens and the next one reach into one page more than W - 1 tokens fill.
    """
    columns = columns_for(group.page_size, length)
    if group.kind is not GroupKind.WINDOW:
        return columns
    return min(columns, columns_for(group.page_size, group.window - 1) + 1)


def first_column(group: Group, length: int) -> int:
    """Return the first column that a group needs to go on at `length`."""
    return first_needed(group.kind, length, group.window) // group.page_size
