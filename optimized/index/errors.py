"""What the index raises. Each is raised before anything has changed, except Broken, which `check()` raises."""

from __future__ import annotations


class IndexRefusal(Exception):
    """The root of all that the index raises."""


class BadTokens(IndexRefusal, ValueError):
    """Tokens that are empty, no integers, or outside int32; or a namespace that cannot be a key."""


class BadLength(IndexRefusal, ValueError):
    """Lengths that do not fit together: tokens and cells, a start or a state off its grid, a negative count."""


class BadCell(IndexRefusal, ValueError):
    """A page cell that is no integer from 0 to 2**31 - 1, or a state cell that cannot be a key."""


class NothingNew(IndexRefusal, ValueError):
    """A publish that brings neither a page beyond the lease nor a state."""


class CellInUse(IndexRefusal, ValueError):
    """A cell that the index holds already, or that was given twice in one call."""


class NotLeased(IndexRefusal, ValueError):
    """A lease that was released already, or that another index gave."""


class StaleMatch(IndexRefusal, ValueError):
    """A match that is no longer true, or another index's: `refresh` it, and look at the new one before leasing."""


class Broken(IndexRefusal, AssertionError):
    """An invariant that does not hold: a bug of the index. `invariant` names it."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


def demand(holds: object, invariant: str, detail: object = "") -> None:
    """Raise Broken unless something holds."""
    if not holds:
        raise Broken(invariant, str(detail))
