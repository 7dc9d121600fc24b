"""A folder to work in, adapters that misbehave, and the command line in this process and as one of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from milepost.cli.main import run

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, and what it wrote on its two outputs."""

    code: int
    out: str
    err: str


Milepost = Callable[..., Ended]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, empty; the adapters beside the tests can be imported from it, as from anywhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), package_folder()]))
    monkeypatch.delenv("MILEPOST_DEBUG", raising=False)
    return tmp_path


def package_folder() -> str:
    """The folder in which a process that is started finds the package, installed or not."""
    return str(Path(sys.modules["milepost"].__file__ or "").parent.parent)


@pytest.fixture
def milepost(capsys: pytest.CaptureFixture[str]) -> Milepost:
    """Run the command line in this process; what it judges is in a child process anyway."""

    def ended(*arguments: str) -> Ended:
        capsys.readouterr()
        code = run(list(arguments))
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return Ended(code, captured.out, captured.err)

    return ended


def command(*arguments: str) -> list[str]:
    """The command line as a process of its own."""
    return [sys.executable, "-m", "milepost.cli.main", *arguments]


@pytest.fixture
def process() -> Milepost:
    """Run the command line in a process of its own."""

    def ended(*arguments: str, **environment: str) -> Ended:
        done = subprocess.run(
            command(*arguments), capture_output=True, text=True, timeout=100, check=False,
            env={**os.environ, **environment},
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return ended
