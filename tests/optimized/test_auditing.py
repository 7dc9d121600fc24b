"""Whoever writes a published slot is reported at its next restore or when it is given back: which slot, whose, when."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from milepost.cli.lockstep import lockstep
from milepost.conformance.corpus import load_corpus
from milepost.kernels.backend import running
from milepost.optimized.auditing import Audit, Moment, StrayWrite
from milepost.optimized.cache import PrefixCache
from milepost.optimized.inventory import Inconsistent
from milepost.optimized.keeping import CellKeeper
from milepost.optimized.metrics import prometheus_text
from milepost.spec.answers import Hit
from milepost.spec.capabilities import Configuration

from .cache_edits import MEMORY_EDITS
from .index_edits import Edit
from .lockstep_runs import compare, generated

SIZES = Configuration(4, 8, {"kv": 24, "state": 5}, 4)
PROMPT = tuple(range(20))
PARTS = {"recurrent": (0, 1, 1), "convolution": (3, 2)}
"""The parts of a slot, and the place of one element in it."""


def audited(report: Callable[[StrayWrite], None], sizes: Configuration = SIZES) -> PrefixCache:
    return PrefixCache(sizes, warns=False, audit=report)


def start(cache: PrefixCache, name: str) -> int:
    """Open a request and plan its whole prompt; return how much of it was hit."""
    hit = cache.open(name, PROMPT, (("salt", "x"),), {})
    assert isinstance(hit, Hit)
    cache.extend(name, len(PROMPT))
    return hit.length


def fill(cache: PrefixCache) -> int:
    """Publish the prompt with a state after 16 tokens; return its slot."""
    start(cache, "first")
    cache.memory.recurrent.uniform_()
    cache.memory.convolution.uniform_()
    cache.land(cache.launch().step, {}, {"first": (7,)})
    cache.close("first", keep=True)
    [slot] = [cell[1] for cell, held in cache.inventory().items() if held.state == "donated"]
    return slot


def scribble(cache: PrefixCache, slot: int, part: str, layer: int = 1) -> None:
    """Change one bit of one element in one layer of a slot."""
    bits = getattr(cache.memory, part).view({"recurrent": torch.int32, "convolution": torch.int16}[part])
    bits[layer, slot][PARTS[part]] ^= 1


@pytest.fixture
def reports() -> list[StrayWrite]:
    return []


@pytest.fixture
def cache(reports: list[StrayWrite]) -> PrefixCache:
    return audited(reports.append)


# -- a stray write is reported, with slot, entry and time


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("part", PARTS)
def test_a_write_into_a_donated_slot_is_reported_when_it_is_evicted(
    cache: PrefixCache, reports: list[StrayWrite], part: str, layer: int
) -> None:
    slot = fill(cache)
    scribble(cache, slot, part, layer)
    assert not reports
    cache.evict("state", 1)
    [told] = reports
    assert (told.slot, told.depth, told.namespace, told.request) == (slot, 16, (("salt", "x"),), "")
    assert told.donated == told.intact
    assert (told.donated.operation, told.found.operation) == (5, 6)
    assert told.donated.clock <= told.found.clock == cache.index.tree.clock


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("part", PARTS)
def test_a_write_into_a_donated_slot_is_reported_at_its_restore(
    cache: PrefixCache, reports: list[StrayWrite], part: str, layer: int
) -> None:
    slot = fill(cache)
    scribble(cache, slot, part, layer)
    assert start(cache, "second") == 16
    assert not reports
    cache.launch()
    [told] = reports
    assert (told.slot, told.depth, told.namespace, told.request) == (slot, 16, (("salt", "x"),), "second")
    assert (told.intact.operation, told.found.operation) == (5, 8)


@pytest.mark.parametrize("part", PARTS)
def test_a_write_into_a_protected_slot_is_reported_at_its_restore(
    cache: PrefixCache, reports: list[StrayWrite], part: str
) -> None:
    slot = fill(cache)
    assert start(cache, "second") == 16
    assert cache.inventory()["state", slot].state == "protected"
    scribble(cache, slot, part)
    cache.launch()
    assert [(told.slot, told.request) for told in reports] == [(slot, "second")]


@pytest.mark.parametrize("part", PARTS)
def test_a_write_into_a_protected_slot_after_its_restore_is_reported_when_it_is_evicted(
    cache: PrefixCache, reports: list[StrayWrite], part: str
) -> None:
    slot = fill(cache)
    start(cache, "second")
    step = cache.launch().step
    assert cache.inventory()["state", slot].state == "protected"
    scribble(cache, slot, part)
    cache.land(step, {}, {"second": (7,)})
    cache.close("second", keep=False)
    assert not reports
    cache.evict("state", 1)
    [told] = reports
    assert (told.slot, told.request) == (slot, "")
    # It was whole at the restore: the write came after that.
    assert (told.donated.operation, told.intact.operation, told.found.operation) == (5, 8, 11)


def test_a_snapshot_that_falls_with_its_page_or_a_reset_is_looked_at_too(
    cache: PrefixCache, reports: list[StrayWrite]
) -> None:
    slot = fill(cache)
    scribble(cache, slot, "recurrent")
    cache.evict("kv", 2)
    assert [told.slot for told in reports] == [slot]
    slot = fill(cache)
    scribble(cache, slot, "recurrent")
    cache.reset()
    assert [told.slot for told in reports[1:]] == [slot]


def test_a_snapshot_that_a_reset_has_forgotten_is_looked_at_when_its_reader_lets_go(
    cache: PrefixCache, reports: list[StrayWrite]
) -> None:
    slot = fill(cache)
    start(cache, "second")
    step = cache.launch().step
    cache.reset()
    scribble(cache, slot, "convolution")
    assert not reports
    cache.land(step, {}, {"second": (7,)})
    assert [told.slot for told in reports] == [slot]


def test_each_of_two_readers_is_named(cache: PrefixCache, reports: list[StrayWrite]) -> None:
    slot = fill(cache)
    start(cache, "second")
    start(cache, "third")
    scribble(cache, slot, "recurrent")
    cache.launch()
    assert [(told.slot, told.request) for told in reports] == [(slot, "second"), (slot, "third")]
    assert cache.counts.stray_writes == 2
    assert "milepost_stray_writes_total 2.0" in prometheus_text(cache)


def test_a_person_reads_which_slot_whose_and_when(cache: PrefixCache, reports: list[StrayWrite]) -> None:
    scribble(cache, fill(cache), "recurrent")
    cache.evict("state", 1)
    [told] = reports
    moments = (Moment(5, told.intact.clock), Moment(6, told.found.clock))
    assert moments == (told.intact, told.found)
    assert str(told) == (
        f"slot {told.slot}, donated in operation 5 as the state after 16 tokens of salt x, "
        f"was written between operation 5 (clock {told.intact.clock}) and operation 6 (clock {told.found.clock}): "
        "seen at giving it back"
    )


# -- what the hook raises


def halt(stray: StrayWrite) -> None:
    raise stray


def test_a_hook_that_raises_keeps_a_launch_from_resuming_and_its_step_stays_planned() -> None:
    cache = audited(halt)
    slot = fill(cache)
    start(cache, "second")
    live = cache.requests["second"].live
    before = cache.memory.recurrent[:, live].clone()
    scribble(cache, slot, "recurrent")
    with pytest.raises(StrayWrite, match="seen at the restore of second"):
        cache.launch()
    assert torch.equal(cache.memory.recurrent[:, live], before)
    assert not cache.flights
    cache.check()
    cache.preempt("second")
    cache.check()


@pytest.mark.parametrize("verb", ["evict", "reset", "land", "close"])
def test_a_hook_that_raises_when_slots_are_given_back_loses_nothing(verb: str) -> None:
    cache = audited(halt)
    slot = fill(cache)
    start(cache, "second")
    step = cache.launch().step
    if verb in ("evict", "reset"):
        cache.land(step, {}, {"second": (7,)})
    else:
        cache.reset()
    scribble(cache, slot, "recurrent")
    if verb == "close":  # while its step is in flight: the landing ends it
        cache.close("second", keep=True)
    with pytest.raises(StrayWrite):
        {"evict": lambda: cache.evict("state", 5), "reset": cache.reset}.get(
            verb, lambda: cache.land(step, {}, {"second": (7,)})
        )()
    cache.check()
    if verb != "close":
        cache.close("second", keep=False)
    cache.reset()
    cache.check()
    assert {held.state for held in cache.inventory().values()} == {"free"}


# -- and what is no stray write is not reported


class Builder:
    """Builds audited caches, and counts what they looked at."""

    def __init__(self) -> None:
        self.built: list[PrefixCache] = []

    def __call__(self, sizes: Configuration) -> PrefixCache:
        self.built.append(audited(halt, sizes))
        return self.built[-1]

    @property
    def donated(self) -> int:
        return sum(cache.counts.published["state"] for cache in self.built)

    @property
    def resumed(self) -> int:
        return sum(cache.counts.hit_tokens > 0 for cache in self.built)


def test_the_corpus_has_no_stray_write() -> None:
    caches = Builder()
    fitting = [schedule for schedule in load_corpus() if set(schedule.header.needs) <= {"full", "recurrent"}]
    assert len(fitting) > 50
    assert compare(lockstep(caches), iter(fitting), 1 << 30).told == ""
    assert caches.donated > len(fitting)
    assert caches.resumed > len(fitting) // 2


def test_generated_schedules_have_no_stray_write() -> None:
    caches = Builder()
    pair = lockstep(caches)
    assert compare(pair, generated(pair, 51), 5_000).told == ""
    assert caches.donated > 100


def test_interpreted_digests_find_none_either() -> None:
    caches = Builder()
    pair = lockstep(caches)
    schedules = generated(pair, 52)
    with running("interpret"):
        assert compare(pair, schedules, 200).told == ""
    assert caches.donated > 5


def test_an_audit_that_forgets_a_slot_is_inconsistent(cache: PrefixCache) -> None:
    slot = fill(cache)
    cache.check()
    assert cache.audit
    del cache.audit.donations[slot]
    with pytest.raises(Inconsistent, match=r"the audit knows \[\]"):
        cache.check()


# -- the twins: what is planted in the cache is found, and what is taken from the audit is missed


def test_a_cache_that_writes_its_own_snapshots_is_found_out(
    cache: PrefixCache, reports: list[StrayWrite], monkeypatch: pytest.MonkeyPatch
) -> None:
    [edit] = [edit for edit in MEMORY_EDITS if edit.name == "a copy goes the other way"]
    edit.apply(monkeypatch)
    slot = fill(cache)
    start(cache, "second")
    cache.land(cache.launch().step, {}, {"second": (7,)})
    cache.close("second", keep=False)
    cache.evict("state", 1)
    assert [told.slot for told in reports] == [slot]


def reported(part: str) -> list[tuple[str, int]]:
    """Write a slot that was whole at its first restore; return who is reported, and since when."""
    reports: list[StrayWrite] = []
    cache = audited(reports.append)
    slot = fill(cache)
    for name in ("second", "third"):
        start(cache, name)
        step = cache.launch().step
        scribble(cache, slot, part)
        cache.land(step, {}, {name: (7,)})
        cache.close(name, keep=False)
    scribble(cache, slot, part)
    cache.evict("state", 1)
    return [(told.request, told.intact.operation) for told in reports]


EDITS = (
    Edit("a restore is not looked at", PrefixCache, PrefixCache.launch, "if self.audit:", "if False:"),
    Edit("what is given back is not looked at", CellKeeper, CellKeeper.take_back, "if self.audit:", "if False:"),
    Edit("convolutions are not digested", Audit, Audit.__init__, "= parts, now", "= parts[:1], now"),
    Edit("last layers are not digested", Audit, Audit.__init__,
         "= parts, now", "= [part[:1] for part in parts], now"),
    Edit("a whole slot is not remembered as such", Audit, Audit.restore, "donations[slot].intact = now", "pass"),
    Edit("nobody is told", Audit, Audit._tell, "self.report(stray)", "pass"),
)  # fmt: skip


def test_a_write_is_reported_at_the_next_restore_and_at_the_end() -> None:
    assert [reported(part) for part in PARTS] == [[("third", 8), ("", 8)]] * 2


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_what_is_taken_from_the_audit_is_missed(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    edit.apply(monkeypatch)
    assert [reported(part) for part in PARTS] != [[("third", 8), ("", 8)]] * 2
