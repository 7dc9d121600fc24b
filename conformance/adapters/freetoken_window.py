"""FreeToken 0.2.1's sliding-window prefix cache as targets, on CPU tensors.

FreeToken's words for ours: an swa slot is a cell of the window group, `swa_tombstone` is a tombstone, `swa_ref` a
window's lease, a revive a revival. Full KV goes with pages of 1 token (engine.py:1845) and a window's cell for each of
them. With compressed rows a page, a page of the window, and the window itself have all the same tokens, 128 in the
models (engine.py:1466-1478); of what the compressor carries, the rings, each lies in the window's page.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

from milepost.conformance.adapters.freetoken import ANCHOR, require_version
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.seam import Adapter
from milepost.spec.words import GroupKind

WINDOW = 4
"""Where nobody asks for another."""

MOST_REQUESTS = 4
"""Each request at once adds its part to the least window pool that FreeToken builds (hybrid_swa_pool.py:375-400)."""

FORWARDS_PER_CHUNK = 4
"""A decoding request's window is freed after every quarter of a chunk's tokens, so that a request lives to see it."""


def _size(window: int, chunk: int, tokens: int, cells: int, requests: int, anchor: bool = False) -> Configuration:
    pools = {"kv": tokens, "window": cells}
    return Configuration(1, chunk, pools, requests, ANCHOR if anchor else None, _groups(window))


def _groups(window: int) -> tuple[Group, ...]:
    return (
        Group("kv", GroupKind.FULL, "kv", layers=2, executes="engine"),
        Group("window", GroupKind.WINDOW, "window", window=window, layers=2, executes="engine"),
    )


def _compressed(page: int, pages: int, cells: int, requests: int, ratios: tuple[int, ...] = (4,)) -> Configuration:
    groups = tuple(
        Group(f"rows{ratio}", GroupKind.COMPRESSED, f"rows{ratio}", page_size=page, ratio=ratio, executes="engine")
        for ratio in ratios
    )
    window = Group("window", GroupKind.WINDOW, "window", page, page, layers=len(ratios) + 1, executes="engine")
    pools = {**{group.pool: pages for group in groups}, "window": cells}
    return Configuration(page, 2 * page, pools, requests, None, (*groups, window))


# Most rows have little more window cells than FreeToken's floor for that many requests: what the tree keeps of windows
# is then soon evicted, and revived. Its floor has 16 tokens more than a window for each, which nothing can make less.
SIZES: dict[str, tuple[Configuration, ...]] = {
    "freetoken:window": (
        _size(4, 8, 160, 60, 2),
        _size(1, 4, 96, 42, 2),
        _size(2, 4, 120, 120, 2),
        _size(3, 8, 240, 84, 3),
        _size(6, 4, 200, 80, 2),
        _size(5, 8, 220, 112, 2, anchor=True),
        _size(7, 16, 320, 200, 4),
        _size(16, 32, 512, 160, 2),
    ),
    # A page of 8 tokens is the least that a ring of ratio 4 fits into (v4_cost_model.py:39-45).
    "freetoken:compressed": (
        _compressed(8, 40, 20, 2),
        _compressed(8, 64, 25, 3),
        _compressed(16, 30, 20, 2),
        _compressed(128, 24, 20, 2, (4, 128)),
    ),
}


def make_window(configuration: Configuration) -> Adapter:
    """Build one with full KV; AdapterError where this interpreter has another FreeToken than 0.2.1."""
    return _make(rounded(configuration))


def make_compressed(configuration: Configuration) -> Adapter:
    """Build one with compressed rows; AdapterError where this interpreter has another FreeToken than 0.2.1."""
    return _make(rounded_compressed(configuration))


def _make(configuration: Configuration) -> Adapter:
    require_version()
    os.environ.setdefault("LOG_LEVEL", "CRITICAL")  # FreeToken reads it when its first module is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a CPU is no platform of Triton's, which says so at every import
        from milepost.conformance.adapters.freetoken_window_cache import FreeTokenWindowCache
    return FreeTokenWindowCache(configuration)


def rounded(configuration: Configuration) -> Configuration:
    """Return sizes that a cache with full KV can have: pages of one token; FreeToken may raise its window's pool."""
    asked = next((group for group in configuration.groups if group.kind is GroupKind.WINDOW), None)
    tokens = configuration.pools["kv"] * configuration.page_size
    cells = configuration.pools.get(asked.pool, 0) * asked.page_size if asked else tokens
    return replace(
        configuration,
        page_size=1,
        chunk_size=max(1, configuration.chunk_size),
        pools={"kv": max(2, tokens), "window": cells},
        max_live=max(1, min(configuration.max_live, MOST_REQUESTS)),
        groups=_groups(asked.window if asked else WINDOW),
    )


def rounded_compressed(configuration: Configuration) -> Configuration:
    """Return sizes that this cache can be asked for: those that are shipped, else pages of 8 tokens or more."""
    asked = [group for group in configuration.groups if group.kind is GroupKind.COMPRESSED]
    if configuration in SIZES["freetoken:compressed"] and asked:
        return configuration
    page = next(size for size in (128, 64, 32, 16, 8) if size <= max(8, configuration.page_size))
    pages = max(8, max(configuration.pools.values()) * configuration.page_size // page)
    return _compressed(page, pages, pages, max(1, min(configuration.max_live, MOST_REQUESTS)))
