"""Three sequences of requests on SGLang 0.5.23's own Scheduler, with no part of Milepost but its import stand-ins.

Run with SGLang's interpreter: `.peers/sglang/bin/python docs/findings/sglang/reproduce.py`. On a machine with SGLang's
GPU packages, leave the stand-ins out.

`Scheduler.get_next_batch_to_run`, `PrefillAdder`, `ScheduleBatch`, `SchedulerBatchResultProcessor`, the pools and the
`UnifiedRadixCache` are the engine's. Only the forward pass is replaced: it notes how many tokens the state in each slot
has read, from the arguments that the kernels would get. A line is printed where a request would resume from a state
that has read another number of tokens than the cache says.
"""

# ruff: noqa: E402  # the stand-ins have to be there before the engine is imported
from __future__ import annotations

import logging
import sys
import warnings
from array import array
from collections import deque
from types import SimpleNamespace
from typing import Any

from milepost.conformance.adapters import sglang_standins

warnings.simplefilter("ignore")
logging.getLogger("sglang").setLevel(logging.ERROR)
sglang_standins.install()

import torch

torch.Tensor.pin_memory = lambda tensor, device=None: tensor  # there is no accelerator to pin memory for

from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateShape
from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.layers.attention.mamba.prefill_track_metadata import build_prefill_track_plan
from sglang.srt.managers import schedule_batch
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.managers.schedule_policy import PrefillAdder
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import HybridLinearKVPool, HybridReqToTokenPool
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

STOP = 99
CHUNK = 64


class Quiet:
    """Metrics and output that nobody reads."""

    num_generated_tokens = 0
    forward_ct_decode = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *positional, **named: None


