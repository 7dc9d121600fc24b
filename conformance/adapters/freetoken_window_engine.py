"""FreeToken's scheduler with the pools of models that have sliding windows.

Its locations of the full pool are the positions of everything else: a window's cell is looked up by them, a compressed
row is a quotient of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import freetoken.scheduler.cache as cache_module
import torch
from freetoken.kvcache.dsv4.v4_cost_model import _dsv4_pool_sizes
from freetoken.kvcache.dsv4.v4_pool import DSV4PagedKVCache
from freetoken.kvcache.hybrid_swa_pool import HybridSWAKVCache, _swa_paged_num_tokens
from freetoken.models.config import KVCacheGroupSpec
from freetoken.scheduler.cache import CacheManager

from milepost.conformance.adapters.freetoken_engine import Engine
from milepost.conformance.adapters.freetoken_memory import CPU
from milepost.conformance.adapters.freetoken_window import FORWARDS_PER_CHUNK
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.payload import GARBAGE, ZERO, Content
from milepost.spec.words import NULL, GroupKind

FULL_LAYERS, WINDOW_LAYERS = (1, 3), (0, 2)
DIMENSIONS = 4
"""One head of 4 half-precision numbers: a row is a word of 64 bits."""


class WindowEngine(Engine):
    """`Scheduler` over `HybridSWAKVCache`, which has a cell for each token of a window."""

    def __init__(self, configuration: Configuration) -> None:
        self.groups = configuration.groups
        self.window_group = next(one for one in self.groups if one.kind is GroupKind.WINDOW)
        self.main_groups = tuple(one for one in self.groups if one.kind is not GroupKind.WINDOW)
        super().__init__(configuration)

    def pages_of(self, configuration: Configuration) -> int:
        """Return the pages of every group but the windows."""
        return configuration.pools[self.main_groups[0].pool]

    def make_pool(self, configuration: Configuration) -> Any:
        """Return the pool of all groups; its window part is never below FreeToken's own floor."""
        config = self.config
        config.cache_type, config.max_running_req = "swa_radix", configuration.max_live
        config.special_token_ckpt = configuration.anchor is not None
        config.swa_num_pages_override = configuration.pools[self.window_group.pool]
        return self.sized_pool(self.pages_of(configuration) + 1)  # the last is a dummy's (kvcache/__init__.py:126-137)

    def sized_pool(self, pages: int) -> Any:
        """Return FreeToken's pool with so many pages."""
        window = self.window_group.window
        specs = (
            KVCacheGroupSpec("full", FULL_LAYERS, 1, DIMENSIONS, None),
            KVCacheGroupSpec("swa", WINDOW_LAYERS, 1, DIMENSIONS, window),
        )
        self.config.model_config = SimpleNamespace(kv_cache_group_specs=lambda: specs)
        cells = _swa_paged_num_tokens(self.config, pages)
        layers = len(FULL_LAYERS + WINDOW_LAYERS)
        return HybridSWAKVCache(specs, layers, pages, 1, torch.bfloat16, CPU, num_swa_tokens=cells)

    def make_manager(self, rows: torch.Tensor, pages: int, page: int) -> CacheManager:
        """Return FreeToken's manager of the pages and of the windows."""
        window = self.window_group.window
        return CacheManager(pages, page, rows, "swa_radix", swa_pool=self.pool, sliding_window_size=window)

    def enter(self) -> None:
        """Put this instance's sizes where FreeToken keeps one of each for a whole process."""
        super().enter()
        # It reads FREETOKEN_SWA_EVICTION_INTERVAL once, at its import.
        cache_module._SWA_EVICTION_INTERVAL = max(1, self.chunk_size // FORWARDS_PER_CHUNK)

    def window_columns(self, locations: torch.Tensor) -> list[int]:
        """Return the window cell behind each page of these locations, NULL where there is none."""
        return [cell or NULL for cell in self.pool.translate_loc_from_full_to_swa(locations).tolist()]

    def free_window_cells(self) -> list[int]:
        """Return the cells on the free list of the windows."""
        cells: list[int] = self.pool._swa_free.tolist()
        return cells

    def tensors(self) -> dict[str, list[torch.Tensor]]:
        """Return the tensors of each group, of which the first dimension but one may be layers."""
        pool, parts = self.pool, (self.pool.k_cache, self.pool.v_cache)
        layers = {"kv": FULL_LAYERS, self.window_group.name: WINDOW_LAYERS}
        assert pool.full_num_tokens and len(self.main_groups) == 1
        return {name: [part(layer) for layer in layers[name] for part in parts] for name in layers}


class CompressedEngine(WindowEngine):
    """`Scheduler` over `DSV4PagedKVCache`: pages as long as the window, and compressed rows in place of full KV."""

    def sized_pool(self, pages: int) -> DSV4PagedKVCache:
        """Return FreeToken's pool with so many pages; one layer has a window alone, the others a ratio each."""
        page, ratios = self.window_group.page_size, (0, *(group.ratio for group in self.main_groups))
        args = SimpleNamespace(
            n_layers=len(ratios), head_dim=DIMENSIONS, index_head_dim=DIMENSIONS, compress_ratios=ratios,
            window_size=page,
        )
        self.config.model_config = SimpleNamespace(dsv4_args=args)
        self.config.max_seq_len, self.config.swa_full_tokens_ratio = (pages - 1) * page, 0.2
        pool = DSV4PagedKVCache(
            _dsv4_pool_sizes(self.config, pages), args, CPU, P=page, n_scratch=self.config.max_running_req + 1
        )
        pool._init_paged_state(self.config.max_running_req, True)
        return pool

    def make_manager(self, rows: torch.Tensor, pages: int, page: int) -> CacheManager:
        """Return FreeToken's manager of the pages and of the windows, over the same page table as the pool's."""
        self.pool.attach_page_table(rows)
        return super().make_manager(rows, pages, page)

    def window_columns(self, locations: torch.Tensor) -> list[int]:
        """Return the window page behind each page of these locations, NULL where there is none."""
        page = self.window_group.page_size
        slots = self.pool.translate_full_to_window(locations[::page]).tolist()
        return [NULL if slot < 0 else slot // page for slot in slots]

    def free_window_cells(self) -> list[int]:
        """Return the pages on the free list of the windows."""
        bases: list[int] = self.pool._win_alloc._free.tolist()
        return [base // self.window_group.page_size for base in bases]

    def tensors(self) -> dict[str, list[torch.Tensor]]:
        """Return the tensors of each group: rows of its own layer, of ratio 4 those of the indexer too."""
        pool = self.pool
        found = {
            group.name: [part for part in (pool.cmp_pool[layer], pool.idx_pool[layer]) if part is not None]
            for layer, group in enumerate(self.main_groups, 1)
        }
        return {**found, self.window_group.name: list(pool.window_pool)}


class PagedMemory:
    """Reads and writes payloads in all tensors of a group, in each under a mask of its own."""

    def __init__(self, groups: Iterable[Group], tensors: dict[str, list[torch.Tensor]]) -> None:
        self._entries = {group.name: group.page_size // group.stride for group in groups}
        self._words = {name: [(_mask(number), _words(part)) for number, part in enumerate(parts)]
                       for name, parts in tensors.items()}

    def read(self, group: str, cell: int) -> Content:
        """Return the entries of a page, GARBAGE where tensors disagree."""
        first, count = cell * self._entries[group], self._entries[group]
        return tuple(self._row(group, row) for row in range(first, first + count))

    def _row(self, group: str, row: int) -> int:
        found = {int(words[row]) ^ mask for mask, words in self._words[group]}
        payload = found.pop()
        return GARBAGE if found or payload <= ZERO else payload

    def write(self, group: str, cell: int, entries: tuple[int | None, ...]) -> None:
        """Write the entries of a page that are not None."""
        for row, payload in enumerate(entries, cell * self._entries[group]):
            if payload is not None:
                for mask, words in self._words[group]:
                    words[row] = mask ^ payload


def _mask(number: int) -> int:
    return 0x5BD1_E995 * (number + 1)


def _words(part: torch.Tensor) -> Any:
    """Return a tensor's rows as words of 64 bits that share its memory."""
    flat = part.reshape(-1, DIMENSIONS)
    assert flat.data_ptr() == part.data_ptr()
    return flat.view(torch.int64).view(-1).numpy()
