"""The recorder inside vLLM 0.33.0, driven by its own scheduler; skipped aloud where `make peers` has not made one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from milepost.conformance.events import check_events

from .drives import ABSENT, HERE, PATHS, PEERS, Drives, install_plug_in, judged

pytestmark = pytest.mark.skipif(PEERS["vllm"] is None, reason=ABSENT["vllm"])

SIMPLE = '{"blocks": 24}'
UNALIGNED = '{"window": 6, "window_block": 4, "budget": 12, "blocks": 34}'

Drive = Callable[..., str]


@pytest.fixture
def drive(drives_of: Callable[[str], Drives]) -> Drive:
    """Run vLLM under the recorder; return what it printed."""
    def run(folder: Path, seed: int, settings: str = SIMPLE, edit: str = "", **environment: str) -> str:
        return drives_of("vllm").run(folder, seed, edit, SETTINGS=settings, **environment)
    return run


@pytest.mark.parametrize(("folder", "expected"), [("traces", "watched"), ("", "left alone")])
def test_vllms_own_loader_finds_the_plug_in(folder: str, expected: str, tmp_path: Path) -> None:
    install_plug_in(tmp_path, "vllm.general_plugins")
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *PATHS]), "MILEPOST_RECORD": folder}
    run = subprocess.run(
        [str(PEERS["vllm"]), "-P", "-W", "ignore", str(HERE / "vllm_plugins.py")], env={**os.environ, **environment},
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert run.stdout.strip() == expected, run.stderr


@pytest.mark.parametrize("settings", [SIMPLE, '{"block": 32, "state_block": 32, "unit": 16, "budget": 40}',
                                      '{"checkpoint": 1, "unit": 4, "blocks": 26}'])
def test_vllm_as_it_is_records_no_fault(settings: str, drive: Drive, tmp_path: Path) -> None:
    drive(tmp_path, 1, settings)
    (checked,) = judged(tmp_path)
    assert (checked.outcome.code, checked.stopped) == ("", "")
    assert checked.counted > 400
    assert (checked.header.capabilities.version, checked.header.partial) == ("0.33.0", ("worker",))


@pytest.mark.parametrize("sample", ["1/2", "1/10"])
def test_a_sample_of_the_requests_records_no_fault_either(sample: str, drive: Drive, tmp_path: Path) -> None:
    drive(tmp_path, 2, MILEPOST_RECORD_SAMPLE=sample)
    (checked,) = judged(tmp_path)
    assert (checked.outcome.code, checked.stopped) == ("", "")
    assert "sampled" in checked.header.partial


def test_every_file_of_a_rotation_can_be_judged(drive: Drive, tmp_path: Path) -> None:
    drive(tmp_path, 3, MILEPOST_RECORD_BYTES="40000")
    found = judged(tmp_path)
    assert len(found) > 2
    assert {checked.outcome.code for checked in found} == {""}
    assert all("rotated" in checked.header.partial for checked in found[1:])


def test_a_running_scheduler_is_recorded_from_the_call_on(drive: Drive, tmp_path: Path) -> None:
    drive(tmp_path, 4, edit="attach")
    (checked,) = judged(tmp_path)
    assert checked.outcome.code == ""
    assert checked.assumed > 0
    assert "attached" in checked.header.partial


def test_a_state_that_is_offered_for_another_length_is_seen(drive: Drive, tmp_path: Path) -> None:
    drive(tmp_path, 1, edit="fault")
    (checked,) = judged(tmp_path)
    assert checked.outcome.code in ("torn-hit", "over-advanced", "stale-state", "cross-namespace")


def test_vllms_own_unaligned_chunks_are_seen_in_place(drive: Drive, tmp_path: Path) -> None:
    """A block smaller than the state's lets vLLM 0.33.0 end chunks inside a state block, and publish it as whole."""
    drive(tmp_path, 8, UNALIGNED)
    (checked,) = judged(tmp_path)
    assert checked.outcome.code == "torn-hit"


@pytest.mark.parametrize("settings", [SIMPLE, '{"checkpoint": 1, "unit": 4, "blocks": 26}', UNALIGNED])
def test_vllms_own_events_agree_with_themselves_and_a_forged_one_does_not(
    settings: str, drive: Drive, tmp_path: Path
) -> None:
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


def test_an_error_of_the_recorder_leaves_the_engine_alone(drive: Drive, tmp_path: Path) -> None:
    printed = drive(tmp_path, 1, edit="crash")
    assert printed.count("switched off") == 1
    assert " requests" in printed
    (checked,) = judged(tmp_path)
    assert checked.stopped.startswith("ZeroDivisionError")
