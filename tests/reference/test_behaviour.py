"""What the reference does at the seam, one behaviour a test."""

from milepost.reference.cache import ReferenceCache, make, make_explicit
from milepost.spec.answers import Frozen, Landing, Phase, Refused
from milepost.spec.capabilities import Configuration, complaints
from milepost.spec.words import NULL

from .player import Player, columns, inconsistencies, slots

TEXT = "abcdefghijklmnopqrstuvwxyz"


def fresh(kv: int = 12, state: int = 8, max_live: int = 4) -> Player:
    """Return a player of a fresh cache with pages of 4 and boundaries at multiples of 8."""
    return Player(make(Configuration(4, 8, {"kv": kv, "state": state}, max_live)))


def refusal(answer: object) -> str:
    """Return why something was refused."""
    assert isinstance(answer, Refused)
    return answer.reason


def test_declarations_are_sound() -> None:
    for page, chunk in ((4, 8), (1, 1), (16, 4), (3, 2)):
        for maker in (make, make_explicit):
            assert not complaints(maker(Configuration(page, chunk)).capabilities)


def test_a_repeated_prompt_hits_at_the_last_boundary_before_its_last_token() -> None:
    player = fresh()
    assert player.whole("r1", TEXT[:20]).length == 0
    hit = player.open("r2", TEXT[:20])
    assert hit.length == 16
    assert columns(hit.table) == (11, 10, 9, 8)


def test_the_last_prompt_token_is_always_computed() -> None:
    player = fresh()
    player.whole("r1", TEXT[:16])
    assert sorted(entry.depth for entry in player.cache.snapshots.values()) == [8, 16]
    assert player.open("r2", TEXT[:16]).length == 8
    assert player.open("r3", TEXT[:17]).length == 16


def test_the_first_step_zeroes_a_cold_slot_and_copies_into_a_restored_one() -> None:
    player = fresh()
    player.open("r1", TEXT[:9])
    live = slots(player.plan("r1", 9).table).live
    launched = player.cache.launch()
    assert launched.step == 1
    assert launched.phases == (Phase(zeros=(("state", live),)),)
    player.land(launched)
    player.cache.publish("r1")
    hit = player.open("r2", TEXT[:12])
    grant = player.plan("r2", 12)
    source, restored = slots(hit.table).source, slots(grant.table).live
    assert player.cache.launch().phases == (Phase(copies=(("state", source, restored),)),)
    assert grant.initial_state == {"state": restored}


def test_a_live_slot_is_prepared_once() -> None:
    player = fresh()
    player.open("r1", TEXT)
    player.run("r1", 4)
    player.plan("r1", 8)
    assert player.cache.launch().phases == ()


def test_the_snapshot_is_let_go_when_the_restoring_step_lands() -> None:
    player = fresh()
    player.whole("r1", TEXT[:9])
    source = slots(player.open("r2", TEXT[:12]).table).source
    player.plan("r2", 12)
    launched = player.cache.launch()
    assert player.cache.slot_cells[source].state == "protected"
    player.land(launched)
    assert player.cache.slot_cells[source].state == "donated"
    assert slots(player.cache.requests["r2"].table()).source == NULL


def test_a_match_beyond_the_hit_is_frozen_on_the_next_pass() -> None:
    player = fresh()
    player.whole("r1", "a" * 8 + "b" * 12)
    player.cache.evict("state", 9)
    assert player.open("r2", "a" * 8 + "b" * 4 + "c" * 20).length == 0
    assert player.cache.requests["r2"].branch == 8
    assert [position for _, _, position in player.run("r2", 12).frozen] == [8]


def test_one_frozen_slot_is_superseded_by_a_later_one() -> None:
    player = fresh()
    player.open("r1", TEXT)
    player.run("r1", 8)
    assert isinstance(player.cache.freeze("r1"), Frozen)
    grant = player.run("r1", 25)
    assert [position for _, _, position in grant.frozen] == [24]
    assert [position for position, _ in slots(grant.table).frozen] == [24]


def test_a_freeze_off_the_grid_is_refused() -> None:
    player = fresh()
    player.open("r1", TEXT)
    assert refusal(player.cache.freeze("r1")) == "nothing-to-freeze"
    player.run("r1", 6)
    assert refusal(player.cache.freeze("r1")) == "unaligned"


def test_a_freeze_waits_for_the_step_in_flight() -> None:
    player = fresh()
    player.open("r1", TEXT)
    player.plan("r1", 8)
    assert refusal(player.cache.freeze("r1")) == "in-flight"
    player.cache.launch()
    assert refusal(player.cache.freeze("r1")) == "in-flight"


