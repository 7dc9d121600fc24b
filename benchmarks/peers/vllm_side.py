"""vLLM's side: its KVCacheManager and Scheduler on a CPU, timed in its own interpreter.

Run by vLLM's interpreter; see `side` for what it is asked. One attention and one state group with blocks of one page,
every state kept that a chunk's end writes (`prefix_cache_retention_interval=None`). A pass over waiting requests has no
counterpart: vLLM looks up the head of its queue only.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from itertools import count
from typing import Any

from contexts import PAGE, TURN, leaf, tokens, turn_ends
from side import Case, Measure, now, resident_bytes, serve, since

from milepost.conformance.adapters.vllm_engine import Settings, build_scheduler, make_request
from milepost.conformance.adapters.vllm_loader import VERSION, load


@dataclass(frozen=True, slots=True)
class LongSettings(Settings):
    """Settings for a model whose length is no limit."""

    @property
    def model_length(self) -> int:
        return 1 << 18


class Manager:
    """One scheduler with its block manager, and the calls that fill it."""

    def __init__(self, blocks: int, running: int = 8) -> None:
        self.scheduler = build_scheduler(LongSettings(
            block=PAGE, state_block=PAGE, retention=None, budget=1 << 17, blocks=blocks, running=running
        ))
        self.manager = self.scheduler.kv_cache_manager
        self.pool = self.manager.block_pool
        self.names = count()

    def request(self, ids: list[int]) -> Any:
        """Make a request, hashes of its blocks included."""
        return make_request(f"r{next(self.names)}", ids, self.scheduler.hash_block_size, None, None)  # type: ignore

    def look_up(self, request: Any) -> tuple[Any, int]:
        self.manager.new_step_starts()
        blocks, hit, request.shared_prefix_boundary = self.manager.get_computed_blocks(request)
        return blocks, hit

    def compute(self, request: Any, ends: list[int]) -> None:
        """Look a request up and allocate for it, in chunks that end there, as the waiting and running loops do."""
        blocks, hit = self.look_up(request)
        first = True
        for end in ends:
            if end <= hit:
                continue
            if first:
                found = self.manager.allocate_slots(request, end - hit, hit, blocks)
            else:
                self.manager.new_step_starts()
                found = self.manager.allocate_slots(request, end - request.num_computed_tokens)
            assert found is not None, "too few blocks"
            first, request.num_computed_tokens = False, end
            self._drain()

    def _drain(self) -> None:
        """Take what the scheduler takes after each step for its worker."""
        self.manager.take_new_block_ids()
        self.manager.take_boundary_state_offloads()
        _, retained = self.manager.take_kv_cache_block_copies()
        self.pool.free_blocks(retained)

    def finish(self, request: Any) -> None:
        self.manager.free(request)

    def publish(self, ids: list[int], ends: list[int]) -> None:
        request = self.request(ids)
        self.compute(request, ends)
        self.finish(request)

    def conversation(self, length: int) -> list[int]:
        """Publish a conversation turn by turn; at each turn's end another one goes on differently for a page."""
        ids, ends = tokens(length, 1), turn_ends(length)
        self.publish([*ids, 1], ends)
        for number, end in enumerate(ends):
            self.publish([*ids[:end], *tokens(PAGE, 100 + number), 1], [end, end + PAGE])
        return ids

    def leaf(self, number: int) -> None:
        self.publish([*leaf(number), 1], [PAGE, 2 * PAGE])


def _blocks(length: int) -> int:
    """Return blocks enough for a conversation of that length, its branches and a request besides."""
    return 3 * length // PAGE + 1024


def match(size: int) -> Measure:
    """get_computed_blocks of a request whose blocks were hashed before, with get_block_ids."""
    manager = Manager(_blocks(size))
    request = manager.request([*manager.conversation(size), 1])
    manager.manager.new_step_starts()

    def once() -> int:
        started = now()
        blocks, hit, _ = manager.manager.get_computed_blocks(request)
        blocks.get_block_ids()
        taken = since(started)
        assert hit == size, hit
        return taken

    return once


def first_match(size: int) -> Measure:
    """Making the request from a list of ints, which hashes its blocks (sha256), get_computed_blocks, get_block_ids."""
    manager = Manager(_blocks(size))
    ids = [*manager.conversation(size), 1]
    manager.manager.new_step_starts()

    def once() -> int:
        started = now()
        manager.manager.get_computed_blocks(manager.request(ids))[0].get_block_ids()
        return since(started)

    return once


def lease(size: int) -> Measure:
    """block_pool.touch of a hit's blocks, get_num_free_blocks, block_pool.free_blocks of them tail first."""
    length = size * PAGE
    manager = Manager(_blocks(length))
    ids = [*tokens(length, 1), 1]
    manager.publish(ids, list(range(PAGE, length + 1, PAGE)))
    blocks, hit = manager.look_up(manager.request(ids))
    assert hit == length
    pool, groups = manager.pool, blocks.blocks

    def once() -> int:
        started = now()
        for group in groups:
            pool.touch(group)
        pool.get_num_free_blocks()
        for group in groups:
            pool.free_blocks(reversed(group))
        return since(started)

    return once


def lease_branched(size: int) -> Measure:
    """The same: what goes on elsewhere behind a block is nothing to it."""
    return lease(size)


def append(size: int) -> Measure:
    """append_output_token_ids of 2,048 tokens, which hashes 32 blocks, and allocate_slots, which publishes them."""
    return _append(size, hashing=True)


def append_index(size: int) -> Measure:
    """allocate_slots of a chunk of 2,048 tokens whose blocks were hashed before."""
    return _append(size, hashing=False)


