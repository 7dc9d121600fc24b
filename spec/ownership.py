"""Who owns a slot or a page, as data: states, rows, and guards that Python values and solver terms can both fill.

A guard compares two named facts (or a fact and a number). `holds` interprets it with whatever the facts are: the
reference passes integers, a proof passes terms, a white-box check passes an engine's own inventory.
Rows marked `own_rule` bind Milepost's own caches; strangers are held to the laws (see `laws`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class SlotState(StrEnum):
    """The state of a slot: empty, or one of the six kinds of occupant."""

    FREE = "free"
    LIVE = "live"
    FROZEN = "frozen"
    DONATED = "donated"
    PROTECTED = "protected"
    EVICTED = "evicted"
    DRAFT = "draft"


class PageState(StrEnum):
    """The state of a page."""

    FREE = "free"
    PRIVATE = "private"
    SHARED = "shared"
    EVICTED = "evicted"
    TOMBSTONE = "tombstone"


RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "<=": operator.le,
    "<": operator.lt,
    "divides": lambda divisor, value: value % divisor == 0,
}


@dataclass(frozen=True, slots=True)
class Guard:
    """`left relation right`: the names of two facts, or of a fact and a number."""

    left: str | int
    relation: str
    right: str | int

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


@dataclass(frozen=True, slots=True)
class Row:
    """One transition: from `before` to `after`, allowed when every guard holds."""

    name: str
    before: str
    after: str
    guards: tuple[Guard, ...]
    meaning: str
    own_rule: bool = False


class Violation(ValueError):
    """A transition that the table does not allow; `guard` is None where no row leads from the state."""

    def __init__(self, row: str, state: str, guard: Guard | None) -> None:
        reason = f"guard '{guard}' does not hold" if guard else f"no such row from state '{state}'"
        super().__init__(f"{row} from {state}: {reason}")
        self.row, self.state, self.guard = row, state, guard


def holds(guard: Guard, facts: Mapping[str, Any]) -> Any:
    """Interpret one guard over facts; the result is a bool for integers and a term for terms."""
    left = facts[guard.left] if isinstance(guard.left, str) else guard.left
    right = facts[guard.right] if isinstance(guard.right, str) else guard.right
    return RELATIONS[guard.relation](left, right)


def transition(rows: tuple[Row, ...], name: str, state: str, facts: Mapping[str, int]) -> str:
    """Return the state after row `name`; raise Violation, naming the guard, where the table forbids it."""
    failed: Guard | None = None
    for row in rows:
        if row.name == name and row.before == state:
            failed = next((guard for guard in row.guards if not holds(guard, facts)), None)
            if failed is None:
                return row.after
    raise Violation(name, state, failed)


def edges(rows: tuple[Row, ...]) -> frozenset[tuple[str, str]]:
    """Return all (before, after) pairs of a table, for readers that only see states and not their reasons."""
    return frozenset((row.before, row.after) for row in rows)


_OWNER = Guard("request", "==", "owner")
_LANDED = Guard("in_flight", "==", 0)
_AT_LAST = (Guard("closing", "==", 1), Guard("grid", "divides", "endpoint"))
_WHOLE = (Guard("filled", "==", "page_size"), _LANDED)
_WITHIN_STEP = (
    Guard("step_start", "<=", "position"), Guard("position", "<=", "step_end"), Guard("endpoint", "==", "position")
)
_AT_ENTRY = (Guard("endpoint", "==", "depth"), Guard("same_prefix", "==", 1), Guard("entry_occupied", "==", 0))

SLOT_ROWS: tuple[Row, ...] = (
    Row("admit", "free", "live", (Guard("endpoint", "==", 0),), "cold start: content zero, length 0"),
    Row("restore", "free", "live", (Guard(1, "<=", "source_leases"), Guard("endpoint", "==", "source_endpoint")),
        "content and length copied from a snapshot that this request protects; the source is unchanged"),
    Row("advance", "live", "live", (_OWNER, Guard("endpoint", "<", "new_endpoint")), "the owner's forward"),
    Row("freeze", "free", "frozen", (Guard("grid", "divides", "position"), *_WITHIN_STEP),
        "an immutable copy of the state at that position, not at the end of the step"),
    Row("supersede", "frozen", "free", (_OWNER, _LANDED), "a later freeze of the same request replaces it", True),
    Row("donate", "frozen", "donated", (_OWNER, *_AT_ENTRY), "given to the entry of the depth that it encodes"),
    Row("donate final", "live", "donated", (_OWNER, *_AT_LAST, *_AT_ENTRY),
        "the last live state of a request that closes, if its length is a boundary"),
    Row("return", "live", "free", (_OWNER, _LANDED),
        "close, abort, preempt, unaligned end: nothing shorter is claimed", True),
    Row("return", "frozen", "free", (_OWNER, _LANDED), "close, abort, preempt, duplicate donation", True),
    Row("protect", "donated", "protected", (Guard("leases", "==", 0),), "a hit ends here"),
    Row("protect", "protected", "protected", (Guard(1, "<=", "leases"),), "another hit ends here"),
    Row("release", "protected", "protected", (Guard(2, "<=", "leases"),), "once for each lease"),
    Row("release", "protected", "donated", (Guard("leases", "==", 1),), "the last lease ends"),
    Row("evict", "donated", "evicted", (Guard("leases", "==", 0),), "KV pages may stay: a tombstone"),
    Row("reclaim", "evicted", "free", (_LANDED,), "no step in flight can touch it", True),
    Row("speculate", "free", "draft", (), "one column for each draft token"),
    Row("accept", "draft", "live", (_OWNER, Guard("endpoint", "==", "accepted_length"), _LANDED),
        "live at its own length, once the step that wrote it has landed"),
    Row("reject", "draft", "free", (_OWNER, _LANDED), "a rejected column never becomes live", True),
)

PAGE_ROWS: tuple[Row, ...] = (
    Row("allocate", "free", "private", (), "room for tokens to be computed"),
    Row("publish", "private", "shared", (_OWNER, *_WHOLE, *_AT_ENTRY[1:]),
        "whole pages only, and only what has landed", True),
    Row("return", "private", "free", (_OWNER, _LANDED), "close, preempt, duplicate", True),
    Row("lease", "shared", "shared", (Guard(0, "<=", "leases"),), "a reader comes"),
    Row("release", "shared", "shared", (Guard(1, "<=", "leases"),), "a reader goes"),
    Row("evict", "shared", "evicted", (Guard("leases", "==", 0), Guard("dependents", "==", 0)), "nothing needs it"),
    Row("reclaim", "evicted", "free", (_LANDED,), "no step in flight can touch it", True),
    Row("slide out", "shared", "tombstone", (Guard("leases", "==", 0),), "window only: full KV stays"),
    Row("revive", "tombstone", "shared", (*_WHOLE, Guard("leases", "==", 0)),
        "window only: all of it was computed again by a request with that prefix", True),
    Row("evict", "tombstone", "evicted", (), "window only: the cell is needed elsewhere; full KV stays"),
)
