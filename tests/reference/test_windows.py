"""Windows and compressed groups in the reference: what slides out, what stays, what a hit needs, what cuts it."""

from __future__ import annotations

import pytest

from milepost.conformance.layouts import FIRST
from milepost.reference.cache import ReferenceCache, make
from milepost.spec.answers import Grant, Hit, Pages, Refused
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.resume import Cut, first_needed
from milepost.spec.words import NULL, GroupKind

from .player import Player, inconsistencies

KV = Group("kv", GroupKind.FULL, "kv", page_size=4)
STATE = Group("state", GroupKind.RECURRENT, "state")
TEXT = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"


def windowed(page: int, window: int, cells: int = 24, recurrent: bool = True) -> Player:
    """A hand that plays a cache with one window; its boundaries are 8 tokens apart, or a page without states."""
    groups = (KV, Group("near", GroupKind.WINDOW, "near", page_size=page, window=window))
    pools = {"kv": 24, "near": cells, "state": 8}
    sizes = Configuration(4, 8, pools, 4, ord("!"), (*groups, STATE) if recurrent else groups, 3)
    return Player(make(sizes))


def near(cache: ReferenceCache, name: str) -> list[int]:
    """Return which columns of the window a request holds."""
    return [column for column, cell in enumerate(cache.requests[name].sides["near"].cells) if cell != NULL]


def published(cache: ReferenceCache, group: str = "near") -> list[int]:
    """Return the ends of a side group's published pages."""
    return sorted(entry.depth for entry in cache.pages.values() if entry.group == group)


