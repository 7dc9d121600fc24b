"""Schedules, traces and adapters go from command to command as files."""

import json
from pathlib import Path

import pytest

from milepost.cli.check import example_names

from .conftest import Milepost
from .stories import FLOORED, short, written

MUTANT = "mutant:final-state-is-floored"


@pytest.fixture
def trace(milepost: Milepost, folder: Path) -> Path:
    """What the reference answered to a short schedule."""
    assert milepost("replay", short(folder), "--record", "trace.jsonl").code == 0
    return folder / "trace.jsonl"


def test_a_recorded_replay_is_judged_again_without_the_cache(milepost: Milepost, trace: Path) -> None:
    ended = milepost("check", "trace.jsonl")
    assert ended.code == 0 and ended.out.startswith("no fault in 5 operations (milepost reference ")


def test_the_schedule_inside_a_trace_is_replayed(milepost: Milepost, trace: Path) -> None:
    ended = milepost("replay", "trace.jsonl", "--target", "reference:explicit")
    assert ended.code == 0 and ended.out.startswith("no fault in 5 operations")


def test_a_fault_is_the_same_from_the_trace_as_from_the_cache(milepost: Milepost, folder: Path) -> None:
    written(folder, "floored.jsonl", FLOORED)
    live = milepost("replay", "floored.jsonl", "--target", MUTANT, "--record", "traces/floored.jsonl")
    assert live.code == 1
    checked = milepost("check", "traces/floored.jsonl")
    assert checked.code == 1
    assert live.out.splitlines()[0] == checked.out.splitlines()[0]
    assert live.out.splitlines()[0].startswith("FAULT over-advanced ")
    again = milepost("replay", "traces/floored.jsonl")
    assert again.code == 1, "the trace names the target that it was recorded from"


def test_a_crash_is_recorded_as_one(milepost: Milepost, folder: Path) -> None:
    target = "misbehaving:publish=raise"
    assert milepost("replay", short(folder), "--target", target, "--record", "trace.jsonl").code == 1
    assert "crash" in json.loads((folder / "trace.jsonl").read_text().splitlines()[-2])["got"]
    assert milepost("check", "trace.jsonl").out.startswith("FAULT crash ")


def test_blank_lines_are_counted_and_not_read(milepost: Milepost, folder: Path, trace: Path) -> None:
    lines = trace.read_text().splitlines()
    written(folder, "spaced.jsonl", "\n\n".join(lines) + "\n")
    assert milepost("check", "spaced.jsonl").code == 0
    written(folder, "spaced.jsonl", "\n\n".join([lines[0], *lines[2:]]) + "\n")
    assert milepost("check", "spaced.jsonl").err.startswith("milepost: spaced.jsonl:3: this cannot follow: ")


def test_a_trace_out_of_order_names_the_line_that_cannot_follow(milepost: Milepost, trace: Path) -> None:
    lines = trace.read_text().splitlines()
    trace.write_text("\n".join([lines[0], *lines[2:-1], json.dumps({"end": len(lines) - 3})]) + "\n")
    ended = milepost("check", "trace.jsonl")
    assert ended.code == 2 and ended.err == "milepost: trace.jsonl:2: this cannot follow: 'r1' is not open\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"kv": [', '"conv": [', "this cannot follow: it names the group 'conv', declared are kv, state"),
        ('"grant": {', '"landing": {', "this cannot follow: extend was answered with 'landing'"),
        ('"length": 8', '"length": 9', "this cannot follow: "),
        ('"initial_state": {"state"', '"initial_state": {"conv"', "this cannot follow: it names the group 'conv'"),
    ],
)
def test_a_trace_that_was_tampered_with_is_told(
    milepost: Milepost, trace: Path, old: str, new: str, message: str
) -> None:
    lines = trace.read_text().splitlines()
    assert old in lines[2]
    lines[2] = lines[2].replace(old, new, 1)
    trace.write_text("\n".join(lines) + "\n")
    ended = milepost("check", "trace.jsonl")
    assert ended.code == 2 and ended.err.startswith(f"milepost: trace.jsonl:3: {message}")


def test_a_trace_that_was_cut_short_is_told(milepost: Milepost, trace: Path) -> None:
    trace.write_text("\n".join(trace.read_text().splitlines()[:-1]) + "\n")
    ended = milepost("check", "trace.jsonl")
    assert ended.code == 2 and "the file is cut short after this line" in ended.err


def test_a_schedule_is_no_trace(milepost: Milepost, folder: Path) -> None:
    ended = milepost("check", short(folder))
    assert ended.code == 2 and "this is a schedule: the first line has to be" in ended.err


def test_every_example_faults_with_the_code_that_it_is_named_after(milepost: Milepost) -> None:
    assert len(example_names()) >= 10
    for name in example_names():
        ended = milepost("check", "--example", name)
        assert ended.code == 1 and ended.out.startswith(f"FAULT {name} ")
        assert f"milepost check --example {name}" in ended.out


# -- the skeleton


def test_a_new_adapter_runs_as_it_is_wherever_it_was_written(milepost: Milepost, folder: Path) -> None:
    ended = milepost("new-adapter", "tools/acme_milepost.py", "--engine", "acme")
    assert ended.out == "Wrote tools/acme_milepost.py. Judge it with: milepost run tools.acme_milepost:make\n"
    assert len((folder / "tools/acme_milepost.py").read_text().splitlines()) <= 80
    ended = milepost("replay", short(folder), "--target", "tools.acme_milepost:make")
    assert ended.code == 0 and ended.out.startswith("no fault in 5 operations (acme 0.0)")


def test_a_new_adapter_replaces_nothing_unless_told(milepost: Milepost, folder: Path) -> None:
    written(folder, "acme_milepost.py", "mine\n")
    ended = milepost("new-adapter", "acme_milepost.py")
    assert ended.code == 2 and "is there already; --force replaces it" in ended.err
    assert (folder / "acme_milepost.py").read_text() == "mine\n"
    assert milepost("new-adapter", "acme_milepost.py", "--force").code == 0
    assert "class Adapter" in (folder / "acme_milepost.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["acme.txt"], "'acme.txt' cannot be imported"),
        (["1st.py"], "'1st.py' cannot be imported"),
        (["class.py"], "'class.py' cannot be imported"),
        (["json.py"], "'json.py' would hide the module 'json'"),
        (["milepost.py"], "'milepost.py' would hide the module 'milepost'"),
        (["folder.py"], "folder.py: is a folder"),
        (["file/acme.py"], "cannot be written to"),
        (["acme.py", "--engine", 'a"b'], "'a\"b' is no name for an engine"),
    ],
)
def test_a_file_that_could_not_be_an_adapter_is_not_written(
    milepost: Milepost, folder: Path, arguments: list[str], message: str
) -> None:
    (folder / "folder.py").mkdir()
    written(folder, "file", "")
    ended = milepost("new-adapter", *arguments)
    assert ended.code == 2 and message in ended.err
    assert sorted(path.name for path in folder.rglob("*")) == ["file", "folder.py"]
