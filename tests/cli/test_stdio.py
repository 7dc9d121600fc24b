"""A program behind `stdio:` is judged as a cache in process is, and each of its failures is called by its name."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from milepost.conformance.supervisor import Child
from milepost.spec.operations import Close, Extend, Open
from milepost.spec.schedule import Header, Schedule

from .conftest import HERE, Milepost
from .stories import short

TOY = HERE.parent / "conformance" / "toy_program.py"
SERVED = f"stdio:{sys.executable} -m milepost.conformance.serve"


def flat(text: str) -> str:
    return " ".join(text.split())


def script(text: str) -> str:
    """A program that is these lines of Python."""
    return f"stdio:{shlex.join([sys.executable, '-c', text])}"


def toy(manner: str) -> str:
    """The toy program, misbehaving in a manner."""
    return f"stdio:{shlex.join([sys.executable, str(TOY), manner])}"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (script("raise SystemExit('no driver')"), "ended during hello with status 1; its last words: no driver"),
        (script("import os; os.kill(os.getpid(), 9)"), "the program ended during hello by signal SIGKILL"),
        (script("print('Loading ...', flush=True); input()"), "a line that is not JSON: 'Loading ...'"),
        (script("print('{\"id\": 1, \"capab', end='', flush=True)"), "the program ended during hello with status 0"),
        (script("input(); print('[]')"), "answered hello without its id 1: b'[]'"),
        (script("input(); print('{\"id\": 1}')"), "hello got no capabilities"),
        (script("input(); print('{\"id\": 1, \"capabilities\": {}}')"), "capabilities.engine: is missing"),
        (script("input(); print('{\"id\": 1, \"error\": \"no licence\"}')"), "no licence"),
        (f"{SERVED} misbehaving:make=raise", "IndexError: list index out of range"),
        (toy("hello:noise"), "answered hello with a line that is not JSON"),
        (toy("open:noise"), "answered open with a line that is not JSON: 'loading weights ...'"),
        (toy(""), "publish is not supported, and the capabilities declare that it is"),
        (toy('open:{"hit": {"length": -1}}'), "hit.length: expected an integer of at least 0, found -1"),
        (toy('open:{"landing": {}}'), "open cannot be answered with 'landing'"),
        (toy('open:{"adapter_error": "lost count"}'), "open: lost count"),
    ],
)
def test_a_program_that_does_not_keep_to_the_protocol_is_an_adapter_error(
    milepost: Milepost, folder: Path, target: str, message: str
) -> None:
    ended = milepost("replay", short(folder), "--target", target)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("ADAPTER ERROR\n") and message in flat(ended.err)


@pytest.mark.parametrize(
    ("manner", "message"),
    [
        ("extend:exit", "ended during extend with status 7; its last words: segmentation fault, said the toy"),
        ('land:{"error": "KeyError: r1 at radix.rs:7"}', "KeyError: r1 at radix.rs:7"),
    ],
)
def test_a_program_that_fails_at_work_is_the_engines_fault(
    milepost: Milepost, folder: Path, manner: str, message: str
) -> None:
    ended = milepost("replay", short(folder), "--target", toy(manner))
    assert ended.code == 1 and ended.out.startswith("FAULT crash ") and message in flat(ended.out)


def test_a_program_that_hangs_is_the_engines_fault(milepost: Milepost) -> None:
    ended = milepost("run", toy("land:sleep"), "--schedules", "0", "--hang", "0.3s")
    assert ended.code == 1 and "FAULT hang" in ended.out
    assert "no answer to land within 0.3 seconds" in flat(ended.out)
    assert "the run ended early: the engine died or hung 8 times" in flat(ended.out)


def test_a_program_may_take_longer_to_start_than_to_answer(folder: Path) -> None:
    """Each cache is a new program here; that it starts for longer than an operation may take is no hang."""
    slow = folder / "slow.sh"
    slow.write_text(f"#!/bin/sh\nsleep 1\nexec {sys.executable} {TOY}\n")
    slow.chmod(0o755)
    schedule = Schedule(Header(id="slow"), (Open("r1", (1, 2, 3)), Extend("r1", 3), Close("r1")))
    with Child("stdio:./slow.sh", hang_seconds=0.5) as child:
        assert [child.one("outcome", schedule).code for _ in range(2)] == ["", ""]


def test_the_reference_is_judged_the_same_behind_a_wire(milepost: Milepost, folder: Path) -> None:
    for target, name in ((f"{SERVED} misbehaving:Quiet", "wire"), ("misbehaving:Quiet", "process")):
        assert milepost("run", target, "--schedules", "2", "--report", name).code == 0
    wire, process = (json.loads((folder / name / "report.json").read_text()) for name in ("wire", "process"))
    for part in ("marks", "unaligned", "faults", "result"):
        assert wire[part] == process[part]
