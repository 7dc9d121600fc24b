"""What a cache says of itself at the handshake; everything here is verified where it can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from milepost.spec.laws import PROMISES
from milepost.spec.words import GroupKind


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share one table. `executes` is `engine` where the engine's own memory holds the payloads."""

    name: str
    kind: GroupKind
    pool: str
    page_size: int = 1
    window: int = 0
    ratio: int = 1
    layers: int = 1
    executes: str = "shadow"
    same_step_reads: bool = True

    @property
    def stride(self) -> int:
        """Tokens for each entry: `ratio` in a compressed group, else 1."""
        return self.ratio if self.kind is GroupKind.COMPRESSED else 1


@dataclass(frozen=True, slots=True)
class Configuration:
    """The sizes that the kit asks for: tokens for page and chunk, usable cells for each pool (null cells apart).

    `groups` are what a cache of any groups should have; none asks for what it has by itself, in the reference one full
    and one recurrent group. `speculates` is the most draft columns of a step.
    """

    page_size: int = 4
    chunk_size: int = 8
    pools: dict[str, int] = field(default_factory=lambda: {"kv": 12, "state": 8})
    max_live: int = 4
    anchor: int | None = None
    groups: tuple[Group, ...] = ()
    speculates: int = 0


@dataclass(frozen=True, slots=True)
class FreezeGrid:
    """Where a step may freeze strictly inside itself: every `chunk_size`, from token `zero` or the `step` start."""

    chunk_size: int = 1
    origin: str = "zero"


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How real the judged thing is: `in-situ`, `imported` or `shimmed`, and what was faked."""

    level: str = "imported"
    faked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """See the seam's text for each field; sizes in tokens, pools in usable cells."""

    engine: str
    version: str
    groups: tuple[Group, ...]
    pools: dict[str, int]
    issues: str = ""
    fidelity: Fidelity = Fidelity()
    chunk_size: int = 1
    hit_alignment: int = 1
    freeze_grid: FreezeGrid = FreezeGrid()
    end_donation: str = "any"
    mid_prefill_freeze: bool = False
    explicit_freeze: bool = False
    explicit_publish: bool = True
    leases_on_open: bool = True
    ordered_steps: bool = True
    batched_steps: bool = True
    overlap: int = 0
    drops_planned: tuple[str, ...] = ()
    independent_evict: tuple[str, ...] = ()
    evicts: bool = False
    accounts: bool = False
    inventories: bool = False
    namespaces: tuple[str, ...] = ()
    contents: bool = False
    anchor: bool = False
    aborts: bool = True
    preempts: bool = False
    speculates: int = 0
    resets: str = "never"
    max_live: int = 4
    cells_per_request: dict[str, int] = field(default_factory=dict)
    promises: tuple[str, ...] = ()
    smallest_cacheable: int = 0

    def group(self, name: str) -> Group:
        """Return the group called `name`; KeyError where there is none."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(name)

    @property
    def page_size(self) -> int:
        """The page size of the first paged group, for displays and grids; 1 where none is paged."""
        return next((group.page_size for group in self.groups if group.kind.paged), 1)


def complaints(capabilities: Capabilities) -> list[str]:
    """Return what is impossible in a declaration, one sentence each; empty where it is sound."""
    names, pools = [group.name for group in capabilities.groups], capabilities.pools
    found = [sentence for group in capabilities.groups for sentence in _group_complaints(group, pools)]
    if not names or len(set(names)) != len(names):
        found.append("groups need at least one member and distinct names")
    found += [f"pool '{pool}' has fewer cells than the {cells} that one request needs"
              for pool, cells in capabilities.cells_per_request.items() if pools.get(pool, 0) < cells]
    grids = (capabilities.hit_alignment, capabilities.chunk_size, capabilities.freeze_grid.chunk_size)
    if min(*grids, capabilities.max_live) < 1:
        found.append("hit_alignment, chunk_size, the freeze grid and max_live start at 1")
    return found + [f"{name} '{value}' is none of {', '.join(map(str, legal))}" for name, value, legal in (
        ("end_donation", capabilities.end_donation, ("any", "page", "boundary")),
        ("resets", capabilities.resets, ("always", "idle", "never")),
        ("freeze_grid.origin", capabilities.freeze_grid.origin, ("zero", "step")),
        ("fidelity.level", capabilities.fidelity.level, ("in-situ", "imported", "shimmed")),
        ("overlap", capabilities.overlap, (0, 1)),
        *(("drops_planned", verb, ("close", "preempt")) for verb in capabilities.drops_planned),
        *(("independent_evict", name, names) for name in capabilities.independent_evict),
        *(("promise", promise, tuple(PROMISES)) for promise in capabilities.promises),
    ) if value not in legal]


def _group_complaints(group: Group, pools: dict[str, int]) -> Iterator[str]:
    if group.pool not in pools:
        yield f"pool '{group.pool}' of group '{group.name}' has no size"
    if group.page_size < 1 or group.ratio < 1 or group.layers < 1:
        yield f"group '{group.name}' has a page, ratio or layer count below 1"
    elif group.page_size % group.stride:
        yield f"group '{group.name}' has a page that is not a multiple of its ratio"
    if group.kind is GroupKind.WINDOW and group.window < 1:
        yield f"group '{group.name}' is a window group without a window"
    if group.executes not in ("shadow", "engine"):
        yield f"group '{group.name}' executes in '{group.executes}', which is none of shadow, engine"
