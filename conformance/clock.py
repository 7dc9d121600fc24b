"""A jittered clock for the second process of `deterministic`: an engine that orders by wall time shows it there."""

from __future__ import annotations

import random
import time
from collections.abc import Callable


def jitter(seed: int) -> None:
    """Replace the clocks of the time module by ones that stand still for a while and then jump."""
    chance = random.Random(seed)
    for name, unit in (("time", 1.0), ("monotonic", 1.0), ("perf_counter", 1.0)):
        setattr(time, name, _jittered(getattr(time, name), chance, unit))
    for name in ("time_ns", "monotonic_ns", "perf_counter_ns"):
        clock = getattr(time, name)
        setattr(time, name, _whole(_jittered(clock, chance, 1e9)))


def _jittered(clock: Callable[[], float], chance: random.Random, unit: float) -> Callable[[], float]:
    last = clock()

    def read() -> float:
        nonlocal last
        if chance.random() < 0.5:
            last = max(last, clock()) + chance.random() * unit
        return last

    return read


def _whole(clock: Callable[[], float]) -> Callable[[], int]:
    return lambda: int(clock())
