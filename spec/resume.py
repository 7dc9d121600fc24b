"""When may a prefix resume: the one rule, for all kinds of group and any set of groups.

For a request with tokens t and a cached path that shares its first m tokens, resume at n is legal iff
n <= min(m, len(t) - 1) and every group has at n, by content, what `NEEDS` says. 0 is always legal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from milepost.spec.words import GroupKind


@dataclass(frozen=True, slots=True)
class Need:
    """What a kind of group needs to resume at n, and why."""

    first_entry: Callable[[int, int], int]
    snapshot: bool
    reason: str


NEEDS: dict[GroupKind, Need] = {
    GroupKind.FULL: Need(lambda n, window: 0, False, "entries are per token: any endpoint will do"),
    GroupKind.WINDOW: Need(
        lambda n, window: n - window + 1,
        False,
        "the window counts the query's own token; older entries are never read again",
    ),
    GroupKind.RECURRENT: Need(
        lambda n, window: n, True, "the state after n tokens cannot be cut out of a later one"
    ),
    GroupKind.COMPRESSED: Need(lambda n, window: 0, False, "a half-filled group of `ratio` tokens has no entry yet"),
}


def first_needed(kind: GroupKind, n: int, window: int) -> int:
    """Return the position of the first entry that a group of `kind` needs to resume at n: entries [first, n)."""
    first = NEEDS[kind].first_entry(n, window)
    return first if first > 0 else 0


def aligned(kind: GroupKind, n: int, ratio: int) -> bool:
    """Tell whether a group of `kind` can end at n at all: a compressed group ends at multiples of its ratio."""
    return kind is not GroupKind.COMPRESSED or n % ratio == 0


def longest_possible(prompt_length: int, shared_length: int) -> int:
    """Return min(m, len(t) - 1): the last prompt token is always computed, it gives the first logits."""
    return min(shared_length, prompt_length - 1)


def deepest(limit: int, offers: Iterable[Callable[[int], bool]]) -> int:
    """Return the deepest n <= limit at which every offer holds: the joint hit, never a maximum over groups."""
    checks = tuple(offers)
    for n in range(limit, 0, -1):
        if all(check(n) for check in checks):
            return n
    return 0


class Cut(NamedTuple):
    """One offer that shortened a hit, and from which length to which."""

    name: str
    before: int
    after: int


def joint(limit: int, offers: Mapping[str, Callable[[int], bool]]) -> tuple[int, tuple[Cut, ...]]:
    """Return the deepest n <= limit at which every offer holds, and who cut the hit on the way there.

    A fixed point that only shrinks: each offer in turn lets the length fall to the deepest that it holds at, until a
    whole round changes nothing. It is `deepest`, with reasons.
    """
    n, cuts, calm = limit, [], False
    while not calm:
        calm = True
        for name, offer in offers.items():
            at = deepest(n, (offer,))
            if at < n:
                cuts.append(Cut(name, n, at))
                n, calm = at, False
    return n, tuple(cuts)
