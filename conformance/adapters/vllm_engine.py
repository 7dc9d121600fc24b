"""The settings that the kit judges vLLM in, and vLLM's own scheduler built for one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from milepost.conformance.adapters.vllm_loader import load
from milepost.spec.capabilities import Configuration

ATTENTION, STATE, WINDOW = "attention", "state", "window"
POOL = "blocks"
LAYERS = 2
"""Layers of each group; as in vLLM, the first layers of all groups share one region of memory, and so on."""

OUTPUT_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """One way to run the engine; sizes in tokens, `blocks` without the null block.

    `states` is how many groups hold recurrent states: vLLM makes groups of as many layers as there are of attention.
    `unit` is `prefix_match_unit`, 0 where it is not set. `checkpoint` is the grid on which the backend can write out a
    state inside a prefill, 0 where it cannot. `window_block` is 0 without a third group. `retention` is
    `prefix_cache_retention_interval`, `budget` is `max_num_batched_tokens`. `drafts` is `num_speculative_tokens`, and
    `drafter` one of `DRAFTERS`.
    """

    block: int = 8
    state_block: int = 8
    states: int = 1
    unit: int = 0
    checkpoint: int = 0
    window: int = 0
    window_block: int = 0
    retention: int | None = 0
    budget: int = 64
    blocks: int = 24
    running: int = 4
    drafts: int = 0
    drafter: str = "ngram"

    @property
    def configuration(self) -> Configuration:
        """What a schedule says of these settings; the kit finds them again by it."""
        return Configuration(self.block, self.state_block, {POOL: self.blocks}, self.running, speculates=self.drafts)

    @property
    def states_per_request(self) -> int:
        """Return how many states one request holds at most: the last two, a checkpoint, a copy, and its drafts."""
        return self.states * (3 + bool(self.checkpoint) + self.drafts)

    def smallest_hit(self, alignment: int) -> int:
        """Return the shortest prompt that a second one like it hits: EAGLE looks ahead, or drops the last block."""
        _, eagle, modules, hashes = DRAFTERS[self.drafter] if self.drafts else (False,) * 4
        ahead = self.drafts if modules else 1
        return alignment + ahead if hashes or not eagle else 2 * alignment + 1

    @property
    def convolution(self) -> tuple[int, ...]:
        """Return the shape of a state's convolution part: behind a window of one token a row for each draft."""
        return (1 + self.drafts, 1) if self.drafts else (3,)

    @property
    def state_names(self) -> tuple[str, ...]:
        """Return the names of the groups that hold recurrent states."""
        return (STATE, *(f"{STATE}{number}" for number in range(2, self.states + 1)))

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks a request of that length can hold at most."""
        held = -(-tokens // self.block) + self.states_per_request
        if self.window_block:
            in_flight = min(self.budget * 2, tokens)
            held += min(-(-tokens // self.window_block), (self.window + in_flight) // self.window_block + 2)
        return held

    @property
    def model_length(self) -> int:
        """Return the longest request that an empty pool holds, as vLLM demands of `max_model_len` when it starts."""
        tokens = self.block
        while self.blocks_for(tokens + 1) <= self.blocks:
            tokens += 1
        return tokens


def fit(settings: Settings, configuration: Configuration) -> Settings:
    """Return the settings with the sizes that were asked for, rounded to what the engine can be."""
    blocks = configuration.pools.get(POOL) or sum(configuration.pools.values()) or settings.blocks
    fitted = replace(settings, blocks=blocks, running=max(1, configuration.max_live))
    while fitted.blocks_for(2 * fitted.block + 2) > fitted.blocks:
        fitted = replace(fitted, blocks=fitted.blocks + 1)
    return fitted


def group_specs(settings: Settings) -> list[tuple[str, Any]]:
    """Return vLLM's specification of each group, all with pages of the same bytes."""
    load()
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec, SlidingWindowSpec

    smallest = min(settings.block, settings.window_block or settings.block)
    heads = {block: max(settings.block, settings.state_block) // block for block in (settings.block, smallest)}
    common = {"head_size": 1, "dtype": torch.int64}
    page_bytes = 16 * settings.block * heads[settings.block]
    state = MambaSpec(
        block_size=settings.state_block, shapes=(settings.convolution, (2, 2)), dtypes=(torch.int64, torch.int64),
        page_size_padded=page_bytes, mamba_cache_mode="align", num_speculative_blocks=settings.drafts,
        num_prefill_checkpoint_blocks=int(settings.checkpoint > 0),
        prefill_checkpoint_alignment=settings.checkpoint or None,
    )
    specs: list[tuple[str, Any]] = [
        (ATTENTION, FullAttentionSpec(block_size=settings.block, num_kv_heads=heads[settings.block], **common)),
        *((name, state) for name in settings.state_names),
    ]
    if settings.window_block:
        specs.append((WINDOW, SlidingWindowSpec(
            block_size=settings.window_block, num_kv_heads=page_bytes // (16 * settings.window_block),
            sliding_window=settings.window, **common,
        )))
    assert len({spec.page_size_bytes for _, spec in specs}) == 1
    return specs


def build_scheduler(settings: Settings) -> Any:
    """Build vLLM's asynchronous scheduler with its block manager, in the order of its engine core."""
    specs = group_specs(settings)
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import init_none_hash, resolve_kv_cache_block_sizes
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
    from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec

    register_all_kvcache_specs(None)
    init_none_hash(sha256)
    groups = [KVCacheGroupSpec([f"{name}.{layer}" for layer in range(LAYERS)], spec) for name, spec in specs]
    cache = KVCacheConfig(settings.blocks + 1, [], groups, prefix_cache_retention_interval=settings.retention)
    config = engine_config(settings)
    # vllm/v1/engine/core.py:347: the smallest block of all groups that can be cached.
    config.cache_config.block_size = min(spec.block_size for _, spec in specs)
    scheduler_block, hash_block = resolve_kv_cache_block_sizes(cache, config)
    return AsyncScheduler(
        vllm_config=config, kv_cache_config=cache, structured_output_manager=_NoGrammars(),
        block_size=scheduler_block, hash_block_size=hash_block, mm_registry=None,
    )


class _NoGrammars:
    """vLLM's manager of structured output, for requests that have none."""

    def accept_tokens(self, request: object, tokens: object) -> bool:
        return True


def engine_config(settings: Settings) -> SimpleNamespace:
    """Return the part of `VllmConfig` that the scheduler reads, with vLLM's defaults where nothing else is said."""
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(
            max_num_seqs=settings.running, max_num_active_seqs=None, max_num_scheduled_tokens=None,
            max_num_batched_tokens=settings.budget, long_prefill_token_threshold=0,
            long_prefill_token_threshold_adaptive=False, policy="fcfs", watermark=0.0,
            prefill_schedule_interval=1, scheduler_reserve_full_isl=True, enable_chunked_prefill=True,
            async_scheduling=True,
        ),
        cache_config=SimpleNamespace(
            block_size=settings.block, mamba_block_size=settings.state_block, num_gpu_blocks=settings.blocks + 1,
            enable_prefix_caching=True, mamba_cache_mode="align", prefix_match_unit=settings.unit or None,
            enable_mamba_shared_prefix_checkpoint=False, use_kda_recoverssm=False,
        ),
        model_config=SimpleNamespace(
            uses_mrope=False, is_encoder_decoder=False, supports_multimodal_inputs=False, is_diffusion=False,
            max_model_len=settings.model_length, runner_type="generate", return_sampling_mask=False,
        ),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=1, prefill_context_parallel_size=1, pipeline_parallel_size=1,
            data_parallel_index=0, data_parallel_size=1,
        ),
        observability_config=SimpleNamespace(
            per_request_spec_decode_metrics="none", kv_cache_metrics=False, enable_mfu_metrics=False,
            enable_logging_iteration_details=False,
        ),
        ec_manager_config=SimpleNamespace(get_encoder_cache_manager_obj=lambda: _NoEncoder),
        aux_output_config=SimpleNamespace(enabled=False),
        lora_config=None, kv_events_config=None, kv_transfer_config=None, ec_transfer_config=None,
        is_mm_encoder_only=False, use_v2_model_runner=True, **_speculation(settings),
        max_in_flight_tokens=2 * settings.budget, max_concurrent_batches=2,
    )


