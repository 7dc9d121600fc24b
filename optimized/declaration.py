"""What the production cache says of itself."""

from __future__ import annotations

from milepost import __version__
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, FreezeGrid, Group
from milepost.spec.words import GroupKind

KV, STATE = "kv", "state"
"""The names of its two groups, and of their pools."""

CELLS_PER_REQUEST = 3
"""Slots that one request may hold: live, frozen, and the snapshot that it restores from."""


def declare(configuration: Configuration, grid: int) -> Capabilities:
    """Return the capabilities: hits, freezes and donations lie on multiples of `grid`, counted from token 0."""
    return Capabilities(
        engine="milepost",
        version=__version__,
        groups=(
            Group(KV, GroupKind.FULL, KV, page_size=configuration.page_size, executes="engine"),
            Group(STATE, GroupKind.RECURRENT, STATE, executes="engine"),
        ),
        pools={name: configuration.pools[name] for name in (KV, STATE)},
        fidelity=Fidelity("in-situ"),
        chunk_size=configuration.chunk_size,
        hit_alignment=grid,
        freeze_grid=FreezeGrid(grid, "zero"),
        end_donation="boundary",
        mid_prefill_freeze=True,
        explicit_freeze=True,
        explicit_publish=True,
        ordered_steps=False,
        batched_steps=True,
        overlap=1,
        drops_planned=("close", "preempt"),
        independent_evict=(KV, STATE),
        evicts=True,
        accounts=True,
        inventories=True,
        namespaces=("salt", "adapter"),
        contents=True,
        aborts=True,
        preempts=True,
        resets="always",
        max_live=configuration.max_live,
        cells_per_request={STATE: CELLS_PER_REQUEST},
        promises=("deterministic", "not-inert", "exact-accounting", "strict-boundaries", "admits-when-idle"),
        smallest_cacheable=grid + 1,
    )
