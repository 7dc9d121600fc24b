"""What a wheel built from the checkout holds, and that it works with nothing else on the path."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any


def build_wheel(checkout: Path, into: Path) -> Path:
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(into), str(checkout)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = into.glob("milepost-*.whl")
    return wheel


def files_to_ship(checkout: Path, folders: list[str]) -> set[str]:
    """Every file of the product under its name in the wheel, code and data alike."""
    own = {f"milepost/{file.name}" for file in (checkout / "src" / "milepost").iterdir() if not file.is_symlink()}
    inner = [file for folder in folders for file in (checkout / folder).rglob("*") if file.is_file()]
    return own | {f"milepost/{file.relative_to(checkout).as_posix()}" for file in inner}


def test_the_wheel_holds_every_file_of_the_product_and_nothing_else(
    checkout_copy: Path, folders: list[str], tmp_path: Path
) -> None:
    planted = ["conformance/schedules/planted.jsonl", "conformance/report/planted.html", "spec/planted.py"]
    for name in planted:
        (checkout_copy / name).write_text("\n")
    expected = files_to_ship(checkout_copy, folders)
    with zipfile.ZipFile(build_wheel(checkout_copy, tmp_path / "wheels")) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
    assert {f"milepost/{name}" for name in planted} <= names
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_every_package_of_the_wheel_is_imported_from_it(
    checkout_copy: Path, pyproject: dict[str, Any], tmp_path: Path
) -> None:
    wheel = build_wheel(checkout_copy, tmp_path / "wheels")
    packages = pyproject["tool"]["setuptools"]["packages"]
    imports = "".join(f"import {package}; assert 'whl' in {package}.__file__\n" for package in packages)
    version = pyproject["project"]["version"]
    program = f"{imports}assert milepost.__version__ == {version!r}, milepost.__version__\n"
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    outcome = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
