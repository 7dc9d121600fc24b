"""The import contracts report what breaks them, and the two lowest folders need nothing installed."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint_imports(checkout: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on this checkout, not on the installed one."""
    command = [sys.executable, "-c", LINT, "--no-cache", "--no-logo"]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    return subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def plant(checkout: Path, name: str, statement: str) -> None:
    with (checkout / name).open("a") as file:
        file.write(f"\n{statement}\n")


def foreign_imports(root: Path, folder: str) -> list[str]:
    """Imports of this folder that are neither the standard library's nor Milepost's own."""
    known = {"milepost", *sys.stdlib_module_names}
    found = []
    for file in sorted((root / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            strangers = [name for name in names if name.split(".")[0] not in known]
            found += [f"{file.relative_to(root)} imports {name}" for name in strangers]
    return found


@pytest.mark.parametrize(
    ("name", "statement", "contract"),
    [
        ("spec/planted.py", "import milepost.reference", "Folders import downwards only"),
        ("reference/planted.py", "import milepost.conformance", "Folders import downwards only"),
        ("conformance/planted.py", "import milepost.cli", "Folders import downwards only"),
        ("src/milepost/__init__.py", "import milepost.cli", "The package's own __init__"),
        ("spec/planted.py", "def f() -> None:\n    import rich", "nothing that has to be installed"),
        ("reference/mutants/planted.py", "import numpy", "nothing that has to be installed"),
        ("conformance/report/planted.py", "import torch", "The kit is light"),
        ("conformance/planted.py", "import sglang.srt", "The kit is light"),
    ],
)
def test_a_planted_import_is_reported(checkout_copy: Path, name: str, statement: str, contract: str) -> None:
    plant(checkout_copy, name, statement)
    report = lint_imports(checkout_copy)
    assert report.returncode == 1, report.stdout + report.stderr
    broken = [line for line in report.stdout.splitlines() if " BROKEN" in line]
    assert [line for line in broken if contract in line], report.stdout


def test_an_adapter_may_import_torch_and_its_engine(checkout_copy: Path) -> None:
    plant(checkout_copy, "conformance/adapters/planted.py", "import torch, vllm.v1.core, sglang.srt")
    report = lint_imports(checkout_copy)
    assert report.returncode == 0, report.stdout + report.stderr


@pytest.mark.parametrize("folder", ["spec", "reference"])
def test_spec_and_reference_need_only_the_standard_library(root: Path, folder: str) -> None:
    assert foreign_imports(root, folder) == []


def test_an_import_of_any_installed_package_is_seen(checkout_copy: Path) -> None:
    plant(checkout_copy, "spec/planted.py", "from attrs import define\nimport json, pytest.x\nfrom . import laws")
    seen = foreign_imports(checkout_copy, "spec")
    assert seen == ["spec/planted.py imports attrs", "spec/planted.py imports pytest.x"]
