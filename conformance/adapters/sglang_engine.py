"""SGLang's own pools, radix cache, requests and batches on a CPU, called in the order of its scheduler.

Citations are files and lines of the engine's package, version 0.5.23, below `sglang/srt/`. The engine is imported when
an `Engine` is built, never before: the kit does not need it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from milepost.conformance.adapters.sglang_modules import modules
from milepost.conformance.adapters.sglang_pools import Room, build_allocator, build_rows, build_tree, free_pages
from milepost.conformance.adapters.sglang_settings import Settings
from milepost.conformance.adapters.sglang_tracking import Track, decode_track, prefill_track

UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True)
class Moves:
    """What one call did to whole slots of the state tensors: copies (source, target), or zeroings."""

    copies: tuple[tuple[int, int], ...] = ()
    zeros: tuple[int, ...] = ()


class _Quiet:
    """Takes the engine's reports (metrics, output to clients) and drops them."""

    num_generated_tokens = 0
    forward_ct_decode = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *positional, **named: None


_published: list[Settings] = []


class Engine:
    """One scheduler's worth of the engine. `running` are requests whose prompt is done, `chunked` one that is cut."""

    def __init__(self, settings: Settings, tokens: int, slots: int, rows: int, window_tokens: int = 0) -> None:
        self.settings, self.tokens, self.rows = settings, tokens, rows
        self.m = modules()
        self._publish()
        self.model = SimpleNamespace(
            vocab_size=1 << 31, is_encoder_decoder=False,
            hf_text_config=SimpleNamespace(mamba_chunk_size=settings.chunk),
            self_opened_think_start_ids=None, think_end_ids=None, context_len=tokens + 64,
        )
        room = Room(tokens, window_tokens, slots, rows)
        self.pool = build_rows(self.m, settings, room)
        self.allocator = build_allocator(self.m, settings, room, self.pool)
        self.tree = build_tree(self.m, settings, self.pool, self.allocator)
        self.processor = self._result_processor()
        self.moves: list[Moves] = []
        if settings.recurrent:
            self._listen(self.pool.mamba_pool)
        self.running: list[Any] = []
        self.chunked: Any = None
        self.pass_open = False

    def _publish(self) -> None:
        """Make this engine's options the process' own: the engine keeps them in one global record."""
        if _published and _published[0] == self.settings:
            return
        settings = self.settings
        options = self.m.server_args.ServerArgs(
            model_path="dummy", page_size=settings.page, mamba_radix_cache_strategy=settings.strategy,
            mamba_track_interval=settings.grid, attention_backend="torch_native",
            disable_overlap_schedule=not settings.overlap, enable_mixed_chunk=settings.mixed,
        )
        # There is no model to read the chunk of its kernels from (arg_groups/overrides.py:1897 honours a preset).
        options._mamba_cache_chunk_size = settings.grid
        self.m.server_args.set_global_server_args_for_scheduler(options)
        self.m.environ.envs.SGLANG_OPT_RELEASE_PREFILL_SWA.set(settings.releases)
        _published[:] = [settings]

    def _result_processor(self) -> Any:
        return self.m.processor.SchedulerBatchResultProcessor(
            is_generation=True, disaggregation_mode=self.m.no_disaggregation, enable_overlap=self.settings.overlap,
            enable_overlap_mlx=False, model_config=self.model, token_to_kv_pool_allocator=self.allocator,
            tree_cache=self.tree, hisparse_coordinator=None, req_to_token_pool=self.pool, decode_offload_manager=None,
            metrics_collector=_Quiet(), metrics_reporter=_Quiet(), draft_worker=None, model_worker=None,
            logprob_result_processor=_Quiet(), output_streamer=_Quiet(),
            beam_coordinator=SimpleNamespace(commit_decode=lambda batch: set()), abort_request=None,
        )

    def _listen(self, states: Any) -> None:
        """Note what the engine copies and zeroes in its state tensors, in the order of its calls."""
        copy_from, clear_slots = states.copy_from, states.clear_slots

        def noted_copy(sources: Any, targets: Any) -> None:
            pairs = tuple(zip(sources.tolist(), targets.tolist(), strict=True))
            self.moves.append(Moves(copies=pairs))
            copy_from(sources, targets)

        def noted_clear(slots: Any) -> None:
            self.moves.append(Moves(zeros=tuple(slots.tolist())))
            clear_slots(slots)

        states.copy_from, states.clear_slots = noted_copy, noted_clear

    # -- requests and passes

    def new_request(self, name: str, tokens: tuple[int, ...], extra_key: str | None, salt: str | None) -> Any:
        """Make a request as `_handle_generate_request` does, its answer limited by the pool (scheduler.py:2693)."""
        room = self.tokens - 2 - len(tokens)
        sampling = self.m.sampling_params(max_new_tokens=max(1, min(room, UNLIMITED)))
        sampling.normalize(None)
        return self.m.schedule_batch.Req(
            name, "", array("q", tokens), sampling, extra_key=extra_key, cache_salt=salt
        )

    def begin_pass(self) -> None:
        """Publish the chunk that was launched last, as every scheduling pass does first (scheduler.py:3912-3919)."""
        if self.pass_open:
            return
        self.pass_open = True
        chunked = self.chunked
        if chunked is not None and chunked.extend_end > chunked.prefix_len:
            self.m.common.checkpoint_kv_cache(chunked, self.tree)

    def look_up(self, request: Any) -> None:
        """Match, and take a live slot for the copy out of the pass' group of slots (scheduler.py:4209-4260)."""
        self._publish()
        if not self.settings.recurrent:
            request.init_next_round_input(self.tree)
            return
        self.pool.mamba_allocator.alloc_group_begin(1)
        request.init_next_round_input(self.tree)
        self.pool.mamba_allocator.alloc_group_end()

    def take_back(self, request: Any) -> None:
        """Return what a look-up took, as for a request that is not admitted (scheduler.py:4293-4307)."""
        request.kv.mamba_cow_src_index = None
        request.kv.mamba_needs_clear = False
        if request.kv.holds_mamba:
            self.pool.mamba_allocator.free(request.kv.mamba_pool_idx.unsqueeze(-1))
            request.kv.mamba_pool_idx = None

    # -- one step

    def _adder(self, budget: int) -> Any:
        """Build the PrefillAdder of a pass that has `budget` tokens of its chunk left (scheduler.py:4157-4178)."""
        mixed = len(self.running) if self.settings.mixed else 0
        return self.m.schedule_policy.PrefillAdder(
            self.settings.page, self.tree, self.allocator, self.m.schedule_batch.ScheduleBatch(reqs=self.running),
            0.7, 16384, budget + mixed, mixed, 0, max_prefill_bs=0, max_running_requests=self.rows,
        )

    def admit(self, request: Any, to: int) -> Any:
        """Let the adder take a request for this pass, no further than `to`; None where it takes nothing.

        A pass' chunk is shared by all that it admits. What is left of it for this request is what the harness asks
        for, rounded up to the page where that completes the prompt, since the adder counts whole pages.
        """
        self._publish()
        page, wanted = self.settings.page, to - request.prefix_len
        whole = to >= len(request.full_untruncated_fill_ids)
        if request is self.chunked:
            request.init_next_round_input()
            budget = -(-wanted // page) * page if whole else wanted // page * page
            if self.settings.mixed and not whole:
                budget -= len(self.running)
            if budget <= 0:
                return None
            adder = self._adder(budget)
            self.chunked = adder.add_chunked_req(request)
        else:
            adder = self._adder(-(-wanted // page) * page if whole else wanted)
            adder.add_one_req(request, has_chunked_req=self.chunked is not None, truncation_align_size=None)
            if adder.new_chunked_req is not None:
                assert self.chunked is None
                self.chunked = adder.new_chunked_req
        return request if request in adder.can_run_list else None

    def prepare_prefill(self, request: Any) -> tuple[Any, Track | None]:
        """Allocate for an admitted request and plan its checkpoint (scheduler.py:4336-4366)."""
        if self.chunked is not None:
            self.chunked.inflight_middle_chunks += 1
        else:
            self.running.append(request)
        batch = self.m.schedule_batch.ScheduleBatch.init_new(
            [request], self.pool, self.allocator, self.tree, self.model, self.settings.overlap, self.m.no_speculation,
            chunked_req=self.chunked,
        )
        batch.prepare_for_extend()
        batch.decoding_reqs = None
        return batch, prefill_track(batch, self.settings.chunk) if self.settings.extra_buffer else None

    def prepare_decode(self, request: Any, tracked: bool) -> tuple[Any, Track | None] | None:
        """Allocate one decode step; None where the engine would retract for lack of room (scheduler.py:4459-4551).

        The running batch is one of this request alone, as after `merge_batch` and `filter_batch`.
        """
        self._publish()
        m, torch = self.m, self.m.torch
        batch = m.schedule_batch.ScheduleBatch.init_new(
            [request], self.pool, self.allocator, self.tree, self.model, self.settings.overlap, m.no_speculation
        )
        length = request.kv.kv_committed_len
        batch.req_pool_indices = torch.tensor([request.kv.req_pool_idx], dtype=torch.int64)
        batch.req_pool_indices_cpu = batch.req_pool_indices
        batch.seq_lens = torch.tensor([length], dtype=torch.int64)
        batch.seq_lens_cpu = torch.tensor([length], dtype=torch.int64)
        batch.orig_seq_lens = torch.tensor([length], dtype=torch.int32)
        batch.multimodal_inputs = [None]
        batch.sampling_info = m.sampling_info.from_schedule_batch(batch, self.model.vocab_size)
        if not batch.check_decode_mem():
            return None
        batch.prepare_for_decode()
        return batch, decode_track(batch) if self.settings.extra_buffer and tracked else None

    def run(self, batches: list[Any]) -> None:
        """Zero and copy as the model runner does before a forward (model_executor/model_runner.py:1917-1961)."""
        self._publish()
        self.pass_open = False
        for batch in batches:
            if not batch.forward_mode.is_extend():
                continue
            if batch.mamba_clear_indices is not None:
                self.pool.mamba_pool.clear_slots(self.pool.translate_mamba_indices(batch.mamba_clear_indices))
            if batch.mamba_cow_src_indices is not None:
                self.pool.copy_mamba_state(
                    self.pool.translate_mamba_indices(batch.mamba_cow_src_indices),
                    self.pool.translate_mamba_indices(batch.mamba_cow_dst_indices),
                )

    def process(self, batch: Any, said: list[int]) -> None:
        """Process a step's results (scheduler.py:5074-5117); `said` has a token for each request of the batch."""
        self._publish()
        result = self.m.result(next_token_ids=self.m.torch.tensor(said, dtype=self.m.torch.int64))
        if batch.forward_mode.is_decode():
            self.processor.process_batch_result_decode(batch, result)
        else:
            self.processor.process_batch_result_prefill(batch, result)
        self.running = [request for request in self.running if not request.finished()]

    # -- the end of a request

    def finish(self, request: Any) -> None:
        """Finish by length and release with a checkpoint (schedule_batch.py:2038, batch_result_processor.py:1466)."""
        self._publish()
        length = len(request.output_ids)
        request.finished_reason = self.m.schedule_batch.FINISH_LENGTH(length=length)
        request.finished_len = length
        self.m.common.release_kv_cache(request, self.tree, checkpoint=True)
        self._gone(request)

    def abort(self, request: Any) -> None:
        """Release without a checkpoint, as for a chunk that is aborted (scheduler.py:3805-3817)."""
        self._publish()
        request.finished_reason = self.m.schedule_batch.FINISH_ABORT("aborted")
        self.m.common.release_kv_cache(request, self.tree, checkpoint=False)
        self._gone(request)

    def abort_later(self, request: Any) -> None:
        """Mark a running request: the next result that is processed ends it (scheduler.py:5675 and later)."""
        request.to_finish = self.m.schedule_batch.FINISH_ABORT("aborted")

    def retract(self, request: Any) -> None:
        """Take a running request's memory as under decode pressure (schedule_batch.py:2360-2394)."""
        self._publish()
        self.m.schedule_batch.release_req(
            req=request, remaing_req_count=max(0, len(self.running) - 1), req_to_token_pool=self.pool,
            token_to_kv_pool_allocator=self.allocator, tree_cache=self.tree, hisparse_coordinator=None,
        )
        self._gone(request)

    def _gone(self, request: Any) -> None:
        self.running = [one for one in self.running if one is not request]
        if self.chunked is request:
            self.chunked = None

    def flush(self) -> None:
        """Forget everything (scheduler.py:5518-5526); the caller has made sure that nothing is open."""
        self._publish()
        self.tree.reset()
        self.pool.clear()
        self.allocator.clear()
        self.pool.reset_aux_cache_allocator()

    def evict(self, tokens: int, states: int, window_tokens: int = 0) -> None:
        """Evict as for an allocation of that size (mem_cache/unified_radix_cache.py:690)."""
        self._publish()
        self.tree.evict(self.m.evict_params(num_tokens=tokens, swa_num_tokens=window_tokens, mamba_num=states))

    def free_cells(self) -> dict[str, set[int]]:
        """Return the free pages and the free slots by pool, off the engine's own free lists."""
        pages, window_pages = free_pages(self.allocator, self.settings)
        slots = self.pool.mamba_allocator.free_slots.tolist() if self.settings.recurrent else ()
        return {"kv": pages, "window": window_pages, "state": set(slots)}
