"""What the recorder costs: microseconds an operation, alone and inside vLLM's own scheduler.

Run `.venv/bin/python benchmarks/recorder.py`. The second part runs in vLLM's environment (`make peers`); where there
is none it is left out, and that is said.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEER = ROOT / ".peers" / "vllm" / "bin" / "python"
ROUNDS, STEPS, REQUESTS, PROMPT = 7, 200, 16, 2048


def microseconds(seconds: float, operations: int) -> float:
    return round(seconds / operations * 1e6, 2)


def time_lines(folder: str) -> dict[str, float]:
    """Time the lines alone, engine apart."""
    from milepost_record.settings import Settings
    from milepost_record.trace import Trace

    trace = Trace(Settings(folder, salt=b"s"), "lines", {"id": "bench"})
    prompt, count = list(range(PROMPT)), 20_000
    trace.digests.tokens(prompt)
    started = time.perf_counter()
    for number in range(count):
        trace.extend("r1", number, "", "", "", '"state":3')
    extend = time.perf_counter() - started
    started = time.perf_counter()
    for _ in range(count // 100):
        trace.open("r1", trace.digests.tokens(prompt), [], 0, {})
    opened = time.perf_counter() - started
    trace.finish()
    return {
        "a line": microseconds(extend, count), "an open of 2,048 tokens": microseconds(opened, count // 100),
    }


def time_engine(folder: str) -> dict[str, float]:
    """Time vLLM's scheduling with and without the recorder, in turns: decoding, one token a request and step."""
    from milepost.conformance.adapters.vllm_engine import Settings, build_scheduler, make_request
    from milepost.conformance.adapters.vllm_loader import load

    load()

    def run(recorded: bool) -> tuple[float, int]:
        from vllm.v1.outputs import ModelRunnerOutput

        import milepost_record

        settings = Settings(block=16, state_block=16, blocks=8000, budget=8192, running=REQUESTS)
        scheduler = build_scheduler(settings)
        if recorded:
            assert milepost_record.attach(scheduler, folder)
        for number in range(REQUESTS):
            tokens = tuple((number * 7 + place) % 5000 for place in range(PROMPT))
            scheduler.add_request(make_request(f"q{number}", tokens, scheduler.hash_block_size, None, None))
        operations, started = 0, 0.0
        for step in range(STEPS + 20):
            if step == 20:
                started = time.perf_counter()
            output = scheduler.schedule()
            names = list(output.num_scheduled_tokens)
            operations += len(names) * (step >= 20)
            said = [[] if scheduler.requests[name].is_prefill_chunk else [5] for name in names]
            places = {name: place for place, name in enumerate(names)}
            scheduler.update_from_output(output, ModelRunnerOutput(names, places, said))
        return time.perf_counter() - started, operations

    # The methods stay watched after the first recording, so a run without one pays for the watching alone.
    plain = [microseconds(*run(False)) for _ in range(ROUNDS)]
    pairs = [(microseconds(*run(False)), microseconds(*run(True))) for _ in range(ROUNDS)]
    return {
        "vLLM alone": statistics.median(plain),
        "vLLM watched, not recorded": statistics.median(one for one, _ in pairs),
        "vLLM recorded": statistics.median(two for _, two in pairs),
    }


def main(part: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return time_lines(folder) if part == "lines" else time_engine(folder)


def _in_environment(python: str, part: str) -> dict[str, Any]:
    paths = os.pathsep.join([str(ROOT / "recorder" / "src"), str(ROOT / "src")])
    run = subprocess.run(
        [python, "-W", "ignore", __file__, part], env={**os.environ, "PYTHONPATH": paths}, text=True,
        stdout=subprocess.PIPE, check=True,
    )
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(main(sys.argv[1])))
    else:
        figures = _in_environment(sys.executable, "lines")
        if PEER.exists():
            figures |= _in_environment(str(PEER), "engine")
        else:
            print("vLLM is not installed beside the kit (`make peers`): its part is left out", file=sys.stderr)
        for name, value in figures.items():
            print(f"{name:<28}{value:>10} us")
