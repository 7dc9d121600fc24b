"""Records what an inference engine's prefix cache does, in place: `milepost check` judges the trace offline.

Engines load it by themselves where it is installed and MILEPOST_RECORD names a folder. Elsewhere two lines do:

    import milepost_record
    milepost_record.attach(scheduler, "traces")
"""

from __future__ import annotations

import sys
from fractions import Fraction
from importlib import import_module
from typing import Any

from milepost_record.settings import Settings, read_settings

__all__ = ["Settings", "attach", "register_freetoken", "register_sglang", "register_vllm"]

ENGINES = {"freetoken", "sglang", "vllm"}
"""Packages of engines whose caches the recorder knows; it has a module of the same name for each."""


def register_vllm() -> None:
    """Watch vLLM's block managers; called by vLLM in each of its processes, which may be more than once."""
    _register("vllm")


def register_sglang() -> None:
    """Watch SGLang's radix caches; called by SGLang in each of its processes."""
    _register("sglang")


def register_freetoken() -> None:
    """Watch FreeToken's cache managers, from before they are built: FreeToken has no plug-ins that would call it."""
    _register("freetoken")


def _register(engine: str) -> None:
    """Begin to watch. Whatever goes wrong is said once and never raised: the engine goes on without a recording."""
    try:
        settings = read_settings()
        if settings is not None:
            watching = import_module(f"milepost_record.{engine}")
            getattr(watching, f"watch_{engine}")(settings)
    except Exception as error:
        print(f"milepost-record: nothing is recorded: {type(error).__name__}: {error}", file=sys.stderr)


def attach(engine: Any, folder: str, sample: float | Fraction = 1, **more: Any) -> bool:
    """Record a running cache from now on; False where that is impossible.

    `engine` is a scheduler of vLLM, SGLang or FreeToken, or its block manager, radix cache or cache manager. `more` are
    the other fields of `Settings`.
    """
    try:
        settings = Settings(folder, Fraction(sample).limit_denominator(1 << 20), **more)
        known = ENGINES & {kind.__module__.partition(".")[0] for kind in type(engine).__mro__}
        for name in known:
            getattr(import_module(f"milepost_record.{name}"), f"attach_{name}")(engine, settings)
            return True
        raise TypeError(f"{type(engine).__name__} is no cache that the recorder knows")
    except Exception as error:
        print(f"milepost-record: nothing is recorded: {type(error).__name__}: {error}", file=sys.stderr)
        return False
