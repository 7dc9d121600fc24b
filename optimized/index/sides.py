"""The paged groups beside the full one: windows, of which single pages come and go, and chains of compressed pages.

Each keeps the books of its own cells. A page hangs on that page of the full group which has its last token, and goes
with it; the full page never goes for it. Positions count a group's own pages from token 0, and are called columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from milepost.optimized.index.answers import FULL, RECURRENT, GivenUp
from milepost.optimized.index.errors import BadLength
from milepost.spec.capabilities import Group
from milepost.spec.words import GroupKind

if TYPE_CHECKING:
    from milepost.optimized.index.tree import Tree

FULL_AND_RECURRENT = (FULL, RECURRENT)


class Side:
    """One such group: where its pages lie beside those of the full group, of which one has `full_page` tokens."""

    def __init__(self, tree: Tree, group: Group, full_page: int, number: int, rank: int) -> None:
        self.tree, self.group, self.name, self.page_size = tree, group, group.name, group.page_size
        self.full_page, self.number, self.rank = full_page, number, rank
        self.evictable_pages = self.protected_pages = 0
        self.held_pages: dict[int, None] = {}

    def columns(self, pages: int) -> int:
        """Return how many of this group's pages end within so many pages of the full group."""
        return pages * self.full_page // self.page_size

    def page_of(self, end: int) -> int:
        """Return the end of the full page on which the page that ends at column `end` hangs."""
        return -(-end * self.page_size // self.full_page)

    def gone(self, cells: Iterable[int]) -> GivenUp:
        """Return cells as given up, and tell listeners."""
        given_up: GivenUp = [(self.name, cell) for cell in cells]
        self.tree.note_removed(given_up)
        return given_up


def must_fit_beside(groups: Sequence[Group], grid: int) -> None:
    """Raise BadLength unless these groups can stand beside a full one, with hits on this grid."""
    names = [group.name for group in groups]
    if len({*names, *FULL_AND_RECURRENT}) < len(names) + len(FULL_AND_RECURRENT):
        raise BadLength(f"side groups have names of their own, not {', '.join(names)}")
    for group in groups:
        if group.kind not in (GroupKind.WINDOW, GroupKind.COMPRESSED):
            raise BadLength(f"group '{group.name}' is {group.kind}, and side groups are windows or compressed")
        if group.kind is GroupKind.WINDOW and group.window < 1:
            raise BadLength(f"group '{group.name}' is a window of no tokens")
        if group.page_size < 1 or grid % group.page_size:
            raise BadLength(f"the grid {grid} is no multiple of the page {group.page_size} of '{group.name}'")
