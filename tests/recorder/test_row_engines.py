"""The recorder inside FreeToken 0.2.1 and SGLang 0.5.23, driven by their own loops; skipped aloud without them."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from milepost.cli.main import run
from milepost.conformance.checking import Checked, check_trace
from milepost.conformance.events import check_events
from milepost.conformance.targets import peer_python

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATHS = os.pathsep.join([str(ROOT / "recorder" / "src"), str(ROOT / "src")])

PEERS = {engine: peer_python(engine) for engine in ("freetoken", "sglang")}
NAMES = {"freetoken": "FreeToken", "sglang": "SGLang"}
VERSIONS = {"freetoken": "0.2.1", "sglang": "0.5.23"}


def needs(engine: str, *values: object) -> object:
    """Mark a case that runs where an engine is installed."""
    reason = f"{NAMES[engine]} is not installed beside the kit: run `make peers`"
    return pytest.param(engine, *values, marks=pytest.mark.skipif(PEERS[engine] is None, reason=reason))


BOTH = pytest.mark.parametrize("engine", [needs("freetoken"), needs("sglang")])


def drive(engine: str, folder: Path, seed: int, edit: str = "", **environment: str) -> str:
    """Run an engine's loop under the recorder; return what it printed."""
    recorded = {"MILEPOST_RECORD": "" if edit == "attach" else str(folder), "MILEPOST_RECORD_SALT": "test"}
    done = subprocess.run(
        [str(PEERS[engine]), "-P", "-W", "ignore", str(HERE / f"{engine}_drive.py"), str(seed), str(folder), edit],
        env={**os.environ, "PYTHONPATH": PATHS, **recorded, **environment},
        capture_output=True, text=True, timeout=240, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def judged(folder: Path) -> list[Checked]:
    return [check_trace(file) for file in sorted(folder.glob("*.jsonl"))]


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
def test_an_engine_as_it_is_records_no_fault(engine: str, settings: str, tmp_path: Path) -> None:
    drive(engine, tmp_path, 1, SETTINGS=settings)
    (checked,) = judged(tmp_path)
    assert (checked.outcome.code, checked.stopped) == ("", "")
    assert checked.counted > 700
    assert hits(tmp_path) > 15
    assert (checked.header.capabilities.version, checked.header.partial) == (VERSIONS[engine], ())


@BOTH
def test_a_sample_of_the_requests_in_files_that_rotate_records_no_fault_either(engine: str, tmp_path: Path) -> None:
    drive(engine, tmp_path, 2, MILEPOST_RECORD_SAMPLE="1/2", MILEPOST_RECORD_BYTES="20000")
    found = judged(tmp_path)
    assert len(found) > 2
    assert {checked.outcome.code for checked in found} == {""}
    assert all("sampled" in checked.header.partial for checked in found)
    assert all("rotated" in checked.header.partial for checked in found[1:])


@BOTH
def test_a_running_scheduler_is_recorded_from_the_call_on(engine: str, tmp_path: Path) -> None:
    drive(engine, tmp_path, 3, edit="attach")
    (checked,) = judged(tmp_path)
    assert checked.outcome.code == ""
    assert checked.assumed > 0
    assert checked.header.partial == ("attached",)


@BOTH
def test_a_restore_from_another_state_is_seen(engine: str, tmp_path: Path) -> None:
    drive(engine, tmp_path, 1, edit="fault")
    (checked,) = judged(tmp_path)
    assert checked.outcome.code in ("torn-hit", "over-advanced", "stale-state", "cross-namespace", "uninitialized-read")
    (file,) = tmp_path.glob("*.jsonl")
    assert run(["check", str(file)]) == 1


@BOTH
def test_an_error_of_the_recorder_leaves_the_engine_alone(engine: str, tmp_path: Path) -> None:
    printed = drive(engine, tmp_path, 1, edit="crash")
    assert printed.count("switched off") == 1
    assert " requests" in printed
    (checked,) = judged(tmp_path)
    assert checked.stopped.startswith("ZeroDivisionError")


@pytest.mark.skipif(PEERS["freetoken"] is None, reason="FreeToken is not installed beside the kit: run `make peers`")
def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    printed = drive("freetoken", tmp_path, 1, edit="full")
    assert printed.count("switched off, the engine runs on: OSError: no space left") == 1
    assert " requests" in printed


@pytest.mark.skipif(PEERS["sglang"] is None, reason="SGLang is not installed beside the kit: run `make peers`")
def test_sglangs_own_loader_finds_the_plug_in_and_its_events_agree_with_themselves(tmp_path: Path) -> None:
    declared = tomllib.loads((ROOT / "recorder" / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "packages" / "milepost_record-0.1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {declared['name']}\nVersion: 0.1.0\n")
    entries = declared["entry-points"]["sglang.srt.plugins"]
    (installed / "entry_points.txt").write_text(
        "[sglang.srt.plugins]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
    )
    paths, events = os.pathsep.join([str(tmp_path / "packages"), PATHS]), tmp_path / "events.jsonl"
    drive("sglang", tmp_path / "traces", 4, edit="plugin", PYTHONPATH=paths, EVENTS=str(events))
    (checked,) = judged(tmp_path / "traces")
    assert (checked.outcome.code, checked.stopped) == ("", "")
    report = check_events(events)
    assert report.fault == ""
    assert report.counts["stored"] > 100
    assert report.counts["removed"] > 50
