"""Whatever an adapter does, one clear message names the culprit, and the exit code says the same."""

import re
import time
from pathlib import Path

import pytest

from .conftest import Milepost
from .stories import short


def flat(text: str) -> str:
    """The text with line breaks and indents as single spaces."""
    return " ".join(text.split())


# -- the engine fails: a fault, exit 1


@pytest.mark.parametrize(
    ("manner", "code", "sentence"),
    [
        ("open=raise", "crash", "op 1 (open r1) raised IndexError: list index out of range at cli/misbehaving.py"),
        ("extend=raise", "crash", "op 2 (extend r1 to 8) raised IndexError"),
        ("launch=raise", "crash", "op 2 (launch) raised IndexError"),
        ("land=raise", "crash", "op 3 (land) raised IndexError"),
        ("publish=raise", "crash", "op 4 (publish r1) raised IndexError"),
        ("close=raise", "crash", "op 5 (close r1) raised IndexError"),
        ("extend=exit", "crash", "exit status 3"),
        ("extend=segfault", "crash", "signal 11"),
        ("extend=quit", "crash", "SystemExit: out of memory at cli/misbehaving.py"),
        ("extend=interrupt", "crash", "KeyboardInterrupt"),
    ],
)
def test_an_engine_that_fails_is_at_fault(milepost: Milepost, folder: Path, manner: str, code: str,
                                          sentence: str) -> None:
    ended = milepost("replay", short(folder), "--target", f"misbehaving:{manner}")
    assert ended.code == 1
    assert ended.out.startswith(f"FAULT {code} ")
    assert sentence in flat(ended.out)
    assert f"milepost replay short.jsonl --target misbehaving:{manner}" in flat(ended.out).replace("\\ ", "")


@pytest.mark.parametrize("manner", ["extend=sleep", "extend=spin"])
def test_an_engine_that_hangs_is_ended_and_at_fault(milepost: Milepost, folder: Path, manner: str) -> None:
    started = time.monotonic()
    ended = milepost("run", f"misbehaving:{manner}", "--schedules", "0", "--hang", "0.3s")
    assert ended.code == 1 and time.monotonic() - started < 60
    assert "FAULT hang" in ended.out and "no answer within 0.3 s" in flat(ended.out)
    assert "the run ended early: the engine died or hung 8 times" in flat(ended.out)


def test_an_engine_that_fails_to_be_looked_into_is_at_fault(milepost: Milepost, folder: Path) -> None:
    ended = milepost("replay", short(folder), "--target", "misbehaving:Uninspectable")
    assert ended.code == 1 and ended.out.startswith("FAULT crash ")
    assert "RuntimeError: the tree was walked while it was split at cli/misbehaving.py" in flat(ended.out)


def test_an_engine_that_dies_again_and_again_ends_the_run_early_and_is_replayed(milepost: Milepost) -> None:
    ended = milepost("run", "misbehaving:extend@2=exit", "--schedules", "0")
    assert ended.code == 1
    assert "the run ended early: the engine died or hung 8 times" in flat(ended.out)
    replays = re.findall(r"milepost (replay \.milepost/faults/crash-[0-9a-f]{6}\.jsonl)", ended.out)
    again = milepost(*replays[0].split())
    assert again.code == 1 and again.out.startswith("FAULT crash ")


# -- the adapter is wrong: exit 3


