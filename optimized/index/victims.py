"""Who may be evicted, in order: lowest rank first, and in it the lowest stamp.

Stamps are sorted in runs of bounded length: whoever comes or goes costs two binary searches and a short move of memory,
and nothing is left behind that would have to be cleaned up at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic, TypeVar

from milepost.optimized.index.edge import Edge, Mark, Strip

Candidate = TypeVar("Candidate", Edge, Mark, Strip)

RUN = 512
"""A longer run is halved; one that is shorter than a quarter of it joins the next, where both fit into one."""


class Runs(Generic[Candidate]):
    """Candidates of one rank, sorted by stamp: the stamps and the candidates of each run.

    `lasts` bounds each run's stamps from above, and lies below the next run's: the last stamp, which may be gone.
    """

    def __init__(self) -> None:
        self.lasts: list[int] = []
        self.stamps: list[list[int]] = []
        self.candidates: list[list[Candidate]] = []

    def add(self, stamp: int, candidate: Candidate) -> None:
        """Add a candidate by a stamp that nobody else has."""
        lasts = self.lasts
        if not lasts:
            lasts.append(stamp)
            self.stamps.append([stamp])
            self.candidates.append([candidate])
            return
        if stamp > lasts[-1]:
            number = len(lasts) - 1
            stamps, candidates = self.stamps[number], self.candidates[number]
            stamps.append(stamp)
            candidates.append(candidate)
            lasts[number] = stamp
        else:
            number = bisect_left(lasts, stamp)
            stamps, candidates = self.stamps[number], self.candidates[number]
            at = bisect_left(stamps, stamp)
            stamps.insert(at, stamp)
            candidates.insert(at, candidate)
        if len(stamps) > RUN:
            half = RUN // 2
            self._put(number, 1, stamps[half:], candidates[half:])
            self._put(number, 0, stamps[:half], candidates[:half])

    def remove(self, stamp: int) -> None:
        """Take out the candidate that has this stamp."""
        number = bisect_left(self.lasts, stamp)
        stamps, candidates = self.stamps[number], self.candidates[number]
        at = bisect_left(stamps, stamp)
        del stamps[at], candidates[at]
        if not stamps:
            del self.lasts[number], self.stamps[number], self.candidates[number]
        elif len(stamps) < RUN // 4 and number + 1 < len(self.lasts):
            self._join(number)

    def _join(self, number: int) -> None:
        """Join a short run with the next one, if they do not make a long one."""
        after = self.stamps[number + 1]
        if len(self.stamps[number]) + len(after) < RUN // 2:
            candidates = self.candidates[number] + self.candidates[number + 1]
            self._put(number, 2, self.stamps[number] + after, candidates)

    def _put(self, number: int, replaced: int, stamps: list[int], candidates: list[Candidate]) -> None:
        """Put a run in the place of so many others."""
        self.lasts[number : number + replaced] = [stamps[-1]]
        self.stamps[number : number + replaced] = [stamps]
        self.candidates[number : number + replaced] = [candidates]

    def __iter__(self) -> Iterator[tuple[int, Candidate]]:
        for stamps, candidates in zip(self.stamps, self.candidates, strict=True):
            yield from zip(stamps, candidates, strict=True)


class VictimQueue(Generic[Candidate]):
    """Candidates by rank and stamp. Each remembers where it is queued: `queued` is its stamp there, 0 for nowhere."""

    def __init__(self, ranks: set[int]) -> None:
        self.runs: dict[int, Runs[Candidate]] = {rank: Runs() for rank in sorted(ranks)}

    def place(self, candidate: Candidate, rank: int, stamp: int) -> None:
        """Queue a candidate, or move it to where it now belongs; stamp 0 withdraws it."""
        if candidate.queued == stamp and candidate.rank == rank:
            return
        if candidate.queued:
            self.runs[candidate.rank].remove(candidate.queued)
        candidate.queued, candidate.rank = stamp, rank
        if stamp:
            self.runs[rank].add(stamp, candidate)

    @property
    def order(self) -> tuple[int, int] | None:
        """The rank and stamp of who goes first, None where there is nobody."""
        first = self.first()
        return None if first is None else (first.rank, first.queued)

    def first(self) -> Candidate | None:
        """Return who goes first, None where there is nobody; it stays queued until it is placed elsewhere."""
        for runs in self.runs.values():
            if runs.lasts:
                return runs.candidates[0][0]
        return None

    def clear(self) -> None:
        """Forget all candidates, as a reset does: none of them is asked again."""
        for rank in self.runs:
            self.runs[rank] = Runs()
