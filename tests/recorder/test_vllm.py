"""The recorder inside vLLM 0.33.0, driven by its own scheduler; skipped aloud where `make peers` has not made one."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from milepost.conformance.checking import Checked, check_trace
from milepost.conformance.events import check_events
from milepost.conformance.targets import peer_python

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PEER = peer_python("vllm")
pytestmark = pytest.mark.skipif(PEER is None, reason="vLLM is not installed beside the kit: run `make peers`")

SIMPLE = '{"blocks": 24}'
UNALIGNED = '{"window": 6, "window_block": 4, "budget": 12, "blocks": 34}'


def drive(folder: Path, seed: int, settings: str = SIMPLE, edit: str = "", **environment: str) -> str:
    """Run vLLM under the recorder; return what it printed."""
    recorded = {"MILEPOST_RECORD": "" if edit == "attach" else str(folder), "MILEPOST_RECORD_SALT": "test"}
    paths = os.pathsep.join([str(ROOT / "recorder" / "src"), str(ROOT / "src")])
    run = subprocess.run(
        [str(PEER), "-W", "ignore", str(HERE / "vllm_drive.py"), str(seed), settings, edit, str(folder)],
        env={**os.environ, "PYTHONPATH": paths, **recorded, **environment},
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout + run.stderr


@pytest.mark.parametrize(("folder", "expected"), [("traces", "watched"), ("", "left alone")])
def test_vllms_own_loader_finds_the_plug_in(folder: str, expected: str, tmp_path: Path) -> None:
    declared = tomllib.loads((ROOT / "recorder" / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "milepost_record-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {declared['name']}\nVersion: 0.1.0\n")
    lines = [f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
             for group, entries in declared["entry-points"].items()]
    (installed / "entry_points.txt").write_text("".join(lines))
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "recorder" / "src"), str(ROOT / "src")])
    run = subprocess.run(
        [str(PEER), "-W", "ignore", str(HERE / "vllm_plugins.py")], capture_output=True, text=True, timeout=120,
        check=False, env={**os.environ, "PYTHONPATH": paths, "MILEPOST_RECORD": folder},
    )
    assert run.stdout.strip() == expected, run.stderr


def judged(folder: Path) -> list[Checked]:
    return [check_trace(file) for file in sorted(folder.glob("*.jsonl"))]


@pytest.mark.parametrize("settings", [SIMPLE, '{"block": 32, "state_block": 32, "unit": 16, "budget": 40}',
                                      '{"checkpoint": 1, "unit": 4, "blocks": 26}'])
def test_vllm_as_it_is_records_no_fault(settings: str, tmp_path: Path) -> None:
    drive(tmp_path, 1, settings)
    (checked,) = judged(tmp_path)
    assert (checked.outcome.code, checked.stopped) == ("", "")
    assert checked.counted > 400
    assert (checked.header.capabilities.version, checked.header.partial) == ("0.33.0", ("worker",))


@pytest.mark.parametrize("sample", ["1/2", "1/10"])
def test_a_sample_of_the_requests_records_no_fault_either(sample: str, tmp_path: Path) -> None:
    drive(tmp_path, 2, MILEPOST_RECORD_SAMPLE=sample)
    (checked,) = judged(tmp_path)
    assert (checked.outcome.code, checked.stopped) == ("", "")
    assert "sampled" in checked.header.partial


def test_every_file_of_a_rotation_can_be_judged(tmp_path: Path) -> None:
    drive(tmp_path, 3, MILEPOST_RECORD_BYTES="40000")
    found = judged(tmp_path)
    assert len(found) > 2
    assert {checked.outcome.code for checked in found} == {""}
    assert all("rotated" in checked.header.partial for checked in found[1:])


def test_a_running_scheduler_is_recorded_from_the_call_on(tmp_path: Path) -> None:
    drive(tmp_path, 4, edit="attach")
    (checked,) = judged(tmp_path)
    assert checked.outcome.code == ""
    assert checked.assumed > 0
    assert "attached" in checked.header.partial


def test_a_state_that_is_offered_for_another_length_is_seen(tmp_path: Path) -> None:
    drive(tmp_path, 1, edit="fault")
    (checked,) = judged(tmp_path)
    assert checked.outcome.code in ("torn-hit", "over-advanced", "stale-state", "cross-namespace")


def test_vllms_own_unaligned_chunks_are_seen_in_place(tmp_path: Path) -> None:
    """A block smaller than the state's lets vLLM 0.33.0 end chunks inside a state block, and publish it as whole."""
    drive(tmp_path, 8, UNALIGNED)
    (checked,) = judged(tmp_path)
    assert checked.outcome.code == "torn-hit"


@pytest.mark.parametrize("settings", [SIMPLE, '{"checkpoint": 1, "unit": 4, "blocks": 26}', UNALIGNED])
def test_vllms_own_events_agree_with_themselves_and_a_forged_one_does_not(settings: str, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    drive(tmp_path / "traces", 1, settings, EVENTS=str(events))
    report = check_events(events)
    assert report.fault == ""
    assert report.counts["stored"] > 100
    assert report.counts["removed"] > 100
    assert report.counts["some"] > 10
    first = json.loads(events.read_text().splitlines()[0])[1][0]
    forged = {**first, "token_ids": [one + 1 for one in first["token_ids"]]}
    with events.open("a") as file:
        file.write(json.dumps([0.0, [first, forged]]) + "\n")
    assert "is stored a second time with another text" in check_events(events).fault


def test_an_error_of_the_recorder_leaves_the_engine_alone(tmp_path: Path) -> None:
    printed = drive(tmp_path, 1, edit="crash")
    assert printed.count("switched off") == 1
    assert " requests" in printed
    (checked,) = judged(tmp_path)
    assert checked.stopped.startswith("ZeroDivisionError")
