"""SGLang's side: its UnifiedRadixCache, pools, requests and scheduling policy on a CPU, timed in its own interpreter.

Run by SGLang's interpreter with the name of a tree core, `rust` or `python`; see `side` for what it is asked. Calls are
those of its scheduler, in the form in which its requests hold tokens: `array('q')`.
"""

from __future__ import annotations

import sys
from array import array
from importlib import metadata
from itertools import count
from typing import Any

from contexts import PAGE, TRUNKS, TURN, leaf, tokens, turn_ends
from side import Case, Measure, now, resident_bytes, serve, since

from milepost.conformance.adapters.sglang_engine import Engine
from milepost.conformance.adapters.sglang_settings import Settings

CORE = sys.argv[1]


class Tree:
    """One engine and the calls that fill its tree."""

    def __init__(self, capacity: int, slots: int, rows: int = 4) -> None:
        self.engine = Engine(Settings(CORE, "extra_buffer", PAGE, True), capacity, slots, rows)
        from sglang.srt.mem_cache import base_prefix_cache, radix_cache

        self.base, self.key = base_prefix_cache, radix_cache.RadixKey
        self.cache, self.pool, self.torch = self.engine.tree, self.engine.pool, self.engine.m.torch
        self.trunks: dict[int, Any] = {}

    def pages(self, length: int) -> Any:
        """Allocate KV for that many tokens, as indices of the form that the tree keeps."""
        return self.engine.allocator.alloc(length).to(self.torch.int64)

    def state(self) -> Any:
        return self.pool.mamba_allocator.alloc(1)

    def insert(self, ids: array[int], indices: Any, state: Any, known: int = 0) -> Any:
        return self.cache.insert(
            self.base.InsertParams(key=self.key(ids), value=indices, mamba_value=state, prev_prefix_len=known)
        )

    def conversation(self, length: int) -> array[int]:
        """Publish a conversation turn by turn; at each turn's end another one goes on differently for a page."""
        ids, indices = array("q", tokens(length, 1)), self.pages(length)
        known = 0
        for number, end in enumerate(turn_ends(length)):
            self.insert(ids[:end], indices[:end].clone(), self.state(), known)
            known = end
            self.branch(ids, indices, end, 100 + number)
        return ids

    def branch(self, ids: array[int], indices: Any, end: int, seed: int) -> None:
        """Publish a context that leaves another one at `end` and goes on for a page."""
        branch = ids[:end] + array("q", tokens(PAGE, seed))
        self.insert(branch, self.torch.cat([indices[:end], self.pages(PAGE)]), self.state(), end)

    def leaves(self, number: int) -> None:
        """Publish that many short contexts, each with a snapshot at its end."""
        for one in range(number):
            self.leaf(one)

    def leaf(self, number: int) -> None:
        ids, trunk = array("q", leaf(number)), self.trunks.get(number % TRUNKS)
        if trunk is None:
            indices = self.pages(2 * PAGE)
            self.trunks[number % TRUNKS] = indices[:PAGE].clone()
        else:
            indices = self.torch.cat([trunk, self.pages(PAGE)])
        self.insert(ids, indices, self.state(), 0 if trunk is None else PAGE)

    def find(self, ids: array[int], limit: int) -> Any:
        """Match, and ask for the indices of the hit, as a scheduling pass and the allocation after it do."""
        found = self.cache.match_prefix(self.base.MatchPrefixParams(key=self.key(ids, limit=limit)))
        return self.cache.path_device_indices(found.last_device_node)

    def deepest(self, ids: array[int]) -> int:
        return self.cache.match_prefix(self.base.MatchPrefixParams(key=self.key(ids))).last_device_node


