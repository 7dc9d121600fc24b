"""The command line as a process: pipes, terminals, interrupts. Whatever ends it, nothing that it started is left."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import HERE, Ended, Milepost, command
from .stories import short

HANGING_PROGRAM = f"stdio:{sys.executable} {HERE / 'hanging_program.py'}"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")


def descendants(process: int) -> set[int]:
    """The processes that a process has started, and theirs."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found: set[int] = set()
    grown = {process}
    while grown:
        found |= grown
        grown = {one for one, parent in parents.items() if parent in grown} - found
    return found - {process}


def is_alive(process: int) -> bool:
    """Whether a process runs; one that only waits to be noticed does not."""
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Iterator[bool], seconds: float) -> bool:
    """Wait until the next answer is yes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if next(condition):
            return True
        time.sleep(0.05)
    return False


def running(target: str, marker: Path) -> tuple[subprocess.Popen[str], set[int]]:
    """Start a run in a session of its own, and wait until its engine hangs."""
    process = subprocess.Popen(
        command("run", target, "--report", "out", "--hang", "60s"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "MILEPOST_TEST_MARKER": str(marker)},
    )
    assert wait_for(iter(marker.exists, None), 60), process.communicate(timeout=5)
    return process, descendants(process.pid)


SPINNING, FORKING = "misbehaving:extend=marked-spin", "misbehaving:extend=fork"


@pytest.mark.parametrize(
    ("target", "number", "code"),
    [
        pytest.param(target, number, code, id=f"{name}-{number.name}")
        for name, target in (("in-process", SPINNING), ("forking", FORKING), ("stdio", HANGING_PROGRAM))
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9))
        if (target, number) != (FORKING, signal.SIGKILL)  # nobody is left to end what an engine has started
    ],
)
def test_what_ends_a_run_ends_all_that_it_started(folder: Path, target: str, number: signal.Signals, code: int) -> None:
    process, started = running(target, folder / "marker")
    assert started
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does: the children get it too
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, "")
    assert err.strip() == ("" if number is signal.SIGKILL else "milepost: stopped")
    assert wait_for(iter(lambda: not any(map(is_alive, started)), None), 15)
    assert sorted(path.name for path in folder.iterdir()) == ["marker"]


def piped(*arguments: str) -> tuple[int, str, str]:
    """Run a command whose output is read by somebody who stops after one line."""
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stderr
    line = process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    return process.wait(timeout=60), line, err


@pytest.mark.parametrize("arguments", [["list", "--mutants"], ["explain", "torn-hit"], ["check", "--example", "leak"]])
def test_a_reader_who_stops_early_sees_no_error(arguments: list[str]) -> None:
    code, line, err = piped(*arguments)
    assert code in (0, 1, 141) and line and not err


def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(command("explain", "leak"), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "milepost: the output: No space left on device\n")


@pytest.mark.parametrize("closed", [1, 2])
def test_an_output_that_is_closed_disturbs_nothing(closed: int) -> None:
    shell = f"exec \"$@\" {closed}>&-"
    done = subprocess.run(["sh", "-c", shell, "sh", *command("check", "--example", "leak")], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and "Traceback" not in done.stderr


def test_an_output_that_knows_only_ascii_gets_ascii(process: Milepost) -> None:
    for arguments in (["list"], ["list", "--mutants"], ["explain", "leak"]):
        ended = process(*arguments, PYTHONIOENCODING="ascii", COLUMNS="40")
        assert ended.code == 0 and ended.out.isascii()


def on_a_terminal(*arguments: str, **environment: str) -> Ended:
    """Run a command on a terminal of its own; both outputs are one there."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen(command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        output += chunk
    os.close(ours)
    return Ended(process.wait(timeout=60), output.decode(), "")


@pytest.mark.parametrize("columns", ["80", "20"])
def test_a_terminal_shows_a_bar_while_it_runs_whatever_the_target_is_called(columns: str) -> None:
    served = f"{sys.executable} -m milepost.conformance.serve misbehaving:Quiet"
    ended = on_a_terminal("run", f"stdio:env 'A={{x}} [bold] {{0}}' {served}", "--schedules", "1", COLUMNS=columns)
    assert ended.code == 0 and "stdio:" in ended.out and "KIT BUG" not in ended.out
    assert "\x1b[?25l" in ended.out and "\x1b[?25h" in ended.out, "the cursor is hidden, and shown again"


def test_a_log_has_no_bar(process: Milepost) -> None:
    ended = process("run", "misbehaving:Quiet", "--schedules", "0")
    assert ended.code == 0 and not ended.err and "\x1b" not in ended.out


def test_a_headline_is_red_on_a_terminal_unless_colour_is_unwanted() -> None:
    assert "\x1b[31m" in on_a_terminal("check", "--example", "leak").out
    assert "\x1b" not in on_a_terminal("check", "--example", "leak", NO_COLOR="1").out


def test_the_module_runs_as_the_console_script_does(process: Milepost, folder: Path) -> None:
    assert process("--version").out.startswith("milepost ")
    assert process("replay", short(folder)).out.startswith("no fault in 5 operations")


def test_an_engine_is_run_where_the_current_folder_cannot_stand_in_for_its_packages(folder: Path) -> None:
    python = folder / ".peers" / "sglang" / "bin" / "python"
    python.parent.mkdir(parents=True)
    looked = "import sys; print('current folder on the path:', '' in sys.path or sys.argv[0] in sys.path)"
    python.write_text(f'#!/bin/sh\n[ "$1" = -P ] && exec {sys.executable} -P -c "{looked}" "$PWD"\n')
    python.chmod(0o755)
    ended = subprocess.run(command("run", "sglang:rust"), capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "current folder on the path: False\n"), ended.stderr