class BareScheduler(Scheduler):
    """The engine's Scheduler without its processes, sockets and model."""

    def __init__(
        self, core: str, page: int, chunked_prefill_size: int, mixed: bool, kv: int = 8192, window: int = 0
    ) -> None:
        rows, self.reach = 8, max(window - 1, 0)
        options = ServerArgs(
            model_path="dummy", page_size=page, mamba_radix_cache_strategy="extra_buffer", mamba_track_interval=256,
            chunked_prefill_size=chunked_prefill_size, enable_mixed_chunk=mixed, attention_backend="torch_native",
            pp_max_micro_batch_size=rows,
        )
        options._mamba_cache_chunk_size = max(CHUNK, page)
        set_global_server_args_for_scheduler(options)
        self._build_pools(core, page, kv, rows)
        self._build_loop(page, chunked_prefill_size, mixed, kv, rows)
        self.depth: dict[int, int] = {}
        self.stop_at: dict[str, int] = {}
        self.wrong: list[str] = []

    def _build_pools(self, core: str, page: int, kv: int, rows: int) -> None:
        shape = Mamba2StateShape.create(
            tp_world_size=1, intermediate_size=4, n_groups=1, num_heads=1, head_dim=2, state_size=2, conv_kernel=5
        )
        self.req_to_token_pool = HybridReqToTokenPool(
            size=rows, mamba_size=64, mamba_spec_state_size=rows, max_context_len=kv, device="cpu",
            enable_memory_saver=False, cache_params=Mamba2CacheParams(shape=shape, layers=[0]), mamba_layer_ids=[0],
            enable_mamba_extra_buffer=True, enable_overlap_schedule=True,
        )
        self.token_to_kv_pool_allocator = self._build_allocator(page, kv)
        self.tree_cache = UnifiedRadixCache(CacheInitParams(
            disable=False, req_to_token_pool=self.req_to_token_pool, page_size=page, tree_core_backend=core,
            token_to_kv_pool_allocator=self.token_to_kv_pool_allocator, enable_mamba_extra_buffer=True,
            tree_components=(
                ComponentType.FULL, *((ComponentType.SWA,) if self.reach else ()), ComponentType.MAMBA,
            ),
            sliding_window_size=self.reach or None,
        ))

    def _build_allocator(self, page: int, kv: int) -> Any:
        """Build the pools of keys and values; a window's layers have one of their own, of half the tokens."""
        pools: dict[str, Any] = {
            "page_size": page, "dtype": torch.bfloat16, "head_num": 1, "head_dim": 1, "device": "cpu",
            "full_attention_layer_ids": [1],
        }
        common: dict[str, Any] = {"dtype": torch.bfloat16, "device": "cpu", "need_sort": False}
        if self.reach:
            pool = SWAKVPool(size=kv, size_swa=kv // 2, swa_attention_layer_ids=[2], **pools)
            return SWATokenToKVPoolAllocator(
                kv, kv // 2, page_size=page, kvcache=pool, req_to_token_pool=self.req_to_token_pool, **common
            )
        states = self.req_to_token_pool.mamba_pool
        common |= {"size": kv, "kvcache": HybridLinearKVPool(size=kv, mamba_pool=states, **pools)}
        return TokenToKVPoolAllocator(**common) if page == 1 else PagedTokenToKVPoolAllocator(**common, page_size=page)

    def _build_loop(self, page: int, chunked_prefill_size: int, mixed: bool, kv: int, rows: int) -> None:
        """Set what the event loop reads; everything that a plain server leaves off is off."""
        self.model_config = SimpleNamespace(
            vocab_size=1 << 31, is_encoder_decoder=False, hf_text_config=SimpleNamespace(),
            self_opened_think_start_ids=None, think_end_ids=None, context_len=kv,
        )
        off = ("enable_hisparse", "require_mlp_sync", "enable_hierarchical_cache", "enable_hicache_storage",
               "enable_lmcache", "enable_unified_cache_external_linker", "enable_priority_preemption",
               "enable_lora", "enable_priority_scheduling")
        none = ("dllm_config", "chunked_req", "_pending_chunked_abort_req", "last_batch", "hisparse_coordinator",
                "prefill_delayer", "min_free_slots_delayer", "dynamic_chunk_sizer", "truncation_align_size",
                "decode_offload_manager", "prefill_decode_interval_min_bs", "scheduler_stage_metrics")
        self.__dict__ |= dict.fromkeys(off, False) | dict.fromkeys(none)
        self.is_hybrid_swa = bool(self.reach)
        self.page_size, self.enable_overlap, self.is_mixed_chunk = page, True, mixed
        self.chunked_prefill_size, self.max_prefill_tokens = chunked_prefill_size, 16384
        self.prefill_decode_interval = self._prefill_decode_interval_remaining = 0
        self.waiting_queue: list[Req] = []
        self.running_batch = ScheduleBatch(reqs=[], batch_is_full=False)
        self.spec_algorithm, self.device, self.forward_ct = SpeculativeAlgorithm.NONE, "cpu", 0
        self.max_prefill_bs, self.max_running_requests, self.processed_tokens_counter = 0, rows, 0
        self.priority_scheduling_preemption_threshold, self.disaggregation_mode = 0, DisaggregationMode.NULL
        self.enable_skip_finishing_decode, self.result_queue = True, deque()
        self.metrics_reporter = Quiet()
        self.dp_attn_adapter = SimpleNamespace(
            maybe_prepare_mlp_sync_batch=lambda batch, **named: batch,
            maybe_convert_decode_to_extend=lambda batch: batch,
        )
        self.ngram_embedding_manager = SimpleNamespace(prepare_for_forward=lambda batch, **named: batch)
        self.grammar_manager = SimpleNamespace(has_waiting_grammars=lambda: False)
        self.policy = SimpleNamespace(
            calc_priority=lambda *rest, **named: False, shortest_prefill_chunk_limit=lambda *rest, **named: None
        )
        self.tp_worker = SimpleNamespace(
            model_runner=SimpleNamespace(attn_backend=SimpleNamespace(), prefill_aware_swa=False)
        )
        self.new_token_ratio_tracker = SimpleNamespace(current=0.7, decay_step=lambda: None)
        self.beam_coordinator = SimpleNamespace(pending_member_rows=lambda batch: 0, commit_decode=lambda batch: set())
        self.load_inquirer = SimpleNamespace(_get_num_pending_tokens=lambda **named: 0)
        self.results = SchedulerBatchResultProcessor(
            is_generation=True, disaggregation_mode=DisaggregationMode.NULL, enable_overlap=True,
            enable_overlap_mlx=False, model_config=self.model_config, tree_cache=self.tree_cache,
            token_to_kv_pool_allocator=self.token_to_kv_pool_allocator, hisparse_coordinator=None,
            req_to_token_pool=self.req_to_token_pool, decode_offload_manager=None, metrics_collector=Quiet(),
            metrics_reporter=Quiet(), draft_worker=None, model_worker=None, logprob_result_processor=Quiet(),
            output_streamer=Quiet(), beam_coordinator=self.beam_coordinator, abort_request=None,
        )

    def submit(self, name: str, tokens: list[int], answer: int, stop_at: int = 0) -> Req:
        """Queue a request; the step that fills `stop_at` tokens samples its stop token."""
        sampling = SamplingParams(max_new_tokens=answer, stop_token_ids=[STOP])
        sampling.normalize(None)
        request = Req(name, "", array("q", tokens), sampling)
        self.stop_at[name] = stop_at
        self.waiting_queue.append(request)
        return request

    def turn(self, times: int = 1) -> None:
        """Go round the overlapped event loop (managers/scheduler.py:2061) a few times."""
        for _ in range(times):
            plan = self.get_next_batch_to_run(running_batch=self.running_batch, last_batch=self.last_batch)
            self.running_batch, batch = plan.running_batch, plan.batch_to_run
            if batch:
                self.result_queue.append((batch.copy(), self.forward(batch)))
            if self.last_batch:
                done, result = self.result_queue.popleft()
                decode = done.forward_mode.is_decode()
                process = "process_batch_result_decode" if decode else "process_batch_result_prefill"
                getattr(self.results, process)(done, result)
            self.last_batch = batch

    def forward(self, batch: ScheduleBatch) -> GenerationBatchResult:
        """Note what each slot would hold after this forward, in the order of the model runner."""
        extends, stops = batch.forward_mode.is_extend(), batch.seq_lens_cpu.tolist()
        if extends and batch.mamba_clear_indices is not None:
            self.depth |= dict.fromkeys(batch.mamba_clear_indices.tolist(), 0)
        if extends and batch.mamba_cow_src_indices is not None:
            pairs = zip(batch.mamba_cow_src_indices.tolist(), batch.mamba_cow_dst_indices.tolist(), strict=True)
            self.depth |= {target: self.depth[source] for source, target in pairs}
        slots = self.req_to_token_pool.get_mamba_indices(batch.req_pool_indices).tolist()
        starts = batch.prefix_lens if extends else [stop - 1 for stop in stops]
        for request, slot, start in zip(batch.reqs, slots, starts, strict=True):
            if self.depth[slot] != start:
                self.wrong.append(f"'{request.rid}' resumes at {start} from a state of {self.depth[slot]} tokens")
            self._read_window(request, start, start + 1 if not extends else request.extend_end)
        self._track(batch, extends, starts, stops)
        self.depth |= dict(zip(slots, stops, strict=True))
        said = [STOP if stop == self.stop_at[request.rid] else 5000 + stop
                for request, stop in zip(batch.reqs, stops, strict=True)]
        return GenerationBatchResult(next_token_ids=torch.tensor(said))

    def _read_window(self, request: Req, start: int, stop: int) -> None:
        """Note where a query has no key in its window: full token 0 and what is freed have no peer there."""
        if self.reach:
            row = self.req_to_token_pool.req_to_token[request.kv.req_pool_idx, max(start - self.reach, 0) : stop]
            if not self.token_to_kv_pool_allocator.translate_loc_from_full_to_swa(row.long()).all():
                self.wrong.append(f"'{request.rid}' reads a gap in its window at {start}")

    def _track(self, batch: ScheduleBatch, extends: bool, starts: list[int], stops: list[int]) -> None:
        """Note the checkpoints that the forward writes (hybrid_linear_attn_backend.py:445, gdn_backend.py)."""
        if extends:
            plan = build_prefill_track_plan(
                batch.mamba_prefill_track_mask_cpu, batch.mamba_track_seqlens_cpu, batch.extend_lens,
                batch.prefix_lens, CHUNK, mamba2=False,
            )
            for row in plan.final_rows:
                self.depth[int(batch.mamba_track_indices[row])] = stops[row]
            for row in plan.h_rows:
                self.depth[int(batch.mamba_track_indices[row])] = starts[row] + CHUNK * plan.chunk_indices[row]
        else:
            for row, tracked in enumerate(batch.mamba_track_mask_cpu):
                if tracked:
                    self.depth[int(batch.mamba_track_indices[row])] = stops[row]


def first_decode_step_on_a_boundary(
    core: str, prompt: int = 255, stop_at: int = 511, page: int = 64, window: int = 0
) -> list[str]:
    """A prompt one token short of the track interval; the answer stops one token short of the next boundary."""
    scheduler = BareScheduler(core, page=page, chunked_prefill_size=8192, mixed=False, window=window)
    request = scheduler.submit("turn 1", list(range(1000, 1000 + prompt)), 4000, stop_at)
    while not request.finished():
        scheduler.turn()
    scheduler.turn(3)
    said = [*request.origin_input_ids, *request.output_ids]
    scheduler.submit("turn 2", [*said, 1, 2, 3], 1)
    scheduler.turn(4)
    return scheduler.wrong


def boundary_in_a_mixed_step(core: str, rides_at: int = 768, stop_at: int = 1023) -> list[str]:
    """A short prompt arrives when a running request decodes over a boundary; it stops before the next one."""
    scheduler = BareScheduler(core, page=1, chunked_prefill_size=8192, mixed=True)
    request = scheduler.submit("turn 1", list(range(1000, 1300)), 4000, stop_at)
    while not request.finished():
        if request.kv.kv_committed_len == rides_at - 1:
            scheduler.submit("short", [5, 6, 7], 1)
        scheduler.turn()
    scheduler.turn(3)
    said = [*request.origin_input_ids, *request.output_ids]
    scheduler.submit("turn 2", [*said, 1, 2, 3], 1)
    scheduler.turn(4)
    return scheduler.wrong


def chunk_cut_inside_a_page(core: str, page: int = 16, decoders: int = 1) -> list[str]:
    """A long prompt is cut into chunks while another request decodes; then the same prompt comes again."""
    scheduler = BareScheduler(core, page=page, chunked_prefill_size=128, mixed=True)
    for number in range(decoders):
        scheduler.submit(f"decoder {number}", [number] * 20, 60)
    scheduler.turn(3)
    scheduler.submit("turn 1", list(range(1000, 1366)), 1)
    scheduler.turn(8)
    scheduler.submit("turn 2", [*range(1000, 1366), 5, 6], 1)
    scheduler.turn(6)
    return scheduler.wrong


def track_beside_the_named_checkpoint() -> None:
    """Change in memory: a boundary step writes the slot that does not hold the request's last checkpoint."""
    original = schedule_batch.set_mamba_track_indices_from_reqs

    def changed(batch: ScheduleBatch, track_positions: list[int] | None = None) -> None:
        for request in batch.reqs:
            if request.kv.mamba_last_track_idx is not None:
                request.kv.mamba_next_track_idx = 1 - request.kv.mamba_last_track_idx
        original(batch, track_positions)

    schedule_batch.set_mamba_track_indices_from_reqs = changed


def cut_chunks_at_pages() -> None:
    """Change in memory: a chunk that does not finish its prompt ends on a page, the continuing ones too."""

    def floor(adder: PrefillAdder, tokens: int, remaining: int) -> int:
        return tokens if tokens >= remaining else tokens // adder.page_size * adder.page_size or tokens

    PrefillAdder.floor_chunked_tokens = floor


CASES = {
    "first decode step on a boundary, page 1": lambda core: first_decode_step_on_a_boundary(core, page=1),
    "first decode step on a boundary, page 64": first_decode_step_on_a_boundary,
    "  control: the prompt is a token shorter": lambda core: first_decode_step_on_a_boundary(core, prompt=254),
    "  control: it stops a token earlier": lambda core: first_decode_step_on_a_boundary(core, stop_at=510),
    "first decode step on a boundary, window 128": lambda core: first_decode_step_on_a_boundary(core, window=128),
    "  control: a long answer leaves its window": lambda core: first_decode_step_on_a_boundary(
        core, 254, 1500, window=128
    ),
    "boundary in a mixed step": boundary_in_a_mixed_step,
    "  control: the short prompt comes elsewhere": lambda core: boundary_in_a_mixed_step(core, rides_at=700),
    "chunk cut inside a page, page 16": chunk_cut_inside_a_page,
    "chunk cut inside a page, page 64": lambda core: chunk_cut_inside_a_page(core, page=64),
    "  control: page 1": lambda core: chunk_cut_inside_a_page(core, page=1),
    "  control: nobody decodes": lambda core: chunk_cut_inside_a_page(core, decoders=0),
}


def main() -> None:
    """Print every case on both tree cores; with `changed` as argument, with both changes made."""
    if sys.argv[1:] == ["changed"]:
        track_beside_the_named_checkpoint()
        cut_chunks_at_pages()
    for name, case in CASES.items():
        for core in ("rust", "python"):
            print(f"{name:46} {core:7}", *(case(core) or ["nothing wrong"]))


if __name__ == "__main__":
    main()
