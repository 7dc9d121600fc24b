"""What the documents show is what happens: commands, reports, numbers and JSON."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from milepost.conformance.known_faults import read_known_faults
from milepost.reference.liberties import LIBERTIES
from milepost.reference.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ELSEWHERE = (
    "make ", "python3 -m venv", ".venv/bin/", "milepost run freetoken", "milepost run 'stdio:",
    "milepost prove --teeth",
)
"""Commands that install something, need an engine or take minutes: other tests run them."""

SMALLER = {
    "--budget 20m": "--budget 1s",
    "milepost run mutant:final-state-is-floored": "milepost run mutant:final-state-is-floored --schedules 5",
    "milepost run acme_milepost:make": "milepost run acme_milepost:make --schedules 3",
    "milepost selftest": "milepost selftest --schedules 1 --only kv-outlives-state --only id-order",
}
WHOLE = {"milepost prove": "milepost prove --theorem one-owner"}
"""Commands of which others are longer forms."""

EXPECTED = {"milepost run mutant:": (1,), "milepost run acme_milepost": (4,), "milepost check --example": (1,)}


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def milepost(arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "milepost.cli.main", *arguments.split()]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def prepare(folder: Path) -> None:
    """Put the files in place that the README speaks of."""
    (folder / "known-faults.toml").write_text("")
    story = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Say one word."}]
    (folder / "sessions.jsonl.gz").write_text(json.dumps([*story, {"role": "assistant", "content": "word"}]) + "\n")


def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    prepare(tmp_path)
    lines = [line for block in blocks(README, "sh") for line in block.splitlines()]
    for line in [line for line in lines if line.startswith("python ")]:
        subprocess.run([sys.executable, *shlex.split(line)[1:]], cwd=tmp_path, check=True, timeout=120)
    commands = [line for line in lines if line.startswith("milepost ") and not line.startswith(ELSEWHERE)]
    assert len(commands) >= 8
    for command in commands:
        expected = next((codes for start, codes in EXPECTED.items() if command.startswith(start)), (0,))
        command = WHOLE.get(command, command)
        for long, short in SMALLER.items():
            command = command.replace(long, short, 1)
        done = milepost(command.removeprefix("milepost "), tmp_path)
        assert done.returncode in expected, (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, command


def test_every_make_target_of_the_readme_exists() -> None:
    wanted = set(re.findall(r"^make (\w+)", "\n".join(blocks(README, "sh")), re.MULTILINE))
    rules = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"check", "test", "peers"} <= wanted <= rules


def test_the_report_that_the_readme_opens_with_is_the_one_that_comes_out(tmp_path: Path) -> None:
    done = milepost("check --example torn-hit", tmp_path)
    assert done.returncode == 1
    assert done.stdout.strip() in README


def test_the_readme_counts_mutants_and_liberties_right() -> None:
    assert f"{len(MUTANTS)} caches with one illegal edit" in README
    assert f"{len(LIBERTIES)} legal oddities" in README


def test_the_known_fault_of_the_readme_is_one_that_is_read(tmp_path: Path) -> None:
    [text] = blocks(README, "toml")
    (tmp_path / "known-faults.toml").write_text(text)
    [known] = read_known_faults(tmp_path / "known-faults.toml")
    assert (known.code, known.fingerprint) == ("torn-hit", "3f9c1a")


def test_the_examples_are_what_their_mutants_do_now(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools/record_examples.py", tmp_path], check=True, timeout=120)
    shipped = ROOT / "conformance/examples"
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(path.name for path in shipped.glob("*.jsonl"))
    assert all((tmp_path / name).read_bytes() == (shipped / name).read_bytes() for name in names)