DRAFTERS: dict[str, tuple[bool, bool, bool, bool]] = {
    "ngram": (False, False, False, False),
    "draft_model": (True, False, False, False),
    "mtp": (True, True, False, True),
    "mtp, trailing block dropped": (True, True, False, False),
    "mtp, a module for each draft": (True, True, True, True),
}
"""By drafter: slots for drafts are reserved ahead; EAGLE's rules; one module a draft; hashes that look ahead."""


def _speculation(settings: Settings) -> dict[str, Any]:
    """Return what `VllmConfig` makes of its speculative configuration (config/vllm.py:612-692)."""
    drafts = settings.drafts
    lookahead, eagle, modules, hashes = DRAFTERS[settings.drafter] if drafts else (False,) * 4
    prefill = (drafts if modules else 1) if eagle else 0
    speculative = SimpleNamespace(
        num_speculative_tokens_per_batch_size=None, max_num_new_slots_for_drafting=0, use_eagle=lambda: eagle,
        use_eagle_block_drop=lambda: eagle, needs_eagle_block_drop=lambda: eagle, disable_eagle_block_drop=False,
        num_speculative_tokens=drafts,
    )
    return {
        "speculative_config": speculative if drafts else None,
        "num_speculative_tokens": drafts,
        "num_lookahead_tokens": drafts if lookahead else 0,
        "num_prefill_lookahead_tokens": prefill,
        "num_hash_lookahead_tokens": prefill if hashes else 0,
    }


class _NoEncoder:
    """vLLM's encoder cache manager, for models without an encoder."""

    @classmethod
    def create_manager(cls, **named: object) -> _NoEncoder:
        return cls()

    def free(self, request: object) -> None: ...

    def get_freed_mm_hashes(self) -> list[str]:
        return []

    def get_manager_metadata(self) -> None: ...


def make_request(
    name: str, tokens: tuple[int, ...], hash_block: int, salt: str | None, adapter: str | None, hash_lookahead: int = 0
) -> Any:
    """Build one of vLLM's requests, with its own block hashes."""
    load()
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher
    from vllm.v1.request import Request

    sampling = SimpleNamespace(
        max_tokens=OUTPUT_TOKENS, min_tokens=0, extra_args=None, skip_reading_prefix_cache=False, eos_token_id=None,
        stop_token_ids=(), repetition_detection=None, structured_outputs=None, num_logprobs=None,
    )
    lora = None if adapter is None else SimpleNamespace(
        name=adapter, lora_name=adapter, lora_path=f"adapters/{adapter}", path=f"adapters/{adapter}", lora_int_id=1,
        adapter_id=1,
    )
    return Request(
        name, list(tokens), sampling, None, arrival_time=0.0, lora_request=lora, cache_salt=salt,
        block_hasher=get_request_block_hasher(hash_block, sha256, hash_lookahead),
    )
