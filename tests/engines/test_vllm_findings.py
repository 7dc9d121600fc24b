"""What the page of findings says of vLLM is what the installed vLLM does."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from milepost.conformance.targets import peer_python

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "docs" / "findings"
PEER = peer_python("vllm")
needs_peer = pytest.mark.skipif(PEER is None, reason="vLLM is not installed beside the kit: run `make peers`")

CODES = {
    "copy-of-a-copy": ("stale-kv", {"no-copy-of-a-copy"}),
    "one-token-prompt": ("stale-state", {"padded-only-behind-a-state"}),
    "passed-over-block": ("torn-hit", {"checkpoint-from-a-boundary", "passed-over-not-cached"}),
    "smaller-group": ("torn-hit", {"grid-of-the-states", "passed-over-not-cached"}),
}
"""For each schedule of the page its fault, and the changes that end it."""


def in_peer(*arguments: str) -> str:
    command = [str(PEER), *arguments]
    run = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@needs_peer
def test_the_scheduler_alone_does_what_the_page_shows() -> None:
    shown = re.search(r"```text\n(.*?)```", (FOLDER / "vllm.md").read_text(), flags=re.DOTALL)
    assert shown is not None
    printed = in_peer(str(FOLDER / "vllm" / "reproduce.py"))
    assert printed == shown.group(1).strip()
    assert printed.count("WRONG") == len(CODES)


@needs_peer
def test_random_traffic_on_the_scheduler_alone_reads_what_is_wrong() -> None:
    said = in_peer(str(FOLDER / "vllm" / "reproduce.py"), "random", "2000")
    numbers = re.fullmatch(r"2000 runs: (\d+) with a wrong state, (\d+) with wrong KV", said)
    assert numbers is not None
    assert sum(map(int, numbers.groups())) > 0


@needs_peer
def test_each_schedule_faults_and_ends_with_the_changes_that_the_page_names_and_no_other() -> None:
    paths = sorted((FOLDER / "vllm").glob("*.jsonl"))
    assert [path.stem for path in paths] == list(CODES)
    lines = in_peer("vllm_edits.py", "replay", *map(str, paths)).splitlines()
    for path, line in zip(paths, lines, strict=True):
        codes = json.loads(line)
        fault, ends = CODES[path.stem]
        assert codes == {change: "" if change in ends else fault for change in codes}
