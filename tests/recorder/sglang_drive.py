"""Runs in SGLang's environment: its own event loop under a recorder, with requests that share prefixes.

Usage: sglang_drive.py SEED FOLDER [EDIT]; SETTINGS holds the engine's options as JSON. The model is a stand-in that
zeroes and copies states as the engine's model runner does before a forward, and says seeded tokens. Where EVENTS names
a file, the KV events that SGLang publishes are written to it as a subscriber would write them.
"""

import contextlib
import functools
import json
import os
import random
import sys
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import milepost_record
from milepost.conformance.adapters.sglang_engine import Engine, Settings, _Quiet
from milepost.conformance.adapters.sglang_modules import modules

SIZES = {"core": "python", "strategy": "extra_buffer", "page": 1, "overlap": True, "mixed": False, "chunk": 8,
         "tokens": 160, "slots": 24, "rows": 4, "budget": 24}


class Subscriber:
    """Takes the place of SGLang's publisher; each batch goes through its own encoding, and is decoded untyped."""

    def __init__(self, path: str) -> None:
        self.path = path

    def publish(self, batch: Any) -> None:
        import msgspec

        received = msgspec.msgpack.decode(msgspec.msgpack.encode(batch))
        with open(self.path, "ab") as file:
            file.write(msgspec.json.encode(received) + b"\n")


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
            self.random, self.serial, self.passes = random.Random(seed), 0, 0
            names = ("core", "strategy", "page", "overlap", "mixed", "chunk")
            built = self.built = Engine(
                Settings(**{name: sizes[name] for name in names}), sizes["tokens"], sizes["slots"], sizes["rows"]
            )
            for name in ("copy_from", "clear_slots"):  # the adapter's own listeners: here nobody else watches
                vars(built.pool.mamba_pool).pop(name)
            _fill(self, built, sizes, m)
            self.due: dict[int, Callable[[], object]] = {}

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
            live = [one.rid for one in self.waiting_queue + self.running_batch.reqs]
            if self.random.random() < 0.5 and len(live) < 7:
                self.waiting_queue.append(self.ask())
            if live and self.random.random() < 0.04:
                from sglang.srt.managers.io_struct import AbortReq

                self.abort_request(AbortReq(rid=self.random.choice(live)))
            if self.random.random() < 0.02:
                self.flush_cache(empty_cache=False)

        def ask(self) -> Any:
            self.serial += 1
            roots = [[1] * 24, [1] * 16 + [2] * 16, [3] * 8]
            tokens = self.random.choice(roots)
            tokens = tokens + [self.random.randrange(4, 9) for _ in range(self.random.randrange(1, 20))]
            salt = self.random.choice([None, None, "s"])
            request = self.built.new_request(f"q{self.serial}.", tuple(tokens), None, salt)
            request.sampling_params.max_new_tokens = self.random.randrange(1, 24)
            return request

        def forward_batch_generation(self, batch: Any, **_: Any) -> Any:
            self.built.run([batch])
            said = [self.random.randrange(4, 9) for _ in batch.reqs]
            return m.result(next_token_ids=m.torch.tensor(said, dtype=m.torch.int64))

        def run(self, passes: int) -> None:
            self.passes, self.limit, self.gracefully_exit = 0, passes, False
            (self.event_loop_overlap if self.built.settings.overlap else self.event_loop_normal)()

    return Loop


def _fill(loop: Any, built: Any, sizes: dict[str, Any], m: Any) -> None:
    """Put in what the event loop reads."""
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.managers.schedule_policy import SchedulePolicy
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
    loop.new_token_ratio_tracker = SimpleNamespace(current=0.7, decay_step=lambda: None)
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


def main(seed: int, folder: str, edit: str = "") -> None:
    loop_class, events = make_loop(), os.environ.get("EVENTS")
    if events:
        modules().init_params = functools.partial(modules().init_params, enable_kv_cache_events=True)
    if edit == "plugin":
        from sglang.srt.plugins import load_plugins

        load_plugins()
    else:
        milepost_record.register_sglang()
    if edit == "fault":
        restore_the_first_state_always()
    loop = loop_class(seed, {**SIZES, **json.loads(os.environ.get("SETTINGS", "{}"))})
    if events:
        listen(loop, events)
    if edit == "attach":
        loop.due[40] = lambda: milepost_record.attach(loop, folder, salt=b"test")
    if edit == "crash":
        from milepost_record.sglang import Recording

        setattr(Recording, "_said", lambda recording, request, claim: 1 // 0)  # noqa: B010
    if edit == "full":
        from milepost_record.files import Files

        def refuse(files: Any) -> None:
            raise OSError("no space left on device")

        setattr(Files, "_flush", refuse)  # noqa: B010
    loop.run(200)
    print(f"{loop.serial} requests")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
