"""The list of sub-packages, the links that type checkers follow, and the names that packages refuse."""

import subprocess
import sys
from pathlib import Path
from typing import Any


def packages_on_disk(root: Path, folders: list[str]) -> set[str]:
    """Dotted names of all folders with an `__init__.py`, as they are imported."""
    inits = [init for folder in folders for init in (root / folder).rglob("__init__.py")]
    return {".".join(("milepost", *init.parent.relative_to(root).parts)) for init in inits}


def test_every_folder_with_an_init_is_listed(root: Path, folders: list[str], pyproject: dict[str, Any]) -> None:
    listed = pyproject["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted({"milepost"} | packages_on_disk(root, folders))


def test_a_planted_package_is_seen(checkout_copy: Path, folders: list[str]) -> None:
    before = packages_on_disk(checkout_copy, folders)
    planted = checkout_copy / "conformance" / "adapters" / "planted"
    planted.mkdir()
    (planted / "__init__.py").touch()
    assert packages_on_disk(checkout_copy, folders) - before == {"milepost.conformance.adapters.planted"}


def test_every_top_folder_with_an_init_is_mapped(root: Path, folders: list[str]) -> None:
    assert sorted(init.parent.name for init in root.glob("[!.]*/__init__.py")) == sorted(folders)


def test_every_mapped_folder_has_a_relative_link(root: Path, folders: list[str]) -> None:
    inside = (root / "src" / "milepost").iterdir()
    links = {path.name: path.readlink().as_posix() for path in inside if path.is_symlink()}
    assert links == {folder: f"../../{folder}" for folder in folders}


def import_from_the_root(root: Path, statement: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", statement]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)


def test_every_bare_name_is_refused_with_one_sentence(root: Path, folders: list[str]) -> None:
    for folder in folders:
        refused = import_from_the_root(root, f"import {folder}")
        assert refused.returncode == 1, folder
        last_line = refused.stderr.strip().splitlines()[-1]
        assert last_line.startswith(f"ImportError: Import milepost.{folder}, not {folder}: ")


def test_the_full_name_is_imported_from_the_root(root: Path, folders: list[str]) -> None:
    statement = "import sys; sys.path.insert(1, 'src')\n" + "\n".join(f"import milepost.{folder}" for folder in folders)
    outcome = import_from_the_root(root, statement)
    assert outcome.returncode == 0, outcome.stderr