def test_an_unaligned_end_returns_its_state() -> None:
    player = Player(make_explicit(Configuration()))
    player.whole("r1", TEXT[:20])
    assert not player.cache.snapshots
    assert len(player.cache.pages) == 5


def test_an_aligned_end_donates_its_state() -> None:
    player = Player(make_explicit(Configuration()))
    player.whole("r1", TEXT[:16])
    assert [entry.depth for entry in player.cache.snapshots.values()] == [16]


def test_decoded_tokens_are_published_when_their_ids_are_known() -> None:
    player = fresh()
    player.open("r1", TEXT[:7], said="xyz")
    player.run("r1", 7)
    player.plan("r1", 8)
    launched = player.cache.launch()
    player.cache.publish("r1")
    assert len(player.cache.pages) == 1
    player.land(launched)
    player.cache.publish("r1")
    assert len(player.cache.pages) == 2
    player.cache.close("r1", keep=True)
    assert player.open("r2", TEXT[:7] + "xq").length == 8


def test_a_duplicate_page_is_freed_and_its_column_repointed() -> None:
    player = fresh()
    player.open("r1", TEXT[:8])
    player.open("r2", TEXT[:8])
    player.plan("r1", 8)
    player.plan("r2", 8)
    player.land(player.cache.launch())
    player.cache.publish("r1")
    landing = player.cache.publish("r2")
    assert isinstance(landing, Landing)
    assert columns(landing.tables["r2"]) == columns(player.cache.requests["r1"].table())
    assert not inconsistencies(player.cache)


def test_nothing_in_flight_is_published() -> None:
    player = fresh()
    player.open("r1", TEXT[:9])
    player.plan("r1", 9)
    player.cache.launch()
    player.cache.publish("r1")
    assert not player.cache.pages
    assert not player.cache.snapshots


def test_a_close_in_flight_keeps_its_cells_until_the_landing() -> None:
    player = fresh()
    player.open("r1", TEXT[:9])
    player.plan("r1", 9)
    launched = player.cache.launch()
    kept = player.cache.close("r1", keep=True).tables["r1"]
    assert columns(kept) == (11, 10, 9)
    assert not player.cache.pages
    landing = player.cache.land(launched.step, {}, {})
    assert columns(landing.tables["r1"]) == ()
    assert player.open("r2", TEXT[:9]).length == 8


def test_a_dropped_plan_leaves_nothing() -> None:
    player = fresh()
    player.open("r1", TEXT)
    player.run("r1", 6)
    player.plan("r1", 20)
    player.cache.close("r1", keep=True)
    assert not player.cache.planned
    assert len(player.cache.pages) == 1
    assert not inconsistencies(player.cache)


def test_a_preempted_request_publishes_nothing() -> None:
    player = fresh()
    player.open("r1", TEXT)
    player.run("r1", 16)
    assert columns(player.cache.preempt("r1").tables["r1"]) == ()
    assert not player.cache.pages
    assert player.open("r1", TEXT).length == 0


def test_a_refused_extend_changes_nothing_that_is_held() -> None:
    player = fresh(kv=6)
    player.open("r1", TEXT[:12])
    player.run("r1", 12)
    player.open("r2", TEXT[:20])
    before = player.cache.requests["r1"].table()
    assert refusal(player.cache.extend("r2", 20)) == "no-page"
    assert player.cache.requests["r1"].table() == before
    assert columns(player.cache.requests["r2"].table()) == ()
    assert not inconsistencies(player.cache)


def test_no_slot_is_a_refusal() -> None:
    player = fresh(state=3, max_live=8)
    for number in range(3):
        player.open(f"r{number}", "a")
        player.run(f"r{number}", 1)
    player.open("r3", "a")
    assert refusal(player.cache.extend("r3", 1)) == "no-slot"


def test_a_freeze_without_a_slot_is_left_out() -> None:
    player = fresh(state=3, max_live=8)
    for number in range(2):
        player.open(f"r{number}", "a")
        player.run(f"r{number}", 1)
    player.open("r2", TEXT[:9])
    assert player.run("r2", 9).frozen == ()


def test_admission_is_bounded() -> None:
    player = fresh(max_live=1)
    player.open("r1", TEXT)
    assert refusal(player.try_open("r2", TEXT)) == "too-many-requests"
    assert refusal(fresh(kv=2).try_open("r1", TEXT[:9])) == "prompt-too-long"


