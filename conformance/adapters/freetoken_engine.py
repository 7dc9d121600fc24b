"""FreeToken's scheduler on CPU tensors: its own code, built without the model, the streams and the transport."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import freetoken.kernel.fla.chunk as chunk_module
import freetoken.scheduler.scheduler as scheduler_module
import torch
from freetoken.core import Batch, Context, get_global_ctx, set_global_ctx
from freetoken.distributed.info import set_tp_info, try_get_tp_info
from freetoken.scheduler.cache import CacheManager
from freetoken.scheduler.decode import DecodeManager
from freetoken.scheduler.prefill import PrefillManager
from freetoken.scheduler.table import TableManager

from milepost.conformance.adapters.freetoken_memory import CPU, WatchedPool
from milepost.spec.capabilities import Configuration

STOP = ord("d")
"""The token that ends a request that does not ignore it: a letter that generated requests say often."""

FILLER = 999_999
"""What the model says where the schedule has no more words: below the ids of pictures (mm/__init__.py:9)."""


class _Unpinned:
    """torch for the scheduler's module, less pinned memory, which a machine without an accelerator refuses.

    Most of FreeToken asks first whether there is a device; scheduler.py:881, 908 and 967-1017 don't.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def tensor(self, *values: Any, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        return torch.tensor(*values, **options)

    def empty(self, *shape: Any, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        return torch.empty(*shape, **options)


class _Stream:
    """The one queue of a CPU: everything is ordered already."""

    def wait_stream(self, other: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass


class Output(NamedTuple):
    """What a step leaves to be drained; `next_tokens_cpu` is filled at the landing, when the host learns the tokens."""

    next_tokens_gpu: torch.Tensor
    next_tokens_cpu: torch.Tensor
    copy_done_event: _Stream


@dataclass(frozen=True, slots=True)
class Step:
    """One launched batch: what `_process_last_data` is given, and what the kernels were told."""

    forward_input: Any
    output: Output


class Engine(scheduler_module.Scheduler):  # type: ignore[misc]  # FreeToken ships no types
    """`Scheduler` as FreeToken wrote it, but for `__init__`, the model and the replies."""

    def __init__(self, configuration: Configuration) -> None:
        page, pages = configuration.page_size, self.pages_of(configuration)
        self.chunk_size = configuration.chunk_size
        self.config = SimpleNamespace(page_size=page, tp_info=SimpleNamespace(size=1))
        self.linear_pool: WatchedPool | None = None
        self.enter()  # a pool asks for the ranks of the process
        self.pool = self.make_pool(configuration)
        self.enter()
        rows = torch.zeros((configuration.max_live + 1, pages * page), dtype=torch.int32)  # the last one is a dummy's
        self.engine = self._stand_in(rows, pages, page)
        self.device, self.stream = CPU, _Stream()
        self.engine_stream_ctx = contextlib.nullcontext()
        self.table_manager = TableManager(configuration.max_live, rows)
        self.cache_manager = self.make_manager(rows, pages, page)
        self.decode_manager = DecodeManager(page)
        self.prefill_manager = PrefillManager(self.cache_manager, self.table_manager, self.decode_manager)
        self.finished_reqs: set[Any] = set()
        self._pending_abort_acks: set[int] = set()
        self._abort_tombstones: dict[int, None] = {}
        self._forward_iter = 0
        self._last_data: tuple[Any, Output] | None = None
        self._pending_rebuild = self._pending_flush = None
        self._bidirectional_mm = self._model_is_mrope = self._warned_cut_image = False
        self.tokenizer, self.eos_token_ids, self.toolcall_anchor_id = None, frozenset({STOP}), configuration.anchor
        self.token_pool = self.table_manager.token_pool
        self.status_reporter = SimpleNamespace(report_batch=lambda *_, **__: None)
        self.replies: list[Any] = []

    def pages_of(self, configuration: Configuration) -> int:
        """Return the pages of the page table."""
        return configuration.pools["kv"]

    def make_pool(self, configuration: Configuration) -> Any:
        """Return the pool of what is kept beside the KV: here of states."""
        self.linear_pool = WatchedPool(configuration.pools["state"])
        return self.linear_pool

    def make_manager(self, rows: torch.Tensor, pages: int, page: int) -> CacheManager:
        """Return FreeToken's manager of KV pages and of that pool."""
        return CacheManager(pages, page, rows, "hybrid_radix", linear_state_pool=self.pool)

    def _stand_in(self, rows: torch.Tensor, pages: int, page: int) -> SimpleNamespace:
        """Return what the scheduler asks of its model runner; a batch is never padded and nothing is computed."""
        return SimpleNamespace(
            device=CPU, stream=_Stream(), page_table=rows, num_pages=pages, max_seq_len=pages * page,
            linear_state_pool=self.linear_pool, kv_cache=None, encoder_cache=None, forward_batch=self._model,
            graph_runner=SimpleNamespace(pad_batch=lambda batch: setattr(batch, "padded_reqs", batch.reqs)),
            attn_backend=SimpleNamespace(prepare_metadata=lambda batch: None),
            sampler=SimpleNamespace(prepare=lambda batch: None),
        )

    def enter(self) -> None:
        """Put this instance's sizes where FreeToken keeps one of each for a whole process."""
        scheduler_module.torch = _Unpinned()
        chunk_module.CHUNK_SIZE = self.chunk_size
        if try_get_tp_info() is None:
            set_tp_info(0, 1)
            set_global_ctx(Context(page_size=1))
        context = get_global_ctx()
        context.page_size, context.linear_state_pool = self.config.page_size, self.linear_pool

    def send_result(self, reply: list[Any]) -> None:
        """Keep the replies: they go to nobody."""
        self.replies += reply

    def _model(self, batch: Any, arguments: Any) -> Output:
        """Compute nothing, and move every request on as the model runner does (engine.py, `forward_batch`)."""
        for request in batch.reqs:
            request.complete_one()
        said = torch.full((len(batch.reqs),), FILLER, dtype=torch.int32)
        return Output(said, said.clone(), _Stream())

    # The parts of one iteration of `overlap_loop` (scheduler.py:219-275) that the harness puts in order.

    def receive(self, message: Any, undrained: Step | None) -> None:
        """Process one message, as at the top of an iteration at which `undrained` is the batch in flight."""
        self.enter()
        self._last_data = None if undrained is None else (undrained.forward_input, undrained.output)
        self._process_one_msg(message)
        self._check_pending_flush()
        self._last_data = None

    def prepare(self, reqs: list[Any], phase: str) -> Any:
        """Give a batch its pages and the arguments of its kernels (`_prepare_batch`)."""
        self.enter()
        return self._prepare_batch(Batch(reqs=reqs, phase=phase))

    def start(self, forward_input: Any) -> Step:
        """Restore what was hit, take the anchors' snapshots, and run the model (scheduler.py:264-265)."""
        self._restore_linear_states(forward_input.batch)
        return Step(forward_input, self._forward(forward_input))

    def drain(self, step: Step) -> None:
        """Commit, finish and free what the step was waited for with (`_process_last_data`)."""
        self.enter()
        self._process_last_data((step.forward_input, step.output))
        self.replies.clear()
