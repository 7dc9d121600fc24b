"""vLLM with speculative decoding: a state for each draft position, and the accepted count that selects one.

The step that verifies writes the state of its first token into the running column of a request's table and those of
its drafts into the columns behind it; of the convolution one window, with a row more for each draft, lies in the
running column. The next step starts from the column and row of what was accepted. Which column that is, what is copied
where before a forward and after its sampling, is decided and done by vLLM's own `MambaHybridModelState` and kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from milepost.conformance.adapters.vllm_engine import LAYERS, POOL, Settings
from milepost.conformance.adapters.vllm_kernels import GRID
from milepost.conformance.adapters.vllm_memory import BlockMemory
from milepost.conformance.adapters.vllm_scheduler import Vllm
from milepost.conformance.adapters.vllm_worker import NULL_BLOCK, Claim, Planned, cells
from milepost.conformance.errors import AdapterError
from milepost.spec.answers import Grant, GroupTable, Hit, Landing, Launched, Phase, Refused, Slots
from milepost.spec.capabilities import Capabilities
from milepost.spec.payload import GARBAGE, ZERO, Content
from milepost.spec.words import NULL, Cell, Namespace

Moves = list[tuple[int, int]]
"""Copies of states, as (source block, target block)."""


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

    def look_ahead(self, place: int, hit: int | None, landed: bool, span: tuple[int, int]) -> tuple[int, int]:
        """Return the running column and the accepted count that a step over `span` will begin with.

        vLLM's own kernel says so, on a copy of what it knows; `hit` is where a new request starts. A step that has not
        `landed` had no drafts, and will have said one token.
        """
        model, moved = self.preview, self.model
        if hit is not None:
            model.add_request(0, SimpleNamespace(num_computed_tokens=hit))
        else:
            model._mamba_state_idx_gpu[0] = moved._mamba_state_idx_gpu[place]
            model.num_accepted_tokens_gpu[0] = moved.num_accepted_tokens_gpu[place] if landed else 1
        copying, model._mamba_ctx = model._mamba_ctx, SimpleNamespace(run_fused_precopy=lambda *arguments: None)
        self._preprocess(model, [0], [span], self._numbers(span[:1]))
        model._mamba_ctx = copying
        return int(model._mamba_state_idx_gpu[0]), int(model.num_accepted_tokens_gpu[0])

    def _preprocess(self, model: Any, places: Sequence[int], spans: Sequence[tuple[int, int]], computed: Any) -> None:
        ends = [0]
        for start, stop in spans:
            ends.append(ends[-1] + stop - start)
        batch = SimpleNamespace(
            num_reqs=len(places), idx_mapping=self._numbers(places), query_start_loc=self._numbers(ends)
        )
        model.preprocess_state(batch, (), self.cache, computed)

    def begin(self, place: int, hit: int, rows: Sequence[Sequence[int]]) -> None:
        """Take a new request in (gpu/model_runner.py:1225-1253)."""
        self.model.add_request(place, SimpleNamespace(num_computed_tokens=hit))
        self.put(place, rows)

    def put(self, place: int, rows: Sequence[Sequence[int]]) -> None:
        """Put a request's tables where the kernels find them; what lay behind them stays."""
        for table, row in zip(self.tables, rows, strict=True):
            table[place, : len(row)] = self._numbers(row)

    def before(self, places: Sequence[int], spans: Sequence[tuple[int, int]]) -> Moves:
        """Do what precedes the forward, and return what was copied."""
        for place, (start, _) in zip(places, spans, strict=True):
            self.computed[place] = start
        GRID.take()
        self._preprocess(self.model, places, spans, self.computed)
        return self._copied()

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

    def column(self, place: int) -> int:
        """Return where the running state of a request is."""
        return int(self.model._mamba_state_idx_gpu[place])

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


