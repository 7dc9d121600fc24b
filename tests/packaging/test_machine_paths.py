"""No file names a folder of the machine on which it was written."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home|tmp|Users)/")
HIDDEN_BUT_OURS = {".ci", ".github", ".gitignore", ".gitattributes"}
MADE_BY_TOOLS = {"__pycache__", "build", "dist"}


def is_ours(name: str) -> bool:
    made = name in MADE_BY_TOOLS or name.endswith(".egg-info")
    return not made and (name in HIDDEN_BUT_OURS or not name.startswith("."))


def our_files(root: Path) -> Iterator[Path]:
    """Every file of the tree apart from what tools leave there; links are not followed."""
    for folder, inner_folders, names in os.walk(root):
        inner_folders[:] = sorted(filter(is_ours, inner_folders))
        yield from (Path(folder) / name for name in sorted(filter(is_ours, names)))


def machine_paths(root: Path) -> list[str]:
    found = []
    for file in our_files(root):
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), start=1):
            if MACHINE_PATH.search(line):
                found.append(f"{file.relative_to(root)}:{number}: {line.strip()}")
    return found


def test_no_file_mentions_a_path_of_a_machine(root: Path) -> None:
    assert machine_paths(root) == []


def test_the_files_looked_at_are_all_of_ours(root: Path) -> None:
    seen = {file.relative_to(root).as_posix() for file in our_files(root)}
    assert {".ci/run", "Makefile", "LICENSE", "pyproject.toml", "spec/__init__.py"} <= seen


def test_a_planted_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text("cd /" + "work/main\n")
    (tmp_path / "notes.md").write_text("see `/" + "root/x` and example.org/home/page, pages/work/one\n")
    (tmp_path / "fine.md").write_text("example.org/home/page, pages/work/one, ../tmp/two\n")
    assert [line.split(": ")[0] for line in machine_paths(tmp_path)] == ["notes.md:1", ".ci/run:1"]
