"""What a cache may choose: where a step freezes, and what goes first when room is needed.

A policy answers from facts that every rank of a tensor-parallel engine has alike, never from a clock on the wall. Any
policy is legal; one that both the reference and the production cache follow makes their answers comparable.
"""

from __future__ import annotations

from typing import Protocol

from milepost.spec.geometry import floor_to


class FreezePolicy(Protocol):
    """Where a step should leave a snapshot on its way."""

    def points(self, prompt: int, branch: int, grid: int, start: int, stop: int) -> tuple[int, ...]:
        """Return boundaries in (start, stop], ascending; a step freezes at the deepest one it can.

        `prompt` is its length, `branch` the boundary where others left the cached path (0 where nobody did), `grid`
        the distance of boundaries; all in tokens.
        """


class EvictionPolicy(Protocol):
    """What is evicted first: the lowest rank, and in it what was not used for longest.

    The logical clock gives no two entries the same time, so that the order is total.
    """

    def page_rank(self, snapshot_at_end: bool) -> int:
        """Return the rank of a page that nobody reads and nothing published continues.

        Pages of windows and compressed groups have the rank of one at whose end a snapshot stands: each pool is under
        a pressure of its own, and where groups share one, KV that nothing can resume from goes before them.
        """

    def snapshot_rank(self, superseded: bool) -> int:
        """Return the rank of a snapshot that nobody reads; `superseded` where a deeper one is on a path through it."""


class BranchAndPromptEnd:
    """Freeze where others branched off, and at the last boundary from which a repeated prompt still has to run."""

    def points(self, prompt: int, branch: int, grid: int, start: int, stop: int) -> tuple[int, ...]:
        """Return those of the two that the step passes."""
        last = floor_to(grid, max(0, prompt - 1))
        return tuple(sorted({point for point in (branch, last) if start < point <= stop}))


class LeastRecentlyUsed:
    """Pages from which nothing can resume go first; everything else by last use."""

    def page_rank(self, snapshot_at_end: bool) -> int:
        """Return 0 for KV that no snapshot makes usable."""
        return int(snapshot_at_end)

    def snapshot_rank(self, superseded: bool) -> int:
        """Return the same for all."""
        return 0


class SupersededFirst(LeastRecentlyUsed):
    """As by last use, but a conversation's newest snapshot goes after all that it has left behind."""

    def snapshot_rank(self, superseded: bool) -> int:
        """Return 0 for a snapshot that a deeper one has superseded."""
        return int(not superseded)
