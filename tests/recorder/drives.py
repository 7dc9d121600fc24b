"""Drives of real engines under the recorder, each in the engine's own environment, and what their traces show."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import IO

from milepost.conformance.checking import Checked, check_trace
from milepost.conformance.targets import peer_python

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATHS = [str(ROOT / "recorder" / "src"), str(ROOT / "src"), str(HERE)]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""A process of several threads does not fork well."""

NAMES = {"freetoken": "FreeToken", "sglang": "SGLang", "vllm": "vLLM"}
PEERS = {engine: peer_python(engine) for engine in NAMES}
ABSENT = {engine: f"{name} is not installed beside the kit: run `make peers`" for engine, name in NAMES.items()}


class Drives:
    """An engine that is imported once, and runs under the recorder as often as it is asked to."""

    def __init__(self, engine: str) -> None:
        self._engine, self._process = engine, _start(engine)

    def run(self, folder: Path, seed: int, edit: str = "", **environment: str) -> str:
        """Record a run into a folder; return what the engine and the recorder printed."""
        folder.mkdir(exist_ok=True)
        printed = folder / "printed"
        recorded = {"MILEPOST_RECORD": "" if edit == "attach" else str(folder), "MILEPOST_RECORD_SALT": "test"}
        asked = {"seed": seed, "folder": str(folder), "edit": edit, "printed": str(printed),
                 "environment": {**recorded, **environment}}
        requests, answers = self._pipes()
        requests.write(json.dumps(asked) + "\n")
        requests.flush()
        code, text = answers.readline(), printed.read_text() if printed.exists() else ""
        assert code == "0\n", f"the drive ended with {code!r}: {text}"
        return text

    def end(self) -> None:
        """Let the engine's process end."""
        requests, answers = self._pipes()
        requests.close()
        self._process.wait(timeout=60)
        answers.close()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        return requests, answers


def _start(engine: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(PEERS[engine]), "-P", "-W", "ignore", str(HERE / "forking.py"), f"{engine}_drive"], text=True,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(PATHS)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )


def judged(folder: Path) -> list[Checked]:
    """Judge every trace of a folder, in the order of their numbers."""
    return [check_trace(file) for file in sorted(folder.glob("*.jsonl"))]


def install_plug_in(folder: Path, group: str) -> None:
    """Write down that the recorder is installed, as far as an engine's loader looks for its plug-ins."""
    declared = tomllib.loads((ROOT / "recorder" / "pyproject.toml").read_text())["project"]
    installed = folder / "milepost_record-0.1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {declared['name']}\nVersion: 0.1.0\n")
    entries = declared["entry-points"][group].items()
    lines = "".join(f"{name} = {target}\n" for name, target in entries)
    (installed / "entry_points.txt").write_text(f"[{group}]\n{lines}")
