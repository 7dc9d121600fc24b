"""What more groups cost the production cache: a match with a fourth one, and pages that slide out of a window.

    .venv/bin/python benchmarks/groups.py

A match is timed with the cells of all its groups read, in turns with the one that it is a ratio of; the median of the
rounds' ratios counts. Sliding out is timed where the cache does it, at the landings of one long prompt.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from itertools import count
from time import perf_counter_ns

import numpy as np

from milepost.optimized.cache import PrefixCache
from milepost.optimized.index import PrefixIndex
from milepost.optimized.requests import Request
from milepost.spec.answers import Grant
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.layout import first_column
from milepost.spec.words import GroupKind

TOKENS, GRID = 131_072, 128
FULL = Group("kv", GroupKind.FULL, "kv", page_size=16)
WINDOW = Group("window", GroupKind.WINDOW, "window", page_size=16, window=1024)
FINE = Group("fine", GroupKind.COMPRESSED, "fine", page_size=64, ratio=4)
COARSE = Group("coarse", GroupKind.COMPRESSED, "coarse", page_size=128, ratio=128)


class Filled:
    """An index with a context of all tokens, from which others branch off, and the prompt that finds it."""

    def __init__(self, page: int, sides: Sequence[Group], branches: int) -> None:
        self.index, self.sides, self.cells = PrefixIndex(page, GRID, sides=sides), sides, count()
        tokens = np.random.default_rng(7).integers(0, 1 << 17, TOKENS + 1).astype(np.int32)
        self.prompt = tokens.tobytes()
        self.publish(self.prompt[: 4 * TOKENS])
        for number in range(1, branches):
            end = TOKENS // branches * number // GRID * GRID
            self.publish(self.prompt[: 4 * end] + np.full(GRID, number, np.int32).tobytes())

    def publish(self, run: bytes) -> None:
        """Publish a context, of windows what a resumption at its end needs, and the state there."""
        index, length = self.index, len(run) // 4
        lease = index.lease(index.match(run))
        start = lease.length
        cells = [next(self.cells) for _ in range((length - start) // index.page_size)]
        index.publish(lease, run[4 * start :], cells, {length: next(self.cells)}, start=start)
        for group in self.sides:
            leased = index.leased_columns(lease, group.name)
            columns = range(first_column(group, length), length // group.page_size)
            index.publish_side(lease, group.name, {one: next(self.cells) for one in columns if one not in leased})
        index.release(lease)

    def match(self) -> int:
        """Look the prompt up and read the cells of all groups; return the nanoseconds that it took."""
        began = perf_counter_ns()
        match = self.index.match(self.prompt)
        _ = match.cells, match.state, [match.side(group.name).cells for group in self.sides]
        took = perf_counter_ns() - began
        assert match.length == TOKENS
        return took


def paired(first: Filled, second: Filled, rounds: int) -> tuple[float, float, float]:
    """Return both medians in microseconds, and the median of the rounds' ratios of the second to the first."""
    pairs = [(min(first.match() for _ in range(5)), min(second.match() for _ in range(5))) for _ in range(rounds)]
    medians = (statistics.median(pair[side] for pair in pairs) / 1e3 for side in (0, 1))
    ratio = statistics.median(later / earlier for earlier, later in pairs)
    return next(medians), next(medians), ratio


class Timed(PrefixCache):
    """Notes what sliding out took, by where a request was."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration, warns=False)
        self.slides: list[tuple[int, int, int]] = []

    def slide_out(self, claim: Request) -> None:
        """Slide out; note the landed length, the pages that came free, and the nanoseconds."""
        pool = self.pools[WINDOW.pool]
        free, began = len(pool.free), perf_counter_ns()
        super().slide_out(claim)
        self.slides.append((claim.landed, len(pool.free) - free, perf_counter_ns() - began))


def slide(steps: Sequence[int]) -> list[tuple[int, int, int]]:
    """Run one prompt in steps of these sizes in turn; return what sliding out took at each landing."""
    pools = {"kv": TOKENS // 16 + 1, "window": 1024}
    cache = Timed(Configuration(16, 16, pools, groups=(FULL, WINDOW)))
    cache.open("r", tuple(range(TOKENS)), (), {})
    length, number = 0, 0
    while length < TOKENS:
        granted = cache.extend("r", min(TOKENS, length + steps[number % len(steps)]))
        assert isinstance(granted, Grant)
        cache.land(cache.launch().step, {}, {})
        length, number = granted.length, number + 1
    return cache.slides


def print_matches(rounds: int) -> None:
    """Print a match's cost with three groups and with a fourth one."""
    print("| page | nodes on the path | the fourth group | three groups us | four groups us | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for page in (16, 64):
        window = Group("window", GroupKind.WINDOW, "window", page_size=page, window=1024)
        for branches in (1, 32):
            before = Filled(page, (window,), branches)
            for name, fourth in (("compressed, ratio 4", FINE), ("compressed, ratio 128", COARSE)):
                first, second, ratio = paired(before, Filled(page, (window, fourth), branches), rounds)
                print(f"| {page} | {branches} | {name} | {first:.1f} | {second:.1f} | {ratio:.2f} |")


def print_slides() -> None:
    """Print what a freed page costs, by how many are freed at once and how long the context is."""
    slides = [one for size in (16, 128, 1024, 8192) for one in slide((size,)) if one[1]]
    print("| pages freed at once | at 8,192 tokens ns a page | at 65,536 | at 131,072 |")
    print("| --- | --- | --- | --- |")
    for freed in sorted({pages for _, pages, _ in slides if pages in (1, 8, 64, 512)}):
        cells = []
        for place in (8192, 65_536, TOKENS):
            near = [took / freed for at, pages, took in slides if pages == freed and place * 0.75 <= at <= place * 1.01]
            cells.append(f"{statistics.median(near):.0f}" if near else "")
        print(f"| {freed} | {' | '.join(cells)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    chosen = parser.parse_args()
    print_matches(chosen.rounds)
    print()
    print_slides()
