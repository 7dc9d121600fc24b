"""FreeToken 0.2.1's sliding-window prefix cache as a target: a full group and a window group, on CPU tensors.

FreeToken's words for ours: an swa slot is a cell of the window group, which has one for each token; `swa_tombstone` is
a tombstone, `swa_ref` a window's lease, a revive a revival. Models of this kind have pages of 1 token (engine.py:1845).
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
    return Group("kv", GroupKind.FULL, "kv"), Group("window", GroupKind.WINDOW, "window", window=window)


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
}


def make_window(configuration: Configuration) -> Adapter:
    """Build one fresh cache; AdapterError where this interpreter has another FreeToken than 0.2.1."""
    require_version()
    os.environ.setdefault("LOG_LEVEL", "CRITICAL")  # FreeToken reads it when its first module is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a CPU is no platform of Triton's, which says so at every import
        from milepost.conformance.adapters.freetoken_window_cache import FreeTokenWindowCache
    return FreeTokenWindowCache(rounded(configuration))


def rounded(configuration: Configuration) -> Configuration:
    """Return sizes that this cache can be asked for: pages of one token, and a window; FreeToken may raise its pool."""
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
