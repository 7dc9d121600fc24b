"""The recorder inside FreeToken 0.2.1 and SGLang 0.5.23, driven by their own loops; skipped aloud without them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from milepost.cli.main import run
from milepost.conformance.events import check_events

from .drives import ABSENT, PEERS, Drives, install_plug_in, judged

Begin = Callable[[str], Drives]
VERSIONS = {"freetoken": "0.2.1", "sglang": "0.5.23"}


def needs(engine: str, *values: object) -> object:
    """Mark a case that runs where an engine is installed."""
    return pytest.param(engine, *values, marks=pytest.mark.skipif(PEERS[engine] is None, reason=ABSENT[engine]))


BOTH = pytest.mark.parametrize("engine", [needs("freetoken"), needs("sglang")])
FREETOKEN = pytest.mark.skipif(PEERS["freetoken"] is None, reason=ABSENT["freetoken"])
SGLANG = pytest.mark.skipif(PEERS["sglang"] is None, reason=ABSENT["sglang"])


def hits(folder: Path) -> int:
    """Count the openings that were offered something: a recording without any would show nothing."""
    return sum('"op":"open"' in line and '"hit":{"length":0}' not in line
               for file in folder.glob("*.jsonl") for line in file.read_text().splitlines())


@pytest.mark.parametrize(("engine", "settings"), [
    needs("freetoken", "{}"),
    needs("freetoken", '{"page": 16, "chunk": 16, "tokens": 640}'),
    needs("sglang", '{"core": "rust"}'),
    needs("sglang", '{"strategy": "no_buffer", "overlap": false}'),
    needs("sglang", '{"page": 16, "chunk": 16, "tokens": 512}'),
])
def test_an_engine_as_it_is_records_no_fault(engine: str, settings: str, drives_of: Begin, tmp_path: Path) -> None:
    drives_of(engine).run(tmp_path, 1, SETTINGS=settings)
    (checked,) = judged(tmp_path)
    assert (checked.outcome.code, checked.stopped) == ("", "")
    assert checked.counted > 700
    assert hits(tmp_path) > 15
    assert (checked.header.capabilities.version, checked.header.partial) == (VERSIONS[engine], ())


TIGHT = {"ratio": 0, "answer": 80, "slots": 60, "rows": 6}


@SGLANG
@pytest.mark.parametrize("settings", [
    {**TIGHT, "tokens": 160},
    {**TIGHT, "tokens": 240, "page": 16, "chunk": 16, "mixed": True, "core": "rust"},
])
def test_sglang_that_retracts_requests_records_no_fault(
    settings: dict[str, object], drives_of: Begin, tmp_path: Path
) -> None:
    printed = drives_of("sglang").run(tmp_path, 4, SETTINGS=json.dumps(settings))
    retracted = int(printed.rsplit(", ", 1)[1].split()[0])
    assert retracted > 3
    (checked,) = judged(tmp_path)
    assert (checked.outcome.code, checked.stopped) == ("", "")
    assert checked.counted > 700
    assert hits(tmp_path) > retracted


MIXED = {"mixed": True}
CUT = {**MIXED, "page": 16, "chunk": 16, "tokens": 512, "budget": 32}


@SGLANG
@pytest.mark.parametrize(("settings", "story", "found"), [
    ({}, ["first_decode_step_on_a_boundary"], "over-advanced"),
    ({}, ["first_decode_step_on_a_boundary", 14], ""),
    (MIXED, ["boundary_in_a_mixed_step"], "over-advanced"),
    (MIXED, ["boundary_in_a_mixed_step", 21], ""),
    (CUT, ["chunk_cut_inside_a_page"], "over-advanced"),
    (CUT, ["chunk_cut_inside_a_page", 0], ""),
])
def test_sglangs_own_faults_are_seen_in_place_and_their_neighbours_are_none(
    settings: dict[str, object], story: list[object], found: str, drives_of: Begin, tmp_path: Path
) -> None:
    drives_of("sglang").run(tmp_path, 1, SETTINGS=json.dumps({**settings, "core": "rust", "story": story}))
    (checked,) = judged(tmp_path)
    assert (checked.outcome.code, checked.stopped) == (found, "")
    assert hits(tmp_path) == 1


@BOTH
def test_a_sample_of_the_requests_in_files_that_rotate_records_no_fault_either(
    engine: str, drives_of: Begin, tmp_path: Path
) -> None:
    drives_of(engine).run(tmp_path, 2, MILEPOST_RECORD_SAMPLE="1/2", MILEPOST_RECORD_BYTES="20000")
    found = judged(tmp_path)
    assert len(found) > 2
    assert {checked.outcome.code for checked in found} == {""}
    assert all("sampled" in checked.header.partial for checked in found)
    assert all("rotated" in checked.header.partial for checked in found[1:])


@BOTH
def test_a_running_scheduler_is_recorded_from_the_call_on(engine: str, drives_of: Begin, tmp_path: Path) -> None:
    drives_of(engine).run(tmp_path, 3, edit="attach")
    (checked,) = judged(tmp_path)
    assert checked.outcome.code == ""
    assert checked.assumed > 0
    assert checked.header.partial == ("attached",)


@BOTH
def test_a_restore_from_another_state_is_seen(engine: str, drives_of: Begin, tmp_path: Path) -> None:
    drives_of(engine).run(tmp_path, 1, edit="fault")
    (checked,) = judged(tmp_path)
    assert checked.outcome.code in ("torn-hit", "over-advanced", "stale-state", "cross-namespace", "uninitialized-read")
    (file,) = tmp_path.glob("*.jsonl")
    assert run(["check", str(file)]) == 1


@BOTH
def test_an_error_of_the_recorder_leaves_the_engine_alone(engine: str, drives_of: Begin, tmp_path: Path) -> None:
    printed = drives_of(engine).run(tmp_path, 1, edit="crash")
    assert printed.count("switched off") == 1
    assert " requests" in printed
    (checked,) = judged(tmp_path)
    assert checked.stopped.startswith("ZeroDivisionError")


@FREETOKEN
def test_a_full_disk_ends_the_recording_and_nothing_else(drives_of: Begin, tmp_path: Path) -> None:
    printed = drives_of("freetoken").run(tmp_path, 1, edit="full")
    assert printed.count("switched off, the engine runs on: OSError: no space left") == 1
    assert " requests" in printed


@SGLANG
def test_sglangs_own_loader_finds_the_plug_in_and_its_events_agree_with_themselves(
    drives_of: Begin, tmp_path: Path
) -> None:
    packages, events = tmp_path / "packages", tmp_path / "events.jsonl"
    install_plug_in(packages, "sglang.srt.plugins")
    drives_of("sglang").run(tmp_path / "traces", 4, "plugin", PACKAGES=str(packages), EVENTS=str(events))
    (checked,) = judged(tmp_path / "traces")
    assert (checked.outcome.code, checked.stopped) == ("", "")
    report = check_events(events)
    assert report.fault == ""
    assert report.counts["stored"] > 100
    assert report.counts["removed"] > 50