def match(size: int) -> Measure:
    """match_prefix of an array that the request holds, with path_device_indices."""
    tree = Tree(2 * size + 4096, size // TURN * 2 + 64)
    ids = tree.conversation(size) + array("q", [1])

    def once() -> int:
        started = now()
        found = tree.find(ids, size)
        taken = since(started)
        assert len(found) == size
        return taken

    return once


def first_match(size: int) -> Measure:
    """The same from a list of ints: array('q', list), match_prefix, path_device_indices."""
    tree = Tree(2 * size + 4096, size // TURN * 2 + 64)
    ids = list(tree.conversation(size) + array("q", [1]))

    def once() -> int:
        started = now()
        tree.find(array("q", ids), size)
        return since(started)

    return once


def _queue(tree: Tree, ids: Any, size: int) -> list[Any]:
    return [
        tree.engine.new_request(f"w{number}", (*ids, *tokens(PAGE, 5000 + number)), None, None)
        for number in range(size)
    ]


def waiting(size: int) -> Measure:
    """SchedulePolicy("lpm").calc_priority of a waiting queue, each request with 131,072 cached tokens and 64 more."""
    length = 131_072
    tree = Tree(2 * length + 8192, 256)
    ids = tree.conversation(length)
    policy = tree.engine.m.schedule_policy.SchedulePolicy("lpm", tree.cache, False, False, False)
    queue = _queue(tree, ids, size)

    def once() -> int:
        started = now()
        policy.calc_priority(queue)
        taken = since(started)
        assert all(request.prefix_len == length for request in queue)
        return taken

    return once


def waiting_changed(size: int) -> Measure:
    """The same after a step in which another request has published a context and the least recent state was evicted."""
    length = 131_072
    tree = Tree(2 * length + 200 * TURN, 1400)
    tree.leaves(500)
    ids = tree.conversation(length)
    policy = tree.engine.m.schedule_policy.SchedulePolicy("lpm", tree.cache, False, False, False)
    queue = _queue(tree, ids, size)
    numbers, parameters = count(500), tree.base.EvictParams(mamba_num=1)
    policy.calc_priority(queue)

    def once() -> int:
        tree.leaf(next(numbers))
        tree.cache.evict(parameters)
        started = now()
        policy.calc_priority(queue)
        taken = since(started)
        assert all(request.prefix_len == length for request in queue)
        return taken

    return once


def lease(size: int) -> Measure:
    """cache.lock of a node with that many snapshots on its path, evictable sizes of KV and states, cache.unlock."""
    return _lease(size, branched=False)


def lease_branched(size: int) -> Measure:
    """The same where at each of the snapshots another context goes on, which nobody locks."""
    return _lease(size, branched=True)


def _lease(size: int, branched: bool) -> Measure:
    length = size * PAGE
    tree = Tree(2 * length + 4096, 2 * size + 64)
    ids, indices = array("q", tokens(length, 1)), tree.pages(length)
    for end in range(PAGE, length + 1, PAGE):
        tree.insert(ids[:end], indices[:end].clone(), tree.state(), end - PAGE)
        if branched:
            tree.branch(ids, indices, end, 100 + end)
    cache, node = tree.cache, tree.deepest(ids)

    def once() -> int:
        started = now()
        lock = cache.lock(node)
        sizes = cache.full_evictable_size(), cache.mamba_evictable_size()
        cache.unlock(lock)
        taken = since(started)
        assert sizes == ((size * PAGE, 2 * size - 1) if branched else (0, size - 1)), sizes
        return taken

    return once


def append(size: int) -> Measure:
    """checkpoint_kv_cache of a chunk of 2,048 tokens that was computed behind a hit of that length."""
    tree = Tree(size + 60 * TURN, 256)
    engine, common = tree.engine, tree.engine.m.common
    ids = tuple(tree.conversation(size))
    numbers = count(9000)

    def once() -> int:
        request = engine.new_request("a", (*ids, *tokens(2 * TURN, next(numbers))), None, None)
        engine.begin_pass()
        engine.look_up(request)
        assert request.prefix_len == size
        assert engine.admit(request, size + TURN) is request
        batch, _ = engine.prepare_prefill(request)
        engine.run([batch])
        engine.process(batch, [1])
        started = now()
        common.checkpoint_kv_cache(request, tree.cache)
        taken = since(started)
        assert request.kv.cache_protected_len == size + TURN, request.kv.cache_protected_len
        engine.abort(request)
        return taken

    return once


def append_index(size: int) -> Measure:
    """cache.insert alone of a key and a value with 2,048 tokens more than the tree has, and its snapshot."""
    tree = Tree(size + 200 * TURN, 512)
    ids = tree.conversation(size)
    known = tree.find(ids + array("q", [1]), size).clone()
    numbers = count(9000)

    def once() -> int:
        if tree.engine.allocator.available_size() < 2 * TURN or tree.pool.mamba_allocator.available_size() < 2:
            tree.engine.evict(TURN, 1)
        longer = ids + array("q", tokens(TURN, next(numbers)))
        indices, state = tree.torch.cat([known, tree.pages(TURN)]), tree.state()
        started = now()
        found = tree.insert(longer, indices, state, size)
        taken = since(started)
        assert found.prefix_len == size, found
        return taken

    return once


def publish(size: int) -> Measure:
    """64 times cache.insert along one prompt, keys and values made before."""
    tree = Tree(size + 4096, 256)
    ids = array("q", tokens(size, 1))
    ends = [size * part // 64 for part in range(1, 65)]

    def once() -> int:
        tree.engine.flush()
        indices = tree.pages(size)
        parts = [
            (ids[:end], indices[:end].clone(), tree.state(), known)
            for end, known in zip(ends, [0, *ends], strict=False)
        ]
        started = now()
        for part in parts:
            tree.insert(*part)
        return since(started)

    return once


def _evict(size: int, request: dict[str, int]) -> Measure:
    tree = Tree(PAGE * (size + 600), size + 400)
    tree.leaves(size)
    parameters = tree.base.EvictParams(**request)
    numbers = count(size)

    def once() -> int:
        started = now()
        tree.cache.evict(parameters)
        taken = since(started)
        tree.leaf(next(numbers))
        return taken

    return once


def evict_state(size: int) -> Measure:
    """cache.evict(mamba_num=1) with that many leaves, each with a snapshot."""
    return _evict(size, {"mamba_num": 1})


def evict_page(size: int) -> Measure:
    """cache.evict of one page's tokens with that many leaves of one page each."""
    return _evict(size, {"num_tokens": PAGE})


def decode(size: int) -> Measure:
    """prepare_for_decode of one batch of that many running requests: it allocates KV and fills their rows."""
    length, steps = 256, 640
    tree = Tree(size * (length + steps), 5 * size + 64, size)
    engine, m, torch = tree.engine, tree.engine.m, tree.torch
    requests = []
    for number in range(size):
        request = engine.new_request(f"d{number}", tuple(tokens(length, 7000 + number)), None, None)
        engine.begin_pass()
        engine.look_up(request)
        assert engine.admit(request, length) is request
        batch, _ = engine.prepare_prefill(request)
        engine.run([batch])
        engine.process(batch, [1])
        requests.append(request)
    engine._publish()
    batch = m.schedule_batch.ScheduleBatch.init_new(
        requests, engine.pool, engine.allocator, engine.tree, engine.model, True, m.no_speculation
    )
    batch.req_pool_indices = torch.tensor([request.kv.req_pool_idx for request in requests], dtype=torch.int64)
    batch.req_pool_indices_cpu = batch.req_pool_indices
    batch.seq_lens = torch.tensor([request.kv.kv_committed_len for request in requests], dtype=torch.int64)
    batch.seq_lens_cpu = batch.seq_lens.clone()
    batch.orig_seq_lens = batch.seq_lens.to(torch.int32)
    batch.multimodal_inputs = [None] * size
    batch.sampling_info = m.sampling_info.from_schedule_batch(batch, engine.model.vocab_size)

    def once() -> int:
        started = now()
        assert batch.check_decode_mem()
        batch.prepare_for_decode()
        taken = since(started)
        for request in requests:
            request.output_ids.append(1)
        return taken

    return once


def memory(size: int) -> Measure:
    """Resident memory for each leaf of one page with a snapshot, its pools' tensors apart.

    They are allocated before, and touched: what grows is the tree, with 8 bytes for each token and each index.
    """
    tree = Tree(PAGE * (size + 600), size + 400)
    tree.leaves(200)
    before = resident_bytes()
    for number in range(200, size):
        tree.leaf(number)
    grown = (resident_bytes() - before) / (size - 200)
    return lambda: round(grown - PAGE * 16)


def tail(size: int) -> Measure:
    """1,000 times: match a context, lock and unlock it; each fourth time evict a state.

    After each eviction a context is published, which is not timed.
    """
    import random

    tree = Tree(PAGE * (size + 600), size + 400)
    tree.leaves(size)
    numbers, chance = count(size), random.Random(3)
    parameters = tree.base.EvictParams(mamba_num=1)

    def once() -> list[float]:
        taken: list[float] = []
        for turn in range(1000):
            ids = array("q", leaf(chance.randrange(size)))
            started = now()
            found = tree.cache.match_prefix(tree.base.MatchPrefixParams(key=tree.key(ids)))
            tree.cache.path_device_indices(found.last_device_node)
            tree.cache.unlock(tree.cache.lock(found.last_device_node))
            taken.append(since(started))
            if turn % 4 == 0:
                started = now()
                tree.cache.evict(parameters)
                taken.append(since(started))
                tree.leaf(next(numbers))
        return taken

    return once


CASES: dict[str, Case] = {
    "match": match, "first-match": first_match, "waiting": waiting,
    "waiting-changed": waiting_changed, "decode": decode, "lease": lease, "lease-branched": lease_branched,
    "append": append, "append-index": append_index, "publish": publish, "evict-state": evict_state,
    "evict-page": evict_page, "memory": memory, "tail": tail,
}

if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    serve({"sglang": metadata.version("sglang"), "torch": torch.__version__}, CASES)
