"""Runs in SGLang's environment: its own event loop under a recorder, with requests that share prefixes.

SETTINGS holds the engine's options as JSON. The model is a stand-in that zeroes and copies states as the engine's model
runner does before a forward, and says seeded tokens. Where EVENTS names a file, the KV events that SGLang publishes are
written to it as a subscriber would write them; PACKAGES is a folder in which its loader also looks for plug-ins.
"""

import contextlib
import functools
import json
import os
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from subscriber import Subscriber  # type: ignore[import-not-found]  # found beside this program when it runs

import milepost_record
from milepost.conformance.adapters.sglang_engine import Engine, _Quiet
from milepost.conformance.adapters.sglang_modules import modules
from milepost.conformance.adapters.sglang_settings import Settings

SIZES = {"core": "python", "strategy": "extra_buffer", "page": 1, "overlap": True, "mixed": False, "chunk": 8,
         "tokens": 160, "slots": 24, "rows": 4, "budget": 24, "answer": 24, "ratio": 0.7, "story": None}
"""`budget` are the tokens of a pass; SGLang keeps room for a share `ratio` of the answers, `answer` tokens at most.
A `story` is the name of one of STORIES and its numbers; without it a seeded user asks."""
STOP = 9


def listen(loop: Any, path: str) -> None:
    """Publish after each result, as the scheduler does with its reports."""
    from sglang.srt.managers.scheduler_components.kv_events_publisher import SchedulerKvEventsPublisher

    publisher = SchedulerKvEventsPublisher(
        kv_events_config=None, tree_cache=loop.tree_cache, send_metrics_from_scheduler=None, max_running_requests=0,
        max_total_num_tokens=0, get_stats=lambda: None,
    )
    publisher.enable_kv_cache_events, publisher.kv_event_publisher = True, Subscriber(path)
    loop.metrics_reporter.log_batch_result_stats = lambda batch, result: publisher.publish_kv_events()


class _Device:
    """The one queue of a CPU: everything is ordered already."""

    def __getattr__(self, name: str) -> Any:
        return lambda *positional, **named: None

    def Event(self) -> "_Device":  # noqa: N802 - as torch calls it
        return self


def _relay(rows: int, torch: Any, no_speculation: Any) -> Any:
    """Return a FutureMap: the tokens that the last step said, by row."""
    said = torch.zeros(rows + 2, dtype=torch.int64)

    def stash(places: Any, payload: Any) -> None:
        said[places] = payload.bonus_tokens

    return SimpleNamespace(
        output_tokens_buf=said, spec_algo=no_speculation, stash=stash, publish=lambda *_: None,
        resolve_seq_lens_cpu=lambda batch, **_: None,
    )


def make_loop() -> Any:
    """Return the class of a Scheduler that is built without a model, a process group and a transport."""
    m = modules()
    from sglang.srt.managers import scheduler as engine

    class Loop(engine.Scheduler):  # type: ignore[misc]  # SGLang ships no types for it
        """SGLang's Scheduler, but for its construction, its messages and its forward pass."""

        def __init__(self, seed: int, sizes: dict[str, Any]) -> None:
            self.random, self.serial, self.passes, self.longest = random.Random(seed), 0, 0, sizes["answer"]
            names = ("core", "strategy", "page", "overlap", "mixed", "chunk")
            built = self.built = Engine(
                Settings(**{name: sizes[name] for name in names}), sizes["tokens"], sizes["slots"], sizes["rows"]
            )
            for name in ("copy_from", "clear_slots"):  # the adapter's own listeners: here nobody else watches
                vars(built.pool.mamba_pool).pop(name)
            _fill(self, built, sizes, m)
            self.due: dict[int, Callable[[], object]] = {}
            self.retracted, self.stops = 0, dict[str, int]()
            self.story = STORIES[sizes["story"][0]](self, *sizes["story"][1:]) if sizes["story"] else None

        def __getattr__(self, name: str) -> Any:
            """Switch off, or leave empty, whatever was not built: a feature, a report, a connection."""
            if name.startswith("__"):
                raise AttributeError(name)
            if name.startswith(("enable_", "is_", "require_", "return_", "_")) or name.endswith(("_idled", "_flag")):
                return False
            return None

        def ingest_requests(self) -> None:
            """Bring requests, aborts and flushes: the event loop asks at the top of each iteration."""
            self.passes += 1
            self.gracefully_exit = self.passes > self.limit
            self.due.pop(self.passes, lambda: None)()
            if self.story is not None:
                next(self.story, None)
                return
            live = [one.rid for one in self.waiting_queue + self.running_batch.reqs]
            if self.random.random() < 0.5 and len(live) < 7:
                self.waiting_queue.append(_ask(self))
            if live and self.random.random() < 0.04:
                from sglang.srt.managers.io_struct import AbortReq

                self.abort_request(AbortReq(rid=self.random.choice(live)))
            if self.random.random() < 0.02:
                self.flush_cache(empty_cache=False)

        def request(self, tokens: list[int], answer: int, salt: str | None = None) -> Any:
            self.serial += 1
            made = self.built.new_request(f"q{self.serial}.", tuple(tokens), None, salt)
            made.sampling_params.max_new_tokens = answer
            return made

        def _add_request_to_queue(self, request: Any, is_retracted: bool = False) -> None:
            self.retracted += is_retracted
            super()._add_request_to_queue(request, is_retracted)

        def forward_batch_generation(self, batch: Any, **_: Any) -> Any:
            self.built.run([batch])
            lengths = zip(batch.reqs, batch.seq_lens_cpu.tolist(), strict=True)
            said = [STOP if self.stops.get(one.rid) == length else self.random.randrange(4, 9)
                    for one, length in lengths]
            return m.result(next_token_ids=m.torch.tensor(said, dtype=m.torch.int64))

        def run(self, passes: int) -> None:
            self.passes, self.limit, self.gracefully_exit = 0, passes, False
            (self.event_loop_overlap if self.built.settings.overlap else self.event_loop_normal)()

    return Loop