def test_the_least_recently_used_leaf_is_evicted_first() -> None:
    player = fresh(kv=8)
    player.whole("old", "a" * 9)
    player.whole("new", "b" * 9)
    player.whole("old-again", "a" * 9)
    player.open("wide", "c" * 20)
    player.run("wide", 20)
    assert player.open("r1", "a" * 9).length == 8
    assert player.open("r2", "b" * 9).length == 0


def test_an_inner_page_outlives_what_depends_on_it() -> None:
    player = fresh()
    player.whole("r1", TEXT[:20])
    depths = []
    while player.cache.pages:
        pages = {entry.cell: entry.depth for entry in player.cache.pages.values()}
        given_up = player.cache.evict("kv", 1).cells
        depths.append(pages[given_up[0][1]])
    assert depths == [20, 16, 12, 8, 4]


def test_a_page_takes_the_snapshot_at_its_end_along() -> None:
    player = fresh()
    player.whole("r1", TEXT[:17])
    assert {pool for pool, _ in player.cache.evict("kv", 1).cells} == {"kv", "state"}
    assert not player.cache.snapshots


def test_a_snapshot_leaves_its_pages_behind() -> None:
    player = fresh()
    player.whole("r1", TEXT[:17])
    assert [pool for pool, _ in player.cache.evict("state", 5).cells] == ["state"]
    assert len(player.cache.pages) == 4
    assert player.open("r2", TEXT[:17]).length == 0


def test_what_is_read_is_not_evicted() -> None:
    player = fresh()
    player.whole("r1", TEXT[:17])
    player.open("r2", TEXT[:17])
    assert player.cache.evict("kv", 99).cells == ()
    assert player.cache.evict("state", 99).cells == ()


def test_a_reset_forgets_what_is_published_and_spares_what_is_read() -> None:
    player = fresh()
    player.whole("r1", TEXT[:17])
    hit = player.open("r2", TEXT[:17])
    assert player.cache.reset().done
    assert player.open("r3", TEXT[:17]).length == 0
    assert [player.cache.page_cells[index].state for index in columns(hit.table)] == ["shared"] * 4
    player.run("r2", 17)
    player.cache.close("r2", keep=True)
    player.cache.close("r3", keep=True)
    assert not player.cache.pages
    assert player.cache.account()["kv"]["free"] == 12


def test_namespaces_and_contents_isolate() -> None:
    player = fresh()
    player.whole("r1", TEXT[:17], namespace=(("salt", "x"),))
    assert player.open("r2", TEXT[:17]).length == 0
    assert player.open("r3", TEXT[:17], namespace=(("adapter", "x"),)).length == 0
    assert player.open("r4", TEXT[:17], namespace=(("salt", "x"),)).length == 16
    player = fresh()
    player.open("r1", TEXT[:17], content={9: "cat"})
    player.run("r1", 17)
    player.cache.close("r1", keep=True)
    assert player.open("r2", TEXT[:17], content={9: "dog"}).length == 0
    assert player.open("r3", TEXT[:17], content={9: "cat"}).length == 16


def test_the_oldest_of_a_batch_is_first_in_its_phase() -> None:
    player = fresh()
    for name in ("r1", "r2"):
        player.open(name, TEXT[:4])
    lives = [slots(player.plan(name, 4).table).live for name in ("r2", "r1")]
    assert [index for _, index in player.cache.launch().phases[0].zeros] == lives


def test_a_request_may_be_launched_again_while_its_step_is_in_flight() -> None:
    player = fresh()
    player.whole("r0", TEXT[:9])
    player.open("r1", TEXT[:20])
    player.plan("r1", 12)
    first = player.cache.launch()
    player.plan("r1", 20)
    second = player.cache.launch()
    player.land(first)
    assert player.cache.evict("state", 9).cells
    player.land(second)
    player.cache.close("r1", keep=True)
    assert not inconsistencies(player.cache)


def test_accounts_add_up() -> None:
    player = fresh()
    player.whole("r1", TEXT[:17])
    player.open("r2", TEXT[:17])
    player.run("r2", 17)
    for pool, counts in player.cache.account().items():
        assert sum(counts.values()) == len(player.cache.pools[pool].occupants)
    assert player.cache.account()["kv"] == {"free": 7, "private": 1, "evictable": 0, "protected": 4}


def test_a_fresh_cache_owns_nothing() -> None:
    cache = ReferenceCache(Configuration())
    assert {one.state for one in cache.inventory().values()} == {"free"}
