"""What the recorder costs: microseconds a request and step, in each engine's own scheduler.

Run `.venv/bin/python benchmarks/recorder.py`. Each engine runs in its own environment (`make peers`); where there is
none it is left out, and that is said. Rounds with and without the recorder take turns, each with a fresh engine, and
the seconds are those of the processor: the recorder has no thread of its own, so that nothing of it is left out, and a
busy machine does not count. Where it is not recorded the engine's methods are its own, and nothing is watched.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("vllm 16", "vllm 528", "sglang 16", "freetoken 16")
"""Engines and pages. vLLM gives hybrid models pages of hundreds of tokens; at 16 every 16th step changes tables."""
ROUNDS, STEPS, WARM, REQUESTS, PROMPT = 9, 200, 20, 16, 2048

Step = Callable[[], None]


def microseconds(seconds: float, operations: int) -> float:
    return round(seconds / operations * 1e6, 2)


def time_lines(folder: str) -> dict[str, float]:
    """Time what a request costs once: its prompt as digests, engine apart."""
    from milepost_record.settings import Settings
    from milepost_record.trace import Trace

    trace, prompt, count = Trace(Settings(folder, salt=b"s"), "lines", {"id": "bench"}), list(range(PROMPT)), 200
    trace.digests.tokens(prompt)
    started = time.thread_time()
    for _ in range(count):
        trace.open("r1", trace.digests.tokens(prompt), [], 0, {})
    opened = time.thread_time() - started
    trace.finish()
    return {f"an open of {PROMPT:,} tokens": microseconds(opened, count)}


def build_vllm(block: int) -> tuple[Any, Step]:
    """Return vLLM's scheduler with requests that decode from the first step on, and one step of it."""
    from milepost.conformance.adapters.vllm_engine import Settings, build_scheduler, make_request
    from milepost.conformance.adapters.vllm_loader import load

    load()
    from vllm.v1.outputs import ModelRunnerOutput

    settings = Settings(block=block, state_block=block, blocks=128000 // block, budget=1 << 16, running=REQUESTS)
    scheduler = build_scheduler(settings)
    for number in range(REQUESTS):
        tokens = tuple((number * 7 + place) % 5000 for place in range(PROMPT))
        scheduler.add_request(make_request(f"q{number}", tokens, scheduler.hash_block_size, None, None))

    def step() -> None:
        output = scheduler.schedule()
        names = list(output.num_scheduled_tokens)
        said = [[] if scheduler.requests[name].is_prefill_chunk else [5] for name in names]
        places = {name: place for place, name in enumerate(names)}
        scheduler.update_from_output(output, ModelRunnerOutput(names, places, said))

    return scheduler, step


def build_freetoken(page: int) -> tuple[Any, Step]:
    """Return FreeToken's scheduler with requests that decode, and one iteration of its loop."""
    import torch
    from freetoken.core import SamplingParams
    from freetoken.message import UserMsg
    from freetoken_drive import SIZES, Loop

    room = (PROMPT + STEPS + WARM + 64) * REQUESTS
    sizes = {"page": page, "chunk": 64, "tokens": room, "slots": 8 * REQUESTS, "running": REQUESTS, "budget": 1 << 16}
    loop, data = Loop(1, {**SIZES, **sizes}), None
    asked = SamplingParams(max_tokens=1 << 20, ignore_eos=True)
    messages = [
        UserMsg(uid=number, input_ids=torch.arange(number, number + PROMPT, dtype=torch.int32), sampling_params=asked)
        for number in range(REQUESTS)
    ]
    loop.receive_msg = lambda blocking: [messages.pop()] if messages else []

    def step() -> None:
        nonlocal data
        data = loop.overlap_loop(data)

    for _ in range(REQUESTS + 2):
        step()
    return loop, step


def build_sglang(page: int) -> tuple[Any, Step]:
    """Return SGLang's scheduler with requests that decode, and one pass of its event loop."""
    from sglang_drive import SIZES, make_loop

    room = (PROMPT + STEPS + WARM + 64) * REQUESTS
    sizes = {"page": page, "chunk": 64, "tokens": room, "slots": 8 * REQUESTS, "rows": REQUESTS, "budget": PROMPT}
    loop = make_loop()(1, {**SIZES, **sizes})
    for number in range(REQUESTS):
        tokens = tuple(range(number, number + PROMPT))
        request = loop.built.new_request(f"q{number}.", tokens, None, None)
        request.sampling_params.max_new_tokens = STEPS + WARM + 32
        loop.waiting_queue.append(request)

    def ingest() -> None:
        loop.passes += 1
        loop.gracefully_exit = loop.passes > loop.limit

    loop.ingest_requests = ingest
    loop.run(REQUESTS + 2)
    return loop, lambda: loop.run(STEPS)


BUILDERS: dict[str, Callable[[int], tuple[Any, Step]]] = {
    "vllm": build_vllm, "sglang": build_sglang, "freetoken": build_freetoken,
}


def watched_methods(engine: str) -> list[tuple[Any, str, Any, Any]]:
    """Return what the recorder has put around methods: owner, name, what it put there, and the engine's own."""
    from milepost_record.guard import MARK

    owners = {value for name, module in list(sys.modules.items()) if name.partition(".")[0] == engine
              for value in vars(module).values() if isinstance(value, type)}
    found = []
    for owner in owners:
        for name, value in list(vars(owner).items()):
            own = value
            while isinstance(own, FunctionType) and MARK in vars(own):
                own = own.__wrapped__
            if own is not value:
                found.append((owner, name, value, own))
    return found


def time_engine(part: str, folder: str) -> dict[str, float]:
    """Time an engine's scheduling with and without the recorder, in turns: decoding, one token a request and step."""
    import milepost_record

    engine, _, page = part.partition(" ")

    def run(recorded: bool) -> float:
        for owner, name, watching, own in methods:
            setattr(owner, name, watching if recorded else own)
        scheduler, step = BUILDERS[engine](int(page))
        if recorded:
            assert milepost_record.attach(scheduler, folder)
            methods[:] = watched_methods(engine)
        count = 1 if engine == "sglang" else STEPS  # one call of SGLang's event loop makes all passes
        for _ in range(0 if engine == "sglang" else WARM):
            step()
        started = time.thread_time()
        for _ in range(count):
            step()
        return microseconds(time.thread_time() - started, STEPS * REQUESTS)

    methods: list[tuple[Any, str, Any, Any]] = []
    run(True)
    pairs = [(run(False), run(True)) for _ in range(ROUNDS)]
    return {
        f"{part}, alone": statistics.median(one for one, _ in pairs),
        f"{part}, recorded": statistics.median(two for _, two in pairs),
        f"{part}, the difference in a pair": round(statistics.median(two - one for one, two in pairs), 2),
        f"{part}, recorded to alone": round(statistics.median(two / one for one, two in pairs), 3),
    }


def main(part: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return time_lines(folder) if part == "lines" else time_engine(part, folder)


def _in_environment(python: str, part: str) -> dict[str, Any]:
    paths = os.pathsep.join(str(ROOT / one) for one in ("recorder/src", "src", "tests/recorder"))
    run = subprocess.run(
        [python, "-P", "-W", "ignore", __file__, part], env={**os.environ, "PYTHONPATH": paths}, text=True,
        stdout=subprocess.PIPE, check=True,
    )
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in ("lines", *PARTS):
        print(json.dumps(main(sys.argv[1])))
    else:
        figures = _in_environment(sys.executable, "lines")
        for part in PARTS:
            engine = part.partition(" ")[0]
            peer = ROOT / ".peers" / engine / "bin" / "python"
            if peer.exists():
                figures |= _in_environment(str(peer), part)
            else:
                print(f"{engine} is not installed beside the kit (`make peers`): it is left out", file=sys.stderr)
        for name, value in figures.items():
            print(f"{name:<40}{value:>10}")
