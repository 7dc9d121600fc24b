"""The prefix index against what bounds it: memory compares, numpy, an idle loop, and itself at other sizes.

Each row has sides that are timed in turns, in rounds; a ratio is the median of the rounds' ratios. A peer is one more
side of a row: a function that does the row's work once and returns what it took, in nanoseconds. `bench.py` does that
for the engines, in interpreters of their own.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from time import perf_counter_ns, thread_time_ns

import numpy as np

from milepost.optimized.index import FULL, RECURRENT, Lease, PrefixIndex, Running

PAGE = 64
Once = Callable[[], int]


@dataclass(frozen=True)
class Row:
    """Work that several sides do; the first is ours, the second what it is a multiple of."""

    title: str
    sides: dict[str, Once]


class Filled:
    """An index, and cells that are never used twice."""

    def __init__(self, ghosts: int = 100_000) -> None:
        self.index = PrefixIndex(PAGE, ghosts=ghosts)
        self.cells = count()

    def publish(self, lease: Lease, run: bytes, stop: int, state: bool = True) -> None:
        """Publish a request's tokens from where its lease ends up to `stop`."""
        start = lease.length
        cells = [next(self.cells) for _ in range((stop - start) // PAGE)]
        states = {stop: next(self.cells)} if state else {}
        self.index.publish(lease, run[4 * start : 4 * stop], cells, states, start=start)

    def context(self, run: bytes) -> None:
        lease = self.index.lease(self.index.match(run))
        self.publish(lease, run, len(run) // 4 // PAGE * PAGE)
        self.index.release(lease)

    def conversation(self, length: int, branches: int) -> bytes:
        """Publish a context from which that many others branch off, so that its path has as many nodes."""
        run = tokens(length, 1)
        for number in range(1, branches):
            end = length // branches * number
            self.context(run[: 4 * end] + tokens(PAGE, 100 + number))
        self.context(run)
        return run


def tokens(length: int, seed: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 150_000, length, dtype=np.int32).tobytes()


def timed(work: Callable[[], object]) -> Once:
    def once() -> int:
        started = perf_counter_ns()
        work()
        return perf_counter_ns() - started

    return once


def matches() -> Iterator[Row]:
    for length, branches in ((1024, 1), (1024, 4), (131_072, 1), (131_072, 64), (131_072, 512)):
        filled = Filled()
        run = filled.conversation(length, branches)
        other, asked = bytes(bytearray(run)), run + tokens(1, 2)
        left, right = np.frombuffer(run, np.int32), np.frombuffer(other, np.int32)
        yield Row(f"match {length:,} tokens, {branches} nodes, with page ids", {
            "index": timed(lambda filled=filled, asked=asked: filled.index.match(asked).cells),
            "memcmp": timed(lambda run=run, other=other: run == other),
            "numpy": timed(lambda left=left, right=right: np.array_equal(left, right)),
        })  # fmt: skip


def waiting() -> Row:
    """128 waiting requests: nothing has changed, another context has been published, each is looked up again."""
    filled = Filled()
    run = filled.conversation(131_072, 64)
    queue = [filled.index.match(run + tokens(PAGE, number)) for number in range(128)]
    numbers = count(10_000)

    def changed() -> int:
        filled.context(tokens(PAGE, next(numbers)))
        return timed(lambda: filled.index.refresh_all(queue))()

    again = timed(lambda: [filled.index.match(one.tokens) for one in queue])
    unchanged = timed(lambda: filled.index.refresh_all(queue))
    filled.index.refresh_all(queue)
    return Row("128 waiting requests of 131,072 tokens: unchanged, another published, all looked up",
               {"index": unchanged, "changed": changed, "again": again})  # fmt: skip


def decode() -> Row:
    """256 requests decode by one token; four of them fill a page."""
    filled, requests = Filled(), 256
    running, rows = Running(filled.index, requests), []
    for number in range(requests):
        run = tokens(PAGE + number % PAGE, number)
        lease = filled.index.lease(filled.index.match(run))
        filled.publish(lease, run, PAGE)
        rows.append(running.join(lease, run[4 * PAGE :], next(filled.cells)))
    numbered, sampled = np.array(rows), np.arange(requests, dtype=np.int32)

    def once() -> int:
        started = perf_counter_ns()
        appended = running.append(numbered, sampled)
        taken = perf_counter_ns() - started
        running.cells[appended.full] = [next(filled.cells) for _ in appended.full]
        return taken

    plain = [bytearray() for _ in range(requests)]
    loop = timed(lambda: [one.extend(b"\0\0\0\0") for one in plain])
    return Row("a decode step of 256 requests; a bare loop of appends", {"index": once, "loop": loop})


def leases() -> Row:
    """Lease, count, release with 512 snapshots and with 1 on the path, and with 512 branchings."""

    def lease(pages: int, branches: int) -> Once:
        filled = Filled()
        run = tokens(pages * PAGE, 1)
        for end in range(1, branches):
            filled.context(run[: 4 * end * PAGE] + tokens(PAGE, 100 + end))
        held = filled.index.lease(filled.index.match(run))
        for end in range(held.length + PAGE, pages * PAGE + 1, PAGE):
            filled.publish(held, run, end)
        filled.index.release(held)
        index, found = filled.index, filled.index.match(run + tokens(1, 2))
        assert found.length == pages * PAGE
        return timed(lambda: (index.release(index.lease(found)), index.evictable(FULL), index.evictable(RECURRENT)))

    return Row("lease, evictable, release: 512 snapshots deep, 1 deep, below 512 branchings",
               {"index": lease(512, 1), "shallow": lease(1, 1), "branchings": lease(512, 512)})  # fmt: skip


def leaves(number: int) -> Filled:
    """An index of that many contexts, a hundred of them always behind the same page."""
    filled = Filled(ghosts=number)
    for one in range(number):
        filled.context(tokens(PAGE, one % (number // 100)) + tokens(PAGE, 10**6 + one))
    return filled


def evictions() -> Iterator[Row]:
    for kind, title in ((FULL, "a leaf's page"), (RECURRENT, "a state")):
        sides = {}
        for number in (10_000, 1_000, 100_000):
            filled, numbers = leaves(number), count(10**8)

            def once(filled: Filled = filled, numbers: count[int] = numbers, kind: str = kind) -> int:
                started = perf_counter_ns()
                filled.index.evict({FULL if kind == FULL else RECURRENT: 1})
                taken = perf_counter_ns() - started
                filled.context(tokens(PAGE, 3) + tokens(PAGE, next(numbers)))
                return taken

            sides[f"{number:,} leaves"] = once
        yield Row(f"evict {title}: 10,000 leaves, 1,000, 100,000", sides)


def growth() -> Row:
    """Append 2,048 tokens and a state at 131,072, and publish 131,072 in 64 parts."""
    filled = Filled()
    run = filled.conversation(131_072, 64)
    numbers, whole, copied = count(10_000), tokens(131_072, 7), tokens(2048, 3)

    def append() -> int:
        asked = run + tokens(2048, next(numbers))
        lease = filled.index.lease(filled.index.match(asked))
        taken = timed(lambda: filled.publish(lease, asked, lease.length + 2048))()
        filled.index.release(lease)
        return taken

    def publish() -> int:
        fresh = Filled()
        lease = fresh.index.lease(fresh.index.match(whole))
        return timed(lambda: [fresh.publish(lease, whole, end) for end in range(2048, 131_073, 2048)])()

    return Row("append 2,048 tokens at 131,072; copying them; 64 such publishes along 131,072",
               {"index": append, "copy": timed(lambda: bytearray(copied)), "64 publishes": publish})  # fmt: skip


def measure(row: Row, rounds: int, repeat: int) -> dict[str, list[float]]:
    """Return for each side the median of each round, in microseconds; rounds take the sides in changing order."""
    medians: dict[str, list[float]] = {side: [] for side in row.sides}
    order, chance = list(row.sides), random.Random(1)
    for _ in range(rounds):
        chance.shuffle(order)
        for side in order:
            medians[side].append(statistics.median(row.sides[side]() for _ in range(repeat)) / 1000)
    return medians


def memory() -> str:
    """Bytes that 10,000 leaves with a snapshot each cost beside their tokens and page ids, as the allocator counts."""
    leaves(1_000)  # what only the first index costs
    gc.collect()
    tracemalloc.start()
    filled = leaves(10_000)
    gc.collect()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    edges = list(filled.index.tree.edges())
    held = sum(len(edge.stamps) for edge in edges) * (4 * PAGE + 4)
    return f"memory: {(grown - held) / len(edges):.0f} bytes a node, its snapshot included"


def in_thread(work: Callable[[], object]) -> Callable[[], tuple[int, int]]:
    """Time work on the wall and by what the thread itself was busy: the rest is what the machine did meanwhile."""

    def once() -> tuple[int, int]:
        busy, started = thread_time_ns(), perf_counter_ns()
        work()
        return perf_counter_ns() - started, thread_time_ns() - busy

    return once


def quantiles(pairs: list[tuple[int, int]]) -> str:
    """Return the median, the 99.9th percentile and the worst, on the wall and by the thread, in microseconds."""
    at = int(len(pairs) * 0.999)
    wall, busy = (sorted(values) for values in zip(*pairs, strict=True))
    return " / ".join(
        f"{values[len(values) // 2] / 1000:.1f}, {values[at] / 1000:.1f}, {values[-1] / 1000:.0f}"
        for values in (wall, busy)
    )


def tail(number: int) -> Iterator[str]:
    """What an operation takes at worst, at that many nodes, beside a loop that does nothing and takes as long."""
    filled, chance, numbers = leaves(number), random.Random(5), count(10**8)
    prompts = [tokens(PAGE, one % (number // 100)) + tokens(PAGE, 10**6 + one) for one in range(0, number, 97)]
    fresh = [tokens(PAGE, 3) + tokens(PAGE, 10**8 + one) for one in range(5_000)]

    def operation() -> None:
        run = chance.choice(prompts) + b"\1\0\0\0"
        filled.index.release(filled.index.lease(filled.index.match(run)))
        if chance.random() < 0.25:
            filled.index.evict({RECURRENT: 1, FULL: 1})
            filled.context(fresh[next(numbers) % len(fresh)])

    for mode, begin in {"collector on": gc.enable, "frozen": gc.freeze, "collector off": gc.disable}.items():
        gc.collect()  # what earlier rows have left
        begin()
        collected = timed(gc.collect)() / 1000
        before = gc.get_stats()[2]["collections"]
        ours, idle = in_thread(operation), in_thread(lambda: sum(range(1_500)))
        busy, nothing = [], []
        for _ in range(100_000):
            busy.append(ours())
            nothing.append(idle())
        full = gc.get_stats()[2]["collections"] - before
        yield f"{mode}: ours {quantiles(busy)}; idle {quantiles(nothing)}"
        yield f"{mode}: a full collection takes {collected:.0f} us, and there were {full}"
    gc.enable()
    gc.unfreeze()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    rounds = arguments.parse_args().rounds
    for row in chain(matches(), (build() for build in (waiting, decode, leases, growth)), evictions()):
        medians = measure(row, rounds, repeat=10 if "64 publishes" in row.sides else 50)
        ours = next(iter(row.sides))
        print(row.title)
        for side, values in medians.items():
            ratios = [mine / other for mine, other in zip(medians[ours], values, strict=True)]
            ratio = f"   {ours} / {side}: {statistics.median(ratios):.2f}, at worst {max(ratios):.2f}"
            print(f"    {side:14} {statistics.median(values):10.1f} us{'' if side == ours else ratio}")
    del row, medians
    print(memory())
    print("an operation at 100,000 nodes: median, p99.9 and worst in microseconds, on the wall / by the thread")
    for line in tail(100_000):
        print(f"    {line}")


if __name__ == "__main__":
    main()
