"""What the judge keeps: contents of cells, tables of requests, planned and launched steps, the epoch.

No tree, no free list, no LRU. A State is immutable from outside: `step` works on a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from milepost.spec.answers import Grant, Table
from milepost.spec.capabilities import Capabilities
from milepost.spec.payload import Content, Stream
from milepost.spec.words import Cell

Writes = dict[Cell, tuple[str, int, int]]
"""Who writes which entries: (request, first entry, last entry + 1) for a page, (request, 0, 1) for a slot."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One open request, or a closed one whose last step is still in flight.

    `length` counts launched tokens, `known` the tokens whose ids the engine has seen. `leases` are the page cells of
    its hit that it still names, `restoring` the snapshots that it has still to be restored from, `promised` cells
    that were offered before the step that writes them had run.
    """

    request: str
    stream: Stream
    prompt: int
    known: int
    length: int
    hit: int
    table: Table = field(default_factory=dict)
    cells: frozenset[Cell] = frozenset()
    leases: frozenset[Cell] = frozenset()
    restoring: frozenset[Cell] = frozenset()
    promised: frozenset[Cell] = frozenset()
    planned: Grant | None = None
    extended: bool = False
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Flight:
    """A launched step that has not landed: (start, stop) by request, and the cells that it touches.

    `writes` is the forward's, `fills` has the destinations of its queued phases, and `reads` what its kernels read.
    Both give the request that names the cell, '' where none does. `drafts` has the draft columns of each request.
    """

    step: int
    spans: dict[str, tuple[int, int]]
    writes: Writes
    fills: dict[Cell, str] = field(default_factory=dict)
    reads: dict[Cell, str] = field(default_factory=dict)
    drafts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """Everything that the judge knows after an operation.

    `suspects` are cells that an effect touched too early, with the code that a wrong read of them gets: `late-write`
    where the effect was overtaken by a step in flight, `read-before-landing` where it moved what was not there yet.
    """

    capabilities: Capabilities
    pools: dict[str, str]
    epoch: int = 0
    contents: dict[Cell, Content] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    flights: tuple[Flight, ...] = ()
    streams: tuple[tuple[str, Stream], ...] = ()
    suspects: dict[Cell, str] = field(default_factory=dict)

    def open_claims(self) -> Iterator[Claim]:
        """Yield the requests that are open."""
        return (claim for claim in self.claims.values() if not claim.closed)

    def planned(self) -> list[Claim]:
        """Return the requests with a planned extend, in the order in which they were planned."""
        return [claim for claim in self.claims.values() if claim.planned]

    def in_flight(self, request: str) -> bool:
        """Tell whether a launched step of the request has not landed."""
        return any(request in flight.spans for flight in self.flights)

    def fill(self, cell: Cell, content: Content, suspect: str = "") -> None:
        """Set what a cell holds; only `step`'s own copy of a state may be filled."""
        self.contents[cell] = content
        self.suspects.pop(cell, None)
        if suspect:
            self.suspects[cell] = suspect

    def copy(self) -> State:
        """Return a state whose dictionaries may be changed without changing this one."""
        contents, claims, suspects = dict(self.contents), dict(self.claims), dict(self.suspects)
        return State(
            self.capabilities, self.pools, self.epoch, contents, claims, self.flights, self.streams, suspects
        )


def initial(capabilities: Capabilities) -> State:
    """Return the state of a fresh cache: nothing written, nobody there."""
    return State(capabilities, {group.name: group.pool for group in capabilities.groups})
