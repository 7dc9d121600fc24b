"""What the judge keeps: contents of cells, tables of requests, planned and launched steps, the epoch.

No tree, no free list, no LRU. A State is immutable from outside: `step` works on a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from milepost.spec.answers import Grant, Table
from milepost.spec.capabilities import Capabilities
from milepost.spec.payload import Content, Stream
from milepost.spec.words import Cell


@dataclass(frozen=True, slots=True)
class Claim:
    """One open request, or a closed one whose last step is still in flight.

    `length` counts launched tokens, `known` the tokens whose ids the engine has seen. `leases` are the page cells of
    its hit that it still names, `restoring` the snapshots that its first step will read, `promised` cells that were
    offered before the step that writes them had run.
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
    """A launched step that has not landed: (start, stop) by request, which entries it writes, which cells it reads.

    `writes` has (request, first entry, last entry + 1) for a page and (request, 0, 1) for a slot.
    """

    step: int
    spans: dict[str, tuple[int, int]]
    writes: dict[Cell, tuple[str, int, int]]
    reads: frozenset[Cell] = frozenset()


@dataclass(frozen=True, slots=True)
class State:
    """Everything that the judge knows after an operation.

    `overtaken` are cells whose last writer was overtaken by an effect outside the queue, `unlanded_copies` cells that
    such an effect filled from memory that a step in flight had still to write.
    """

    capabilities: Capabilities
    pools: dict[str, str]
    epoch: int = 0
    contents: dict[Cell, Content] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    flights: tuple[Flight, ...] = ()
    streams: tuple[tuple[str, Stream], ...] = ()
    overtaken: frozenset[Cell] = frozenset()
    unlanded_copies: frozenset[Cell] = frozenset()

    def open_claims(self) -> Iterator[Claim]:
        """Yield the requests that are open."""
        return (claim for claim in self.claims.values() if not claim.closed)

    def planned(self) -> list[Claim]:
        """Return the requests with a planned extend, in the order in which they were planned."""
        return [claim for claim in self.claims.values() if claim.planned]

    def in_flight(self, request: str) -> bool:
        """Tell whether a launched step of the request has not landed."""
        return any(request in flight.spans for flight in self.flights)

    def copy(self) -> State:
        """Return a state whose dictionaries may be changed without changing this one."""
        return replace(self, contents=dict(self.contents), claims=dict(self.claims))


def initial(capabilities: Capabilities) -> State:
    """Return the state of a fresh cache: nothing written, nobody there."""
    return State(capabilities, {group.name: group.pool for group in capabilities.groups})
