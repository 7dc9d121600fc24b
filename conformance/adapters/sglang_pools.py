"""SGLang's own pools, allocators and radix cache on a CPU, for the groups that a model has.

Every model has full attention. With a window the pool of keys and values is the engine's SWAKVPool: two pools, in which
a token of the first has a peer in the second until that is freed. Citations are files and lines of the engine's
package, version 0.5.23, below `sglang/srt/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from milepost.conformance.adapters.sglang_modules import Modules
from milepost.conformance.adapters.sglang_settings import FULL_LAYER, LINEAR_LAYERS, WINDOW_LAYER, Settings
from milepost.spec.words import NULL


@dataclass(frozen=True, slots=True)
class Room:
    """How much memory the pools have: tokens of full KV, tokens of window KV, state slots, rows for requests."""

    tokens: int
    window_tokens: int
    slots: int
    rows: int


def build_rows(m: Modules, settings: Settings, room: Room) -> Any:
    """Build the table of requests, with the states where a model has some (kv_cache_configurator.py:1701, 1755)."""
    width = room.tokens + 64
    if not settings.recurrent:
        return m.memory_pool.ReqToTokenPool(
            size=room.rows, max_context_len=width, device="cpu", enable_memory_saver=False
        )
    shape = m.mamba_utils.Mamba2StateShape.create(
        tp_world_size=1, intermediate_size=4, n_groups=1, num_heads=1, head_dim=2, state_size=2, conv_kernel=5
    )
    return m.memory_pool.HybridReqToTokenPool(
        size=room.rows, mamba_size=room.slots, mamba_spec_state_size=room.rows, max_context_len=width, device="cpu",
        enable_memory_saver=False,
        cache_params=m.mamba_utils.Mamba2CacheParams(shape=shape, layers=list(LINEAR_LAYERS)),
        mamba_layer_ids=list(LINEAR_LAYERS), enable_mamba_extra_buffer=settings.extra_buffer,
        enable_overlap_schedule=settings.overlap,
    )


def build_allocator(m: Modules, settings: Settings, room: Room, rows: Any) -> Any:
    """Build the pools of keys and values and their allocator (kv_cache_configurator.py:1884-1900, 2874)."""
    common = {"dtype": m.torch.bfloat16, "device": "cpu"}
    if settings.window:
        pool = m.window_pool(
            size=room.tokens, size_swa=room.window_tokens, page_size=settings.page, head_num=1, head_dim=1,
            swa_attention_layer_ids=[WINDOW_LAYER], full_attention_layer_ids=[FULL_LAYER], **common,
        )
        return m.window_allocator(
            room.tokens, room.window_tokens, page_size=settings.page, kvcache=pool, need_sort=False,
            req_to_token_pool=rows, **common,
        )
    pool = m.memory_pool.HybridLinearKVPool(
        size=room.tokens, page_size=settings.page, head_num=1, head_dim=1, full_attention_layer_ids=[FULL_LAYER],
        mamba_pool=rows.mamba_pool, **common,
    )
    if settings.page == 1:
        return m.allocator.TokenToKVPoolAllocator(size=room.tokens, kvcache=pool, need_sort=False, **common)
    return m.paged(size=room.tokens, page_size=settings.page, kvcache=pool, need_sort=False, **common)


def build_tree(m: Modules, settings: Settings, rows: Any, allocator: Any) -> Any:
    """Build the radix cache with a component for each group (registry.py:162-168, kv_cache_builder.py:387)."""
    components = [m.component.FULL]
    components += [m.component.SWA] if settings.window else []
    components += [m.component.MAMBA] if settings.recurrent else []
    tree = m.radix_cache(m.init_params(
        disable=False, req_to_token_pool=rows, token_to_kv_pool_allocator=allocator, page_size=settings.page,
        tree_components=tuple(components), enable_mamba_extra_buffer=settings.extra_buffer,
        tree_core_backend=settings.core, sliding_window_size=settings.reach or None,
    ))
    if tree._tree_core_backend != settings.core:
        raise RuntimeError(f"the engine fell back from its {settings.core} core to {tree._tree_core_backend}")
    return tree


def window_columns(allocator: Any, page: int, row: Any) -> tuple[int, ...]:
    """Return the window page that each full page of a row has as its peer, NULL where it has none.

    `row` are full token indexes. The kernels of window layers read through the same table
    (mem_cache/swa_memory_pool.py, `translate_loc_from_full_to_swa`), in which 0 stands for nothing.
    """
    peers = allocator.full_to_swa_index_mapping[row[::page].long()].tolist()
    return tuple(peer // page if peer else NULL for peer in peers)


def free_pages(allocator: Any, settings: Settings) -> tuple[set[int], set[int]]:
    """Return the free pages of the full and of the window pool, off the engine's own free lists."""
    if not settings.window:
        return set(allocator.get_all_free_pages().tolist()), set()
    full, window = allocator.full_attn_allocator, allocator.swa_attn_allocator
    return set(full.get_all_free_pages().tolist()), set(window.get_all_free_pages().tolist())
