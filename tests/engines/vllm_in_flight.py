"""vLLM's own `schedule()` with drafts in flight, and a worker played beside it: what the seam cannot ask for.

An asynchronous scheduler plans a request's next step before it knows how many drafts of the last one stood; the seam
plans behind drafts that have landed. Here the scheduler runs by itself, its states are moved by its own code, the
harness plays the forward on the same CPU memory, and each step checks every state and all keys and values that it
reads. Run as a script in vLLM's environment, it prints how much was met, and what was wrong, as a JSON line.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from importlib import import_module
from typing import Any

from milepost.conformance.adapters.vllm import TARGETS
from milepost.conformance.adapters.vllm_engine import Settings, build_scheduler, make_request
from milepost.conformance.adapters.vllm_loader import load
from milepost.conformance.adapters.vllm_states import Began, DraftMemory, Row, StateMover
from milepost.spec.payload import GARBAGE, Stream, make_stream

LETTERS = "ab"
ANSWER = 40
"""Tokens that the model says to each request at most."""

UNEVEN = (
    Settings(window=10, window_block=4, drafts=3, retention=None, blocks=60),
    Settings(window=10, window_block=4, drafts=3, drafter="mtp", retention=None, budget=12, blocks=60),
    Settings(block=8, state_block=16, drafts=3, retention=None, blocks=50),
)
"""A group beside the states has a smaller block, as a drafter's own may have; finding 3 is met there."""


class Wrong(Exception):
    """A step read what is not its own prefix."""


class Running:
    """A request in the worker: its place, tables, tokens done on the device, and tokens known when it was admitted."""

    def __init__(self, place: int, rows: list[list[int]], done: int, known: int) -> None:
        self.place, self.rows, self.done, self.known = place, rows, done, known


