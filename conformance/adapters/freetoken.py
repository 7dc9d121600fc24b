"""FreeToken 0.2.1 as targets: its own scheduler code, hybrid radix cache and state pool, on CPU tensors.

FreeToken's words for ours: a currency is a group, a linear state slot a slot, a ping-pong track a freeze, an insert a
donation, `match_req` a hit, `lock` a lease, `copy_from` a restore. Nothing of it is imported before it is asked for.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from importlib import metadata

from milepost.conformance.errors import AdapterError, UsageError
from milepost.spec.capabilities import Configuration
from milepost.spec.seam import Adapter

WRITTEN_FOR = "0.2.1"
ANCHOR = ord("!")
"""The token that opens a tool call in generated prompts."""

REAL_CHUNK = 64
SLOTS_FOR_ONE_REQUEST = 4
"""A live slot, two ping-pong slots, and the committed snapshot that stays locked while the request decodes."""


def _sizes(page: int, *rows: tuple[int, int, int, int]) -> tuple[Configuration, ...]:
    """Return configurations from rows of (chunk, tokens of KV, state slots, requests at once)."""
    return tuple(
        Configuration(page, chunk, {"kv": tokens // page, "state": slots}, requests, ANCHOR)
        for chunk, tokens, slots, requests in rows
    )


# FreeToken's own pool has 4 slots a request and max(4, 2 a request) more (linear_state_pool.py:258-267); most rows here
# have less. Small chunks make happen within a few operations what takes a conversation at 64, and in small pools cells
# change hands all the time; in the larger ones several requests run at once.
SIZES: dict[str, tuple[Configuration, ...]] = {
    "freetoken:page1": _sizes(
        1, (64, 320, 9, 2), (64, 512, 16, 3), (64, 700, 22, 4), (8, 40, 9, 2), (8, 72, 14, 3), (8, 200, 18, 4),
        (4, 24, 8, 2), (4, 110, 17, 4),
    ),
    "freetoken:page16": _sizes(
        16, (64, 320, 9, 2), (64, 512, 16, 3), (64, 704, 22, 4), (16, 96, 9, 2), (16, 160, 14, 3), (16, 416, 18, 4),
        (32, 256, 13, 3),
    ),
}


def make(configuration: Configuration) -> Adapter:
    """Build one fresh cache; AdapterError where this interpreter has another FreeToken than 0.2.1."""
    require_version()
    os.environ.setdefault("LOG_LEVEL", "CRITICAL")  # FreeToken reads it when its first module is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a CPU is no platform of Triton's, which says so at every import
        from milepost.conformance.adapters.freetoken_cache import FreeTokenCache
    return FreeTokenCache(rounded(configuration))


def make_page1(configuration: Configuration) -> Adapter:
    """Build one with pages of one token, whatever page was asked for; its KV has as many tokens."""
    return make(with_page(configuration, 1))


def make_page16(configuration: Configuration) -> Adapter:
    """Build one with pages of 16 tokens, whatever page was asked for; its KV has as many pages, or more."""
    return make(with_page(configuration, 16))


def with_page(configuration: Configuration, page: int) -> Configuration:
    """Return the sizes with another page: as many pages as asked for, or as many tokens, whichever is more."""
    pages = configuration.pools["kv"]
    pools = {**configuration.pools, "kv": max(pages, pages * configuration.page_size // page)}
    return replace(configuration, page_size=page, pools=pools)


def rounded(configuration: Configuration) -> Configuration:
    """Return sizes that FreeToken can be built with: a chunk of whole pages, four state slots for each request."""
    slots = configuration.pools["state"]
    requests = max(1, min(configuration.max_live, max(2, slots // SLOTS_FOR_ONE_REQUEST)))
    pools = {
        "kv": max(2, configuration.pools["kv"]),
        "state": max(slots, requests * SLOTS_FOR_ONE_REQUEST),
    }
    # The snapshot of a convolution takes the chunk's last three tokens (attention/linear.py:107).
    chunk = _up_to(configuration.page_size, max(4, configuration.chunk_size))
    return replace(configuration, chunk_size=chunk, pools=pools, max_live=requests)


def _up_to(grid: int, length: int) -> int:
    return -(-length // grid) * grid


def require_version() -> None:
    """Raise UsageError where FreeToken is not installed, AdapterError where it is another than 0.2.1."""
    try:
        found = metadata.version("freetoken")
    except metadata.PackageNotFoundError:
        raise UsageError("FreeToken is not installed here: run `make peers`") from None
    if found != WRITTEN_FOR:
        raise AdapterError(f"this adapter was written for FreeToken {WRITTEN_FOR}, found {found}")
