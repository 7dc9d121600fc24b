"""Runs in vLLM's environment: its own scheduler loop under a recorder, with requests that share prefixes.

SETTINGS are fields of the adapter's as JSON. Where EVENTS names a file, the KV events that vLLM publishes are written
to it as a subscriber would write them.
"""

import json
import os
import random
from collections import deque
from typing import Any

from subscriber import Subscriber  # type: ignore[import-not-found]  # found beside this program when it runs

import milepost_record
from milepost.conformance.adapters.vllm_engine import Settings, build_scheduler, make_request
from milepost.conformance.adapters.vllm_loader import load


def offer_the_first_state_always(scheduler: Any) -> None:
    """An illegal edit: every hit offers the state block that the first one did."""
    manager, known = scheduler.kv_cache_manager, []
    original = manager.get_computed_blocks

    def edited(request: Any, *more: Any) -> Any:
        blocks, length, junction = original(request, *more)
        if length:
            known.append(blocks.blocks[1][-1])
            blocks.blocks[1][-1] = known[0]
        return blocks, length, junction

    manager.get_computed_blocks = edited


def listen(scheduler: Any, path: str) -> None:
    """Switch vLLM's events on, as its `kv_events_config` does where the scheduler is built."""
    manager = scheduler.kv_cache_manager
    manager.enable_kv_cache_events = manager.block_pool.enable_kv_cache_events = True
    scheduler.kv_event_publisher = Subscriber(path)


class Loop:
    """vLLM's own steps, one in flight, and what users do between them."""

    def __init__(self, scheduler: Any, seed: int) -> None:
        self.scheduler, self.random = scheduler, random.Random(seed)
        self.flights: deque[Any] = deque()
        self.serial = 0

    def add(self) -> None:
        self.serial += 1
        roots = [[1] * 24, [1] * 16 + [2] * 16, [3] * 8]
        tokens = self.random.choice(roots) + [self.random.randrange(4, 9) for _ in range(self.random.randrange(1, 20))]
        salt = self.random.choice([None, None, "s"])
        request = make_request(f"q{self.serial}", tuple(tokens), self.scheduler.hash_block_size, salt, None)
        request.max_tokens = self.random.randrange(1, 12)
        self.scheduler.add_request(request)

    def step(self) -> None:
        from vllm.v1.outputs import ModelRunnerOutput

        output, requests = self.scheduler.schedule(), self.scheduler.requests
        self.flights.append((output, [not requests[name].is_prefill_chunk for name in output.num_scheduled_tokens]))
        if len(self.flights) > 1 or self.random.random() < 0.3:
            output, samples = self.flights.popleft()
            names = list(output.num_scheduled_tokens)
            said = [[self.random.randrange(4, 9)] if sampled else [] for sampled in samples]
            places = {name: place for place, name in enumerate(names)}
            self.scheduler.update_from_output(output, ModelRunnerOutput(names, places, said))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if self.random.random() < 0.5 and len(self.scheduler.requests) < 7:
                self.add()
            if self.scheduler.requests and self.random.random() < 0.04:
                name = self.random.choice(list(self.scheduler.requests))
                status = type(self.scheduler.requests[name].status)
                self.scheduler.finish_requests(name, status.FINISHED_ABORTED)
            if self.random.random() < 0.02:
                self.scheduler.reset_prefix_cache(reset_running_requests=self.random.random() < 0.5)
            self.step()


def prepare() -> None:
    """Import what a drive needs."""
    load()  # stands in for the GPU packages that vLLM's own start-up would have imported
    build_scheduler(Settings())


def drive(seed: int, folder: str, edit: str) -> None:
    milepost_record.register_vllm()
    scheduler = build_scheduler(Settings(**json.loads(os.environ["SETTINGS"])))
    loop = Loop(scheduler, seed)
    if edit == "attach":
        loop.run(40)
        assert milepost_record.attach(scheduler, folder)
    if path := os.environ.get("EVENTS"):
        listen(scheduler, path)
    if edit == "fault":
        offer_the_first_state_always(scheduler)
    if edit == "crash":
        from milepost_record.vllm import Recording

        setattr(Recording, "_tokens", lambda recording, request: 1 // 0)  # noqa: B010
    loop.run(150)
    print(f"{loop.serial} requests")