class DraftingVllm(Vllm):
    """vLLM whose running requests speculate.

    What follows a forward needs to know what was accepted, which is known at the landing. What it does whatever was
    accepted is done as soon as the forward's writes are there, as on the device (`_catch_up`); the rest at the landing.
    """

    memory: DraftMemory

    def __init__(self, settings: Settings, declare: Callable[[Settings, int], Capabilities]) -> None:
        super().__init__(settings, declare)
        columns = -(-self.scheduler.max_model_len // settings.state_block) + 2 * settings.drafts + 2
        self.mover = StateMover(self.scheduler, self.memory, self.states, columns)
        self.behind: tuple[int, list[Planned]] = (0, [])
        self.done: dict[int, Moves] = {}
        self.saved: set[int] = set()
        self.windows: dict[int, tuple[int, int]] = {}

    def _allocate(self) -> DraftMemory:
        return DraftMemory(self.specs, self.specs[1].shapes, self.settings.blocks + 1)

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        """Look up as without drafts, on memory that has caught up."""
        self._catch_up()
        return super().open(request, tokens, namespace, content)

    def _granted(self, claim: Claim, start: int, stop: int, fresh: bool, drafts: int) -> Grant:
        worker, size = claim.worker, self.settings.state_block
        self.budget -= stop + drafts - start
        landed = all(one.claim is not claim for one in self.behind[1])
        hit = start if fresh else None
        column, accepted = self.mover.look_ahead(claim.place, hit, landed, (start, stop + drafts))
        worker.column, worker.positions[column] = column, stop
        written = [] if drafts else self._checkpoints(claim, start, stop)
        if drafts and stop % size == 0:
            # The running column is behind the boundary; what follows the forward copies the state to where it belongs.
            worker.positions[stop // size - 1] = stop
            saved = [(group, worker.block(group, stop // size - 1), stop) for group in self.states]
            written += [one for one in saved if one[1] not in (NULL_BLOCK, worker.block(one[0], column))]
        self.plan.append(Planned(claim, start, stop, [], fresh, drafts, stop >= claim.request.num_tokens))
        first = {group: worker.block(group, column + accepted - 1) for group in self.states}
        return Grant(
            stop, self.table(claim), tuple((self.names[group], block, at) for group, block, at in written),
            {self.names[group]: cells([block])[0] if start else None for group, block in first.items()}, draft=drafts,
        )

    def _slots(self, claim: Claim, named: Sequence[int], group: int) -> GroupTable:
        worker, source = claim.worker, claim.sources.get(group, NULL)
        running = max(worker.column, 0)
        frozen = tuple(
            (worker.position(column), cell)
            for column, cell in enumerate(named[:running]) if cell not in (NULL, source)
        )
        return Slots(named[running] if running < len(named) else NULL, frozen, source, tuple(named[running + 1 :]))

    # -- steps

    def launch(self) -> Launched:
        """Start the step, on memory that has caught up."""
        self._catch_up()
        launched = super().launch()
        for _, _, target in (copy for phase in launched.phases for copy in phase.copies):
            self.windows.pop(target, None)
        return launched

    def _move_states(self, planned: Sequence[Planned]) -> Moves:
        for one in planned:
            claim = one.claim
            rows = [claim.worker.rows[group] for group in self.states]
            if one.fresh:
                claim.place = self.mover.free.pop()
                self.mover.begin(claim.place, one.start, rows)
            self.mover.put(claim.place, rows)
            self._keep_windows(claim)
        places = [one.claim.place for one in planned]
        moves = self.mover.before(places, [(one.start, one.stop + one.drafts) for one in planned])
        if [self.mover.column(place) for place in places] != [one.claim.worker.column for one in planned]:
            raise AdapterError("vLLM's kernel puts a state into another column than when it was asked before")
        self.behind = self.steps + 1, list(planned)
        size = self.settings.state_block
        ends = [(one, one.stop // size - 1) for one in planned if one.drafts and one.stop % size == 0]
        self.saved = {one.claim.worker.block(group, column) for one, column in ends for group in self.states
                      if column != one.claim.worker.column}
        return moves

    def _catch_up(self) -> None:
        """Do what follows the newest forward whatever it accepted: a boundary's state goes to the boundary's column."""
        step, planned = self.behind
        if planned:
            said = [int(one.samples) for one in planned]
            places = [one.claim.place for one in planned]
            self.done[step] = self.mover.after(places, said, [one.stop for one in planned])
        self.behind = 0, []
        self.saved = set()

    def land(self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]) -> Landing:
        """Do what follows the forward with what was accepted, and land."""
        self._catch_up()
        speculating = [one for one in self.flights[0][2] if one.drafts and not one.claim.request.is_finished()]
        counts = [accepted.get(one.claim.name, 0) for one in speculating]
        done = self.done.pop(step)
        moves: Moves = []
        if speculating:
            ends = [one.stop + count for one, count in zip(speculating, counts, strict=True)]
            places = [one.claim.place for one in speculating]
            moves = [one for one in self.mover.after(places, [1 + one for one in counts], ends) if one not in done]
            for one, end in zip(speculating, ends, strict=True):
                boundary = end - end % self.settings.state_block
                if boundary >= one.stop:
                    one.claim.worker.positions[boundary // self.settings.state_block - 1] = boundary
        landing = super().land(step, accepted, sampled)
        copies = tuple((POOL, *pair) for pair in moves)
        return replace(landing, phases=(Phase(copies=copies, unordered=True),) if copies else ())

    # -- ends

    def preempt(self, request: str) -> Landing:
        """Preempt; its place is free for another request."""
        self._catch_up()
        self._leave(request)
        return super().preempt(request)

    def close(self, request: str, keep: bool) -> Landing:
        """Close; its place is free for another request."""
        self._leave(request)
        return super().close(request, keep)

    def _leave(self, request: str) -> None:
        if self.claims[request].place >= 0:
            self.mover.free.append(self.claims[request].place)

    # -- memory

    def _keep_windows(self, claim: Claim) -> None:
        """Note where the convolution of each state of a request is: a draft's is a row of the running column's."""
        running = claim.worker.column
        for row in (claim.worker.rows[group] for group in self.states):
            for block in row[: running + 1]:
                self.windows.pop(block, None)
            for place, block in enumerate(row[running + 1 : running + 1 + self.settings.drafts], 1):
                self.windows[block] = row[running], place

    def _window(self, block: int) -> tuple[int, int]:
        return self.windows.get(block, (block, 0))

    def read(self, cell: Cell, group: str) -> Content:
        """Read what the tensors hold, of a draft's state both places."""
        if self.names.index(group) not in self.states:
            return super().read(cell, group)
        return self.memory.read_draft(cell[1], self._window(cell[1]))

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write what the forward would leave; what is copied behind it, vLLM's own kernel copies."""
        if isinstance(content, int) and cell[1] not in self.saved:
            self.memory.write_state(cell[1], self._window(cell[1]), content)
        elif isinstance(content, tuple):
            super().write(cell, group, content)
