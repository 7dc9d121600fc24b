"""Profiles: a set of group kinds, and the least evidence without which a run of such a cache proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from milepost.spec.capabilities import Capabilities
from milepost.spec.geometry import boundary_grid
from milepost.spec.words import GroupKind

ENOUGH = 50
"""More occurrences than this are not asked for, however long the run: what is rare in one engine is still evidence."""


def _always(capabilities: Capabilities) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Minimum:
    """At least one of a mark for every `every` operations up to `ENOUGH`, and never fewer than `least`.

    It is wanted only of a cache that `offers` what the mark needs.
    """

    mark: str
    every: int
    least: int = 0
    offers: Callable[[Capabilities], bool] = _always

    def wanted(self, operations: int) -> int:
        """Return the least count of a run with so many operations."""
        return max(self.least, min(ENOUGH, operations // self.every))


@dataclass(frozen=True, slots=True)
class Profile:
    """A named set of group kinds with its evidence minimums."""

    name: str
    kinds: frozenset[GroupKind]
    minimums: tuple[Minimum, ...]

    def wanted(self, capabilities: Capabilities, operations: int) -> dict[str, int]:
        """Return the least count of each mark that is wanted of this cache after so many operations."""
        wanted = {one.mark: one.wanted(operations) for one in self.minimums if one.offers(capabilities)}
        return {mark: least for mark, least in wanted.items() if least}


def missing(
    profile: Profile, capabilities: Capabilities, marks: Counter[str], operations: int
) -> list[tuple[str, int, int]]:
    """Return (mark, got, wanted) for each mark of which there is too little evidence."""
    wanted = profile.wanted(capabilities, operations)
    return [(mark, marks[mark], least) for mark, least in wanted.items() if marks[mark] < least]


_PAGED: tuple[Minimum, ...] = (
    Minimum("hits", 500, 1),
    Minimum("deep-hits", 2000),
    Minimum("hits-after-pressure", 800, 1),
    Minimum("re-granted-cells", 50, 1),
    Minimum("duplicates", 400),
    Minimum("decode-steps", 200, 1),
    Minimum("refused-then-continued", 2000),
    Minimum("closes-kept", 100, 1),
    Minimum("unaligned-ends", 100, 0, lambda one: boundary_grid(one.page_size, one.chunk_size) > 1),
    Minimum("batched-steps", 800, 1, lambda one: one.batched_steps),
    Minimum("opens-in-flight", 200, 1, lambda one: one.overlap > 0),
    Minimum("overlapped-steps", 200, 1, lambda one: one.overlap > 0),
    Minimum("aborts", 400, 1, lambda one: one.aborts),
    Minimum("landings-after-aborts", 400, 1, lambda one: one.aborts),
    Minimum("grants-after-abort", 1000, 0, lambda one: one.aborts),
    Minimum("dropped-plans", 2000, 0, lambda one: bool(one.drops_planned) and one.batched_steps),
    Minimum("publishes", 400, 1, lambda one: one.explicit_publish),
    Minimum("evictions", 2000, 1, lambda one: one.evicts),
    Minimum("preemptions", 1000, 1, lambda one: one.preempts),
    Minimum("reopened-after-preempt", 2000, 0, lambda one: one.preempts),
    Minimum("resets", 1000, 1, lambda one: one.resets == "always"),
    Minimum("reset-with-open-requests", 2000, 0, lambda one: one.resets == "always"),
    Minimum("drains-compared", 1000, 1, lambda one: one.resets != "never"),
    Minimum("namespaces-separated", 1500, 0, lambda one: bool(one.namespaces)),
    Minimum("contents-separated", 8000, 0, lambda one: one.contents),
)

_HYBRID: tuple[Minimum, ...] = (
    Minimum("restores", 600, 1),
    Minimum("hits-inside-longer-kv", 1500),
    Minimum("frozen-inside", 1000, 1, lambda one: one.mid_prefill_freeze),
    Minimum("explicit-freezes", 1500, 1, lambda one: one.explicit_freeze),
    Minimum("anchors", 2000, 0, lambda one: one.anchor),
)

_DRAFTS: tuple[Minimum, ...] = (
    Minimum("drafts-rejected", 300, 1, lambda one: one.speculates > 0),
    Minimum("drafts-accepted", 600, 1, lambda one: one.speculates > 0),
    Minimum("drafts-accepted-in-part", 600, 1, lambda one: one.speculates > 1),
    Minimum("boundaries-inside-drafts", 600, 1, lambda one: one.speculates > 0),
)

_WINDOW: tuple[Minimum, ...] = (
    Minimum("window-hits", 600, 1),
    Minimum("slid-out-pages", 200, 1),
    Minimum("revived-pages", 600, 1),
    Minimum("hits-beside-tombstones", 1500),
    Minimum("window-cuts", 2000, 0, lambda one: any(group.kind is GroupKind.FULL for group in one.groups)),
)

_COMPRESSED: tuple[Minimum, ...] = (Minimum("compressed-hits", 600, 1),)

PROFILES: dict[str, Profile] = {
    "paged": Profile("paged", frozenset({GroupKind.FULL}), _PAGED),
    "hybrid": Profile("hybrid", frozenset({GroupKind.FULL, GroupKind.RECURRENT}), (*_PAGED, *_HYBRID, *_DRAFTS)),
    "paged-window": Profile(
        "paged-window", frozenset({GroupKind.FULL, GroupKind.WINDOW}), (*_PAGED, *_WINDOW, *_DRAFTS)
    ),
    "window-compressed": Profile(
        "window-compressed",
        frozenset({GroupKind.WINDOW, GroupKind.COMPRESSED}),
        (*_PAGED, *_WINDOW, *_COMPRESSED, *_DRAFTS),
    ),
    "hybrid-window": Profile(
        "hybrid-window",
        frozenset({GroupKind.FULL, GroupKind.RECURRENT, GroupKind.WINDOW}),
        (*_PAGED, *_HYBRID, *_WINDOW, *_DRAFTS),
    ),
    "hybrid-compressed": Profile(
        "hybrid-compressed", frozenset(GroupKind), (*_PAGED, *_HYBRID, *_WINDOW, *_COMPRESSED, *_DRAFTS)
    ),
}
"""The profiles of this version."""
