"""SGLang's modules, imported once in a process and only when an engine is built."""

from __future__ import annotations

import logging
import os
import warnings

from milepost.conformance.adapters import sglang_standins

ANSWER = 8
"""Tokens of an answer that admission reserves: an environment setting of the engine (schedule_policy.py:89)."""

SLIDE = 1
"""Tokens that leave a window before they are freed: an environment setting of the engine (environ.py:730), else 128."""


class Modules:
    """The engine's modules, imported once in a process."""

    loaded: Modules | None = None

    def __init__(self) -> None:
        os.environ.setdefault("SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION", str(ANSWER))
        os.environ.setdefault("SGLANG_SWA_EVICTION_INTERVAL", str(SLIDE))
        logging.getLogger("sglang").setLevel(logging.ERROR)
        sglang_standins.install()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._import()
        # prepare_for_decode pins its track mask whatever the device is (schedule_batch.py:3830): there is nothing
        # to pin memory for on a machine without an accelerator.
        self.torch.Tensor.pin_memory = lambda tensor, device=None: tensor

    def _import(self) -> None:
        import torch
        from sglang.srt import environ, server_args
        from sglang.srt.configs import mamba_utils
        from sglang.srt.disaggregation.utils import DisaggregationMode
        from sglang.srt.managers import schedule_batch, schedule_policy
        from sglang.srt.managers.scheduler_components import batch_result_processor
        from sglang.srt.managers.utils import GenerationBatchResult
        from sglang.srt.mem_cache import allocator, common, memory_pool
        from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
        from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams
        from sglang.srt.mem_cache.cache_init_params import CacheInitParams
        from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
        from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
        from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
        from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
        from sglang.srt.sampling.sampling_params import SamplingParams
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

        self.torch, self.server_args, self.mamba_utils, self.environ = torch, server_args, mamba_utils, environ
        self.window_pool, self.window_allocator = SWAKVPool, SWATokenToKVPoolAllocator
        self.schedule_batch, self.schedule_policy, self.common = schedule_batch, schedule_policy, common
        self.allocator, self.paged, self.memory_pool = allocator, PagedTokenToKVPoolAllocator, memory_pool
        self.processor, self.result = batch_result_processor, GenerationBatchResult
        self.evict_params, self.init_params, self.component = EvictParams, CacheInitParams, ComponentType
        self.radix_cache, self.no_disaggregation = UnifiedRadixCache, DisaggregationMode.NULL
        self.sampling_info, self.sampling_params = SamplingBatchInfo, SamplingParams
        self.no_speculation = SpeculativeAlgorithm.NONE


def modules() -> Modules:
    """Import the engine, or return what was imported."""
    if Modules.loaded is None:
        Modules.loaded = Modules()
    return Modules.loaded
