"""The paged groups beside the full one: windows, of which single pages come and go, and chains of compressed pages.

Each keeps the books of its own cells. A page hangs on that page of the full group which has its last token, and goes
with it; the full page never goes for it. Positions count a group's own pages from token 0, and are called columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from milepost.optimized.index.answers import GivenUp
from milepost.spec.capabilities import Group

if TYPE_CHECKING:
    from milepost.optimized.index.tree import Tree


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
