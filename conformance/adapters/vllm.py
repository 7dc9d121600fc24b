"""vLLM 0.33.0 behind the seam: its asynchronous scheduler, KV cache manager and block memory, on a CPU.

vLLM's words for ours: a block is a page or a slot, a mamba block holds one state, `get_computed_blocks` is a lookup,
`allocate_slots` grants and publishes, a copied block restores a partial hit, the pre-copy restores a whole one.

`vllm_scheduler` has the verbs, `vllm_engine` the settings and the engine's own scheduler, `vllm_memory` the payloads in
its tensors, `vllm_drafts` and `vllm_states` speculative decoding, `vllm_loader` and `vllm_kernels` what stands in for
packages that only exist for GPUs.
"""

from __future__ import annotations

from collections.abc import Callable

from milepost.conformance.adapters.vllm_drafts import DraftingVllm
from milepost.conformance.adapters.vllm_engine import (
    ATTENTION,
    LAYERS,
    POOL,
    WINDOW,
    Settings,
    fit,
)
from milepost.conformance.adapters.vllm_loader import VERSION, find_engine
from milepost.conformance.adapters.vllm_scheduler import Vllm
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, FreezeGrid, Group
from milepost.spec.words import GroupKind

FAKED = (
    "the loop of Scheduler.schedule(): its calls and guards are followed for the requests that the harness chooses",
    "the model: its forward is played by the harness on CPU tensors",
    "the zeroing kernel and, without drafts, the pre-copy kernel: numpy, in the worker's order",
    "Triton: with drafts the kernels for states run as the Python that they are written in",
    "configuration objects, logger and platform",
    "GPU and server packages (named by empty classes)",
)

TARGETS: dict[str, tuple[Settings, ...]] = {
    "vllm:full+state": (
        Settings(),
        Settings(retention=None, blocks=25),
        Settings(budget=12, blocks=26),
        Settings(budget=5, retention=None, blocks=18, running=3),
        Settings(states=2, blocks=28),
        Settings(states=2, retention=None, budget=20, blocks=29),
    ),
    "vllm:uneven": (
        Settings(block=8, state_block=16, blocks=22),
        Settings(block=16, state_block=8, retention=None, blocks=22),
    ),
    "vllm:unit16": (
        Settings(block=32, state_block=32, unit=16, budget=256),
        Settings(block=32, state_block=32, unit=16, budget=256, retention=None, blocks=25),
        Settings(block=32, state_block=32, unit=16, budget=40, blocks=26),
        Settings(block=48, state_block=48, unit=16, budget=20, retention=None, blocks=18, running=3),
        Settings(block=32, state_block=32, unit=16, states=2, budget=256, blocks=30),
    ),
    "vllm:checkpoint": (
        Settings(checkpoint=1),
        Settings(checkpoint=1, retention=None, blocks=25),
        Settings(checkpoint=1, unit=4, blocks=26),
        Settings(checkpoint=1, unit=4, retention=None, blocks=27),
        Settings(checkpoint=1, unit=4, retention=None, budget=5, blocks=20, running=3),
        Settings(checkpoint=4, unit=4, budget=20, blocks=22),
        Settings(checkpoint=8, retention=None, budget=12, blocks=21),
        Settings(checkpoint=1, unit=4, states=2, blocks=32),
    ),
    "vllm:window": (
        Settings(window=10, window_block=4, blocks=32),
        Settings(window=10, window_block=4, retention=None, blocks=33),
        Settings(window=6, window_block=4, budget=12, blocks=34),
        Settings(window=10, window_block=4, retention=None, budget=5, blocks=30, running=3),
        Settings(window=10, window_block=4, checkpoint=1, blocks=35),
    ),
    "vllm:window-even": (
        Settings(window=10, window_block=8, blocks=28),
        Settings(window=10, window_block=8, retention=None, blocks=29),
        Settings(window=6, window_block=8, budget=12, blocks=30),
        Settings(window=10, window_block=8, retention=None, budget=5, blocks=27, running=3),
        Settings(window=10, window_block=8, unit=4, blocks=36),
        Settings(window=10, window_block=8, checkpoint=1, blocks=35),
    ),
    "vllm:full+state+draft": (
        Settings(drafts=3, blocks=37),
        Settings(drafts=3, retention=None, blocks=38),
        Settings(drafts=2, retention=None, budget=12, blocks=26, drafter="draft_model"),
        Settings(drafts=2, budget=5, retention=None, blocks=20, running=3),
        Settings(block=4, state_block=4, drafts=2, retention=None, blocks=25, running=3),
        Settings(drafts=3, states=2, retention=None, blocks=42, drafter="draft_model"),
    ),
    "vllm:full+window+state+draft": (
        Settings(window=10, window_block=8, drafts=3, blocks=40),
        Settings(window=10, window_block=8, drafts=3, retention=None, blocks=41),
        Settings(window=6, window_block=8, drafts=2, retention=None, budget=12, blocks=32, drafter="draft_model"),
        Settings(window=10, window_block=8, drafts=2, retention=None, budget=5, blocks=30, running=3),
    ),
    "vllm:mtp": (
        Settings(drafts=3, drafter="mtp", blocks=37),
        Settings(drafts=3, drafter="mtp", retention=None, blocks=38),
        Settings(drafts=2, drafter="mtp, trailing block dropped", retention=None, budget=20, blocks=36),
        Settings(drafts=2, drafter="mtp, a module for each draft", retention=None, blocks=35),
        Settings(window=10, window_block=8, drafts=3, drafter="mtp", retention=None, blocks=41),
    ),
}
"""The settings of each shipped target. A schedule finds its own again by the sizes in its header, which differ."""

