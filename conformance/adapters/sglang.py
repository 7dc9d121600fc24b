"""SGLang 0.5.23 behind the seam: its UnifiedRadixCache, pools, requests, batches, PrefillAdder and result processing.

SGLang's words for ours: a mamba slot is a slot, `mamba_value` a snapshot, ping-pong tracking a freeze, a checkpoint a
publication, a match a hit, `lock` a lease, the copy on write a restore, a retraction a preemption.

`sglang_scheduler` has the verbs, `sglang_engine` the engine's own calls in its scheduler's order, `sglang_tracking`
where its kernels are told to write a checkpoint, `sglang_memory` the payloads in its tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from milepost.conformance.adapters.sglang_engine import LINEAR_LAYERS, Settings
from milepost.conformance.adapters.sglang_scheduler import SGLang, Sizes, engine_sizes
from milepost.conformance.errors import AdapterError, UsageError
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, FreezeGrid, Group
from milepost.spec.words import GroupKind

WRITTEN_FOR = "0.5.23"


def _declare(settings: Settings, sizes: Sizes) -> Capabilities:
    faked = [
        "forward pass and sampler", "streams and events (one ordered queue)", "model configuration",
        "GPU packages (imported as empty classes)", "Tensor.pin_memory", "Triton kernels of the allocator (its own "
        "torch versions run)", "the scheduler's event loop (the harness calls its steps)",
        "one prefill batch for each request of a step",
    ]
    if settings.chunk != 64:
        faked.append(f"a model whose mamba_chunk_size is {settings.chunk}")
    return Capabilities(
        engine="SGLang",
        version=WRITTEN_FOR,
        issues="https://github.com/sgl-project/sglang/issues",
        fidelity=Fidelity("imported", tuple(faked)),
        groups=(
            Group("kv", GroupKind.FULL, "kv", page_size=settings.page),
            Group("state", GroupKind.RECURRENT, "state", layers=len(LINEAR_LAYERS), executes="engine"),
        ),
        pools={"kv": sizes.pages, "state": sizes.slots},
        chunk_size=settings.chunk,
        hit_alignment=settings.page,
        freeze_grid=FreezeGrid(settings.grid, "step"),
        end_donation="any" if settings.page == 1 else "page",
        mid_prefill_freeze=settings.extra_buffer,
        explicit_publish=False,
        leases_on_open=False,
        overlap=int(settings.overlap),
        independent_evict=("kv", "state"),
        evicts=True,
        namespaces=("cache_salt", "extra_key"),
        preempts=True,
        resets="idle",
        max_live=sizes.rows,
        cells_per_request={"state": settings.slots_each},
        promises=("not-inert", "admits-when-idle") if settings.extra_buffer else ("admits-when-idle",),
        smallest_cacheable=settings.grid + 1 if settings.extra_buffer else 0,
    )


def _require_version() -> None:
    """Say in one line that there is no SGLang here, or another one than this was written for."""
    try:
        found = metadata.version("sglang")
    except metadata.PackageNotFoundError:
        raise UsageError("SGLang is not installed here: run `make peers`") from None
    if found != WRITTEN_FOR:
        raise AdapterError(f"this adapter was written for SGLang {WRITTEN_FOR}, found {found}")


def _chunk(chunk: int, page: int) -> int:
    """Return a chunk that the engine takes beside a page: one must divide the other (arg_groups/overrides.py:1919)."""
    return chunk if max(chunk, page) % min(chunk, page) == 0 else page


def _maker(core: str, strategy: str, page: int, mixed: bool = False) -> Callable[[Configuration], SGLang]:
    def make(configuration: Configuration) -> SGLang:
        _require_version()
        # Without the extra buffer the engine switches its overlapped schedule off (arg_groups/overrides.py:454).
        overlap = strategy != "no_buffer"
        settings = Settings(core, strategy, page, overlap, mixed, _chunk(configuration.chunk_size, page))
        sizes = engine_sizes(settings, configuration)
        return SGLang(settings, sizes, _declare(settings, sizes))

    return make


make_rust = _maker("rust", "extra_buffer", 1)
make_rust_no_buffer = _maker("rust", "no_buffer", 1)
make_rust_page16 = _maker("rust", "extra_buffer", 16)
make_rust_page64 = _maker("rust", "extra_buffer", 64)
make_rust_mixed = _maker("rust", "extra_buffer", 1, mixed=True)
make_rust_mixed16 = _maker("rust", "extra_buffer", 16, mixed=True)
make_python = _maker("python", "extra_buffer", 1)
make_python_no_buffer = _maker("python", "no_buffer", 1)
make_python_page16 = _maker("python", "extra_buffer", 16)
make_python_page64 = _maker("python", "extra_buffer", 64)
make_python_mixed = _maker("python", "extra_buffer", 1, mixed=True)
make_python_mixed16 = _maker("python", "extra_buffer", 16, mixed=True)

_PAGE1 = (
    Configuration(1, 8, {"kv": 40, "state": 10}, 2),
    Configuration(1, 8, {"kv": 72, "state": 16}, 3),
    Configuration(1, 2, {"kv": 48, "state": 15}, 3),
    Configuration(1, 64, {"kv": 512, "state": 20}, 4),
)
"""Chunks of 8 and 2 tokens stand for models with such a `mamba_chunk_size`: more boundaries in shorter prompts."""

_PAGE16 = (
    Configuration(16, 8, {"kv": 12, "state": 10}, 2),
    Configuration(16, 16, {"kv": 16, "state": 16}, 3),
    Configuration(16, 64, {"kv": 40, "state": 15}, 3),
)

_PAGE64 = (
    Configuration(64, 64, {"kv": 10, "state": 10}, 2),
    Configuration(64, 64, {"kv": 14, "state": 20}, 4),
)

SIZES = {
    f"sglang:{core}{variant}": sizes
    for core in ("rust", "python")
    for variant, sizes in (
        ("", _PAGE1), ("-no-buffer", _PAGE1), ("-page16", _PAGE16), ("-page64", _PAGE64), ("-mixed", _PAGE1),
        ("-mixed16", _PAGE16),
    )
}
