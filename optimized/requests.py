"""What the production cache knows of one request, from its open to the landing of its last step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from milepost.optimized.explaining import Lookup
from milepost.optimized.index import Lease
from milepost.optimized.index.packing import TOKEN_BYTES
from milepost.spec.answers import Pages, Slots, Table
from milepost.spec.layout import Layout
from milepost.spec.words import NULL


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


@dataclass(slots=True)
class Columns:
    """A request's pages of a side group: a cell for each column, NULL where none is held; none is before `first`."""

    cells: list[int] = field(default_factory=list)
    first: int = 0


@dataclass(slots=True, eq=False)
class Request:
    """One claim. `tokens` are packed, with the identities of contents in place of their placeholders.

    `length` counts launched tokens, `landed` those whose step has landed. The columns up to the length of the lease are
    shared, the others private. `live_is_set` is false until the step that zeroes or restores the live slot was
    launched. `starts` are where the launched steps begin that have not landed. `drafts` are the slots of the planned or
    running step's draft columns, which are `drafted` many. `anchor` is the position behind the opener of the first tool
    call, 0 before it. `last_content` is the last position that has a content. `blocked` is true where the last publish
    was stopped by a duplicate, since a step in flight used the request's own page.
    """

    name: str
    serial: int
    layout: Layout
    lease: Lease
    tokens: bytearray
    content: Mapping[int, str]
    lookup: Lookup
    columns: list[int]
    sides: dict[str, Columns] = field(default_factory=dict)
    source: int = NULL
    length: int = 0
    landed: int = 0
    live: int = NULL
    live_is_set: bool = False
    frozen: FrozenSlot | None = None
    planned: Plan | None = None
    starts: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    drafted: int = 0
    anchor: int = 0
    last_content: int = -1
    blocked: bool = False
    keep: bool = False
    closing: bool = False

    @property
    def later_content(self) -> Mapping[int, str]:
        """The contents behind the tokens that are known: hardly ever any, since placeholders stand in prompts."""
        return self.content if self.last_content >= len(self.tokens) // TOKEN_BYTES else {}

    @property
    def in_flight(self) -> int:
        """How many launched steps have not landed."""
        return len(self.starts)

    @property
    def publishable(self) -> int:
        """Tokens that others may read: landed, with ids that the host has seen; none of one from before a reset."""
        return 0 if self.lease.stale else min(self.landed, len(self.tokens) // TOKEN_BYTES)

    @property
    def restores(self) -> bool:
        """The next launch copies its snapshot into its live slot."""
        return self.source != NULL and not self.live_is_set

    def run(self, start: int, stop: int) -> bytes:
        """Return the packed tokens [start, stop)."""
        return bytes(self.tokens[start * TOKEN_BYTES : stop * TOKEN_BYTES])

    def table(self) -> Table:
        """Return everything that the request holds."""
        table: Table = {self.layout.full.name: Pages(tuple(self.columns))}
        for name, side in self.sides.items():
            table[name] = Pages(tuple(side.cells))
        if self.layout.recurrent:
            frozen = ((self.frozen.position, self.frozen.cell),) if self.frozen else ()
            table[self.layout.recurrent.name] = Slots(self.live, frozen, self.source, tuple(self.drafts))
        return table


@dataclass(slots=True)
class Flight:
    """A launched step: each request with its start and stop; `drafting` are the serials of those that speculate."""

    step: int
    spans: list[tuple[Request, int, int]] = field(default_factory=list)
    drafting: set[int] = field(default_factory=set)
