"""What the reference says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from milepost import __version__
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, FreezeGrid
from milepost.spec.layout import Layout

PROMISES = ("deterministic", "not-inert", "exact-accounting", "strict-boundaries", "admits-when-idle")


def declare(
    configuration: Configuration, layout: Layout, grid: int, pools_of_groups: Mapping[str, str], pools: dict[str, int]
) -> Capabilities:
    """Return the reference's capabilities; hits and freezes lie on multiples of `grid`, counted from token 0."""
    recurrent = layout.recurrent is not None
    slots = {pools_of_groups[layout.recurrent.name]: 3 + configuration.speculates} if layout.recurrent else {}
    return Capabilities(
        engine="milepost reference",
        version=__version__,
        groups=tuple(replace(group, pool=pools_of_groups[group.name]) for group in layout.groups),
        pools=pools,
        fidelity=Fidelity("in-situ"),
        chunk_size=configuration.chunk_size if recurrent else 1,
        hit_alignment=grid,
        freeze_grid=FreezeGrid(grid, "zero"),
        end_donation="boundary",
        mid_prefill_freeze=recurrent,
        explicit_freeze=recurrent,
        explicit_publish=True,
        ordered_steps=False,
        batched_steps=True,
        overlap=1,
        drops_planned=("close", "preempt"),
        independent_evict=tuple(group.name for group in layout.groups),
        evicts=True,
        accounts=True,
        inventories=True,
        namespaces=("salt", "adapter"),
        contents=True,
        anchor=bool(layout.windows),
        aborts=True,
        preempts=True,
        resets="always",
        max_live=configuration.max_live,
        speculates=configuration.speculates,
        cells_per_request=slots,
        promises=PROMISES,
        smallest_cacheable=grid + 1,
    )


def without_promises(declared: Capabilities, *promises: str) -> Capabilities:
    """Return capabilities that do not make the named promises."""
    return replace(declared, promises=tuple(one for one in declared.promises if one not in promises))