def _append(size: int, hashing: bool) -> Measure:
    manager = Manager(_blocks(size + TURN))
    ids = manager.conversation(size)
    numbers = count(9000)

    def once() -> int:
        tail = tokens(TURN, next(numbers))
        request = manager.request([*ids, 1] if hashing else [*ids, *tail, 1])
        blocks, hit = manager.look_up(request)
        assert hit == size and manager.manager.allocate_slots(request, 1, hit, blocks) is not None
        manager._drain()
        request.num_computed_tokens = size
        manager.manager.new_step_starts()
        started = now()
        if hashing:
            request.append_output_token_ids(tail)
        assert manager.manager.allocate_slots(request, TURN) is not None
        taken = since(started)
        manager._drain()
        manager.finish(request)
        return taken

    return once


def publish(size: int) -> Measure:
    """64 times cache_blocks along one prompt whose blocks are hashed and allocated."""
    manager = Manager(_blocks(size))
    ids = [*tokens(size, 1), 1]
    ends = [size * part // 64 for part in range(1, 65)]

    def once() -> int:
        manager.manager.reset_prefix_cache()
        request = manager.request(ids)
        taken = 0
        for end in ends:
            manager.manager.new_step_starts()
            step = end - request.num_computed_tokens
            assert manager.manager.allocate_slots(request, step, delay_cache_blocks=True) is not None
            started = now()
            manager.manager.cache_blocks(request, end)
            taken += since(started)
            request.num_computed_tokens = end
            manager._drain()
        manager.finish(request)
        return taken

    return once


def _evict(size: int) -> Measure:
    manager = Manager(5 * size + 1024)
    for number in range(size):
        manager.leaf(number)
    pool = manager.pool
    while pool.free_block_queue.fake_free_list_head.next_free_block.block_hash is None:
        pool.get_new_blocks(1)

    def once() -> int:
        started = now()
        taken = pool.get_new_blocks(1)
        nanoseconds = since(started)
        assert len(taken) == 1
        return nanoseconds

    return once


def evict_state(size: int) -> Measure:
    """block_pool.get_new_blocks(1) where every free block is cached: one pool serves states and pages."""
    return _evict(size)


def evict_page(size: int) -> Measure:
    """block_pool.get_new_blocks(1) where every free block is cached: one pool serves states and pages."""
    return _evict(size)


def _decoding(size: int, length: int) -> tuple[Manager, list[Any]]:
    """Return a scheduler with that many requests whose prompts are done."""
    manager = Manager(size * (length // PAGE + 16) + 1024, running=size)
    requests = [manager.request(tokens(length, 7000 + number)) for number in range(size)]
    for request in requests:
        manager.scheduler.add_request(request)
    while any(request.num_computed_tokens < request.num_prompt_tokens for request in requests):
        _step(manager)
    return manager, requests


def _step(manager: Manager) -> None:
    from vllm.v1.outputs import ModelRunnerOutput

    scheduler = manager.scheduler
    output = scheduler.schedule()
    names = list(output.num_scheduled_tokens)
    said = [[] if scheduler.requests[name].is_prefill_chunk else [5] for name in names]
    places = {name: place for place, name in enumerate(names)}
    scheduler.update_from_output(output, ModelRunnerOutput(names, places, said))


def decode(size: int) -> Measure:
    """allocate_slots of one token for each of that many running requests, and append_output_token_ids with hashing."""
    manager, requests = _decoding(size, 256)
    kept = manager.manager

    def once() -> int:
        started = now()
        kept.new_step_starts()
        for request in requests:
            assert kept.allocate_slots(request, 1) is not None
        for request in requests:
            request.num_computed_tokens += 1
            request.append_output_token_ids(5)
        taken = since(started)
        manager._drain()
        return taken

    return once


def decode_schedule(size: int) -> Measure:
    """A whole Scheduler.schedule() and update_from_output() of a decode step of that many requests."""
    manager, _ = _decoding(size, 256)

    def once() -> int:
        started = now()
        _step(manager)
        return since(started)

    return once


def memory(size: int) -> Measure:
    """Resident memory for each leaf, one page's block and one state's, the pool's block objects apart."""
    manager = Manager(5 * size + 1024)
    for number in range(200):
        manager.leaf(number)
    before = resident_bytes()
    for number in range(200, size):
        manager.leaf(number)
    grown = (resident_bytes() - before) / (size - 200)
    return lambda: round(grown)


def tail(size: int) -> Measure:
    """1,000 times: look a context up, touch and free its blocks.

    Each fourth time a context is published, which evicts another and is not timed.
    """
    import random

    manager = Manager(4 * size)
    for number in range(size):
        manager.leaf(number)
    numbers, chance = count(size), random.Random(3)

    def once() -> list[float]:
        taken: list[float] = []
        for turn in range(1000):
            request = manager.request([*leaf(chance.randrange(size)), 1])
            started = now()
            blocks, _, _ = manager.manager.get_computed_blocks(request)
            blocks.get_block_ids()
            for group in blocks.blocks:
                manager.pool.touch(group)
            for group in blocks.blocks:
                manager.pool.free_blocks(reversed(group))
            taken.append(since(started))
            if turn % 4 == 0:
                manager.leaf(next(numbers))
        return taken

    return once


CASES: dict[str, Case] = {
    "match": match, "first-match": first_match, "decode": decode, "decode-schedule": decode_schedule, "lease": lease,
    "lease-branched": lease_branched, "append": append, "append-index": append_index, "publish": publish,
    "evict-state": evict_state, "evict-page": evict_page, "memory": memory, "tail": tail,
}

if __name__ == "__main__":
    load()
    import torch

    serve({"vllm": VERSION, "torch": torch.__version__, "python": platform.python_version()}, CASES)
