"""Runs a peer's interpreter in this folder, where the planted edits are modules, and the kit in it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class PeerRuns:
    """One peer's interpreter, None where it is not installed, with the arguments that come first."""

    python: Path | None
    seconds: int
    first: tuple[str, ...] = ()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter and return what it said."""
        command = [str(self.python), *self.first, *arguments]
        return subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=self.seconds, check=False)

    def milepost(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the kit in the peer's interpreter."""
        return self.run("-m", "milepost.cli.main", *arguments)


def report_of(folder: Path) -> dict[str, Any]:
    """Return the report that a run has written."""
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report
