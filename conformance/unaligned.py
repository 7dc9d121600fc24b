"""The section on unaligned state: where requests ended, what became of their state, and which hits lay off the grid.

All of it is seen from outside: a state's fate shows only when a later prompt continues it. What no prompt asked for is
reported as unknown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from milepost.conformance.outcome import Line
from milepost.spec.answers import Hit
from milepost.spec.capabilities import Capabilities
from milepost.spec.geometry import boundary_grid, floor_to
from milepost.spec.operations import Close, Open, Preempt
from milepost.spec.payload import Stream
from milepost.spec.state import Claim, State
from milepost.spec.words import GroupKind

MEASURES: dict[str, str] = {
    "page": "a page, from token 0",
    "chunk": "a chunk, from token 0",
    "resumed chunk": "a chunk, from the resume point",
    "boundary": "lcm(page, chunk), from token 0",
}
"""What the end of a request is measured by."""

FATES: dict[str, str] = {
    "donated": "donated: a later prompt hit exactly where the request had ended",
    "floored": "floored: a later prompt with all its tokens hit at the boundary below",
    "returned": "returned or evicted: a later prompt with all its tokens hit at neither",
    "unknown": "unknown: no later prompt had all its tokens",
}
"""What may become of a state that ends off the boundaries, best known first."""

NOTES: tuple[str, ...] = (
    "What became of a state shows only when a later prompt has all its tokens. From outside, a state that was returned "
    "at the end of its request looks like one that was evicted since.",
    "A hit at the boundary below does not tell a final state that was floored from one frozen there on the way.",
)
"""What cannot be known from outside."""

SHOWN_RESIDUES = 6


@dataclass(slots=True)
class UnalignedState:
    """Counts over any number of schedules: add two to merge them.

    `ends` counts ends by (measure, grid, tokens past it), `off_grid_hits` hits by (boundary, tokens past it), `fates`
    the states of requests that ended off the boundaries and were closed to be kept.
    `ran_ahead` are ends with a step in flight, whose state had read tokens that the host did not know yet.
    """

    requests: int = 0
    ends: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    fates: Counter[str] = field(default_factory=Counter)
    ran_ahead: int = 0
    hits: int = 0
    off_grid_hits: Counter[tuple[int, int]] = field(default_factory=Counter)

    def __add__(self, other: UnalignedState) -> UnalignedState:
        return UnalignedState(
            self.requests + other.requests,
            self.ends + other.ends,
            self.fates + other.fates,
            self.ran_ahead + other.ran_ahead,
            self.hits + other.hits,
            self.off_grid_hits + other.off_grid_hits,
        )

    def to_json(self) -> dict[str, Any]:
        """Return rows of (what, count), the most telling first, and notes on what they can't say."""
        rows = [("requests that ended after computing something", self.requests), *self._end_rows()]
        kept = f"of {sum(self.fates.values())} states that ended off the boundaries and could be kept"
        rows += [(f"{kept}, {text}", self.fates[fate]) for fate, text in FATES.items() if self.fates]
        rows += [("ended with a step in flight: the state ran ahead of the tokens that were known", self.ran_ahead)]
        rows += [("hits", self.hits), ("hits off the boundaries", sum(self.off_grid_hits.values()))]
        rows += [(f"hits {past} past a multiple of {grid}", count)
                 for (grid, past), count in self.off_grid_hits.most_common(SHOWN_RESIDUES)]
        return {"rows": [{"what": what, "count": count} for what, count in rows], "notes": list(NOTES)}

    def _end_rows(self) -> list[tuple[str, int]]:
        rows: list[tuple[str, int]] = []
        for measure, text in MEASURES.items():
            of_measure = {key: count for key, count in self.ends.items() if key[0] == measure}
            on_grid = sum(count for (_, _, past), count in of_measure.items() if past == 0)
            rows.append((f"ended on a multiple of {text}", on_grid))
            rows.append((f"ended off the multiples of {text}", sum(of_measure.values()) - on_grid))
        off_chunk = Counter({key: count for key, count in self.ends.items() if key[0] == "chunk" and key[2]})
        rows += [(f"ended {past} past a chunk of {grid}, from token 0", count)
                 for (_, grid, past), count in off_chunk.most_common(SHOWN_RESIDUES)]
        return rows


@dataclass(slots=True)
class End:
    """A request that ended off the boundaries: the tokens that its state had read, and what is known of its fate."""

    stream: Stream
    length: int
    fate: str = "unknown"


class UnalignedObserver:
    """Watches the ends and hits of one schedule; what a drain expands to is left out."""

    def __init__(self, capabilities: Capabilities) -> None:
        self._page, self._chunk = capabilities.page_size, capabilities.chunk_size
        self._boundary = boundary_grid(self._page, self._chunk)
        self._recurrent = any(group.kind is GroupKind.RECURRENT for group in capabilities.groups)
        self._ends: list[End] = []
        self._state = UnalignedState()

    def __call__(self, before: State, line: Line, after: State) -> None:
        """Note one end or one hit."""
        operation = line.operation
        if line.part == "drain":
            return
        if isinstance(operation, Open) and isinstance(line.answer, Hit):
            self._hit(after.claims[operation.request])
        elif isinstance(operation, Close | Preempt):
            self._end(before, before.claims[operation.request], isinstance(operation, Close) and operation.keep)

    def result(self) -> UnalignedState:
        """Return the counts so far."""
        self._state.fates = Counter(end.fate for end in self._ends)
        return self._state

    def _end(self, before: State, claim: Claim, kept: bool) -> None:
        length = claim.length
        if length == claim.hit:
            return
        self._state.requests += 1
        self._state.ran_ahead += before.in_flight(claim.request)
        measured = (
            ("page", self._page, length),
            ("chunk", self._chunk, length),
            ("resumed chunk", self._chunk, length - claim.hit),
            ("boundary", self._boundary, length),
        )
        self._state.ends.update((measure, grid, position % grid) for measure, grid, position in measured)
        if kept and self._recurrent and length % self._boundary:
            self._ends.append(End(claim.stream, length))

    def _hit(self, claim: Claim) -> None:
        """Count a hit, and learn from it and from a miss what became of the states that the prompt could have used."""
        if claim.hit:
            self._state.hits += 1
        if claim.hit % self._boundary:
            self._state.off_grid_hits[self._boundary, claim.hit % self._boundary] += 1
        for end in self._ends:
            if end.length < claim.prompt and end.stream.digests[end.length] == claim.stream.digests[end.length]:
                end.fate = _better(end.fate, self._fate(end, claim.hit))

    def _fate(self, end: End, hit: int) -> str:
        if hit == end.length:
            return "donated"
        return "floored" if hit and hit == floor_to(self._boundary, end.length) else "returned"


def _better(known: str, seen: str) -> str:
    order = tuple(FATES)
    return min(known, seen, key=order.index)
