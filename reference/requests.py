"""What the reference knows of one request, from its open to the landing of its last step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from milepost.spec.answers import Pages, Slots, Table
from milepost.spec.resume import Cut
from milepost.spec.words import NULL, Namespace

Key = tuple[Any, ...]
"""What a prefix is found by: its namespace and, last, the tuple of the content identities of all its tokens.

In the dictionary of pages, the name of a side group and where its page ends stand before it.
"""


@dataclass(slots=True, eq=False)
class Entry:
    """One published cell: the prefix that it completes, the prefix before it, and when it was last used.

    `group` names the side group that a page belongs to, '' for the full group and for a snapshot.
    """

    key: Key
    parent: Key
    cell: int
    depth: int
    stamp: int
    group: str = ""


@dataclass(slots=True)
class Side:
    """A request's pages of one side group: a cell for each column, NULL where none is held, and the shared ones."""

    cells: list[int] = field(default_factory=list)
    leases: dict[int, Entry] = field(default_factory=dict)


@dataclass(slots=True)
class FrozenSlot:
    """A request's immutable copy of its state at `position`."""

    position: int
    cell: int


@dataclass(slots=True)
class Plan:
    """A step over [start, stop) that has not been launched; `frozen` is what it will write on the way.

    `draft` counts the columns behind `stop` that it speculates on.
    """

    start: int
    stop: int
    frozen: FrozenSlot | None = None
    draft: int = 0


@dataclass(slots=True, eq=False)
class Request:
    """One claim. `length` counts launched tokens, `landed` those whose step has landed.

    `leases` has the entry of each column that is shared; the other columns are private. `live_is_set` is false until
    the step that zeroes or restores the live slot was launched. `in_flight` counts launched steps that have not landed.
    `drafted` counts the draft columns of the planned or running step, `drafts` has their slots, and `accepted` how
    many of them the model said too, None before the landing that tells it. `anchor` is the position behind the opener
    of the first tool call, 0 before it. `cuts` say what shortened the hit. `full` and `recurrent` are group names.
    """

    name: str
    serial: int
    epoch: int
    namespace: Namespace
    tokens: list[int]
    content: Mapping[int, str]
    prompt: int
    hit: int = 0
    branch: int = 0
    length: int = 0
    landed: int = 0
    columns: list[int] = field(default_factory=list)
    leases: dict[int, Entry] = field(default_factory=dict)
    live: int = NULL
    live_is_set: bool = False
    frozen: FrozenSlot | None = None
    source: Entry | None = None
    planned: Plan | None = None
    in_flight: int = 0
    keep: bool = False
    closing: bool = False
    drafted: int = 0
    drafts: list[int] = field(default_factory=list)
    accepted: int | None = None
    anchor: int = 0
    cuts: tuple[Cut, ...] = ()
    sides: dict[str, Side] = field(default_factory=dict)
    full: str = "kv"
    recurrent: str = "state"

    def identities(self, length: int) -> tuple[int | str, ...]:
        """Return what the first `length` tokens are by content: images are not their placeholder's token id."""
        return tuple(self.content.get(position, token) for position, token in enumerate(self.tokens[:length]))

    def known(self) -> int:
        """Return how many of the landed tokens have an id that the host has seen."""
        return min(self.landed, len(self.tokens))

    def table(self) -> Table:
        """Return everything that the request holds."""
        frozen = ((self.frozen.position, self.frozen.cell),) if self.frozen else ()
        source = self.source.cell if self.source else NULL
        table: Table = {self.full: Pages(tuple(self.columns))}
        table |= {name: Pages(tuple(side.cells)) for name, side in self.sides.items()}
        if self.recurrent:
            table[self.recurrent] = Slots(self.live, frozen, source, tuple(self.drafts))
        return table


@dataclass(frozen=True, slots=True)
class Flight:
    """A launched step: each request with its start and stop, and the cells that the step may touch by pool.

    `drafting` are the serials of those that speculate in it.
    """

    step: int
    spans: tuple[tuple[Request, int, int], ...]
    cells: tuple[tuple[str, int], ...]
    drafting: frozenset[int] = frozenset()
