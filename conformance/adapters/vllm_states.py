"""Recurrent states with speculative decoding: vLLM's own code for them, on CPU memory.

The step that verifies writes the state of its first token into the running column of a request's table and those of
its drafts into the columns behind it; of the convolution one window, with a row more for each draft, lies in the
running column. The next step starts from the column and row of what was accepted. Which column that is, what is copied
where before a forward and after its sampling, and which rows of a batch verify, is decided and done by vLLM's own model
runner, `MambaHybridModelState` and kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

from milepost.conformance.adapters.vllm_engine import LAYERS
from milepost.conformance.adapters.vllm_kernels import GRID
from milepost.conformance.adapters.vllm_memory import BlockMemory
from milepost.spec.payload import GARBAGE, ZERO, Content

Moves = list[tuple[int, int]]
"""Copies of states, as (source block, target block)."""


@dataclass(frozen=True, slots=True)
class Row:
    """A request in a batch: tokens [start, stop) and drafts; `known` are the tokens that it was admitted with."""

    place: int
    start: int
    stop: int
    drafts: int
    known: int


class Began(NamedTuple):
    """Where a step begins: its running column, how many columns behind that the kernel reads, and whether it verifies.

    A step that verifies writes a state for each token; any other leaves only the one behind all its tokens.
    """

    column: int
    behind: int
    verifies: bool


class DraftMemory(BlockMemory):
    """Blocks whose states have a convolution window of several rows, one for each token that a step may accept."""

    def __init__(self, specs: Sequence[Any], state_shapes: Sequence[tuple[int, ...]], blocks: int) -> None:
        super().__init__(specs, state_shapes, blocks)
        self.rows = state_shapes[0][0]

    def tensors(self, layer: int) -> list[Any]:
        """Return the layer's convolution and recurrence as vLLM's worker views them, over the bytes of the blocks."""
        region, words = self.views[layer], self.words.shape[2]
        return [
            region.as_strided((self.blocks, self.rows, 1), (words, 1, 1), region.storage_offset()),
            region.as_strided((self.blocks, 2, 2), (words, 2, 1), region.storage_offset() + self.rows),
        ]

    def parts(self, layer: int, block: int, window: tuple[int, int]) -> list[Any]:
        """Return a state's parts; `window` is the block and row of its convolution."""
        holder, row = window
        return [
            self.words[layer, holder, row : row + 1],
            self.words[layer, block, self.part_ends[0] + self.rows : self.part_ends[-1]],
        ]

    def write_state(self, block: int, window: tuple[int, int], content: int) -> None:
        """Write a state into its two places."""
        for layer in range(LAYERS):
            for part, mask in zip(self.parts(layer, block, window), self.state_masks[layer], strict=True):
                part[:] = content ^ mask if content else ZERO

    def read_draft(self, block: int, window: tuple[int, int]) -> Content:
        """Read a state from its two places; GARBAGE where layers or parts disagree."""
        found = {
            int(value) ^ mask if value else ZERO
            for layer in range(LAYERS)
            for part, mask in zip(self.parts(layer, block, window), self.state_masks[layer], strict=True)
            for value in part
        }
        return found.pop() if len(found) == 1 else GARBAGE


