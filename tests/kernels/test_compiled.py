"""Every kernel compiles for devices that are not here, without spills, and moves cells 16 bytes at a time."""

from dataclasses import replace
from pathlib import Path

import pytest

from milepost.kernels.aot import TARGETS, Job, Result, compiled

from . import jobs
from .edits import EDITS

CACHE = Path(__file__).parents[2] / ".milepost" / "compiled"
MOVES = [jobs.move(name) for name in ("copy", "zero", "fingerprint")]
FORWARD = [jobs.convolution("bf16"), jobs.prepare("bf16", "ieee"), jobs.scan("bf16", "ieee"), jobs.decode("bf16")]
DOTS_IN_FLOAT32 = [jobs.prepare("fp32", "tf32x3"), jobs.scan("fp32", "tf32x3")]
IN_FLOAT32 = [jobs.convolution("fp32"), *DOTS_IN_FLOAT32, jobs.decode("fp32")]
SHARED_BYTES = {"sm_80": 166_912, "sm_90": 232_448, "sm_100": 232_448, "gfx942": 65_536}
"""What one program may have, as Triton's own limits for these devices."""

on_each = pytest.mark.parametrize("target", TARGETS)


@pytest.fixture(scope="session")
def results() -> dict[tuple[str, str], Result]:
    """All at once: starting the compiler takes longer than most kernels."""
    wanted = [jobs.on(job, target) for job in (*MOVES, *FORWARD) for target in TARGETS]
    return {(job.kernel, job.target): result for job, result in zip(wanted, compiled(wanted, CACHE), strict=True)}


def is_wide(job: Job, result: Result) -> list[str]:
    """What is wrong with how cells are accessed; the plan's own numbers are read one by one, 8 bytes at most."""
    amd = job.target == "gfx942"
    expected = 2 if amd else 4  # tiles of 8 KiB, by 256 threads of 16 bytes, or by 128
    found = []
    if job.kernel != "zero_kernel" and result.loads.get("128") != expected:
        found.append(f"loads {result.loads}")
    if job.kernel != "fingerprint_kernel" and result.stores != {"128": expected}:
        found.append(f"stores {result.stores}")
    return found


@on_each
@pytest.mark.parametrize("job", MOVES, ids=lambda job: job.kernel)
def test_cells_are_moved_16_bytes_at_a_time(job: Job, target: str, results: dict[tuple[str, str], Result]) -> None:
    assert is_wide(jobs.on(job, target), results[job.kernel, target]) == []


@on_each
def test_no_kernel_spills_or_asks_for_more_than_a_device_has(
    target: str, results: dict[tuple[str, str], Result]
) -> None:
    for job in (*MOVES, *FORWARD):
        result = results[job.kernel, target]
        assert result.spilled_bytes == 0, job.kernel
        assert result.shared_bytes <= SHARED_BYTES[target], job.kernel
        assert result.registers > 0, job.kernel


def test_a_lost_divisibility_hint_shows_in_the_compiled_copy_on_every_target(tmp_path: Path) -> None:
    edited = EDITS["the divisibility hint of the length lost"].write(tmp_path)
    wanted = [replace(jobs.on(jobs.move("copy"), target), module=str(edited)) for target in TARGETS]
    for job, result in zip(wanted, compiled(wanted, CACHE), strict=True):
        assert len(is_wide(job, result)) == 2, job.target


def test_a_spill_is_counted(tmp_path: Path) -> None:
    """A copy that is allowed too few registers for what it holds at once."""
    job = replace(jobs.move("copy"), constants={**jobs.MOVES, "tile_words": 16384}, options={"maxnreg": 24})
    (result,) = compiled([job], tmp_path)
    assert result.spilled_bytes > 0


def test_a_result_is_remembered_until_the_kernel_changes(tmp_path: Path) -> None:
    job = jobs.move("zero")
    (first,) = compiled([job], tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace(f'"registers": {first.registers}', '"registers": -1'))
    assert compiled([job], tmp_path)[0].registers == -1
    compiled([replace(job, target="sm_80")], tmp_path)
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.soak
@on_each
def test_the_forward_path_compiles_in_float32_too(target: str) -> None:
    """With tf32x3 on NVIDIA, whose scan spills on some targets (see benchmarks/RESULTS.md), and ieee on AMD."""
    for job in IN_FLOAT32:
        (result,) = compiled([jobs.on(job, target)], CACHE)
        assert result.shared_bytes <= SHARED_BYTES[target]
        assert job.kernel == "scan_kernel" or result.spilled_bytes <= 8, job.kernel
