"""Records what an inference engine's prefix cache does, in place: `milepost check` judges the trace offline.

Engines load it by themselves where it is installed and MILEPOST_RECORD names a folder. Elsewhere two lines do:

    import milepost_record
    milepost_record.attach(scheduler, "traces")
"""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

from milepost_record.settings import Settings, read_settings

__all__ = ["Settings", "attach", "register_vllm"]


def register_vllm() -> None:
    """Watch vLLM's block managers; called by vLLM in each of its processes, which may be more than once."""
    _register("vllm")


def _register(engine: str) -> None:
    """Begin to watch. Whatever goes wrong is said once and never raised: the engine goes on without a recording."""
    try:
        settings = read_settings()
        if settings is not None and engine == "vllm":
            from milepost_record.vllm import watch_vllm

            watch_vllm(settings)
    except Exception as error:
        print(f"milepost-record: nothing is recorded: {type(error).__name__}: {error}", file=sys.stderr)


def attach(engine: Any, folder: str, sample: float | Fraction = 1, **more: Any) -> bool:
    """Record a running cache from now on: vLLM's scheduler or block manager. False where that is impossible.

    `more` are the other fields of `Settings`.
    """
    try:
        settings = Settings(folder, Fraction(sample).limit_denominator(1 << 20), **more)
        kinds = {kind.__name__ for kind in type(engine).__mro__}
        if kinds & {"Scheduler", "KVCacheManager"}:
            from milepost_record.vllm import attach_vllm

            attach_vllm(engine, settings)
            return True
        raise TypeError(f"{type(engine).__name__} is no cache that the recorder knows")
    except Exception as error:
        print(f"milepost-record: nothing is recorded: {type(error).__name__}: {error}", file=sys.stderr)
        return False
