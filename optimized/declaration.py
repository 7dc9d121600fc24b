"""What the production cache says of itself."""

from __future__ import annotations

from dataclasses import replace

from milepost import __version__
from milepost.optimized.errors import BadInput
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, FreezeGrid, complaints
from milepost.spec.layout import Layout, make_layout

CELLS_PER_REQUEST = 3
"""Slots that one request may hold beside draft columns: live, frozen, and the snapshot that it restores from."""


def declare(configuration: Configuration, layout: Layout, grid: int) -> Capabilities:
    """Return the capabilities: hits, freezes and donations lie on multiples of `grid`, counted from token 0."""
    state = layout.recurrent
    return Capabilities(
        engine="milepost",
        version=__version__,
        groups=tuple(replace(group, executes="engine") for group in layout.groups),
        pools={name: configuration.pools[name] for name in dict.fromkeys(group.pool for group in layout.groups)},
        fidelity=Fidelity("in-situ"),
        chunk_size=configuration.chunk_size if state else 1,
        hit_alignment=grid,
        freeze_grid=FreezeGrid(grid, "zero"),
        end_donation="boundary",
        mid_prefill_freeze=state is not None,
        explicit_freeze=state is not None,
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
        cells_per_request={state.pool: CELLS_PER_REQUEST + configuration.speculates} if state else {},
        promises=("deterministic", "not-inert", "exact-accounting", "strict-boundaries", "admits-when-idle"),
        smallest_cacheable=grid + 1,
    )


def possible_layout(configuration: Configuration) -> Layout:
    """Return the groups that a configuration asks for; BadInput where they are none that this cache can have."""
    try:
        layout = make_layout(configuration)
    except ValueError as error:
        raise BadInput(str(error)) from None
    for group in (layout.full, *layout.sides):
        if layout.recurrent and group.pool == layout.recurrent.pool:
            raise BadInput(f"group '{group.name}' shares pool '{group.pool}' with states, which are no pages")
    declared = declare(configuration, layout, layout.grid(configuration.chunk_size))
    found = complaints(replace(declared, cells_per_request={}))  # a pool too small for a step refuses what it can't do
    if found or configuration.speculates < 0:
        raise BadInput(found[0] if found else f"speculates starts at 0, not {configuration.speculates}")
    return layout
