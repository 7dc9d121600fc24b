"""Our side: the prefix index alone, in the form in which a request holds its tokens, bytes of int32.

Run by the project's interpreter; see `side` for what it is asked. Cells are counted up where an engine would take them
from its pools.
"""

from __future__ import annotations

import platform
import random
from importlib import metadata
from itertools import count, islice
from typing import Any

import numpy as np
from contexts import PAGE, TURN, leaf, tokens, turn_ends
from side import Case, Measure, now, resident_bytes, serve, since

from milepost.optimized.index import FULL, RECURRENT, PrefixIndex, Running, packed


class Tree:
    """One index and the calls that fill it."""

    def __init__(self, ghosts: int = 100_000) -> None:
        self.index = PrefixIndex(PAGE, ghosts=ghosts)
        self.cells, self.slots = count(), count()

    def pages(self, length: int) -> list[int]:
        return list(islice(self.cells, length // PAGE))

    def open(self, ids: bytes, cap: int | None = None) -> Any:
        return self.index.lease(self.index.match(ids, cap=cap))

    def publish(self, lease: Any, ids: bytes, end: int) -> None:
        """Publish a request's tokens up to `end` with a snapshot there, from where its lease ends."""
        start, state = lease.length, {end: next(self.slots)}
        self.index.publish(lease, ids[start * 4 : end * 4], self.pages(end - start), state, start=start)

    def conversation(self, length: int) -> bytes:
        """Publish a conversation turn by turn; at each turn's end another one goes on differently for a page."""
        ids = packed(tokens(length, 1))
        lease = self.open(ids)
        for number, end in enumerate(turn_ends(length)):
            self.publish(lease, ids, end)
            self.branch(ids, end, 100 + number)
        self.index.release(lease)
        return ids

    def branch(self, ids: bytes, end: int, seed: int) -> None:
        """Publish a context that leaves another one at `end` and goes on for a page."""
        branch = ids[: end * 4] + packed(tokens(PAGE, seed))
        lease = self.open(branch + packed([1]))
        self.publish(lease, branch, end + PAGE)
        self.index.release(lease)

    def leaf(self, number: int) -> None:
        ids = packed(leaf(number))
        lease = self.open(ids)
        self.publish(lease, ids, 2 * PAGE)
        self.index.release(lease)

    def leaves(self, number: int) -> None:
        for one in range(number):
            self.leaf(one)


def match(size: int) -> Measure:
    """index.match of bytes that the request holds; the answer has the page ids as an array."""
    tree = Tree()
    return _matched(tree, tree.conversation(size) + packed([1]), size)


def first_match(size: int) -> Measure:
    """The same from a list of ints: packed into bytes, matched."""
    tree = Tree()
    return _matched(tree, [*np.frombuffer(tree.conversation(size), np.int32).tolist(), 1], size)


def _matched(tree: Tree, ids: bytes | list[int], size: int) -> Measure:
    find = tree.index.match

    def once() -> int:
        started = now()
        cells = find(ids).cells
        taken = since(started)
        assert len(cells) == size // PAGE
        return taken

    return once


def waiting(size: int) -> Measure:
    """index.refresh_all of the matches of a waiting queue, each with 131,072 cached tokens and 64 more."""
    length = 131_072
    tree = Tree()
    ids = tree.conversation(length)
    queue = [tree.index.match(ids + packed(tokens(PAGE, 5000 + number))) for number in range(size)]

    def once() -> int:
        started = now()
        found = tree.index.refresh_all(queue)
        taken = since(started)
        assert all(one.length == length for one in found)
        return taken

    return once


def waiting_changed(size: int) -> Measure:
    """The same after a step in which another request has published a context and the least recent state was evicted."""
    length = 131_072
    tree = Tree()
    tree.leaves(500)
    ids = tree.conversation(length)
    queue = [tree.index.match(ids + packed(tokens(PAGE, 5000 + number))) for number in range(size)]
    numbers = count(500)

    def once() -> int:
        nonlocal queue
        tree.leaf(next(numbers))
        tree.index.evict({RECURRENT: 1})
        started = now()
        queue = tree.index.refresh_all(queue)
        taken = since(started)
        assert all(one.length == length for one in queue)
        tree.index.release(tree.index.lease(queue[0]))  # what waits stays recent, as a scheduler sees to
        return taken

    return once


def decode(size: int) -> Measure:
    """Running.append of one token for each of that many requests, at 64 different places of their pages, page ids set.

    One request in 64 fills its page in a step, which publishes it and takes a new id.
    """
    tree, length = Tree(), 256
    running, rows = Running(tree.index, size), []
    for number in range(size):
        ids = packed(tokens(length + PAGE, 7000 + number))
        held = tree.open(ids)
        tree.publish(held, ids, length)
        rows.append(running.join(held, ids[length * 4 : (length + number % PAGE) * 4], next(tree.cells)))
    all_rows, said, cells = np.array(rows), np.full(size, 5, np.int32), tree.cells

    def once() -> int:
        started = now()
        appended = running.append(all_rows, said)
        for row in appended.full:
            running.cells[row] = next(cells)
        return since(started)

    return once


def lease(size: int) -> Measure:
    """index.lease of a match with that many snapshots on its path, evictable of pages and states, index.release."""
    return _lease(size, branched=False)


def lease_branched(size: int) -> Measure:
    """The same where at each of the snapshots another context goes on, which nobody leases."""
    return _lease(size, branched=True)


def _lease(size: int, branched: bool) -> Measure:
    length = size * PAGE
    tree = Tree()
    index, ids = tree.index, packed(tokens(length, 1))
    request = tree.open(ids)
    for end in range(PAGE, length + 1, PAGE):
        tree.publish(request, ids, end)
        if branched:
            tree.branch(ids, end, 100 + end)
    index.release(request)
    found = index.match(ids + packed([1]))

    def once() -> int:
        started = now()
        held = index.lease(found)
        sizes = index.evictable(FULL), index.evictable(RECURRENT)
        index.release(held)
        taken = since(started)
        assert sizes == ((size, 2 * size - 1) if branched else (0, size - 1)), sizes
        return taken

    return once


def append(size: int) -> Measure:
    """index.publish of 2,048 tokens, 32 pages and a snapshot behind a lease of that length."""
    tree = Tree()
    ids = tree.conversation(size)
    numbers = count(9000)

    def once() -> int:
        tail, pages, slot = packed(tokens(TURN, next(numbers))), tree.pages(TURN), next(tree.slots)
        held = tree.open(ids + tail)
        assert held.length == size
        started = now()
        tree.index.publish(held, tail, pages, {size + TURN: slot}, start=size)
        taken = since(started)
        tree.index.release(held)
        return taken

    return once


def publish(size: int) -> Measure:
    """64 times index.publish along one prompt, each of the new part, cut before."""
    tree = Tree()
    ids = packed(tokens(size, 1))
    ends = [size * part // 64 for part in range(1, 65)]

    def once() -> int:
        tree.index.reset()
        held = tree.open(ids)
        parts = [
            (ids[known * 4 : end * 4], tree.pages(end - known), {end: next(tree.slots)}, known)
            for end, known in zip(ends, [0, *ends], strict=False)
        ]
        started = now()
        for part, pages, state, known in parts:
            tree.index.publish(held, part, pages, state, start=known)
        taken = since(started)
        tree.index.release(held)
        return taken

    return once


def _evict(size: int, kind: Any) -> Measure:
    ghosts = 100
    tree = Tree(ghosts)
    tree.leaves(size + ghosts)
    tree.index.evict({FULL: ghosts})  # from here on each page that goes drives out the oldest ghost
    numbers = count(size + ghosts)

    def once() -> int:
        started = now()
        given_up = tree.index.evict({kind: 1})
        taken = since(started)
        assert given_up
        tree.leaf(next(numbers))
        return taken

    return once


def evict_state(size: int) -> Measure:
    """index.evict of one state with that many leaves, each with a snapshot."""
    return _evict(size, RECURRENT)


def evict_page(size: int) -> Measure:
    """index.evict of one page with that many leaves of one page each; its key is kept, the oldest kept one dropped."""
    return _evict(size, FULL)


def memory(size: int) -> Measure:
    """Resident memory for each leaf of one page with a snapshot, less 4 bytes for each token and each page id."""
    tree = Tree()
    tree.leaves(200)
    before = resident_bytes()
    for number in range(200, size):
        tree.leaf(number)
    grown = (resident_bytes() - before) / (size - 200)
    return lambda: round(grown - PAGE * 4 - 4)


def tail(size: int) -> Measure:
    """1,000 times: match a context, lease and release it; each fourth time evict a state.

    After each eviction a context is published, which is not timed.
    """
    tree = Tree()
    tree.leaves(size)
    index, numbers, chance = tree.index, count(size), random.Random(3)

    def once() -> list[float]:
        taken: list[float] = []
        for turn in range(1000):
            ids = packed(leaf(chance.randrange(size)))
            started = now()
            index.release(index.lease(index.match(ids)))
            taken.append(since(started))
            if turn % 4 == 0:
                started = now()
                index.evict({RECURRENT: 1})
                taken.append(since(started))
                tree.leaf(next(numbers))
        return taken

    return once


CASES: dict[str, Case] = {
    "match": match, "match-tokens": match, "first-match": first_match, "waiting": waiting,
    "waiting-changed": waiting_changed, "decode": decode, "lease": lease, "lease-branched": lease_branched,
    "append": append, "append-index": append, "publish": publish, "evict-state": evict_state,
    "evict-page": evict_page, "memory": memory, "tail": tail,
}

if __name__ == "__main__":
    serve({"milepost": metadata.version("milepost"), "python": platform.python_version()}, CASES)
