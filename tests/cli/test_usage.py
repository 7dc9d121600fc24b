"""A person's mistake gets one clear message and exit code 2, and leaves nothing behind."""

import gzip
import json
import os
from pathlib import Path

import pytest

from .conftest import Milepost
from .stories import SHORT, short, written


def left_over(folder: Path) -> list[str]:
    """What is in the folder besides what a test put there."""
    return [path.name for path in folder.rglob("*") if path.name not in ("__pycache__", "given")]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("refrence", "milepost: unknown target 'refrence'; did you mean reference or reference:explicit?\n"),
        ("nothing-like-it", "milepost: unknown target 'nothing-like-it'; `milepost list` shows what there is\n"),
        ("misbehaving", "milepost: unknown target 'misbehaving': name a module and its function, such as "
                        "misbehaving:make\n"),
        ("misbehaving.py:make", "milepost: unknown target 'misbehaving.py:make': name the module, not its file, such "
                                "as misbehaving:make\n"),
        ("no_such_module:make", "milepost: unknown target 'no_such_module:make': there is no module "
                                "'no_such_module'\n"),
        ("misbehaving:Quite", "milepost: target 'misbehaving:Quite': module 'misbehaving' has no function 'Quite'; did "
                              "you mean Quiet?\n"),
        ("mutant:final-state", "milepost: unknown mutant 'final-state'; did you mean final-state-is-floored?\n"),
        ("liberty:none-at-all", "milepost: unknown liberty 'none-at-all'; `milepost list --liberties` shows what there "
                                "is\n"),
        ("stdio:", "milepost: 'stdio:' names no program: write stdio:./program and its arguments\n"),
        ("stdio:./nothing", "milepost: './nothing' cannot be started: No such file or directory\n"),
        ("x" * 500, f"milepost: unknown target '{'x' * 500}'; `milepost list` shows what there is\n"),
    ],
)
def test_an_unknown_target_is_told_with_what_may_have_been_meant(
    milepost: Milepost, folder: Path, target: str, message: str
) -> None:
    ended = milepost("run", target)
    assert (ended.code, ended.out, ended.err) == (2, "", message)
    assert not left_over(folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["run", "--seed", "-1"], "'--seed': -1 is not in the range x>=0"),
        (["run", "--seed", "one"], "'one' is not a valid integer"),
        (["run", "--schedules", "-1"], "-1 is not in the range x>=0"),
        (["run", "--length", "0"], "0 is not in the range 1<=x<=10000"),
        (["run", "--budget", "soon"], "'soon' is not a duration such as 60s, 2m or 1h"),
        (["run", "--budget", "0s"], "'0s' is not between 0.001s and 720h"),
        (["run", "--hang", "0.01s"], "'0.01s' is not between 0.1s and 720h"),
        (["run", "--hang", "800h"], "'800h' is not between 0.1s and 720h"),
        (["run", "--tier", "weekly"], "'weekly' is not one of 'deterministic', 'nightly'"),
        (["run", "--format", "xml"], "'xml' is not one of 'text', 'json', 'github'"),
        (["run", "--profile", "hybird"], "unknown profile 'hybird'; there are paged, hybrid"),
        (["run", "reference", "again"], "unexpected extra argument (again)"),
        (["replay"], "Missing argument 'FILE'"),
        (["check"], "one --example of: cross-namespace"),
        (["check", "--example", "nothing"], "there is no example 'nothing'; there are cross-namespace"),
        (["check", "--example", "torn-hit", "a.jsonl"], "one --example of: cross-namespace"),
        (["explain", "tornhit"], "nothing is called 'tornhit'; did you mean torn-hit"),
        (["selftest", "--only", "final-state-is-flored"], "did you mean final-state-is-floored?"),
        (["selftest", "--only", "nothing-like-it"], "there is no mutant or liberty 'nothing-like-it'"),
        (["selftest", "--jobs", "0"], "0 is not in the range 1<=x<=64"),
    ],
)
def test_a_wrong_command_line_is_told(
    milepost: Milepost, folder: Path, arguments: list[str], message: str
) -> None:
    ended = milepost(*arguments)
    assert (ended.code, ended.out) == (2, "") and message in ended.err
    assert not left_over(folder)


# -- files that cannot be read


