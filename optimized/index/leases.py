"""A request's claim on a prefix, and how it ends."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from milepost.optimized.index.edge import Edge, Mark, Strip

if TYPE_CHECKING:
    from milepost.optimized.index.index import PrefixIndex


class Lease:
    """A request's claim on a prefix: the first `length` tokens stay published. Only the index changes it.

    It keeps its place in the tree, so that nothing is ever looked up twice. `prompt` is the length of the prompt that
    was matched and `branch` its branch point. Of each window it has the pages by column, of each compressed group where
    its pages end.
    """

    __slots__ = (
        "branch", "edge", "end", "epoch", "index", "namespace", "prompt", "snapshot", "strip_ends", "strips", "windows",
    )  # fmt: skip

    def __init__(self, index: PrefixIndex, namespace: Hashable, prompt: int, branch: int) -> None:
        self.index, self.namespace, self.prompt, self.branch = index, namespace, prompt, branch
        self.epoch = index.epoch
        self.edge: Edge | None = None
        self.end = 0
        self.snapshot: Mark | None = None
        tree = index.tree
        if tree.sides:
            self.windows: tuple[dict[int, Mark], ...] = tuple([{} for _ in tree.windows])
            self.strips: list[Strip | None] = [None] * len(tree.chains)
            self.strip_ends = [0] * len(tree.chains)

    @property
    def length(self) -> int:
        """How many tokens it covers."""
        return self.end * self.index.page_size

    @property
    def stale(self) -> bool:
        """Whether the index was reset since: what is leased stays readable, and nothing more is published."""
        return self.epoch != self.index.epoch