def _ask(loop: Any) -> Any:
    """Return a seeded request that shares its beginning with others."""
    roots = [[1] * 24, [1] * 16 + [2] * 16, [3] * 8]
    tokens = loop.random.choice(roots)
    tokens = tokens + [loop.random.randrange(4, 9) for _ in range(loop.random.randrange(1, 20))]
    salt = loop.random.choice([None, None, "s"])
    return loop.request(tokens, loop.random.randrange(1, loop.longest), salt)


def _fill(loop: Any, built: Any, sizes: dict[str, Any], m: Any) -> None:
    """Put in what the event loop reads."""
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.managers.schedule_policy import SchedulePolicy
    from sglang.srt.managers.scheduler_components.new_token_ratio_tracker import NewTokenRatioTracker
    from sglang.srt.runtime_context import get_parallel

    get_parallel().override_permanently(pp_max_micro_batch_size=sizes["rows"])
    loop.page_size, loop.tree_cache, loop.req_to_token_pool = sizes["page"], built.tree, built.pool
    loop.token_to_kv_pool_allocator, loop.model_config = built.allocator, built.model
    loop.batch_result_processor, loop.disaggregation_mode = built.processor, m.no_disaggregation
    loop.enable_overlap, loop.is_mixed_chunk, loop.is_generation = sizes["overlap"], sizes["mixed"], True
    loop.chunked_prefill_size, loop.max_prefill_tokens = sizes["budget"], 16384
    loop.max_running_requests, loop.max_prefill_bs, loop.spec_algorithm = sizes["rows"], 0, m.no_speculation
    loop.policy = SchedulePolicy("fcfs", built.tree, True, False, False)
    loop.waiting_queue, loop.last_batch, loop.chunked_req = [], None, None
    loop.running_batch, loop.result_queue = ScheduleBatch(reqs=[], batch_is_full=False), deque()
    loop.new_token_ratio_tracker = NewTokenRatioTracker(
        init=sizes["ratio"], min=0.0, decay=0.001, current=sizes["ratio"]
    )
    loop.forward_ct = loop.processed_tokens_counter = loop._prefill_decode_interval_remaining = 0
    loop.prefill_decode_interval, loop._pending_chunked_abort_req, loop._confidence_budget_prepare = 0, None, None
    loop.metrics_reporter = loop.profiler_manager = loop.grammar_manager = loop.load_inquirer = _Off()
    loop.metrics_reporter.enable_metrics = False
    loop.dllm_manager = SimpleNamespace(any_staging_reqs=lambda: False)
    loop.load_publisher = loop.invariant_checker = loop.ipc_channels = _Off()
    loop.beam_coordinator = SimpleNamespace(
        pending_member_rows=lambda batch: 0, retire_group=lambda request: None,
        maybe_select_and_relay=lambda *_, **__: None,
    )
    loop.dp_attn_adapter = SimpleNamespace(
        maybe_prepare_mlp_sync_batch=lambda batch, need_sync=False: batch,
        maybe_convert_decode_to_extend=lambda batch: batch,
    )
    loop.ngram_embedding_manager = SimpleNamespace(prepare_for_forward=lambda batch, chunked_req: batch)
    loop.tp_worker = SimpleNamespace(model_runner=SimpleNamespace(attn_backend=object(), prefill_aware_swa=False))
    loop.model_worker = SimpleNamespace(forward_batch_generation=loop.forward_batch_generation)
    loop.device_module, loop.forward_stream, loop.forward_stream_ctx = _Device(), _Device(), contextlib.nullcontext()
    loop.future_map = _relay(sizes["rows"], m.torch, m.no_speculation)
    loop.batch_record_buf, loop.batch_record_ct = [[], []], 0
    for name in ("publish_load_snapshot", "send_abort_output", "on_idle", "_release_aborted_request",
                 "record_batch_in_overlap", "_apply_war_barrier", "launch_batch_sample_if_needed",
                 "_copy_result_to_cpu", "_record_step_counters"):
        setattr(loop, name, lambda *_, **__: None)