@pytest.mark.parametrize("arguments", [["replay"], ["check"], ["run", "--trace"], ["run", "--known"]])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "given: cannot be read: No such file or directory"),
        ("folder", "given: cannot be read: Is a directory"),
        (b"\xff\xfe\x00binary", "given"),
        (b"{'op': 'open'}\n", "given:1"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_before_anything_runs(
    milepost: Milepost, folder: Path, arguments: list[str], content: bytes | str | None, message: str
) -> None:
    if isinstance(content, bytes):
        (folder / "given").write_bytes(content)
    elif content:
        (folder / "given").mkdir()
    ended = milepost(*arguments, "given")
    assert ended.code == 2 and ended.err.removeprefix(NO_TARGET).startswith(f"milepost: {message}")
    assert len(ended.err.removeprefix(NO_TARGET).splitlines()) == 1
    assert not left_over(folder)


NO_TARGET = "No target was named: judging milepost, the production cache.\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "given: the file is empty: the first line has to be"),
        (SHORT.replace('"to": 8}', '"to": 8'), "given:3:"),
        (SHORT.replace('"to": 8', '"to": "8"'), 'given:3: to: expected an integer, found "8"'),
        (SHORT.replace('"to": 8', '"to": -8'), "given:3: to: expected an integer of at least 0"),
        (SHORT.replace('"op": "land"', '"op": "lnad"'), "given:4: op: unknown verb 'lnad'"),
        (SHORT.replace('"op": "land"', '"op": "offload"'), "given:4: op: 'offload' is reserved"),
        (SHORT.replace('"page_size": 4', '"page_size": 0'), "given:1: page_size: expected an integer of at least 1"),
        (SHORT.replace('"schedule": 1', '"schedule": 2'), "given:1: schedule format 2 is newer than 1"),
        (SHORT.replace('"ababaabbaaabbbba"', '"a99999999|b9"'), "given:2: tokens: expected at most"),
        (SHORT.replace('{"end": 5}\n', ""), "given:6: the file is cut short after this line"),
        (SHORT.replace('{"end": 5}', '{"end": 6}'), "given:7: end: counts 6 operations, but there are 5"),
        (SHORT + "{}\n", "given:8: text after the end line"),
    ],
)
def test_a_malformed_schedule_is_told_with_its_line(
    milepost: Milepost, folder: Path, text: str, message: str
) -> None:
    ended = milepost("replay", written(folder, "given", text))
    assert ended.code == 2 and ended.err.startswith(f"milepost: {message}") and ended.err.count("\n") == 1


def test_a_schedule_of_an_engine_with_several_configurations_asks_for_one(milepost: Milepost, folder: Path) -> None:
    found_on = SHORT.replace('"schedule": 1', '"schedule": 1, "target": "vllm"')
    ended = milepost("replay", written(folder, "given", found_on))
    assert ended.code == 2 and ended.err.startswith("milepost: 'vllm' stands for vllm:")
    assert ended.err.endswith("name one with --target\n")


def test_a_damaged_archive_is_told(milepost: Milepost, folder: Path) -> None:
    (folder / "given").write_bytes(gzip.compress(SHORT.encode() * 50)[:90])
    ended = milepost("replay", "given")
    assert ended.code == 2 and "given" in ended.err and "is damaged after this line" in ended.err


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"page_size": 10**30}, "given:1: page_size: expected an integer of at most 1048576"),
        ({"pools": {"kv": 10**13, "state": 8}}, "given:1: pools.kv: expected an integer of at most 16777216"),
        ({"pools": {"kv": 12}}, "schedule 'short' asks for sizes that cannot be: make failed for 'reference'"),
        ({"pools": {"kv": 12, "state": 1}}, "schedule 'short' asks for sizes that cannot be: 'reference' declares"),
    ],
)
def test_sizes_that_no_cache_can_have_are_told(
    milepost: Milepost, folder: Path, sizes: dict[str, object], message: str
) -> None:
    header, *operations = SHORT.splitlines()
    text = "\n".join([json.dumps(json.loads(header) | sizes), *operations])
    ended = milepost("replay", written(folder, "given", text))
    assert ended.code == 2 and ended.err.startswith(f"milepost: {message}")


# -- known faults


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[fault]\n", "given:1:"),
        ('[[fault]]\ncode = "torn-hit"\nfingerprint = "3f9c1a"\n', "given: fault 1: has no url"),
        ('[[fault]]\ncode = "torn"\nfingerprint = "3f9c1a"\nurl = "https://x/1"\n', "given: fault 1: unknown code"),
        ('[[fault]]\ncode = "leak"\nfingerprint = "soon"\nurl = "https://x/1"\n', "given: fault 1: fingerprint 'soon'"),
        ('[[fault]]\ncode = "leak"\nfingerprint = "3f9c1a"\nurl = "later"\n', "given: fault 1: its url is not"),
    ],
)
def test_a_malformed_list_of_known_faults_is_told(milepost: Milepost, folder: Path, text: str, message: str) -> None:
    ended = milepost("run", "reference", "--known", written(folder, "given", text))
    assert ended.code == 2 and ended.err.startswith(f"milepost: {message}") and ended.err.count("\n") == 1


# -- places that cannot be written to


@pytest.mark.parametrize("place", ["given", "given/deeper", "given/deeper/still"])
def test_a_report_that_cannot_be_written_is_told_before_the_run(milepost: Milepost, folder: Path, place: str) -> None:
    written(folder, "given", "")
    ended = milepost("run", "reference", "--report", place)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"milepost: {place}: cannot be written to: {folder / 'given'} is no folder\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is write-protected from this user")
def test_a_write_protected_folder_is_told_before_the_run(milepost: Milepost, folder: Path) -> None:
    folder.chmod(0o555)
    ended = milepost("run", "reference")
    folder.chmod(0o755)
    assert ended.code == 2 and "is write-protected" in ended.err


def test_what_was_found_is_shown_also_where_it_cannot_be_written(
    milepost: Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("milepost.cli.run.write_reports", full)
    ended = milepost("run", "mutant:final-state-is-floored", "--schedules", "0")
    assert ended.code == 2 and "FAULT over-advanced" in ended.out
    assert ended.err.endswith(".milepost/report: the reports could not be written: No space left on device\n")


def test_a_record_that_cannot_be_written_is_told(milepost: Milepost, folder: Path) -> None:
    (folder / "given").mkdir()
    ended = milepost("replay", short(folder), "--record", "given")
    assert ended.code == 2 and ended.err == "milepost: given: is a folder, and a file is to be written there\n"
