"""The fault that the project's pages show, reproduced step by step at the seam."""

from milepost.conformance.driver import Driver
from milepost.reference.cache import ExplicitCache, make_explicit
from milepost.reference.mutants import MUTANTS
from milepost.spec.answers import Frozen, Phase
from milepost.spec.capabilities import Configuration
from milepost.spec.operations import Close, Extend, Freeze, Open
from milepost.spec.schedule import Header, Schedule

from .player import Player, columns, slots

FIRST, SECOND = "ababaabbaaabbbbaabbb", "ababaabbaaabbbbaaaaa"


def play(cache: ExplicitCache) -> Player:
    """Carry out the five operations before the lookup that tears."""
    player = Player(cache)
    assert player.open("r1", FIRST).length == 0
    assert columns(player.run("r1", 8).table) == (11, 10)
    frozen = cache.freeze("r1")
    assert isinstance(frozen, Frozen)
    assert frozen.position == 8
    live, ((position, slot),) = slots(frozen.table).live, slots(frozen.table).frozen
    assert position == 8
    assert frozen.phases == (Phase((("state", live, slot),)),)
    assert columns(player.run("r1", 20).table) == (11, 10, 9, 8, 7)
    cache.close("r1", keep=True)
    assert len(cache.pages) == 5
    assert [entry.depth for entry in cache.snapshots.values()] == [8]
    return player


def test_the_reference_hits_where_both_groups_end() -> None:
    hit = play(make_explicit(Configuration())).open("r2", SECOND)
    assert hit.length == 8
    assert columns(hit.table) == (11, 10)


def test_the_mutant_tears_the_hit() -> None:
    cache = MUTANTS["kv-outlives-state"].make(Configuration())
    assert isinstance(cache, ExplicitCache)
    player = play(cache)
    hit = player.open("r2", SECOND)
    assert hit.length == 16
    assert columns(hit.table) == (11, 10, 9, 8)
    source = slots(hit.table).source
    assert cache.slot_cells[source].endpoint == 8


def test_the_judge_finds_it_in_six_operations() -> None:
    operations = (
        Open("r1", tuple(map(ord, FIRST))),
        Extend("r1", 8),
        Freeze("r1"),
        Extend("r1", 20),
        Close("r1", keep=True),
        Open("r2", tuple(map(ord, SECOND))),
    )
    adapter = MUTANTS["kv-outlives-state"].make(Configuration())
    outcome = Driver(adapter).run(Schedule(Header("torn-hit/kv-outlives-state"), operations))
    assert outcome.code == "torn-hit"
    assert outcome.lines[-1].index == 6
