"""Short runs of vLLM 0.33.0's own `Scheduler`, which show what the memory behind a prefix-cache hit has really seen.

Run with an interpreter that has vLLM: `python reproduce.py`, or `python reproduce.py random 20000` for random traffic.
No GPU and no model is needed. Where vLLM's packages for GPUs are missing, Milepost's loader stands in for them.

`Engine` calls `Scheduler.schedule()` and `update_from_output()` as the engine core does, and nothing else of vLLM. It
keeps in two dictionaries what a worker would have written: for each block the text that its state has read, and for
each KV entry the text up to its token. A line says WRONG where a request reads anything but its own. Which rows of a
batch verify drafts is asked of the model runner's own `gather_batch_req_state`; no draft is ever right.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

with contextlib.suppress(ImportError):  # before anything of vLLM is imported
    from milepost.conformance.adapters.vllm_loader import load

    load()

import numpy
import torch
from vllm.model_executor.layers.mamba.checkpoint import compute_mamba_prefill_checkpoints
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash, resolve_kv_cache_block_sizes
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec, SlidingWindowSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.worker.gpu.model_runner import GPUModelRunner

TEXT = "abcdefghijklmnopqrstuvwxyz0123456789"
WINDOW = 10


def engine_config(
    budget: int, blocks: int, block: int, smallest: int, unit: int | None, drafts: int
) -> SimpleNamespace:
    """Return the part of `VllmConfig` that the scheduler reads; `smallest` as engine/core.py:347 computes it."""
    speculative = SimpleNamespace(
        num_speculative_tokens_per_batch_size=None, max_num_new_slots_for_drafting=0, use_eagle=lambda: False,
        use_eagle_block_drop=lambda: False, needs_eagle_block_drop=lambda: False,
    )
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(
            max_num_seqs=8, max_num_active_seqs=None, max_num_scheduled_tokens=None, max_num_batched_tokens=budget,
            long_prefill_token_threshold=0, long_prefill_token_threshold_adaptive=False, policy="fcfs", watermark=0.0,
            prefill_schedule_interval=1, scheduler_reserve_full_isl=True, enable_chunked_prefill=True,
            async_scheduling=False,
        ),
        cache_config=SimpleNamespace(
            block_size=smallest, mamba_block_size=block, num_gpu_blocks=blocks, enable_prefix_caching=True,
            mamba_cache_mode="align", prefix_match_unit=unit, enable_mamba_shared_prefix_checkpoint=False,
        ),
        model_config=SimpleNamespace(
            uses_mrope=False, is_encoder_decoder=False, supports_multimodal_inputs=False, is_diffusion=False,
            max_model_len=160, runner_type="generate", return_sampling_mask=False,
        ),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=1, prefill_context_parallel_size=1, pipeline_parallel_size=1,
            data_parallel_index=0, data_parallel_size=1,
        ),
        observability_config=SimpleNamespace(
            per_request_spec_decode_metrics="none", kv_cache_metrics=False, enable_mfu_metrics=False,
            enable_logging_iteration_details=False,
        ),
        ec_manager_config=SimpleNamespace(get_encoder_cache_manager_obj=lambda: None),
        aux_output_config=SimpleNamespace(enabled=False), lora_config=None, kv_events_config=None,
        kv_transfer_config=None, ec_transfer_config=None, speculative_config=speculative if drafts else None,
        is_mm_encoder_only=False, num_speculative_tokens=drafts, num_lookahead_tokens=0, num_prefill_lookahead_tokens=0,
        num_hash_lookahead_tokens=0, use_v2_model_runner=True, max_in_flight_tokens=budget, max_concurrent_batches=1,
    )


class Engine:
    """vLLM's scheduler for full attention, states, and a sliding window where `window_block` names its block.

    `unit` is `prefix_match_unit`. With `checkpoint` the backend can write a state inside a prefill, as Mamba2's can.
    `drafts` is `num_speculative_tokens`.
    """

    def __init__(
        self, block: int = 8, unit: int | None = None, checkpoint: bool = False, window_block: int = 0,
        blocks: int = 40, budget: int = 64, retention: int | None = 0, drafts: int = 0,
    ) -> None:
        register_all_kvcache_specs(None)
        init_none_hash(sha256)
        self.block, self.checkpoint, self.drafts = block, checkpoint, drafts
        attention = {"head_size": 1, "dtype": torch.int64}
        specs: list[Any] = [
            FullAttentionSpec(block_size=block, num_kv_heads=1, **attention),
            MambaSpec(
                block_size=block, shapes=((2,),), dtypes=(torch.int64,), page_size_padded=16 * block,
                mamba_cache_mode="align", num_prefill_checkpoint_blocks=int(checkpoint), num_speculative_blocks=drafts,
                prefill_checkpoint_alignment=1 if checkpoint else None,
            ),
        ]
        if window_block:
            heads = block // window_block
            specs.append(SlidingWindowSpec(
                block_size=window_block, num_kv_heads=heads, sliding_window=WINDOW, **attention,
            ))
        self.sizes = [spec.block_size for spec in specs]
        groups = [KVCacheGroupSpec([f"layer.{number}"], spec) for number, spec in enumerate(specs)]
        cache = KVCacheConfig(blocks, [], groups, prefix_cache_retention_interval=retention)
        config = engine_config(budget, blocks, block, min(self.sizes), unit, drafts)
        scheduler_block, self.unit = resolve_kv_cache_block_sizes(cache, config)
        grammars = SimpleNamespace(accept_tokens=lambda *_: True, validate_tokens=lambda _, tokens: tokens)
        self.scheduler = Scheduler(config, cache, grammars, scheduler_block, self.unit, None)
        self.states: dict[int, str | None] = {}
        self.entries: dict[tuple[int, int], str] = {}
        self.rows: dict[str, list[list[int]]] = {}
        self.columns: dict[str, int] = {}
        self.known: dict[str, int] = {}
        self.wrong: list[str] = []

    def add(self, name: str, text: str) -> None:
        """A request comes."""
        sampling = SimpleNamespace(
            max_tokens=1000, min_tokens=0, extra_args=None, skip_reading_prefix_cache=False, eos_token_id=None,
            stop_token_ids=(), repetition_detection=None, structured_outputs=None, num_logprobs=None,
        )
        hasher = get_request_block_hasher(self.unit, sha256)
        self.scheduler.add_request(
            Request(name, [ord(letter) for letter in text], sampling, None, arrival_time=0.0, block_hasher=hasher)
        )

    def propose(self, name: str) -> None:
        """The drafter proposes as many tokens as it may."""
        drafts = SimpleNamespace(req_ids=[name], draft_token_ids=[[0] * self.drafts])
        self.scheduler.update_draft_token_ids(drafts)

    def finish(self, *names: str) -> None:
        """Requests end."""
        self.scheduler.finish_requests(names, RequestStatus.FINISHED_STOPPED)

    def step(self) -> None:
        """One step of the scheduler, of the worker that follows it, and of the model that says a dot."""
        out = self.scheduler.schedule()
        self._take_over(out)
        self._zero_and_copy(out.new_block_ids_to_zero or (), out.kv_cache_block_copies or ())
        spans = {name: (self._length(name) - count, self._length(name))
                 for name, count in out.num_scheduled_tokens.items()}
        copies = [(one.src_block_id, one.dst_block_id) for one in out.kv_cache_block_copies or ()]
        drafts = {name: len(tokens) for name, tokens in out.scheduled_spec_decode_tokens.items()}
        tokens = ", ".join(
            f"{name} [{start}, {stop - drafts.get(name, 0)})" + (f" + {drafts[name]} drafts" if name in drafts else "")
            for name, (start, stop) in spans.items()
        )
        print(f"  {tokens}" + (f", block copies {copies}" if copies else ""))
        for name, (_, stop) in spans.items():
            self._move_state(name, stop)
        for name, (start, _) in spans.items():
            self._read_state(name, start)
        for name, (start, stop) in spans.items():
            self._write_kv(name, start, stop)
        for name, (start, stop) in spans.items():
            self._read_kv(name, start)
            self._write_states(name, start, stop - drafts.get(name, 0))
        self._run_over_drafts(out, spans, drafts)
        names = list(spans)
        ends = [self._length(name) - drafts.get(name, 0) >= self.scheduler.requests[name].num_tokens for name in names]
        self.scheduler.update_from_output(out, ModelRunnerOutput(
            names, {name: place for place, name in enumerate(names)}, [[ord(".")] if end else [] for end in ends],
        ))

    def _run_over_drafts(self, out: Any, spans: dict[str, tuple[int, int]], drafts: dict[str, int]) -> None:
        """Where a row with drafts is run as a prefill, only the state behind all its tokens is left."""
        if not drafts:
            return
        places = {name: place for place, name in enumerate(spans)}
        known = numpy.array([self.known[name] for name in spans])
        done = numpy.array([min(start, self.known[name]) for name, (start, _) in spans.items()])
        states = SimpleNamespace(
            req_id_to_index=places, prefill_len=SimpleNamespace(np=known), num_computed_prefill_tokens=done
        )
        runner = SimpleNamespace(
            req_states=states, decode_query_len=1 + self.drafts, use_pp=False, pcp_manager=None,
            adaptive_verification=None,
        )
        batch, _ = GPUModelRunner.gather_batch_req_state(runner, out, False)
        as_decode = batch.prefill_runs_as_decode_np
        for at, name in enumerate(batch.req_ids):
            prefill = batch.is_prefilling_np[at] and not (as_decode is not None and as_decode[at])
            if prefill and drafts.get(name):
                print(f"  {name} runs as a prefill of {spans[name][1] - spans[name][0]} tokens")
                stop = spans[name][1] - drafts[name]
                self.states[self.rows[name][1][self.columns[name]]] = self._text(name, stop) + "?" * drafts[name]

    def _length(self, name: str) -> int:
        return int(self.scheduler.requests[name].num_computed_tokens)

    def _text(self, name: str, length: int) -> str:
        return "".join(map(chr, self.scheduler.requests[name].all_token_ids[:length]))

    def _take_over(self, out: Any) -> None:
        """Keep block tables as the worker does: whole for a new request, appended to for a running one."""
        for new in out.scheduled_new_reqs:
            self.rows[new.req_id] = [list(row) for row in new.block_ids]
            self.columns[new.req_id] = (new.num_computed_tokens - 1) // self.block
            self.known[new.req_id] = self.scheduler.requests[new.req_id].num_tokens
        running = out.scheduled_cached_reqs
        for name, rows in zip(running.req_ids, running.new_block_ids, strict=True):
            for row, added in zip(self.rows[name], rows or (), strict=False):
                row.extend(added)

    def _zero_and_copy(self, zeroed: Sequence[int], copies: Sequence[Any]) -> None:
        """The worker's order: zero, then block copies, all sources read before any destination is written."""
        for block in zeroed:
            self._fill(block, None, {})
        read = [(one.dst_block_id, self.states.get(one.src_block_id), {
            offset: text for (block, offset), text in self.entries.items() if block == one.src_block_id
        }) for one in copies]
        for target, state, entries in read:
            self._fill(target, state, entries)

    def _fill(self, block: int, state: str | None, entries: dict[int, str]) -> None:
        self.states[block] = state
        self.entries = {key: text for key, text in self.entries.items() if key[0] != block}
        self.entries.update({(block, offset): text for offset, text in entries.items()})

    def _move_state(self, name: str, stop: int) -> None:
        """The pre-copy: the running state moves to the column of the step's last token."""
        row, before, column = self.rows[name][1], self.columns[name], (stop - 1) // self.block
        if before not in (-1, column):
            self.states[row[column]] = self.states.get(row[before])
        self.columns[name] = column

    def _write_states(self, name: str, start: int, stop: int) -> None:
        row = self.rows[name][1]
        self.states[row[self.columns[name]]] = self._text(name, stop)
        if self.checkpoint:
            manager = self.scheduler.kv_cache_manager.coordinator.single_type_managers[1]
            offsets, columns = compute_mamba_prefill_checkpoints(
                [stop], [stop - start], self.unit, self.block, 1, False, manager.cache_hit_alignment_tokens,
            )
            if columns[0] >= 0 and row[columns[0]]:
                self.states[row[columns[0]]] = self._text(name, start + offsets[0])

    def _write_kv(self, name: str, start: int, stop: int) -> None:
        for group in (0, 2)[: len(self.sizes) - 1]:
            for at in range(start, stop):
                block = self.rows[name][group][at // self.sizes[group]]
                self.entries[block, at % self.sizes[group]] = self._text(name, at + 1)

    def _read_state(self, name: str, start: int) -> None:
        found = self.states.get(self.rows[name][1][self.columns[name]]) if start else ""
        if found != self._text(name, start):
            seen = "was never written" if found is None else f"has read {len(found)} tokens"
            self._complain(f"{name} resumes at {start} from a state that {seen}")

    def _read_kv(self, name: str, start: int) -> None:
        for group in (0, 2)[: len(self.sizes) - 1]:
            size, row = self.sizes[group], self.rows[name][group]
            first = max(0, start - WINDOW + 1) if group else 0
            bad = [at for at in range(first, start)
                   if self.entries.get((row[at // size], at % size)) != self._text(name, at + 1)]
            if bad:
                self._complain(f"{name} attends to KV of tokens {bad} that is not its own")

    def _complain(self, sentence: str) -> None:
        self.wrong.append(sentence)
        print(f"  WRONG: {sentence}")


def passed_over_block() -> None:
    """1: a resumed prefill runs past its copied block with an internal checkpoint; the block is cached all the same"""
    engine = Engine(unit=4, checkpoint=True)
    engine.add("first", TEXT[:13])
    for _ in range(5):
        engine.step()
    engine.finish("first")
    for name, turn in (("second", TEXT[20:32]), ("second-again", "????????????")):
        engine.add(name, TEXT[:13] + "...." + turn)
        engine.step()
        engine.finish(name)


def copy_of_a_copy() -> None:
    """2: two requests of one step copy a partial block; the second copies the first one's copy before it is made"""
    engine = Engine(unit=4)
    engine.add("first", TEXT[:13])
    for _ in range(3):
        engine.step()
    engine.finish("first")
    engine.add("second", TEXT[:16])
    engine.add("third", TEXT[:22])
    engine.step()


def smaller_group() -> None:
    """3: chunks end on the grid of the smallest block of all groups, not on that of the states"""
    engine = Engine(window_block=4, budget=12)
    engine.add("other", "!" * 12)
    engine.add("first", TEXT[:13])
    for _ in range(3):
        engine.step()
    engine.finish("other", "first")
    engine.add("second", TEXT[:8] + "??????")
    engine.step()


def padded_prompt() -> None:
    """4: a prompt of one token is padded with drafts, and run as a prefill that can't take them back"""
    engine = Engine(drafts=3)
    engine.add("first", TEXT[:8])
    engine.step()
    engine.propose("first")
    engine.add("second", "a")
    engine.step()
    engine.step()


def random_traffic(seed: int) -> list[str]:
    """Let a few requests with shared prefixes come, run and end; return what was wrong."""
    chance = random.Random(seed)
    engine = Engine(
        unit=4, blocks=chance.randint(9, 14), retention=chance.choice((0, None)), budget=chance.choice((64, 64, 20)),
        checkpoint=chance.random() < 1 / 3,
    )
    alive: list[str] = []
    with contextlib.redirect_stdout(io.StringIO()):
        for number in range(chance.randint(6, 25)):
            what = chance.random()
            if what < 0.45 and len(alive) < 4:
                start = TEXT[: chance.choice((9, 13, 13, 14, 16, 17, 20, 28))] if chance.random() < 3 / 4 else ""
                alive.append(f"r{number}")
                engine.add(alive[-1], start + "?" * chance.randint(0 if start else 8, 6 if start else 40))
            elif what < 0.85:
                engine.step()
            elif alive:
                engine.finish(alive.pop(chance.randrange(len(alive))))
            if engine.wrong:
                break
    return engine.wrong


def main() -> None:
    """Run the four findings, or so many pieces of random traffic."""
    if sys.argv[1:2] == ["random"]:
        count = int(sys.argv[2])
        found = [wrong[0] for wrong in map(random_traffic, range(count)) if wrong]
        states = sum("state" in one for one in found)
        print(f"{count} runs: {states} with a wrong state, {len(found) - states} with wrong KV")
        return
    for run in (passed_over_block, copy_of_a_copy, smaller_group, padded_prompt):
        print(run.__doc__)
        run()


if __name__ == "__main__":
    main()
