"""What the index answers. Lengths are in tokens; page cells are small integers, state cells anything hashable."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from milepost.spec.words import GroupKind

FULL, RECURRENT = GroupKind.FULL, GroupKind.RECURRENT

GivenUp = list[tuple[str, Hashable]]
"""Cells that the index no longer holds, in the order in which they were given up, each with its group.

A group is named `FULL`, `RECURRENT`, or as the side group was when the index was built.
"""


class Reason:
    """Why a group did not offer more. The names are stable."""

    COMPLETE = "complete"
    """It offers all that the prompt could use."""
    CAPPED = "capped"
    """There is more, and the caller's cap or the rule that the last token is computed hides it."""
    EVICTED = "evicted"
    """More was there: its keys are remembered, its pages are gone."""
    DIVERGED = "diverged"
    """Others share the prefix up to here and go on differently."""
    UNSEEN = "unseen"
    """Nobody has published beyond this point."""
    NO_SNAPSHOT = "no-snapshot"
    """The pages reach further, and no state stands at a boundary there."""
    NO_WINDOW = "no-window"
    """The pages reach further, and before each boundary there a page of the window is missing."""
    NO_ENTRIES = "no-entries"
    """The pages reach further, and the compressed group's own do not."""


@dataclass(slots=True)
class Published:
    """What became of a publish. `length` is how far the lease now reaches.

    `repointed` has the column and the published page that now serves it, `duplicates` the caller's own pages that
    are thereby free. `donated` has the lengths at which a state was taken; `refused` says of the others why not:
    `taken` where the entry has one, `no-page` where no published page ends there. Refused states stay the caller's.
    `blocked` is true where a duplicate stopped the publish because of `adopt=False`.
    """

    length: int
    repointed: dict[int, int] = field(default_factory=dict)
    duplicates: list[int] = field(default_factory=list)
    donated: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    blocked: bool = False


@dataclass(slots=True)
class SidePublished:
    """What became of a side group's pages: the columns that are matchable now, and those that had a page already.

    The caller's own pages of `repointed` columns are duplicates, and free. `blocked` is true where a duplicate in use
    stopped a compressed group's.
    """

    inserted: list[int] = field(default_factory=list)
    repointed: dict[int, int] = field(default_factory=dict)
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class SideHit:
    """A side group's part of a hit: the cells (int32) of its columns from `first` on; none before are needed."""

    first: int
    cells: np.ndarray


@dataclass(frozen=True, slots=True)
class Holding:
    """One cell that the index holds: the length whose end it stands at, its leases, and whether a reset forgot it."""

    length: int
    leases: int
    forgotten: bool = False


@dataclass(frozen=True, slots=True)
class PagesStored:
    """Pages became matchable: `tokens` are theirs alone (int32), `parent` is the page cell before the first one."""

    namespace: Hashable
    start: int
    tokens: bytes
    cells: tuple[int, ...]
    parent: int | None


@dataclass(frozen=True, slots=True)
class StateStored:
    """A state of exactly `length` tokens became matchable, at the end of the page `page`."""

    namespace: Hashable
    length: int
    cell: Hashable
    page: int


@dataclass(frozen=True, slots=True)
class SideStored:
    """A side group's page became matchable: the first `length` tokens of the path whose full page there is `page`."""

    namespace: Hashable
    group: str
    length: int
    cell: int
    page: int


@dataclass(frozen=True, slots=True)
class Removed:
    """A cell is no longer matchable."""

    kind: str
    cell: Hashable


@dataclass(frozen=True, slots=True)
class Cleared:
    """A reset: nothing is matchable."""


Event = PagesStored | StateStored | SideStored | Removed | Cleared
