"""The processes that a comparison asks: each side in its own interpreter, one question at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from comparison import ANCHOR, NAMES, OURS

from milepost.conformance.targets import peer_python

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = Path(__file__).resolve().parent / "peers"

Command = list[str]


class SideError(Exception):
    """A side could not answer; says why in one sentence."""


def commands() -> dict[str, Command]:
    """Return how each side is started; the interpreter of a peer may not be there."""
    def peer(name: str, program: str, *arguments: str) -> Command:
        python = peer_python(name) or ROOT / ".peers" / name / "bin" / "python"
        return [str(python), str(PROGRAMS / program), *arguments]

    return {
        OURS: [sys.executable, str(PROGRAMS / "milepost_side.py")],
        "sglang-rust": peer("sglang", "sglang_side.py", "rust"),
        "sglang-python": peer("sglang", "sglang_side.py", "python"),
        "vllm": peer("vllm", "vllm_side.py"),
        "freetoken": peer("freetoken", "freetoken_side.py"),
        ANCHOR: [sys.executable, str(PROGRAMS / "anchor_side.py")],
    }


class Side:
    """One running side."""

    def __init__(self, name: str, command: Command) -> None:
        self.name, self.command = name, command
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # it lives as long as the process
        interpreter, *arguments = command
        # Without -P and elsewhere than in the checkout: its folders would stand for packages that engines probe.
        paths = os.pathsep.join([str(ROOT / "src"), str(PROGRAMS)])
        self.process = subprocess.Popen(
            [interpreter, "-P", "-W", "ignore", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True, cwd=tempfile.gettempdir(),
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )
        introduction = self._hear()
        self.versions: dict[str, str] = introduction["versions"]
        self.cases: dict[str, str] = introduction["cases"]

    def ask(self, case: str, size: int, repeat: int, seconds: float = 2, collector: bool = True) -> list[float]:
        """Return the values of a case; SideError where the side could not measure it."""
        assert self.process.stdin is not None
        question = {"case": case, "size": size, "repeat": repeat, "seconds": seconds, "collector": collector}
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        answer = self._hear()
        if "error" in answer:
            raise SideError(f"{NAMES[self.name]} could not do {case} of {size:,}: {answer['error']}")
        values: list[float] = answer["values"]
        return values

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()
        self.log.close()

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> SideError:
        self.process.wait()
        self.log.seek(0)
        said = self.log.read().strip().splitlines()
        return SideError(f"{NAMES[self.name]}'s side has ended: {said[-1] if said else 'it said nothing'}")
