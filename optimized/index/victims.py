"""Who may be evicted, in order: lowest rank first, and in it the lowest stamp.

A heap of stamps for each rank, and a dictionary from stamp to candidate: whoever is withdrawn leaves the dictionary,
and its stamp is skipped when it comes up. Heaps hold integers only, which the garbage collector never visits.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from milepost.optimized.index.edge import Edge, Snapshot

Candidate = TypeVar("Candidate", Edge, Snapshot)

SLACK = 64
"""Skipped stamps that a heap may keep, beside as many as there are candidates, before it is built again."""


class VictimQueue(Generic[Candidate]):
    """Candidates by rank and stamp. Each remembers where it is queued: `queued` is its stamp there, 0 for nowhere."""

    def __init__(self, ranks: set[int]) -> None:
        self.stamps: dict[int, list[int]] = {rank: [] for rank in sorted(ranks)}
        self.candidates: dict[int, dict[int, Candidate]] = {rank: {} for rank in self.stamps}

    def place(self, candidate: Candidate, rank: int, stamp: int) -> None:
        """Queue a candidate, or move it to where it now belongs; stamp 0 withdraws it."""
        if candidate.queued == stamp and candidate.rank == rank:
            return
        if candidate.queued:
            del self.candidates[candidate.rank][candidate.queued]
        candidate.queued, candidate.rank = stamp, rank
        if stamp:
            self.candidates[rank][stamp] = candidate
            self._push(rank, stamp)

    def _push(self, rank: int, stamp: int) -> None:
        stamps, candidates = self.stamps[rank], self.candidates[rank]
        if len(stamps) > 2 * len(candidates) + SLACK:
            stamps[:] = candidates
            heapify(stamps)
        else:
            heappush(stamps, stamp)

    def first(self) -> Candidate | None:
        """Return who goes first, None where there is nobody; it stays queued until it is placed elsewhere."""
        for rank, stamps in self.stamps.items():
            candidates = self.candidates[rank]
            while stamps:
                candidate = candidates.get(stamps[0])
                if candidate is not None:
                    return candidate
                heappop(stamps)
        return None

    def clear(self) -> None:
        """Forget all candidates, as a reset does: none of them is asked again."""
        for rank in self.stamps:
            self.stamps[rank], self.candidates[rank] = [], {}

    def __len__(self) -> int:
        return sum(map(len, self.candidates.values()))