@pytest.mark.parametrize(("page", "window"), [(2, 1), (2, 2), (2, 3), (4, 2), (4, 3), (4, 4), (4, 5), (2, 7), (1, 6)])
def test_only_the_last_tokens_before_the_next_are_held(page: int, window: int) -> None:
    player = windowed(page, window, recurrent=False)
    player.open("r1", TEXT[:9], TEXT[9:30])
    for length in range(9, 30):
        player.run("r1", length)
        first = first_needed(GroupKind.WINDOW, length, window) // page
        assert near(player.cache, "r1") == list(range(first, -(-length // page)))
        assert not inconsistencies(player.cache)


def test_a_page_that_slides_out_is_granted_again() -> None:
    player = windowed(2, 4, cells=6)
    player.open("r1", TEXT[:40])
    for length in range(4, 41, 4):
        assert isinstance(player.run("r1", length), Grant)
    counts = player.cache.account()["near"]
    assert counts["free"] + counts["evictable"] >= 2


def test_a_step_goes_no_further_than_the_window_s_pool() -> None:
    player = windowed(2, 4, cells=6)
    player.open("r1", TEXT[:40])
    grant = player.run("r1", 40)
    assert isinstance(grant, Grant) and grant.length == 12


def test_what_a_request_shares_is_never_freed_by_sliding() -> None:
    player = windowed(2, 4)
    player.open("r1", TEXT[:24])
    player.run("r1", 8)
    player.cache.publish("r1")
    assert published(player.cache) == [6, 8]  # what lay before had slid out
    player.run("r1", 24)
    assert published(player.cache)[:2] == [6, 8]


def test_full_pages_are_leased_as_a_path_and_window_pages_at_their_end() -> None:
    player = windowed(2, 6)
    player.whole("r1", TEXT[:17])
    hit = player.open("r2", TEXT[:17])
    assert hit.length == 16
    claim = player.cache.requests["r2"]
    assert sorted(claim.leases) == [0, 1, 2, 3]
    assert sorted(claim.sides["near"].leases) == near(player.cache, "r2") == [5, 6, 7]
    assert sum(one.leases for cell, one in player.cache.inventory().items() if cell[0] == "near") == 3


def test_the_window_at_the_end_of_a_prompt_stays_when_it_slides_out() -> None:
    player = windowed(2, 6)
    player.open("r1", TEXT[:17], TEXT[17:40])
    for length in range(17, 40):
        player.run("r1", length)
    assert {12, 14, 16} <= set(published(player.cache))
    player.cache.close("r1", keep=True)
    assert player.open("r2", TEXT[:17]).length == 16


def test_the_window_before_a_tool_call_stays_when_it_slides_out() -> None:
    player = windowed(2, 6, recurrent=False)
    said = "xyz!" + "callcallcallcall"
    player.open("r1", TEXT[:9], said)
    for length in range(9, 29):
        player.run("r1", length)
    player.cache.close("r1", keep=True)
    assert player.cache.layout.grid(8) == 4
    assert player.open("r2", TEXT[:9] + "xyz!other words").length == 12


def test_a_retained_window_goes_when_the_pool_needs_it() -> None:
    player = windowed(2, 6, cells=8)
    player.open("r1", TEXT[:17], TEXT[17:40])
    for length in (17, *range(18, 30)):
        player.run("r1", length)
    player.open("r2", "z" * 8)
    assert isinstance(player.run("r2", 8), Grant)
    assert not {12, 14, 16} <= set(published(player.cache))


def test_a_live_run_of_exactly_the_needed_length_between_two_tombstones_is_hit() -> None:
    player = windowed(2, 6)
    player.whole("r1", TEXT[:33])
    player.whole("r2", TEXT[:9] + "other")
    ends = [end for end in published(player.cache) if end <= 16]
    for entry in [entry for entry in player.cache.pages.values() if entry.group and entry.depth in (*ends, 26)]:
        if player.cache.cells_of(entry).evictable(entry.cell) and entry.depth not in (4, 6, 8):
            player.cache.evict_side(entry)
    again = player.open("r3", TEXT[:9])
    assert again.length == 8 and near(player.cache, "r3") == [1, 2, 3]


def test_one_page_fewer_than_needed_is_no_window() -> None:
    player = windowed(2, 6)
    player.whole("r1", TEXT[:9])
    for depth in (2, 4):
        entry = next(one for one in player.cache.pages.values() if one.group and one.depth == depth)
        player.cache.evict_side(entry)
    assert player.open("r2", TEXT[:9]).length == 0
    assert Cut("near", 8, 0) in player.cache.requests["r2"].cuts


def test_a_tombstone_is_revived_by_who_computes_it_again() -> None:
    player = windowed(2, 6)
    player.whole("r1", TEXT[:9])
    player.cache.evict("near", 9)
    assert published(player.cache) == [] and len(player.cache.pages) == 2
    player.whole("r2", TEXT[:9])
    assert {4, 6, 8} <= set(published(player.cache))
    assert player.open("r3", TEXT[:9]).length == 8


def test_dropping_a_window_or_a_state_leaves_the_full_kv() -> None:
    player = windowed(2, 6)
    player.whole("r1", TEXT[:17])
    assert {pool for pool, _ in player.cache.evict("near", 9).cells} == {"near"}
    assert {pool for pool, _ in player.cache.evict("state", 9).cells} == {"state"}
    assert sum(not entry.group for entry in player.cache.pages.values()) == 4


def test_dropping_full_kv_drops_what_cannot_live_without_it() -> None:
    player = windowed(2, 6)
    player.whole("r1", TEXT[:17])
    given_up = player.cache.evict("kv", 1).cells
    assert sorted(pool for pool, _ in given_up) == ["kv", "near", "near", "state"]
    assert max(published(player.cache)) == 12


def test_what_another_branch_covers_stays() -> None:
    player = windowed(2, 3, recurrent=False)
    player.whole("r1", TEXT[:6] + "1111")
    player.whole("r2", TEXT[:6] + "2222")
    player.cache.evict("kv", 1)
    assert 6 in published(player.cache)


@pytest.mark.parametrize("profile", FIRST)
def test_all_groups_of_a_hit_end_at_the_same_token(profile: str) -> None:
    player = Player(make(FIRST[profile]))
    player.whole("r1", TEXT[:17])
    hit = player.open("r2", TEXT[:17])
    assert hit.length == 16
    for group in player.cache.layout.groups:
        part = hit.table[group.name]
        if isinstance(part, Pages):
            assert len(part.columns) == 16 // group.page_size


def test_the_shortest_group_cuts_the_hit_and_is_named() -> None:
    player = Player(make(FIRST["hybrid-compressed"]))
    player.whole("r1", TEXT[:25])
    deepest = max((one for one in player.cache.pages.values() if one.group == "coarse"), key=lambda one: one.depth)
    player.cache.evict_side(deepest)
    hit = player.open("r2", TEXT[:25])
    cuts = player.cache.requests["r2"].cuts
    assert hit.length < 24
    assert cuts[0].name == "coarse" and cuts[-1].after == hit.length


def test_each_kind_has_its_own_pressure() -> None:
    player = Player(make(FIRST["hybrid-compressed"]))
    player.whole("r1", TEXT[:25])
    before = {name: len(published(player.cache, name)) for name in ("compressed", "coarse")}
    player.cache.evict("coarse", 1)
    after = {name: len(published(player.cache, name)) for name in ("compressed", "coarse")}
    assert after == {"compressed": before["compressed"], "coarse": before["coarse"] - 1}


def test_groups_of_different_pages_meet_on_a_joint_grid() -> None:
    groups = (
        KV, Group("far", GroupKind.COMPRESSED, "far", page_size=6, ratio=3),
        Group("near", GroupKind.WINDOW, "near", page_size=5, window=4),
    )
    player = Player(make(Configuration(4, 8, {"kv": 40, "far": 40, "near": 40}, 4, None, groups)))
    assert player.cache.grid == 60
    player.whole("r1", (TEXT * 3)[:121])
    assert player.open("r2", (TEXT * 3)[:121]).length == 120
    assert player.open("r3", (TEXT * 3)[:100]).length in (0, 60)


def test_groups_that_the_reference_cannot_have_are_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match="exactly one full group"):
        make(Configuration(groups=(STATE,)))
    with pytest.raises(ValueError, match="pool 'near' has no size"):
        make(Configuration(groups=(KV, Group("near", GroupKind.WINDOW, "near", page_size=2, window=3))))


@pytest.mark.parametrize("accepted", range(4))
def test_what_is_accepted_stands_and_nothing_else(accepted: int) -> None:
    player = windowed(2, 6)
    player.open("r1", TEXT[:9], TEXT[9:20])
    grant = player.cache.extend("r1", 9, 3)
    assert isinstance(grant, Grant) and grant.draft == 3
    claim = player.cache.requests["r1"]
    columns = [claim.live, *claim.drafts]
    step = player.cache.launch().step
    assert isinstance(player.cache.extend("r1", 10), Refused)
    player.cache.land(step, {"r1": accepted}, {"r1": tuple(map(ord, TEXT[9 : 10 + accepted]))})
    assert (claim.length, claim.live, claim.drafts) == (9 + accepted, columns[accepted], [])
    assert player.cache.slot_cells[claim.live].endpoint == 9 + accepted
    assert len(claim.columns) == -(-(9 + accepted) // 4)
    assert not inconsistencies(player.cache)


def test_a_draft_column_ends_with_its_request() -> None:
    player = windowed(2, 6)
    player.open("r1", TEXT[:9], TEXT[9:20])
    player.cache.extend("r1", 9, 3)
    step = player.cache.launch().step
    player.cache.close("r1", keep=False)
    player.cache.land(step, {"r1": 2}, {})
    assert {one.state for one in player.cache.inventory().values()} == {"free"}


def test_a_dropped_plan_gives_its_draft_columns_back() -> None:
    player = windowed(2, 6)
    player.open("r1", TEXT[:9], TEXT[9:20])
    player.run("r1", 9)
    player.cache.extend("r1", 10, 3)
    player.cache.preempt("r1")
    assert not inconsistencies(player.cache)


def test_drafts_take_only_what_is_there() -> None:
    sizes = Configuration(4, 8, {"kv": 3, "state": 3}, 2, speculates=3)
    player = Player(make(sizes))
    player.open("r1", TEXT[:9], TEXT[9:20])
    grant = player.cache.extend("r1", 9, 3)
    assert isinstance(grant, Grant) and grant.draft == 1


def test_hits_are_the_deepest_that_every_group_offers() -> None:
    player = windowed(2, 6)
    player.whole("r1", TEXT[:25])
    hit = player.open("r2", TEXT[:25])
    claim = player.cache.requests["r2"]
    legal = [n for n in range(8, 25, 8) if player.cache.has_state(claim, n)
             and all(player.cache.has_entries(claim, group, n) for group in player.cache.layout.sides)]
    assert isinstance(hit, Hit) and hit.length == max(legal)
