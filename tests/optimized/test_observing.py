"""What a cache tells of itself: why a request got what it got, how often, what it holds, and what it has stored."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from milepost.cli.main import run
from milepost.conformance.driver import Driver
from milepost.conformance.events import NO_ENDPOINT, check_events
from milepost.conformance.generation import SeededSource
from milepost.conformance.layouts import FIRST
from milepost.optimized.auditing import StrayWrite
from milepost.optimized.cache import PrefixCache, ShortPrompts
from milepost.optimized.explaining import Explanation, Skipped
from milepost.optimized.index import FULL, RECURRENT, Reason, packed
from milepost.optimized.metrics import prometheus_text
from milepost.spec.answers import Grant, Hit
from milepost.spec.capabilities import Configuration

from .cache_edits import CACHE_EDITS

SIZES = Configuration(4, 8, {"kv": 16, "state": 4}, 3)


def cache_of(sizes: Configuration = SIZES, listens: bool = False) -> PrefixCache:
    return PrefixCache(sizes, warns=False, listens=listens)


def tokens(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def whole(cache: PrefixCache, name: str, text: str, keep: bool = True) -> Explanation:
    """Open, compute and close a prompt; return why it hit what it hit."""
    assert isinstance(cache.open(name, tokens(text), (), {}), Hit)
    explanation = cache.explain(name)
    assert isinstance(cache.extend(name, len(text)), Grant)
    cache.land(cache.launch().step, {}, {name: (7,)})
    cache.close(name, keep)
    return explanation


def played(listens: bool = False, schedules: int = 60) -> Iterator[PrefixCache]:
    """Yield caches that generated schedules were run on."""
    source = SeededSource(3, 40, (), lambda sizes: cache_of(sizes).capabilities)
    for number in range(schedules):
        schedule = source.schedule(number)
        cache = cache_of(schedule.header.configuration, listens)
        assert not Driver(cache).run(schedule).failed
        yield cache


# -- why


def test_the_first_of_its_kind_finds_nothing() -> None:
    told = whole(cache_of(), "r1", "a" * 20)
    assert (told.hit, told.offers, told.branch) == (0, {"kv": 0, "state": 0}, 0)
    assert told.reasons["kv"] == Reason.UNSEEN
    assert told.limited_by == "kv"


def test_a_repeated_prompt_hits_and_says_what_is_computed_again() -> None:
    cache = cache_of()
    whole(cache, "r1", "a" * 20)
    told = whole(cache, "r2", "a" * 20)
    assert (told.hit, told.recomputed, told.limited_by) == (16, 3, "")
    assert told.sentence() == "hit 16 of 20 tokens; kv offers 20, state offers 16; 3 tokens of KV are computed again"


def test_kv_without_a_state_is_cut_by_the_state_and_wants_a_snapshot() -> None:
    cache = cache_of()
    whole(cache, "r1", "a" * 20)
    cache.evict("state", 1)
    told = whole(cache, "r2", "a" * 20)
    assert (told.hit, told.limited_by, told.reasons["state"]) == (0, "state", Reason.NO_SNAPSHOT)
    assert (told.recomputed, told.branch) == (19, 16)
    assert told.sentence().endswith("19 tokens of KV are computed again; a snapshot is wanted at 16")
    assert cache.counts.misses["state", Reason.NO_SNAPSHOT] == 1


def frozen_at_each_boundary(cache: PrefixCache, name: str, length: int) -> None:
    """Compute a prompt step by step, and leave a snapshot at each boundary."""
    cache.open(name, tokens("a" * length), (), {})
    for stop in range(cache.explain(name).hit + 8, length, 8):
        cache.extend(name, stop)
        cache.land(cache.launch().step, {}, {})
        cache.freeze(name)
        cache.publish(name)
    cache.extend(name, length)
    cache.land(cache.launch().step, {}, {})
    cache.close(name, True)


def test_all_groups_that_cut_a_hit_in_turn_are_named() -> None:
    sizes = replace(FIRST["hybrid-window"], pools={"kv": 20, "window": 24, "state": 8})
    cache = cache_of(sizes)
    for length in (41, 33, 17):
        frozen_at_each_boundary(cache, f"r{length}", length)
    while cache.index.match(packed(tokens("a" * 41))).cuts != (("recurrent", 40, 32),):
        cache.evict("state", 1)
    while cache.index.match(packed(tokens("a" * 33))).length == 32:
        cache.evict("window", 1)
    told = whole(cache, "r", "a" * 41)
    assert (told.hit, told.limited_by, told.reasons["window"]) == (16, "window", Reason.NO_WINDOW)
    assert told.offers == {"kv": 40, "window": 16, "state": 32}
    docs = (Path(__file__).parents[2] / "docs" / "observing.md").read_text(encoding="utf-8")
    assert told.sentence() in docs.splitlines()


def test_what_was_evicted_and_what_others_continued_differently_are_told_apart() -> None:
    cache = cache_of()
    whole(cache, "r1", "a" * 24)
    assert whole(cache, "r2", "a" * 8 + "b" * 12).reasons["kv"] == Reason.DIVERGED
    cache.evict("kv", 16)
    assert whole(cache, "r3", "a" * 24).reasons["kv"] == Reason.EVICTED


def test_chance_reaches_every_way_to_skip_but_those_that_need_two_steps_in_flight() -> None:
    skipped: Counter[str] = sum((cache.counts.skipped for cache in played()), Counter())
    names = {value for name, value in vars(Skipped).items() if name.isupper()}
    assert set(skipped) <= names
    assert names - set(skipped) <= {Skipped.DUPLICATE_IN_FLIGHT, Skipped.NO_PAGE}


def test_a_duplicate_that_a_step_uses_waits_and_says_so() -> None:
    cache = cache_of()
    for name in ("r1", "r2"):
        cache.open(name, tokens("a" * 20), (), {})
        cache.extend(name, 8)
    cache.land(cache.launch().step, {}, {})
    cache.publish("r1")
    cache.extend("r2", 16)
    step = cache.launch().step
    cache.publish("r2")
    assert cache.counts.skipped[Skipped.DUPLICATE_IN_FLIGHT] == 1
    assert cache.counts.duplicates == 0
    cache.land(step, {}, {})
    cache.publish("r2")
    assert cache.counts.duplicates == 2
    cache.check()


def test_a_cache_says_when_it_is_built_which_prompts_it_never_reuses() -> None:
    with pytest.warns(ShortPrompts, match="prompts of 64 tokens and fewer are never reused: .* prefix is 65"):
        PrefixCache(Configuration(16, 64, {"kv": 16, "state": 4}))


# -- how often, and how much


def samples(cache: PrefixCache) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(prometheus_text(cache)) for sample in family.samples
    }


def test_scraped_figures_are_those_of_the_cache() -> None:
    cache = cache_of()
    whole(cache, "r1", "a" * 20)
    cache.evict("state", 1)
    whole(cache, "r2", "a" * 20)
    whole(cache, "r3", "a" * 20)
    figures = samples(cache)
    assert figures["milepost_opens_total",] == 3
    assert figures["milepost_prompt_tokens_total",] == 60
    assert figures["milepost_hit_tokens_total",] == 16
    assert figures["milepost_misses_total", "recurrent", "no-snapshot"] == 1
    assert figures["milepost_published_cells_total", "full"] == 5
    assert figures["milepost_duplicate_pages_total",] == 6
    assert figures["milepost_evicted_cells_total", "recurrent"] == 1


def test_occupancy_is_what_the_inventory_says() -> None:
    for cache in played(schedules=15):
        states: Counter[tuple[str, str]] = Counter()
        for (pool, _), holding in cache.inventory().items():
            leased = holding.state == "shared" and holding.leases
            states["full" if pool == "kv" else "recurrent", "shared_leased" if leased else holding.state] += 1
        told = {key[1:]: value for key, value in samples(cache).items() if key[0] == "milepost_cells" and value}
        assert told == states


# -- what is stored


def write(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_events_prove_every_endpoint_and_leave_what_the_index_holds(tmp_path: Path) -> None:
    endpoints = 0
    for cache in played(listens=True):
        events = cache.take_events()
        assert cache.take_events() == []
        if not events:
            continue
        report = check_events(write(tmp_path / "events.jsonl", events))
        assert report.fault == ""
        assert report.counts["unplaced"] == 0
        endpoints += report.counts["endpoints"]
        assert stored_after(events) == held_by(cache)
    assert endpoints > 100


def stored_after(events: list[dict[str, Any]]) -> Counter[int]:
    """Count what is stored after these events, by group."""
    stored: Counter[int] = Counter()
    for event in events:
        if event["type"] == "AllBlocksCleared":
            stored.clear()
        else:
            sign = 1 if event["type"] == "BlockStored" else -1
            stored[event["group_idx"]] += sign * len(event["block_hashes"])
    return +stored


def held_by(cache: PrefixCache) -> Counter[int]:
    kinds: dict[str, int] = {FULL: 0, RECURRENT: 1}
    return Counter(kinds[kind] for (kind, _), holding in cache.index.inventory().items() if not holding.forgotten)


def test_an_event_has_the_schema_of_the_engines_and_the_endpoint() -> None:
    cache = cache_of(listens=True)
    cache.open("r1", tokens("a" * 12), (("adapter", "lora"), ("salt", "s")), {1: "cat"})
    cache.extend("r1", 12)
    cache.land(cache.launch().step, {}, {"r1": (7,)})
    cache.close("r1", keep=True)
    cache.evict("kv", 3)
    pages, state, *removed = cache.take_events()
    assert pages["type"] == state["type"] == "BlockStored"
    assert (len(pages["block_hashes"]), pages["block_size"], pages["parent_block_hash"]) == (3, 4, None)
    assert pages["token_ids"] == [97, -1, *[97] * 10]
    assert (pages["lora_name"], pages["extra_keys"]) == ("lora", [[["salt", "s"]]] * 3)
    assert (pages["kv_cache_spec_kind"], state["kv_cache_spec_kind"]) == ("full_attention", "mamba")
    assert (state["block_hashes"], state["parent_block_hash"]) == (pages["block_hashes"][1:2], pages["block_hashes"][0])
    assert state["endpoint"] == 8
    assert "endpoint" not in pages
    assert [event["block_hashes"][0] for event in removed] == [
        pages["block_hashes"][2], pages["block_hashes"][1], state["block_hashes"][0], pages["block_hashes"][0],
    ]


def test_a_state_that_is_filed_where_it_does_not_end_is_seen_in_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [edit] = [edit for edit in CACHE_EDITS if edit.name == "final-state-is-floored"]
    edit.apply(monkeypatch)
    cache = cache_of(listens=True)
    cache.open("r1", tokens("a" * 7), (), {})
    cache.extend("r1", 7)
    cache.land(cache.launch().step, {}, {"r1": (7,)})
    for last in range(7, 11):
        cache.extend("r1", last + 1)
        cache.land(cache.launch().step, {}, {"r1": (7,)})
    cache.close("r1", keep=True)
    path = write(tmp_path / "events.jsonl", cache.take_events())
    assert run(["check", "--events", str(path)]) == 1
    assert "has read 11 tokens, and its block ends after 8" in capsys.readouterr().out


@pytest.mark.parametrize("profile", ["hybrid-window", "hybrid-compressed"])
def test_events_of_all_kinds_of_groups_tell_what_is_held_and_contradict_nothing(profile: str, tmp_path: Path) -> None:
    told: Counter[str] = Counter()
    source = SeededSource(3, 40, (), lambda sizes: cache_of(sizes).capabilities, profile)
    for number in range(20):
        schedule = source.schedule(number)
        cache = cache_of(schedule.header.configuration, listens=True)
        assert not Driver(cache).run(schedule).failed
        events = cache.take_events()
        told.update(event["kv_cache_spec_kind"] for event in events if event["type"] == "BlockStored")
        if events:
            assert not check_events(write(tmp_path / "events.jsonl", events)).fault
        keys = [FULL.value, *(group.name for group in cache.layout.sides), RECURRENT.value]
        held = Counter(keys.index(key) for (key, _), one in cache.index.inventory().items() if not one.forgotten)
        assert stored_after(events) == held
    assert min(told[kind] for kind in ("full_attention", "sliding_window", "mamba")) > 5
    assert bool(told["compressed"]) == (profile == "hybrid-compressed")


def test_a_person_reads_what_the_events_prove(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = cache_of(listens=True)
    whole(cache, "r1", "a" * 20)
    assert run(["check", "--events", str(write(tmp_path / "events.jsonl", cache.take_events()))]) == 0
    shown = capsys.readouterr().out
    assert "1 of their endpoints are where their block ends" in shown
    assert NO_ENDPOINT not in shown


def test_nobody_listens_unless_it_is_asked_for() -> None:
    cache = cache_of()
    whole(cache, "r1", "a" * 20)
    assert cache.take_events() == []
    assert cache.index.events() == []


# -- what the documents say


def test_the_documents_have_every_name_and_no_other() -> None:
    text = (Path(__file__).parents[2] / "docs" / "observing.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    reasons = {value for kind in (Reason, Skipped) for name, value in vars(kind).items() if name.isupper()}
    metrics = {f"{key[0]}" for cache in played(schedules=20) for key in samples(cache)}
    report = {StrayWrite.__name__, *StrayWrite.__annotations__}
    assert told == reasons | metrics | report


def test_the_sentence_of_the_documents_is_the_one_that_comes_out() -> None:
    cache = cache_of()
    whole(cache, "r1", "a" * 20)
    cache.evict("state", 1)
    text = (Path(__file__).parents[2] / "docs" / "observing.md").read_text(encoding="utf-8")
    assert f"\n{whole(cache, 'r2', 'a' * 20).sentence()}\n" in text
