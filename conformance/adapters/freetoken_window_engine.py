"""FreeToken's scheduler with a sliding-window model's pools: the full KV, and one cell for each token of a window."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import freetoken.scheduler.cache as cache_module
import torch
from freetoken.kvcache.hybrid_swa_pool import HybridSWAKVCache, _swa_paged_num_tokens
from freetoken.models.config import KVCacheGroupSpec
from freetoken.scheduler.cache import CacheManager

from milepost.conformance.adapters.freetoken_engine import Engine
from milepost.conformance.adapters.freetoken_memory import CPU
from milepost.conformance.adapters.freetoken_window import FORWARDS_PER_CHUNK
from milepost.spec.capabilities import Configuration
from milepost.spec.words import GroupKind

FULL_LAYERS, WINDOW_LAYERS = (1, 3), (0, 2)
HEAD_DIM = 4
"""One head of 4 half-precision numbers: keys and values of a token are a word of 64 bits each, in every layer."""


class WindowEngine(Engine):
    """`Scheduler` over `HybridSWAKVCache`, sized by FreeToken's own rule."""

    def make_pool(self, configuration: Configuration) -> HybridSWAKVCache:
        """Return the pool of both groups; its window part is never below FreeToken's own floor."""
        self.window = next(one.window for one in configuration.groups if one.kind is GroupKind.WINDOW)
        specs = (
            KVCacheGroupSpec("full", FULL_LAYERS, 1, HEAD_DIM, None),
            KVCacheGroupSpec("swa", WINDOW_LAYERS, 1, HEAD_DIM, self.window),
        )
        self.config.cache_type, self.config.max_running_req = "swa_radix", configuration.max_live
        self.config.special_token_ckpt = configuration.anchor is not None
        self.config.swa_num_pages_override = configuration.pools["window"]
        self.config.model_config = SimpleNamespace(kv_cache_group_specs=lambda: specs)
        pages = configuration.pools["kv"] + 1  # the last one is a dummy's (kvcache/__init__.py:126-137)
        return HybridSWAKVCache(
            specs, len(FULL_LAYERS + WINDOW_LAYERS), pages, self.config.page_size, torch.bfloat16, CPU,
            num_swa_tokens=_swa_paged_num_tokens(self.config, pages),
        )

    def make_manager(self, rows: torch.Tensor, pages: int, page: int) -> CacheManager:
        """Return FreeToken's manager of the full KV and of the windows."""
        return CacheManager(pages, page, rows, "swa_radix", swa_pool=self.pool, sliding_window_size=self.window)

    def enter(self) -> None:
        """Put this instance's sizes where FreeToken keeps one of each for a whole process."""
        super().enter()
        # It reads FREETOKEN_SWA_EVICTION_INTERVAL once, at its import.
        cache_module._SWA_EVICTION_INTERVAL = max(1, self.chunk_size // FORWARDS_PER_CHUNK)

    def window_cells(self, locations: torch.Tensor) -> list[int]:
        """Return the window cell behind each location of the full KV, 0 where there is none."""
        cells: list[int] = self.pool.translate_loc_from_full_to_swa(locations).tolist()
        return cells


class PagedMemory:
    """Reads and writes payloads in the keys and values of all layers of a group, each under a mask of its own."""

    def __init__(self, pool: HybridSWAKVCache) -> None:
        self._words = {"kv": _words(pool, FULL_LAYERS), "window": _words(pool, WINDOW_LAYERS)}

    def read(self, group: str, entry: int) -> int:
        """Return the payload of a token, a negative number where its words disagree."""
        found = {int(words[entry]) ^ mask for mask, words in self._words[group]}
        return found.pop() if len(found) == 1 else -1

    def write(self, group: str, entry: int, payload: int) -> None:
        """Write a payload into the keys and values of a token in every layer."""
        for mask, words in self._words[group]:
            words[entry] = mask ^ payload


def _words(pool: HybridSWAKVCache, layers: Iterable[int]) -> list[tuple[int, Any]]:
    """Return a mask and the words by token of keys and values of each layer; they share the pool's memory."""
    tensors = [part(layer) for layer in layers for part in (pool.k_cache, pool.v_cache)]
    return [(0x5BD1_E995 * (number + 1), tensor.reshape(-1, HEAD_DIM).view(torch.int64).view(-1).numpy())
            for number, tensor in enumerate(tensors)]