class StateMover:
    """vLLM's `MambaHybridModelState` on CPU tensors, with the requests' places in it.

    `computed` has the tokens of each place whose states are done, as the worker's own tensor has them on the device.
    """

    def __init__(self, scheduler: Any, memory: DraftMemory, groups: Sequence[int], columns: int) -> None:
        import torch

        self.torch, self.groups, self.memory = torch, groups, memory
        self.config, self.cache = scheduler.vllm_config, scheduler.kv_cache_config
        places = self.config.scheduler_config.max_num_seqs
        self.tables = [torch.zeros((places, columns), dtype=torch.int32) for _ in groups]
        self.computed = torch.zeros(places, dtype=torch.int32)
        self.free = list(range(places))
        self.model = self._model()
        self.preview = self._model()

    def _model(self) -> Any:
        from vllm.model_executor.layers.mamba.mamba_utils import get_conv_copy_spec, get_temporal_copy_spec
        from vllm.v1.worker.gpu.model_states.mamba_hybrid import MambaHybridModelState

        layers = {
            name: SimpleNamespace(kv_cache=self.memory.tensors(layer))
            for group in self.groups
            for layer, name in enumerate(self.cache.kv_cache_groups[group].layer_names)
        }
        config = SimpleNamespace(**vars(self.config))
        config.compilation_config = SimpleNamespace(static_forward_context=layers)
        copies = SimpleNamespace(
            get_mamba_state_copy_funcs=lambda kinds: dict.fromkeys(kinds, (get_conv_copy_spec, get_temporal_copy_spec))
        )
        model = MambaHybridModelState(config, copies, None, self.torch.device("cpu"))
        tables = dict(zip(self.groups, self.tables, strict=True))
        every = range(len(self.cache.kv_cache_groups))
        model.initialize_kv_cache(self.cache, SimpleNamespace(
            block_tables=[SimpleNamespace(gpu=tables.get(group)) for group in every],
            input_block_tables=[tables.get(group) for group in every],
        ))
        return model

    def _numbers(self, numbers: Sequence[int]) -> Any:
        return self.torch.tensor(numbers, dtype=self.torch.int32)

    def look_ahead(self, row: Row, hit: int | None, landed: bool) -> Began:
        """Return how a step of one request will begin, on a copy of what vLLM's code knows of it.

        `hit` is where a new request starts. A step that has not `landed` had no drafts, and will have said one token.
        """
        model, moved = self.preview, self.model
        if hit is not None:
            model.add_request(0, SimpleNamespace(num_computed_tokens=hit))
        else:
            model._mamba_state_idx_gpu[0] = moved._mamba_state_idx_gpu[row.place]
            model.num_accepted_tokens_gpu[0] = moved.num_accepted_tokens_gpu[row.place] if landed else 1
        copying, model._mamba_ctx = model._mamba_ctx, SimpleNamespace(run_fused_precopy=lambda *arguments: None)
        began = self._begin(model, [replace(row, place=0)], self._numbers([row.start]))
        model._mamba_ctx = copying
        return began[0]

    def _begin(self, model: Any, rows: Sequence[Row], computed: Any) -> list[Began]:
        """Run what vLLM does with a batch before its forward; return how each row begins, in the order of `rows`."""
        batch = self._batch(rows)
        model.preprocess_state(batch, (), self.cache, computed)
        told = model.prepare_attn(batch, None, (), None, [()] * len(self.cache.kv_cache_groups), self.cache)
        began = {
            place: Began(int(model._mamba_state_idx_gpu[place]), int(count) - 1 if drafts >= 0 else 0, drafts >= 0)
            for place, count, drafts in zip(
                batch.idx_mapping.tolist(), told.num_accepted_tokens, told.num_decode_draft_tokens_cpu, strict=True
            )
        }
        return [began[row.place] for row in rows]

    def _batch(self, rows: Sequence[Row]) -> Any:
        """Let vLLM's model runner order a batch and tell prefills from decodes (gpu/model_runner.py:1306)."""
        import numpy
        from vllm.v1.worker.gpu.model_runner import GPUModelRunner

        places = {row.place: row for row in rows}
        counts = {row.place: row.stop + row.drafts - row.start for row in rows}
        known = numpy.zeros(max(places) + 1, dtype=numpy.int32)
        done = numpy.zeros_like(known)
        for row in rows:
            known[row.place], done[row.place] = row.known, min(row.start, row.known)
        states = SimpleNamespace(
            req_id_to_index=dict(zip(places, places, strict=True)), prefill_len=SimpleNamespace(np=known),
            num_computed_prefill_tokens=done,
        )
        runner = SimpleNamespace(
            req_states=states, decode_query_len=1 + self.config.num_speculative_tokens, use_pp=False, pcp_manager=None,
            adaptive_verification=None,
        )
        drafts = {row.place: [-1] * row.drafts for row in rows if row.drafts}
        state, _ = GPUModelRunner.gather_batch_req_state(runner, SimpleNamespace(
            num_scheduled_tokens=counts, total_num_scheduled_tokens=sum(counts.values()),
            scheduled_spec_decode_tokens=drafts,
        ), False)
        ends = numpy.cumsum([0, *state.num_scheduled_tokens], dtype=numpy.int32)
        lengths = self._numbers([places[one].stop + places[one].drafts for one in state.req_ids])
        return SimpleNamespace(
            num_reqs=len(rows), num_tokens=int(ends[-1]), idx_mapping=self._numbers(state.req_ids),
            query_start_loc=self.torch.from_numpy(ends), query_start_loc_np=ends, max_query_len=None,
            num_scheduled_tokens=state.num_scheduled_tokens, seq_lens=lengths, seq_lens_cpu_upper_bound=lengths,
            is_prefilling_np=state.is_prefilling_np, prefill_runs_as_decode_np=state.prefill_runs_as_decode_np,
            num_draft_tokens_per_req=state.num_draft_tokens_np, dcp_local_seq_lens=None, positions=None,
            prompt_lens=None,
        )

    def begin(self, place: int, hit: int) -> None:
        """Take a new request in (gpu/model_runner.py:1250)."""
        self.model.add_request(place, SimpleNamespace(num_computed_tokens=hit))

    def put(self, place: int, rows: Sequence[Sequence[int]]) -> None:
        """Put a request's tables where the kernels find them; what lay behind them stays."""
        for table, row in zip(self.tables, rows, strict=True):
            table[place, : len(row)] = self._numbers(row)

    def before(self, rows: Sequence[Row]) -> tuple[Moves, list[Began]]:
        """Do what precedes the forward; return what was copied, and how each request begins."""
        for row in rows:
            self.computed[row.place] = row.start
        GRID.take()
        began = self._begin(self.model, rows, self.computed)
        return self._copied(), began

    def after(self, places: Sequence[int], said: Sequence[int], ends: Sequence[int]) -> Moves:
        """Do what follows the sampling of `said` tokens each, and return what was copied; -1 is no place.

        `ends` are the tokens that are computed then (gpu/model_runner.py:1735-1752).
        """
        for place, end in zip(places, ends, strict=True):
            if place >= 0:
                self.computed[place] = end
        GRID.take()
        self.model.postprocess_state(self._numbers(places), self._numbers(said), self.computed)
        return self._copied()

    def _copied(self) -> Moves:
        """Return which recurrences the kernels copied; a block that is copied onto itself is left out."""
        first, size = self.memory.words[0, 0].ctypes.data, self.memory.words.shape[2] * 8
        moves: dict[tuple[int, int], None] = {}
        for name, (source, target, *_) in GRID.take():
            if name == "_memcpy_u64_tiled":
                places = [divmod(int(one) - first, size) for one in (source, target)]
                inside = places[1][1] // 8 >= self.memory.rows
                pair = tuple(place % self.memory.blocks for place, _ in places)
                if inside and pair[0] != pair[1]:
                    moves[pair] = None
        return list(moves)
