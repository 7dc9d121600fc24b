"""What it costs that the production cache explains, counts and tells: beside the same cache without, in turns.

`bare` has no counter and no look for listeners; `off` is the cache as it is built; `listening` keeps
events, and takes them after each step. `bare again` shows how far two medians of the same thing lie apart.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from milepost.optimized.cache import PrefixCache
from milepost.spec.answers import Hit
from milepost.spec.capabilities import Configuration

SIZES = Configuration(16, 64, {"kv": 1024, "state": 24}, 8)
ROUNDS, REQUESTS, SEED = 30, 150, 1


class Bare(PrefixCache):
    """The cache without anything to observe."""

    def tell(self) -> None:
        pass

    def _count(self, *_: Any) -> None:
        pass

    def _skip(self, *_: Any) -> None:
        pass


def make_bare() -> PrefixCache:
    """Build the cache that says nothing."""
    cache = Bare(SIZES, warns=False)
    ignored: dict[Any, int] = dict.fromkeys(("kv", "state"), 0)
    counts: Any = SimpleNamespace(found=lambda _: None, freezes=0, evicted=ignored, refused=ignored, resets=0)
    cache.counts = counts
    return cache


def prompts() -> list[tuple[int, ...]]:
    """Return prompts of agents: turns of a few conversations, each a longer prefix of it."""
    chance = random.Random(SEED)
    conversations = [tuple(chance.randrange(50_000) for _ in range(2_048)) for _ in range(6)]
    return [chance.choice(conversations)[: chance.randrange(256, 2_048)] for _ in range(REQUESTS)]


def play(cache: PrefixCache, texts: list[tuple[int, ...]]) -> int:
    """Run every prompt to its end, four in flight; return the count of operations."""
    operations = 0
    for first in range(0, len(texts), 4):
        names = []
        for number, text in enumerate(texts[first : first + 4]):
            answer = cache.open(f"r{number}", text, (), {})
            assert isinstance(answer, Hit)
            names.append(f"r{number}")
            cache.extend(names[-1], len(text))
        launched = cache.launch()
        cache.land(launched.step, {}, dict.fromkeys(names, (7,)))
        for name in names:
            cache.close(name, keep=True)
        cache.take_events()
        operations += 3 * len(names) + 2
    return operations


def timed(make: Callable[[], PrefixCache], texts: list[tuple[int, ...]]) -> float:
    """Return microseconds an operation, on a fresh cache."""
    cache = make()
    gc.collect()
    started = time.process_time()
    operations = play(cache, texts)
    return (time.process_time() - started) / operations * 1e6


def main() -> None:
    """Print the medians, and the median of the rounds' ratios."""
    texts = prompts()
    makers = {
        "bare": make_bare,
        "bare again": make_bare,
        "off": lambda: PrefixCache(SIZES, warns=False),
        "listening": lambda: PrefixCache(SIZES, warns=False, listens=True),
    }
    rounds: dict[str, list[float]] = {name: [] for name in makers}
    for number in range(ROUNDS):
        first = number % len(makers)
        for name in [*makers][first:] + [*makers][:first]:
            rounds[name].append(timed(makers[name], texts))
    for name, found in rounds.items():
        ratio = statistics.median(one / bare for one, bare in zip(found, rounds["bare"], strict=True))
        print(f"{name:10} {statistics.median(found):7.1f} us an operation, {ratio:.3f} of bare")


if __name__ == "__main__":
    main()
