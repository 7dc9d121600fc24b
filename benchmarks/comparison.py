"""What is compared with what, and what the figures of a run say about the goals."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

OURS, ANCHOR = "milepost", "anchor"
PEERS = {"sglang-rust": "SGLang Rust", "sglang-python": "SGLang Python", "vllm": "vLLM", "freetoken": "FreeToken"}
NAMES = {OURS: "Milepost", **PEERS, ANCHOR: "anchor"}


@dataclass(frozen=True, slots=True)
class Goal:
    """At most `limit` times the side `against` ("best" is the fastest peer), or `limit` alone where it names none."""

    limit: float
    against: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One case of one size. `repeat` are repetitions in each round and side, `fresh` asks for a process of its own.

    Rows without a title are for the plots alone.
    """

    case: str
    size: int
    title: str = ""
    goal: Goal | None = None
    repeat: int = 20
    fresh: bool = False


ROWS = (
    Row("match", 131_072, "match, 131,072 tokens in 64 nodes, page 64, with page ids", Goal(0.5, "best")),
    Row("match-tokens", 131_072, "the same beside memcmp of those tokens", Goal(4, ANCHOR)),
    Row("first-match", 131_072, "the same from a list of ints: conversion or hashing included", repeat=5),
    Row("match", 1_024, "match, 1,024 tokens", Goal(1, "sglang-rust"), repeat=200),
    Row("match", 4_096, repeat=50), Row("match", 16_384, repeat=50), Row("match", 65_536),
    Row("waiting", 128, "a pass over 128 waiting requests of 131,072 tokens, nothing changed", Goal(1000), repeat=3),
    Row("waiting-changed", 128, "the same after another request's publish and an eviction elsewhere", repeat=3),
    Row("decode", 256, "a decode step of 256 requests, host side", Goal(100)),
    Row("decode-schedule", 256, "the same with all of the scheduler's own work", repeat=5),
    Row("lease", 8, "lease, evictable, release, 8 snapshots deep", repeat=200),
    Row("lease", 64, "the same, 64 snapshots deep", repeat=100),
    Row("lease", 512, "the same, 512 snapshots deep", Goal(5), repeat=100),
    Row("lease-branched", 512, "lease, evictable, release, 512 deep, another context at each snapshot", repeat=50),
    Row("append", 131_072, "append 2,048 tokens at 131,072, as a scheduler does", Goal(0.2, "best"), repeat=10),
    Row("append-index", 131_072, "the same, index work alone", Goal(0.2, "best"), repeat=10),
    Row("publish", 131_072, "64 publishes along 131,072 tokens, index work alone", Goal(0.2, "sglang-rust"), repeat=3),
    Row("evict-state", 1_000, "evict one state, 1,000 leaves"),
    Row("evict-state", 10_000, "evict one state, 10,000 leaves", Goal(10)),
    Row("evict-state", 100_000, "evict one state, 100,000 leaves"),
    Row("evict-page", 1_000, "evict one leaf's KV, 1,000 leaves"),
    Row("evict-page", 10_000, "evict one leaf's KV, 10,000 leaves", Goal(10)),
    Row("evict-page", 100_000, "evict one leaf's KV, 100,000 leaves"),
    Row("memory", 20_000, "bytes a leaf beside tokens and ids", Goal(1000), repeat=1, fresh=True),
    Row("tail", 100_000, "an operation at 100,000 leaves; p99.9, collector on, and off; the anchor spins", repeat=10),
)


@dataclass(slots=True)
class Figures:
    """What a row measured: for each side its values, a list for each round; the collector on, and off."""

    row: Row
    on: dict[str, list[list[float]]] = field(default_factory=dict)
    off: dict[str, list[list[float]]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def median(self, side: str) -> float:
        """Return the median over all rounds of a round's median."""
        return statistics.median(map(statistics.median, self.on[side]))

    def quantile(self, side: str, share: float, collector: bool = True) -> float:
        """Return a quantile of all values of all rounds."""
        values = sorted(value for values in (self.on if collector else self.off)[side] for value in values)
        return values[min(len(values) - 1, int(len(values) * share))]

    @property
    def best(self) -> str | None:
        """Return the fastest peer of this row, None where no peer has it."""
        return min((side for side in PEERS if side in self.on), key=self.median, default=None)

    def ratios(self, against: str, collector: bool = True) -> list[float]:
        """Return our median by the other's, for each round in which both were asked one after the other."""
        rounds = self.on if collector else self.off
        pairs = zip(rounds[OURS], rounds[against], strict=True)
        return [statistics.median(ours) / statistics.median(theirs) for ours, theirs in pairs]


@dataclass(frozen=True, slots=True)
class Spread:
    """Paired ratios over the rounds of a run."""

    median: float
    lower: float
    upper: float
    worst: float

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.lower)} to {_short(self.upper)}, worst {_short(self.worst)})"


