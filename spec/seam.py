"""The seam as Python methods: what a cache implements to be judged.

`make(configuration)` builds one. An operation that the capabilities do not offer is never called. A method may raise:
after the handshake that is the engine's fault (`crash`). The harness plays the model runner: it decides what is
called when, and an adapter never launches or lands by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from milepost.spec.answers import Evicted, Frozen, Grant, Hit, Landing, Launched, Refused, ResetDone
from milepost.spec.capabilities import Capabilities
from milepost.spec.payload import Content
from milepost.spec.words import Cell, Namespace


class Adapter(Protocol):
    """One cache under judgement; `capabilities` are declared once and verified."""

    @property
    def capabilities(self) -> Capabilities:
        """What this cache is and can do; constant."""

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        """Look up the longest prefix that the engine will reuse, and lease it."""

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        """Plan tokens [length, to) for the next step; granting fewer is legal, granting none is a refusal."""

    def launch(self) -> Launched:
        """Start all planned extends as one step."""

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        """Make the step's results known to the host; `sampled` are the token ids that it learns by that."""

    def freeze(self, request: str) -> Frozen | Refused:
        """Snapshot the state at the request's current length."""

    def publish(self, request: str) -> Landing | Refused:
        """Offer what is computed to later requests."""

    def preempt(self, request: str) -> Landing:
        """Give up all cells of the request."""

    def close(self, request: str, keep: bool) -> Landing:
        """End the request; `keep` allows publishing what is left."""

    def reset(self) -> ResetDone:
        """Forget everything published, or refuse."""

    def evict(self, group: str, cells: int) -> Evicted:
        """Give up about that many unleased cells of a group."""


@dataclass(frozen=True, slots=True)
class Holding:
    """One cell in an inventory: its ownership state, owner ('' for nobody), endpoint in tokens, and leases."""

    state: str
    owner: str = ""
    endpoint: int = 0
    leases: int = 0


@runtime_checkable
class Inventoried(Protocol):
    """An adapter that can report its ownership states; checked against the tables after every operation."""

    def inventory(self) -> dict[Cell, Holding]:
        """Return every usable cell, free ones too."""


@runtime_checkable
class Accounted(Protocol):
    """An adapter that can count."""

    def account(self) -> dict[str, dict[str, int]]:
        """Return cells by pool and by `free`, `private`, `evictable`, `protected`; they add up to the pool."""


@runtime_checkable
class Remembered(Protocol):
    """An adapter whose engine memory can be reached, for groups that declare `executes="engine"`."""

    def read(self, cell: Cell, group: str) -> Content:
        """Return the payload that the engine's memory holds, or GARBAGE where layers or parts disagree."""

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write a payload as the model's forward would: a state whole, a page's entries where they are not None."""