SIZES = {name: tuple(one.configuration for one in settings) for name, settings in TARGETS.items()}


def _declare(settings: Settings, alignment: int) -> Capabilities:
    page, state = settings.block, settings.state_block
    groups = [
        Group(ATTENTION, GroupKind.FULL, POOL, page_size=page, layers=LAYERS, executes="engine"),
        *(Group(name, GroupKind.RECURRENT, POOL, layers=LAYERS, executes="engine") for name in settings.state_names),
    ]
    if settings.window_block:
        groups.append(Group(
            WINDOW, GroupKind.WINDOW, POOL, page_size=settings.window_block, window=settings.window, layers=LAYERS,
            executes="engine",
        ))
    return Capabilities(
        engine="vLLM",
        version=VERSION,
        issues="https://github.com/vllm-project/vllm/issues",
        fidelity=Fidelity("shimmed", FAKED),
        groups=tuple(groups),
        pools={POOL: settings.blocks},
        chunk_size=state,
        hit_alignment=alignment,
        freeze_grid=FreezeGrid(alignment, "zero"),
        mid_prefill_freeze=settings.checkpoint > 0,
        explicit_publish=False,
        leases_on_open=False,
        overlap=1,
        accounts=True,
        namespaces=("adapter", "salt"),
        preempts=True,
        resets="idle",
        max_live=settings.running,
        speculates=settings.drafts,
        cells_per_request={POOL: settings.states_per_request},
        promises=("deterministic", "not-inert", "admits-when-idle", "exact-accounting"),
        smallest_cacheable=settings.smallest_hit(alignment),
    )


def make(settings: Settings) -> Vllm:
    """Build vLLM with these settings; say in one line where there is none here, or another version."""
    find_engine()
    return (DraftingVllm if settings.drafts else Vllm)(settings, _declare)


def _maker(name: str) -> Callable[[Configuration], Vllm]:
    def make_target(configuration: Configuration) -> Vllm:
        listed = (one for one in TARGETS[name] if one.configuration == configuration)
        return make(next(listed, None) or fit(TARGETS[name][0], configuration))

    return make_target


make_full_state = _maker("vllm:full+state")
make_uneven = _maker("vllm:uneven")
make_unit16 = _maker("vllm:unit16")
make_checkpoint = _maker("vllm:checkpoint")
make_window = _maker("vllm:window")
make_window_even = _maker("vllm:window-even")
make_full_state_draft = _maker("vllm:full+state+draft")
make_full_window_state_draft = _maker("vllm:full+window+state+draft")
make_mtp = _maker("vllm:mtp")
