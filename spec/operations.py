"""The verbs of the seam, as a schedule says them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from milepost.spec.words import Namespace


@dataclass(frozen=True, slots=True)
class Open:
    """Look up the longest prefix that the engine will reuse, and lease it.

    `tokens` are what the engine sees now, `samples` what the model will say; `content` gives a placeholder position
    an identity that is not its token id.
    """

    verb: ClassVar[str] = "open"
    request: str
    tokens: tuple[int, ...]
    samples: tuple[int, ...] = ()
    namespace: Namespace = ()
    content: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Extend:
    """Plan tokens [length, to) for the next step, with `draft` speculated columns behind them."""

    verb: ClassVar[str] = "extend"
    request: str
    to: int
    draft: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """Start all planned extends as one step."""

    verb: ClassVar[str] = "launch"


@dataclass(frozen=True, slots=True)
class Land:
    """The results of a step are known to the host; the oldest step in flight where `step` is None."""

    verb: ClassVar[str] = "land"
    step: int | None = None
    accepted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Freeze:
    """Snapshot at the current length, where the engine lets its caller ask."""

    verb: ClassVar[str] = "freeze"
    request: str


@dataclass(frozen=True, slots=True)
class Publish:
    """Offer what is computed."""

    verb: ClassVar[str] = "publish"
    request: str


@dataclass(frozen=True, slots=True)
class Preempt:
    """Give up all cells and keep the tokens; the same id opens again with all its tokens so far."""

    verb: ClassVar[str] = "preempt"
    request: str


@dataclass(frozen=True, slots=True)
class Close:
    """End a request; `keep` allows publishing what is left and does not demand it."""

    verb: ClassVar[str] = "close"
    request: str
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget everything published."""

    verb: ClassVar[str] = "reset"


@dataclass(frozen=True, slots=True)
class Evict:
    """Give up `cells` unleased cells of a group; the engine may give up more or fewer."""

    verb: ClassVar[str] = "evict"
    group: str
    cells: int = 1


@dataclass(frozen=True, slots=True)
class Drain:
    """Close all, reset, and fill as on a fresh instance: the harness expands it and compares the two fillings."""

    verb: ClassVar[str] = "drain"


Operation = Open | Extend | Launch | Land | Freeze | Publish | Preempt | Close | Reset | Evict | Drain

OPERATIONS: dict[str, type[Operation]] = {
    kind.verb: kind
    for kind in (Open, Extend, Launch, Land, Freeze, Publish, Preempt, Close, Reset, Evict, Drain)
}

RESERVED: tuple[str, ...] = ("offload", "load", "move")
"""Verbs that version 1 refuses by name: host tiers and transfers between engines."""