class _Off(_Quiet):
    """Takes reports, and says that nothing waits."""

    grammar_queue: tuple[()] = ()

    def has_waiting_grammars(self) -> bool:
        return False


def first_decode_step_on_a_boundary(loop: Any, prompt: int = 15) -> Iterator[None]:
    """A prompt a token short of a boundary, whose answer stops a token short of the next one; then the next turn."""
    request = _submit(loop, list(range(100, 100 + prompt)), 90, stop_at=23)
    while not request.finished():
        yield
    yield from _next_turn(loop, request)


def boundary_in_a_mixed_step(loop: Any, rides_at: int = 24) -> Iterator[None]:
    """A prompt comes when another request decodes over a boundary, which stops before the next one."""
    request = _submit(loop, list(range(100, 110)), 90, stop_at=31)
    while not request.finished():
        if request.kv.kv_committed_len == rides_at - 1:
            _submit(loop, [5, 6, 7], 1)
        yield
    yield from _next_turn(loop, request)


def chunk_cut_inside_a_page(loop: Any, decoders: int = 1) -> Iterator[None]:
    """A prompt is cut into three chunks while another request decodes."""
    for _ in range(decoders):
        _submit(loop, [5] * 20, 40)
    yield from [None] * 3
    request = _submit(loop, list(range(100, 178)), 1)
    while not request.finished():
        yield
    yield from _next_turn(loop, request)


def _submit(loop: Any, tokens: list[int], answer: int, stop_at: int = 0) -> Any:
    """Queue a request; the step that fills `stop_at` tokens says its stop token."""
    request = loop.request(tokens, answer)
    request.sampling_params.stop_token_ids = {STOP}
    loop.stops[request.rid] = stop_at
    loop.waiting_queue.append(request)
    return request


def _next_turn(loop: Any, request: Any) -> Iterator[None]:
    yield from [None] * 3
    _submit(loop, [*request.origin_input_ids, *request.output_ids, 1, 2, 3], 1)
    yield from [None] * 4


STORIES = {
    story.__name__: story
    for story in (first_decode_step_on_a_boundary, boundary_in_a_mixed_step, chunk_cut_inside_a_page)
}
"""What docs/findings/sglang.md tells, on a small grid."""


def restore_the_first_state_always() -> None:
    """An illegal edit: every hit is restored from the state that the first one was."""
    from sglang.srt.managers.schedule_batch import ScheduleBatch

    original, known = ScheduleBatch._collect_deferred_mamba_cow_and_clear, []

    def edited(batch: Any, requests: Any) -> None:
        for request in requests:
            if request.kv.mamba_cow_src_index is not None:
                known.append(request.kv.mamba_cow_src_index.clone())
                request.kv.mamba_cow_src_index = known[0].clone()
        original(batch, requests)

    ScheduleBatch._collect_deferred_mamba_cow_and_clear = edited


def prepare() -> None:
    """Import what a drive needs."""
    make_loop()


def drive(seed: int, folder: str, edit: str) -> None:
    events = os.environ.get("EVENTS")
    if events:
        modules().init_params = functools.partial(modules().init_params, enable_kv_cache_events=True)
    if edit == "plugin":
        from sglang.srt.plugins import load_plugins

        sys.path.insert(0, os.environ["PACKAGES"])
        load_plugins()
    else:
        milepost_record.register_sglang()
    if edit == "fault":
        restore_the_first_state_always()
    loop = make_loop()(seed, {**SIZES, **json.loads(os.environ.get("SETTINGS", "{}"))})
    if events:
        listen(loop, events)
    if edit == "attach":
        loop.due[40] = lambda: milepost_record.attach(loop, folder, salt=b"test")
    if edit == "crash":
        from milepost_record.sglang import Recording

        setattr(Recording, "_said", lambda recording, request, claim: 1 // 0)  # noqa: B010
    loop.run(200)
    print(f"{loop.serial} requests, {loop.retracted} retracted")
