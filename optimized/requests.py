"""What the production cache knows of one request, from its open to the landing of its last step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from milepost.optimized.declaration import KV, STATE
from milepost.optimized.explaining import Lookup
from milepost.optimized.index import Lease
from milepost.optimized.index.packing import TOKEN_BYTES
from milepost.spec.answers import Pages, Slots, Table
from milepost.spec.words import NULL


@dataclass(slots=True)
class FrozenSlot:
    """A request's immutable copy of its state at `position`."""

    position: int
    cell: int


@dataclass(slots=True)
class Plan:
    """A step over [start, stop) that has not been launched; `frozen` is what it will write on the way."""

    start: int
    stop: int
    frozen: FrozenSlot | None = None


@dataclass(slots=True, eq=False)
class Request:
    """One claim. `tokens` are packed, with the identities of contents in place of their placeholders.

    `length` counts launched tokens, `landed` those whose step has landed. The columns up to the length of the lease are
    shared, the others private. `live_is_set` is false until the step that zeroes or restores the live slot was
    launched. `in_flight` counts launched steps that have not landed.
    """

    name: str
    serial: int
    lease: Lease
    tokens: bytearray
    content: Mapping[int, str]
    lookup: Lookup
    columns: list[int]
    source: int = NULL
    length: int = 0
    landed: int = 0
    live: int = NULL
    live_is_set: bool = False
    frozen: FrozenSlot | None = None
    planned: Plan | None = None
    in_flight: int = 0
    keep: bool = False
    closing: bool = False

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
        frozen = ((self.frozen.position, self.frozen.cell),) if self.frozen else ()
        return {KV: Pages(tuple(self.columns)), STATE: Slots(self.live, frozen, self.source)}


@dataclass(slots=True)
class Flight:
    """A launched step: each request with its start and stop."""

    step: int
    spans: list[tuple[Request, int, int]] = field(default_factory=list)
