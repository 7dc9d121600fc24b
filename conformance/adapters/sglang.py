"""SGLang 0.5.23 behind the seam: its UnifiedRadixCache, pools, requests, batches, PrefillAdder and result processing.

SGLang's words for ours: a mamba slot is a slot, `mamba_value` a snapshot, ping-pong tracking a freeze, a checkpoint a
publication, a match a hit, `lock` a lease, the copy on write a restore, a retraction a preemption.

`sglang_scheduler` has the verbs, `sglang_engine` the engine's own calls in its scheduler's order, `sglang_tracking`
where its kernels are told to write a checkpoint, `sglang_memory` the payloads in its tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import metadata

from milepost.conformance.adapters.sglang_modules import SLIDE
from milepost.conformance.adapters.sglang_scheduler import SGLang, Sizes, engine_sizes
from milepost.conformance.adapters.sglang_settings import LINEAR_LAYERS, Settings
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
    if settings.window:
        faked.append(f"a window is left behind every {SLIDE} tokens of decoding, not every 128")
    if settings.chunk != 64 and settings.recurrent:
        faked.append(f"a model whose mamba_chunk_size is {settings.chunk}")
    groups: tuple[Group, ...] = (Group("kv", GroupKind.FULL, "kv", page_size=settings.page),)
    pools = {"kv": sizes.pages, "window": sizes.window_pages, "state": sizes.slots}
    if settings.window:
        groups += (Group("window", GroupKind.WINDOW, "window", page_size=settings.page, window=settings.window),)
    if settings.recurrent:
        groups += (Group("state", GroupKind.RECURRENT, "state", layers=len(LINEAR_LAYERS), executes="engine"),)
    cacheable = settings.grid + 1 if settings.extra_buffer or not settings.recurrent else 0
    return Capabilities(
        engine="SGLang",
        version=WRITTEN_FOR,
        issues="https://github.com/sgl-project/sglang/issues",
        fidelity=Fidelity("imported", tuple(faked)),
        groups=groups,
        pools={name: cells for name, cells in pools.items() if cells},
        chunk_size=settings.chunk,
        hit_alignment=settings.page,
        freeze_grid=FreezeGrid(settings.grid, "step"),
        end_donation="any" if settings.page == 1 else "page",
        mid_prefill_freeze=settings.extra_buffer,
        explicit_publish=False,
        leases_on_open=False,
        overlap=int(settings.overlap),
        independent_evict=tuple(group.name for group in groups),
        evicts=True,
        namespaces=("cache_salt", "extra_key"),
        preempts=True,
        resets="idle",
        max_live=sizes.rows,
        cells_per_request={"state": settings.slots_each} if settings.recurrent else {},
        promises=("not-inert", "admits-when-idle") if cacheable else ("admits-when-idle",),
        smallest_cacheable=cacheable,
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
        # Without the extra buffer the engine switches its overlapped schedule off (arg_groups/overrides.py:454).
        overlap = strategy != "no_buffer"
        settings = Settings(core, strategy, page, overlap, mixed, _chunk(configuration.chunk_size, page))
        return _build(settings, configuration)

    return make


def _build(settings: Settings, configuration: Configuration) -> SGLang:
    _require_version()
    sizes = engine_sizes(settings, configuration)
    return SGLang(settings, sizes, _declare(settings, sizes))


def _window_maker(
    core: str, page: int, releases: bool = False, recurrent: bool = True
) -> Callable[[Configuration], SGLang]:
    """Make a cache with a window: as wide as the configuration's window group, or a page and a half."""

    def make(configuration: Configuration) -> SGLang:
        asked = (group.window for group in configuration.groups if group.kind is GroupKind.WINDOW)
        chunk = _chunk(configuration.chunk_size, page) if recurrent else page
        strategy = "extra_buffer" if recurrent else "no_buffer"  # without states nobody reads it
        window = next(asked, page + page // 2 + 2)
        settings = Settings(core, strategy, page, True, False, chunk, window, releases, recurrent)
        return _build(settings, configuration)

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
make_rust_window = _window_maker("rust", 1)
make_rust_window16 = _window_maker("rust", 16)
make_rust_window_released = _window_maker("rust", 1, releases=True)
make_rust_window_only = _window_maker("rust", 1, recurrent=False)
make_rust_window_only16 = _window_maker("rust", 16, recurrent=False)
make_python_window = _window_maker("python", 1)
make_python_window16 = _window_maker("python", 16)
make_python_window_released = _window_maker("python", 1, releases=True)
make_python_window_only = _window_maker("python", 1, recurrent=False)
make_python_window_only16 = _window_maker("python", 16, recurrent=False)

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



def _windowed(sizes: Configuration, window: int, pages: int, recurrent: bool = True) -> Configuration:
    """Add a window group with a pool of so many pages to what is asked for, and take the states away."""
    page = sizes.page_size
    groups: tuple[Group, ...] = (
        Group("kv", GroupKind.FULL, "kv", page_size=page),
        Group("window", GroupKind.WINDOW, "window", page_size=page, window=window),
    )
    pools = {"kv": sizes.pools["kv"], "window": pages}
    if recurrent:
        groups, pools = (*groups, Group("state", GroupKind.RECURRENT, "state")), pools | {"state": sizes.pools["state"]}
    return replace(sizes, groups=groups, pools=pools)


_WINDOW1 = (
    _windowed(_PAGE1[0], 5, 40), _windowed(_PAGE1[0], 9, 24), _windowed(_PAGE1[1], 6, 48), _windowed(_PAGE1[1], 20, 60),
    _windowed(_PAGE1[0], 2, 20), _windowed(_PAGE1[3], 33, 200),
)
_CROWDED = Configuration(1, 8, {"kv": 72, "state": 20}, 4)
_RELEASED = (
    _windowed(_PAGE1[0], 6, 16), _windowed(_CROWDED, 6, 30), _windowed(_CROWDED, 9, 34), _windowed(_CROWDED, 12, 40),
)
_WINDOW16 = (
    _windowed(_PAGE16[0], 5, 8), _windowed(_PAGE16[0], 17, 12), _windowed(_PAGE16[1], 24, 10),
    _windowed(_PAGE16[1], 40, 14), _windowed(_PAGE16[2], 33, 24),
)
_ONLY1 = tuple(_windowed(_PAGE1[index], window, pages, False) for index, window, pages in (
    (0, 5, 24), (0, 9, 40), (1, 6, 40), (1, 20, 60), (2, 2, 20),
))
_ONLY16 = tuple(_windowed(_PAGE16[index], window, pages, False) for index, window, pages in (
    (0, 5, 8), (0, 17, 12), (1, 24, 10), (1, 40, 14), (2, 33, 24),
))
"""Windows below, at and above a page, most of them no multiples of one, in pools for all tokens and for fewer.

A lock that is released early matters only where others want the pages at once.
"""

SIZES = {
    f"sglang:{core}{variant}": sizes
    for core in ("rust", "python")
    for variant, sizes in (
        ("", _PAGE1), ("-no-buffer", _PAGE1), ("-page16", _PAGE16), ("-page64", _PAGE64), ("-mixed", _PAGE1),
        ("-mixed16", _PAGE16), ("-window", _WINDOW1), ("-window16", _WINDOW16), ("-window-released", _RELEASED),
        ("-window-only", _ONLY1), ("-window-only16", _ONLY16),
    )
}
