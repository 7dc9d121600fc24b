"""Which groups and sizes a profile asks for, of a cache that takes any: small pages and pools, and odd windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce

from milepost.conformance.choosers import Chooser
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.geometry import boundary_grid, columns_for
from milepost.spec.words import GroupKind

ANCHOR = ord("!")
"""The token that opens a tool call, where a configuration is chosen here."""

WINDOWS = (1, 2, 3, 4, 5, 6, 7, 9, 12)
"""Below, at and above the page sizes, most of them no multiples of any."""


def _full(page: int) -> Group:
    return Group("kv", GroupKind.FULL, "kv", page_size=page)


def _window(page: int, window: int) -> Group:
    return Group("window", GroupKind.WINDOW, "window", page_size=page, window=window)


def _compressed(name: str, page: int, ratio: int) -> Group:
    return Group(name, GroupKind.COMPRESSED, name, page_size=page, ratio=ratio)


STATE = Group("state", GroupKind.RECURRENT, "state")


def paged(chooser: Chooser) -> Configuration:
    """Choose sizes for one full group."""
    return _sized(chooser, (_full(chooser.choose((4, 2, 1))),), 0)


def windowed(chooser: Chooser, recurrent: bool) -> Configuration:
    """Choose sizes for a full group, a window, and perhaps a recurrent group; two in three speculate."""
    full = _full(chooser.choose((4, 4, 2, 1)))
    window = _window(chooser.choose((4, 2, 2, 1)), chooser.choose(WINDOWS))
    groups = (full, window, STATE) if recurrent else (full, window)
    return _sized(chooser, groups, chooser.choose((0, 2, 3)))


def compressed(chooser: Chooser) -> Configuration:
    """Choose sizes for all four kinds, with two compressed groups of different ratios; two in three speculate."""
    full = _full(chooser.choose((4, 2, 1)))
    window = _window(chooser.choose((4, 2)), chooser.choose(WINDOWS))
    fine = _compressed("compressed", chooser.choose((2, 4)), 2)
    coarse = _compressed("coarse", chooser.choose((4, 8)), 4)
    return _sized(chooser, (full, fine, coarse, window, STATE), chooser.choose((0, 2, 3)))


def _sized(chooser: Chooser, groups: tuple[Group, ...], speculates: int) -> Configuration:
    """Choose pools in which a few prompts of some boundaries fit; one in six has one pool for all pages."""
    chunk = chooser.choose((8, 4))
    pages = [group.page_size for group in groups if group.kind.paged]
    boundary = reduce(boundary_grid, pages, chunk)
    tokens = boundary * chooser.integer(3, 8)
    pools = {group.pool: _pages(chooser, group, tokens) for group in groups if group.kind.paged}
    pools["state"] = slots = chooser.integer(3, 8) + speculates
    if len(pages) > 1 and chooser.chance(1, 6):
        groups = tuple(replace(group, pool="kv") if group.kind.paged else group for group in groups)
        pools = {"kv": sum(pools.values()) - slots, "state": slots}
    max_live = chooser.integer(2, 6) if chooser.chance(1, 2) else slots
    return Configuration(pages[0], chunk, pools, max_live, ANCHOR, groups, speculates)


def _pages(chooser: Chooser, group: Group, tokens: int) -> int:
    """Choose the pages of one group's pool: for all tokens, or of a window for fewer, but never for less than one."""
    pages = columns_for(group.page_size, tokens) + chooser.integer(-1, 1)
    if group.kind is GroupKind.COMPRESSED:
        return max(1, chooser.choose((pages, pages * 3 // 4)))
    if group.kind is not GroupKind.WINDOW:
        return max(1, pages)
    spanned = columns_for(group.page_size, group.window - 1) + 1
    return max(spanned, chooser.choose((pages, pages // 2, 2 * spanned, 2 * spanned)))


LAYOUTS: dict[str, Callable[[Chooser], Configuration]] = {
    "paged": paged,
    "paged-window": partial(windowed, recurrent=False),
    "hybrid-window": partial(windowed, recurrent=True),
    "hybrid-compressed": compressed,
}
"""By profile; `hybrid` asks for nothing, since it is what the reference has by itself."""

_NEAR = _window(2, 6)
FIRST: dict[str, Configuration] = {
    "paged": Configuration(anchor=ANCHOR, groups=(_full(4),)),
    "paged-window": Configuration(
        4, 8, {"kv": 12, "window": 12, "state": 8}, 4, ANCHOR, (_full(4), _NEAR), speculates=3
    ),
    "hybrid-window": Configuration(
        4, 8, {"kv": 12, "window": 12, "state": 8}, 4, ANCHOR, (_full(4), _NEAR, STATE), speculates=3
    ),
    "hybrid-compressed": Configuration(
        4, 8, {"kv": 12, "compressed": 12, "coarse": 6, "window": 12, "state": 8}, 4, ANCHOR,
        (_full(4), _compressed("compressed", 4, 2), _compressed("coarse", 8, 4), _NEAR, STATE), speculates=3,
    ),
}
"""The configuration in which a cache is asked what it can do, by profile."""
