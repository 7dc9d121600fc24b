"""What a cache answers: for each request that an operation changed, the whole table of what it now holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from milepost.spec.payload import Content
from milepost.spec.words import NULL, Cell


@dataclass(frozen=True, slots=True)
class Pages:
    """A paged group's part of a table: one column for each page index, NULL where nothing is held."""

    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Slots:
    """A recurrent group's part: the live slot, frozen slots as (position, slot), and the restore source.

    `drafts` are the columns of a speculating step, the first for the state with one draft token more than `live`.
    """

    live: int = NULL
    frozen: tuple[tuple[int, int], ...] = ()
    source: int = NULL
    drafts: tuple[int, ...] = ()


GroupTable = Pages | Slots
Table = dict[str, GroupTable]
Tables = dict[str, Table]
"""Tables by request. A cell that a table no longer names is given up at that moment."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Copies (pool, source, destination) and zeroings (pool, cell) of whole cells.

    All sources of a phase are read before any destination is written, unless it is `unordered`. `at` is `queue` for
    an effect behind what was launched, `now` for one outside the device queue.
    """

    copies: tuple[tuple[str, int, int], ...] = ()
    zeros: tuple[Cell, ...] = ()
    unordered: bool = False
    at: str = "queue"


@dataclass(frozen=True, slots=True)
class Refused:
    """The operation was not carried out. `reason` is one of `REASONS`; `tables` are those that changed all the same."""

    tag: ClassVar[str] = "refused"
    reason: str
    text: str = ""
    tables: Tables = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """The reusable prefix: `length` tokens, and what the request holds for them."""

    tag: ClassVar[str] = "hit"
    length: int
    table: Table = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    readings: dict[Cell, Content] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grant:
    """A planned extend up to `length`.

    `frozen` has (group, slot, position) for each snapshot that the step itself will write, the position as the kernel
    is told. `initial_state` is the slot that the kernel reads for each recurrent group, None for zeros by itself.
    `draft` counts the columns behind `length` that the step computes too: draft tokens, and padding that no landing
    accepts.
    """

    tag: ClassVar[str] = "grant"
    length: int
    table: Table = field(default_factory=dict)
    frozen: tuple[tuple[str, int, int], ...] = ()
    initial_state: dict[str, int | None] = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    draft: int = 0


@dataclass(frozen=True, slots=True)
class Launched:
    """A started step: its id, the phases that run before its forward, and the tables that it changed."""

    tag: ClassVar[str] = "launch"
    step: int
    phases: tuple[Phase, ...] = ()
    tables: Tables = field(default_factory=dict)
    readings: dict[Cell, Content] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Landing:
    """The tables after a landing, publish, preempt or close; a request that has ended and is left out holds nothing."""

    tag: ClassVar[str] = "landing"
    tables: Tables = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    readings: dict[Cell, Content] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frozen:
    """A snapshot that the caller asked for: its position, (group, slot) for each group, and the copies."""

    tag: ClassVar[str] = "frozen"
    position: int
    cells: tuple[tuple[str, int], ...]
    table: Table = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    readings: dict[Cell, Content] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResetDone:
    """Whether everything published was forgotten; False refuses and changes nothing."""

    tag: ClassVar[str] = "reset"
    done: bool
    tables: Tables = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evicted:
    """The cells given up, unwritten from then on; `listed` is False where the engine cannot list them."""

    tag: ClassVar[str] = "evicted"
    cells: tuple[Cell, ...] = ()
    listed: bool = True
    tables: Tables = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drained:
    """Tokens that the filling was granted after a drain and on a fresh instance; `comparable` if the reset was done."""

    tag: ClassVar[str] = "drained"
    granted: int
    fresh: int
    comparable: bool = True


Answer = Hit | Grant | Launched | Landing | Frozen | Refused | ResetDone | Evicted | Drained

ANSWERS: dict[str, type[Answer]] = {
    kind.tag: kind for kind in (Hit, Grant, Launched, Landing, Frozen, Refused, ResetDone, Evicted, Drained)
}

REASONS: tuple[str, ...] = (
    "no-page", "no-slot", "too-many-requests", "no-progress", "unaligned", "nothing-to-freeze", "in-flight",
    "prompt-too-long", "busy", "engine",
)
"""Stable names for why an operation was refused."""


def named_cells(table: Table, pools: dict[str, str]) -> list[Cell]:
    """Return every cell that a table names, with repeats; `pools` maps group names to pools."""
    cells: list[Cell] = []
    for group, part in table.items():
        pool = pools[group]
        if isinstance(part, Pages):
            cells.extend((pool, index) for index in part.columns if index != NULL)
        else:
            named = (part.live, *(slot for _, slot in part.frozen), part.source, *part.drafts)
            cells.extend((pool, index) for index in named if index != NULL)
    return cells
