"""What the packaging tests read: the checkout and its pyproject.toml."""

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the checkout."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def pyproject(root: Path) -> dict[str, Any]:
    """The parsed pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def folders(pyproject: dict[str, Any]) -> list[str]:
    """The folders at the top that are sub-packages of milepost: spec, reference, and so on."""
    mapping: dict[str, str] = pyproject["tool"]["setuptools"]["package-dir"]
    return [folder for package, folder in mapping.items() if package != "milepost"]


@pytest.fixture
def checkout_copy(root: Path, tmp_path: Path) -> Path:
    """A copy of what is built and linted, links kept, to plant things in."""
    copy = tmp_path / "checkout"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "tests")
    shutil.copytree(root, copy, symlinks=True, ignore=left_out)
    return copy
