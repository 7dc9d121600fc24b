"""FreeToken's side: its HybridRadixCache on CPU tensors, timed in its own interpreter.

Run by FreeToken's interpreter; see `side` for what it is asked. Its requests hold tokens as int32 tensors. There is no
pass over waiting requests: FreeToken looks up what it is about to admit.
"""

from __future__ import annotations

import os
import platform
from importlib import metadata
from itertools import count
from typing import Any

from contexts import PAGE, TURN, leaf, tokens, turn_ends
from side import Case, Measure, now, resident_bytes, serve, since

os.environ.setdefault("LOG_LEVEL", "CRITICAL")  # FreeToken reads it when its first module is imported

import torch


class Tree:
    """One cache and the calls that fill it; cells are counted up."""

    def __init__(self) -> None:
        from freetoken.core import Context, get_global_ctx, set_global_ctx
        from freetoken.distributed.info import set_tp_info, try_get_tp_info
        from freetoken.kvcache.hybrid_radix_cache import HybridRadixCache

        if try_get_tp_info() is None:
            set_tp_info(0, 1)
            set_global_ctx(Context(page_size=PAGE))
        get_global_ctx().page_size = PAGE
        self.cache = HybridRadixCache(torch.device("cpu"), PAGE)
        self.next_index, self.slots = 0, count()

    def pages(self, length: int) -> Any:
        self.next_index += length
        return torch.arange(self.next_index - length, self.next_index, dtype=torch.int32)

    def publish(self, ids: Any, indices: Any) -> None:
        self.cache.insert(ids, indices, next(self.slots))

    def conversation(self, length: int) -> Any:
        """Publish a conversation turn by turn; at each turn's end another one goes on differently for a page."""
        ids, indices = tensor(tokens(length, 1)), self.pages(length)
        for number, end in enumerate(turn_ends(length)):
            self.publish(ids[:end], indices[:end])
            self.branch(ids, indices, end, 100 + number)
        return ids

    def branch(self, ids: Any, indices: Any, end: int, seed: int) -> None:
        """Publish a context that leaves another one at `end` and goes on for a page."""
        branch = torch.cat([ids[:end], tensor(tokens(PAGE, seed))])
        self.publish(branch, torch.cat([indices[:end], self.pages(PAGE)]))

    def leaf(self, number: int) -> None:
        self.publish(tensor(leaf(number)), self.pages(2 * PAGE))


def tensor(ids: list[int]) -> Any:
    return torch.tensor(ids, dtype=torch.int32)


def match(size: int) -> Measure:
    """match_prefix of a tensor that the request holds; the answer has the KV indices."""
    tree = Tree()
    ids = tree.conversation(size)

    def once() -> int:
        started = now()
        found = tree.cache.match_prefix(ids)
        taken = since(started)
        assert len(found[0]) == size
        return taken

    return once


def first_match(size: int) -> Measure:
    """The same from a list of ints: made a tensor, matched."""
    tree = Tree()
    ids = tree.conversation(size).tolist()

    def once() -> int:
        started = now()
        tree.cache.match_prefix(tensor(ids))
        return since(started)

    return once


def lease(size: int) -> Measure:
    """inc_lock of a node with that many snapshots on its path, evictable sizes of KV and states, dec_lock."""
    return _lease(size, branched=False)


def lease_branched(size: int) -> Measure:
    """The same where at each of the snapshots another context goes on, which nobody locks."""
    return _lease(size, branched=True)


def _lease(size: int, branched: bool) -> Measure:
    length = size * PAGE
    tree = Tree()
    ids, indices = tensor(tokens(length, 1)), tree.pages(length)
    for end in range(PAGE, length + 1, PAGE):
        tree.publish(ids[:end], indices[:end])
        if branched:
            tree.branch(ids, indices, end, 100 + end)
    cache, node = tree.cache, tree.cache.match_prefix(ids)[3]

    def once() -> int:
        started = now()
        cache.inc_lock(node)
        sizes = cache.full_evictable_size, cache.mamba_evictable_size
        cache.dec_lock(node)
        taken = since(started)
        assert sizes == ((size * PAGE, 2 * size - 1) if branched else (0, size - 1)), sizes
        return taken

    return once


def append_index(size: int) -> Measure:
    """insert of a key and a value with 2,048 tokens more than the tree has, and its snapshot."""
    tree = Tree()
    ids = tree.conversation(size)
    known = tree.cache.match_prefix(ids)[0]
    numbers = count(9000)

    def once() -> int:
        longer = torch.cat([ids, tensor(tokens(TURN, next(numbers)))])
        indices = torch.cat([known, tree.pages(TURN)])
        started = now()
        tree.publish(longer, indices)
        return since(started)

    return once


def publish(size: int) -> Measure:
    """64 times insert along one prompt, keys and values cut before."""
    ids = tensor(tokens(size, 1))
    ends = [size * part // 64 for part in range(1, 65)]

    def once() -> int:
        tree = Tree()
        indices = tree.pages(size)
        parts = [(ids[:end], indices[:end]) for end in ends]
        started = now()
        for part in parts:
            tree.publish(*part)
        return since(started)

    return once


def _evict(size: int, name: str, amount: int) -> Measure:
    tree = Tree()
    for number in range(size):
        tree.leaf(number)
    evict, numbers = getattr(tree.cache, name), count(size)

    def once() -> int:
        started = now()
        evict(amount)
        taken = since(started)
        tree.leaf(next(numbers))
        return taken

    return once


def evict_state(size: int) -> Measure:
    """evict_mamba(1) with that many leaves, each with a snapshot."""
    return _evict(size, "evict_mamba", 1)


def evict_page(size: int) -> Measure:
    """evict_full of one page's tokens with that many leaves of one page each."""
    return _evict(size, "evict_full", PAGE)


def memory(size: int) -> Measure:
    """Resident memory for each leaf of one page with a snapshot, less 4 bytes for each token and each KV index."""
    tree = Tree()
    for number in range(200):
        tree.leaf(number)
    before = resident_bytes()
    for number in range(200, size):
        tree.leaf(number)
    grown = (resident_bytes() - before) / (size - 200)
    return lambda: round(grown - PAGE * 8)


CASES: dict[str, Case] = {
    "match": match, "first-match": first_match, "lease": lease, "lease-branched": lease_branched,
    "append-index": append_index, "publish": publish, "evict-state": evict_state,
    "evict-page": evict_page, "memory": memory,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(
        {
            "freetoken": metadata.version("freetoken"), "torch": torch.__version__,
            "python": platform.python_version(),
        },
        CASES,
    )