def spread(ratios: list[float]) -> Spread:
    """Return the median, the quartiles and the worst of ratios."""
    lower, middle, upper = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return Spread(middle, lower, upper, max(ratios))


def verdict(figures: Figures) -> str:
    """Say whether a row's goal was met, by the median; empty without a goal."""
    goal = figures.row.goal
    if goal is None:
        return ""
    if OURS not in figures.on:
        return "not measured"
    against = figures.best if goal.against == "best" else goal.against
    if against is None:
        value = figures.median(OURS) if goal.against is None else None
    else:
        value = statistics.median(figures.ratios(against)) if against in figures.on else None
    if value is None:
        return "no peer to compare"
    if value <= goal.limit:
        return "met"
    return f"**missed**, {value / goal.limit:.3g} times as much"


def goal_text(goal: Goal | None, unit: str) -> str:
    """Say what a goal asks for."""
    if goal is None:
        return ""
    if goal.against is None:
        return f"at most {goal.limit:,g} {unit}"
    name = "the best peer" if goal.against == "best" else NAMES[goal.against]
    return f"at most {goal.limit:g} times {name}"


def _short(value: float) -> str:
    """Return three digits of a number, whatever its size."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(rows: list[Figures], present: list[str]) -> list[str]:
    """Return the Markdown table: a line for each titled row, a column for each side that took part."""
    sides = [OURS, *(side for side in PEERS if side in present), ANCHOR]
    head = ["work", *(NAMES[side] for side in sides), "to the best peer", "collector off", "goal", ""]
    lines = [_line(head), _line(["---"] * len(head))]
    for figures in rows:
        if figures.row.title:
            unit = "bytes" if figures.row.case == "memory" else "us"
            cells = [_cell(figures, side) for side in sides]
            goal = goal_text(figures.row.goal, unit)
            lines.append(_line([figures.row.title, *cells, *_ratios(figures), goal, verdict(figures)]))
    return lines


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(figures: Figures, side: str) -> str:
    if side in figures.errors:
        return "failed"
    if side not in figures.on:
        return ""
    if figures.row.case == "tail":
        on, off = (figures.quantile(side, 0.999, collector) for collector in (True, False))
        return f"{_short(figures.median(side))}; {_short(on)}, {_short(off)}"
    return _short(figures.median(side))


def _ratios(figures: Figures) -> list[str]:
    """Return the paired ratios to the best peer: the whole spread, and the median with the collector off."""
    best = figures.best
    if best is None or OURS not in figures.on:
        return ["", ""]
    off = figures.ratios(best, collector=False) if figures.off else []
    text = f"{NAMES[best]}: {spread(figures.ratios(best))}"
    return [text, _short(statistics.median(off)) if off else ""]


def slower(rows: list[Figures]) -> list[str]:
    """Name the rows of the table in which a peer is faster, and by how much."""
    found = []
    for figures in rows:
        best = figures.best
        if figures.row.title and best and OURS in figures.on:
            ratio = statistics.median(figures.ratios(best))
            if ratio > 1:
                found.append(f"{figures.row.title}: {NAMES[best]}, {_short(ratio)} times")
    return found


def flatness(rows: list[Figures]) -> list[str]:
    """Say for each case with several sizes in the table how our cost grows from the smallest to the largest."""
    found = []
    for case in dict.fromkeys(figures.row.case for figures in rows):
        sizes = sorted((f for f in rows if f.row.case == case and OURS in f.on), key=lambda f: f.row.size)
        if len(sizes) > 1 and case != "match":
            small, large = sizes[0], sizes[-1]
            ratio = large.median(OURS) / small.median(OURS)
            found.append(f"`{case}`: {_short(ratio)} times from {small.row.size:,} to {large.row.size:,}")
    return found