@pytest.mark.parametrize(
    ("manner", "sentence"),
    [
        ("open=none", "Operation 1, open: an answer that makes no sense: expected one of"),
        ("extend=none", "Operation 2, extend: an answer that makes no sense: expected one of"),
        ("launch=none", "Operation 2, launch: an answer that makes no sense"),
        ("land=none", "Operation 3, land: an answer that makes no sense"),
        ("publish=none", "Operation 4, publish: an answer that makes no sense"),
        ("close=none", "Operation 5, close: an answer that makes no sense"),
        ("extend=integer-table", "table.kv: expected Pages or Slots, found 5"),
        ("extend=text-cell", 'grant.table.kv[0]: expected an integer, found "3"'),
        ("extend=unknown-group", "it names the group 'conv', declared are kv, state"),
        ("open=unknown-group", "it names the group 'conv', declared are kv, state"),
        ("open=negative-length", "hit.length: expected an integer of at least 0, found -3"),
        ("extend=negative-length", "grant.length: expected an integer of at least 0, found -3"),
        ("extend=too-long", "Operation 2, extend:"),
        ("land=stranger", "the answer has a table for 'nobody', which is not open"),
        ("make=raise", "Make failed for 'misbehaving:make=raise': IndexError: list index out of range"),
        ("make=quit", "Make failed for 'misbehaving:make=quit': SystemExit: out of memory"),
        ("make=none", "Make failed for 'misbehaving:make=none': AttributeError"),
        ("make=exit", "'misbehaving:make=exit' did not come up: the process died: exit status 3"),
        ("make=segfault", "'misbehaving:make=segfault' did not come up: the process died: signal 11"),
        ("make=interrupt", "Make failed for 'misbehaving:make=interrupt': KeyboardInterrupt"),
    ],
)
def test_an_adapter_that_is_wrong_is_named(milepost: Milepost, folder: Path, manner: str, sentence: str) -> None:
    ended = milepost("replay", short(folder), "--target", f"misbehaving:{manner}")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("ADAPTER ERROR\n") and sentence in flat(ended.err)
    assert max(map(len, ended.err.splitlines())) <= 80


def test_an_adapter_error_of_a_run_is_kept_for_a_replay_and_no_report_is_written(
    milepost: Milepost, folder: Path
) -> None:
    ended = milepost("run", "misbehaving:close@3=none", "--schedules", "0")
    assert ended.code == 3
    assert ended.err.rstrip().endswith("replay  milepost replay .milepost/faults/adapter-error.jsonl")
    assert [path.name for path in (folder / ".milepost").rglob("*.*")] == ["adapter-error.jsonl"]
    again = milepost("replay", ".milepost/faults/adapter-error.jsonl")
    assert again.code == 3 and "close: an answer that makes no sense" in flat(again.err)


def test_a_declaration_that_small_sizes_contradict_says_which_sizes_were_asked_for(milepost: Milepost) -> None:
    ended = milepost("run", "misbehaving:Undersized", "--schedules", "20")
    assert ended.code == 3
    assert "pool 'state' has fewer cells than the 8 that one request needs (asked for page" in flat(ended.err)


def test_sizes_of_a_schedule_that_a_cache_cannot_have_are_the_persons_mistake(milepost: Milepost, folder: Path) -> None:
    path = Path(short(folder))
    path.write_text(path.read_text(encoding="utf-8").replace('"state": 8', '"state": 2'), encoding="utf-8")
    ended = milepost("replay", str(path))
    assert ended.code == 2
    assert "schedule 'short' asks for sizes that cannot be" in ended.err and "fewer cells than the 3" in ended.err


# -- the kit is wrong: exit 3, and it says so


def test_a_bug_of_the_kit_is_called_one(
    milepost: Milepost, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("milepost.cli.check.check_trace", broken)
    ended = milepost("check", "--example", "torn-hit")
    assert ended.code == 3 and ended.err.startswith("KIT BUG\n")
    assert "ZeroDivisionError: of all things" in flat(ended.err) and "nothing about the engine" in flat(ended.err)


# -- nothing that an engine prints or is called gets in the way


def test_what_an_engine_prints_stays_out_of_the_report(process: Milepost, folder: Path) -> None:
    ended = process("replay", short(folder), "--target", "misbehaving:extend=chatter")
    assert ended.code == 0 and ended.out.startswith("no fault in 5 operations")
    assert "loading weights" in ended.err