class Run:
    """One scheduler with its worker, fresh, under traffic of a seed."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.random, self.settings = random.Random(seed), settings
        self.scheduler = build_scheduler(settings)
        groups = self.scheduler.kv_cache_config.kv_cache_groups
        self.specs = [group.kv_cache_spec for group in groups]
        self.states = range(1, 1 + settings.states)
        self.pages = [group for group in range(len(groups)) if group not in self.states]
        self.memory = DraftMemory(self.specs, self.specs[1].shapes, settings.blocks + 1)
        columns = -(-self.scheduler.max_model_len // settings.state_block) + 2 * settings.drafts + 2
        self.mover = StateMover(self.scheduler, self.memory, self.states, columns)
        self.streams: dict[str, tuple[Stream, int]] = {}
        self.running: dict[str, Running] = {}
        self.landing: list[tuple[Any, dict[str, list[int]]]] = []
        self.met: Counter[str] = Counter()

    def go(self, requests: int, steps: int) -> Counter[str]:
        """Let requests come, share prefixes, speculate, be preempted and aborted, and end."""
        for _ in range(steps):
            if len(self.streams) < requests and self.random.random() < 0.4:
                self._arrive()
            self._draft()
            out = self.scheduler.schedule()
            for name in (*out.finished_req_ids, *(out.preempted_req_ids or ())):
                self._leave(name)
            self.met["preempted"] += len(out.preempted_req_ids or ())
            if out.total_num_scheduled_tokens:
                self.met["planned behind drafts"] += self._planned_behind_drafts(out)
                self.landing.append((out, self._step(out)))
            self._land(self.random.choice((0, 1, 1, 1)))
            self._end()
        return self.met

    def _arrive(self) -> None:
        known = [stream.tokens for stream, _ in self.streams.values()]
        start = self.random.choice(known)[: self.random.randint(1, 80)] if known and self.random.random() < 0.8 else ()
        length = min(self.scheduler.max_model_len - ANSWER - 9, len(start) + self.random.randint(1, 30))
        name = f"r{len(self.streams)}"
        tokens = (*start[:length], *(ord(self.random.choice(LETTERS)) for _ in range(length - len(start[:length]))))
        said = tuple(ord(self.random.choice(LETTERS)) for _ in range(ANSWER + 9))
        self.streams[name] = make_stream((), 0, tokens + said), length
        lookahead = self.scheduler.num_hash_lookahead_tokens
        self.scheduler.add_request(make_request(name, tokens, self.scheduler.hash_block_size, None, None, lookahead))

    def _draft(self) -> None:
        """Now and then the drafter proposes fewer tokens than it may."""
        for request in self.scheduler.running:
            if self.random.random() < 0.3:
                request.spec_token_ids = request.spec_token_ids[: self.random.randint(0, self.settings.drafts)]

    def _planned_behind_drafts(self, out: Any) -> int:
        drafted = {name for earlier, _ in self.landing for name in earlier.scheduled_spec_decode_tokens}
        return len(drafted & out.num_scheduled_tokens.keys())

    def _leave(self, name: str) -> None:
        if name in self.running:
            self.mover.free.append(self.running.pop(name).place)

    # -- the worker

    def _step(self, out: Any) -> dict[str, list[int]]:
        new = {one.req_id: one for one in out.scheduled_new_reqs}
        for name, one in new.items():
            place, known = self.mover.free.pop(), self.scheduler.requests[name].num_tokens
            rows = [list(row) for row in one.block_ids]
            self.running[name] = Running(place, rows, one.num_computed_tokens, known)
            self.mover.begin(place, one.num_computed_tokens)
            self.met["hits" if one.num_computed_tokens else "misses"] += 1
        cached = out.scheduled_cached_reqs
        for name, added in zip(cached.req_ids, cached.new_block_ids, strict=True):
            for row, blocks in zip(self.running[name].rows, added or (), strict=False):
                row.extend(blocks)
        names = list(out.num_scheduled_tokens)
        for name in names:
            self.mover.put(self.running[name].place, [self.running[name].rows[group] for group in self.states])
        self.memory.zero(out.new_block_ids_to_zero or ())
        self.memory.copy_blocks(out.kv_cache_block_copies or ())
        batch = []
        for name in names:
            one, drafts = self.running[name], len(out.scheduled_spec_decode_tokens.get(name, ()))
            stop = one.done + out.num_scheduled_tokens[name] - drafts
            batch.append(Row(one.place, one.done, stop, drafts, one.known))
        moves, began = self.mover.before(batch)
        self.met["copied before"] += len(moves)
        said = self._forward(names, batch, began, new)
        ends = [row.stop + max(0, len(said[name]) - 1) for name, row in zip(names, batch, strict=True)]
        places = [row.place for row in batch]
        self.met["copied behind"] += len(self.mover.after(places, [len(said[name]) for name in names], ends))
        for name, end in zip(names, ends, strict=True):
            self.running[name].done = end
        self.met["steps"] += 1
        return said

    def _forward(
        self, names: list[str], batch: list[Row], began: list[Began], new: dict[str, Any]
    ) -> dict[str, list[int]]:
        """Read, write, and sample; drafts that a request was padded with are never right."""
        said: dict[str, list[int]] = {}
        for name, row, begins in zip(names, batch, began, strict=True):
            self._check_state(name, row.start, begins)
        for name, row, begins in zip(names, batch, began, strict=True):
            one, (stream, _) = self.running[name], self.streams[name]
            right = 0 if name in new else self.random.randint(0, row.drafts)
            right = min(right, max(0, len(stream.tokens) - row.stop - 1))
            said[name] = list(stream.tokens[row.stop : row.stop + 1 + right]) if row.stop >= one.known else []
            self.met["drafts"] += row.drafts
            self.met["accepted"] += right
            self._write_pages(one, stream, row, row.stop + right)
            self._write_states(one, stream, row, begins, right)
        for name, row in zip(names, batch, strict=True):
            self._check_pages(name, row.start, row.stop)
        return said

    def _check_state(self, name: str, start: int, begins: Began) -> None:
        one, stream = self.running[name], self.streams[name][0]
        for group in self.states if start else ():
            blocks = one.rows[group]
            window = blocks[begins.column], begins.behind
            found = self.memory.read_draft(blocks[begins.column + begins.behind], window)
            if found != stream.digests[start]:
                read = stream.digests.index(found) if found in stream.digests else "what is not its own"
                raise Wrong(f"{name} starts at {start} from a state of {read}")

    def _write_states(self, one: Running, stream: Stream, row: Row, begins: Began, right: int) -> None:
        for group in self.states:
            blocks = one.rows[group]
            for draft in range(1 + row.drafts if begins.verifies else 1):
                overrun = draft > right or (row.drafts and not begins.verifies)
                content = GARBAGE if overrun else stream.digests[row.stop + draft]
                self.memory.write_state(blocks[begins.column + draft], (blocks[begins.column], draft), content)

    def _write_pages(self, one: Running, stream: Stream, row: Row, right: int) -> None:
        start, stop = row.start, row.stop + row.drafts
        for group in self.pages:
            size = self.specs[group].block_size
            for column in range(start // size, -(-stop // size)):
                places = range(column * size, (column + 1) * size)
                entries = [stream.digests[at + 1] if at < right else GARBAGE for at in places]
                kept = (entry if start <= at < stop else None for at, entry in zip(places, entries, strict=True))
                self.memory.write(one.rows[group][column], tuple(kept))

    def _check_pages(self, name: str, start: int, stop: int) -> None:
        one, stream = self.running[name], self.streams[name][0]
        for group in self.pages:
            size, window = self.specs[group].block_size, self.settings.window if group > max(self.states) else 0
            first = max(0, start - window + 1) if window else 0
            for column in range(first // size, -(-stop // size)):
                page = self.memory.read_page(one.rows[group][column], size)
                for at in range(max(first, column * size), min(stop, (column + 1) * size)):
                    if not isinstance(page, tuple) or page[at - column * size] != stream.digests[at + 1]:
                        raise Wrong(f"{name} at {start} reads KV of token {at} that is not its own")

    # -- results

    def _land(self, keep: int) -> None:
        from vllm.v1.outputs import ModelRunnerOutput

        while len(self.landing) > keep:
            out, said = self.landing.pop(0)
            names = list(out.num_scheduled_tokens)
            self.scheduler.update_from_output(
                out, ModelRunnerOutput(names, {name: at for at, name in enumerate(names)}, [said[one] for one in names])
            )
            for name in names:
                self._check_text(name)

    def _check_text(self, name: str) -> None:
        request, stream = self.scheduler.requests.get(name), self.streams[name][0]
        if request is not None and tuple(request.all_token_ids) != stream.tokens[: request.num_tokens]:
            raise Wrong(f"{name} has another text than was said to it")

    def _end(self) -> None:
        for name in list(self.scheduler.requests):
            request = self.scheduler.requests[name]
            over = request.num_output_tokens >= min(ANSWER - 8, 2 + int(name[1:]) * 7 % 30)
            if over or self.random.random() < 0.01:
                self.met["aborted in flight"] += request.num_in_flight_tokens > 0
                self.scheduler.finish_requests(name, type(request.status).FINISHED_ABORTED)


def main() -> None:
    """Run so many seeds on every setting that speculates, on those of the targets named, or on `uneven` ones.

    `repaired` ends findings 3 and 4, `seeded` puts the line of #55600 back.
    """
    seeds, words = int(sys.argv[1]), set(sys.argv[2:])
    edits: Any = import_module("vllm_edits")  # the folder of this script is where Python looks first
    load()
    import_module(edits.PADDING.owner.partition(":")[0])
    names = words - {"repaired", "uneven", "seeded"} or set(TARGETS)
    shipped = [one for name, settings in TARGETS.items() if name in names for one in settings if one.drafts]
    changes = (edits.PADDING, edits.CHANGES["grid-of-the-states"]) if "repaired" in words else ()
    changes += edits.SEED if "seeded" in words else ()
    met: Counter[str] = Counter()
    with edits.edited(edits.Edit("", (), changes)):
        for settings in UNEVEN if "uneven" in words else shipped:
            for seed in range(seeds):
                run = Run(settings, seed)
                try:
                    met += run.go(requests=12, steps=80)
                except Wrong as wrong:
                    met += run.met
                    met[f"wrong: {wrong}"] += 1
    print(json.dumps(met))


if __name__ == "__main__":
    main()
