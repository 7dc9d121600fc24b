"""The scripts in the pages of findings run on the installed FreeToken and print what the pages say."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from milepost.conformance.targets import peer_python

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "findings"
SCRIPTS = {"freetoken": 7, "freetoken-window": 6}
"""How many scripts each page has, besides the one that they share."""

PEER = peer_python("freetoken")

RUNNER = """
import contextlib, io, json, sys
server, *scripts = json.load(sys.stdin)
names = {}
exec(server, names)
for script in scripts:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(script, dict(names))
    print(json.dumps(printed.getvalue().strip()))
"""


def blocks(page: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the shared script of a page, and each other script with what it is said to print."""
    server, *rest = re.findall(r"```(python|text)\n(.*?)```", page, flags=re.DOTALL)
    assert [kind for kind, _ in rest] == ["python", "text"] * (len(rest) // 2)
    texts = [text for _, text in rest]
    return server[1], list(zip(texts[::2], texts[1::2], strict=True))


def printed_by(server: str, scripts: list[str]) -> list[str]:
    """Run the scripts in one process of FreeToken's environment, and return what each printed."""
    run = subprocess.run(
        [str(PEER), "-W", "ignore", "-c", RUNNER],
        input=json.dumps([server, *scripts]),
        env={**os.environ, "LOG_LEVEL": "CRITICAL"},
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.skipif(PEER is None, reason="FreeToken is not installed beside the kit: run `make peers`")
@pytest.mark.parametrize("page", SCRIPTS)
def test_every_script_prints_what_the_page_says(page: str) -> None:
    server, scripts = blocks((FOLDER / f"{page}.md").read_text())
    assert len(scripts) == SCRIPTS[page]
    assert printed_by(server, [script for script, _ in scripts]) == [said.strip() for _, said in scripts]


@pytest.mark.skipif(PEER is None, reason="FreeToken is not installed beside the kit: run `make peers`")
def test_a_script_that_prints_something_else_is_seen() -> None:
    assert printed_by("said = 'one'", ["print(said)", "print(said, 'two')"]) == ["one", "one two"]


def test_a_script_without_its_output_is_refused() -> None:
    with pytest.raises(AssertionError):
        blocks("```python\nserver\n```\n```python\nscript\n```\nand no output\n")
