"""What the reference says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from milepost import __version__
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, FreezeGrid, Group
from milepost.spec.words import GroupKind

PROMISES = ("deterministic", "not-inert", "exact-accounting", "strict-boundaries", "admits-when-idle")


def declare(
    configuration: Configuration, grid: int, pools_of_groups: Mapping[str, str], pools: dict[str, int]
) -> Capabilities:
    """Return the reference's capabilities; hits and freezes lie on multiples of `grid`, counted from token 0."""
    return Capabilities(
        engine="milepost reference",
        version=__version__,
        groups=(
            Group("kv", GroupKind.FULL, pools_of_groups["kv"], page_size=configuration.page_size),
            Group("state", GroupKind.RECURRENT, pools_of_groups["state"]),
        ),
        pools=pools,
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
        independent_evict=("kv", "state"),
        evicts=True,
        accounts=True,
        inventories=True,
        namespaces=("salt", "adapter"),
        contents=True,
        aborts=True,
        preempts=True,
        resets="always",
        max_live=configuration.max_live,
        cells_per_request={pools_of_groups["state"]: 3},
        promises=PROMISES,
        smallest_cacheable=grid + 1,
    )


def without_promises(declared: Capabilities, *promises: str) -> Capabilities:
    """Return capabilities that do not make the named promises."""
    return replace(declared, promises=tuple(one for one in declared.promises if one not in promises))
