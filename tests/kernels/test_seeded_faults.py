"""Each fault that is planted in a kernel is noticed by the check that passes without it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from . import cell_checks, scan_checks
from .edits import EDITS, Edit

CHECKS: dict[str, Callable[[ModuleType], None]] = {
    "copy": lambda module: cell_checks.copies(module, "interpret"),
    "zero": lambda module: cell_checks.zeros(module, "interpret"),
    "fingerprint": lambda module: cell_checks.digests(module, "interpret"),
    "convolution": lambda module: scan_checks.convolves(torch.float32, "interpret", module.convolve),
    "delta": lambda module: scan_checks.scans([129, 64], torch.float32, "interpret", 1, module.scan),
    "decode": lambda module: scan_checks.decodes(torch.float32, "interpret", module.decode),
}
ELSEWHERE = {"a 32-bit offset", "the divisibility hint of the length lost"}


@pytest.mark.parametrize("fault", sorted(EDITS.keys() - ELSEWHERE))
def test_a_planted_fault_is_noticed(fault: str, tmp_path: Path) -> None:
    edit = EDITS[fault]
    with pytest.raises(AssertionError):
        CHECKS[edit.module](edit.load(tmp_path))


@pytest.mark.parametrize("module", CHECKS)
def test_a_module_that_is_loaded_again_without_a_fault_passes(module: str, tmp_path: Path) -> None:
    unchanged = "from milepost.kernels.backend import"
    CHECKS[module](Edit(module, unchanged, unchanged).load(tmp_path))


def test_a_lost_hint_changes_no_result_and_is_left_to_the_compiled_code(tmp_path: Path) -> None:
    CHECKS["copy"](EDITS["the divisibility hint of the length lost"].load(tmp_path))


@pytest.mark.parametrize(("fault", "passes"), [("a 32-bit offset", False), (None, True)])
def test_a_32_bit_offset_is_noticed(fault: str | None, passes: bool, tmp_path: Path) -> None:
    """In a process of its own: what it addresses need not exist."""
    edit = EDITS[fault] if fault else Edit("copy", "def copy_twin", "def copy_twin")
    edit.write(tmp_path)
    program = "import copy_edited; from kernels.cell_checks import copies_far_away as c; c(copy_edited, 'interpret')"
    tests = Path(__file__).parents[1]  # found by its folder's name, which the checkout's own `kernels` would hide
    others = [path for path in sys.path if path and Path(path) != tests.parent]
    folders = [str(tmp_path), str(tests), *others]
    command = [sys.executable, "-P", "-W", "ignore", "-c", program]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode == 0) is passes, ended.stderr
    assert "ModuleNotFoundError" not in ended.stderr
