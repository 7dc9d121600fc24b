"""Interpreted kernels leave the same bits in every slot as plain torch does, whatever the production cache is asked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch

from milepost.cli.lockstep import lockstep
from milepost.cli.lockstep import make as make_shipped
from milepost.conformance.corpus import load_corpus
from milepost.optimized import memory
from milepost.spec.schedule import Schedule

from ..kernels.edits import EDITS, Edit
from .data_planes import Builder
from .lockstep_runs import Compared, compare, generated

SEED, SCHEDULES = 61, 200


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def moved_alike(planes: Builder, schedules: Iterator[Schedule]) -> Compared:
    return compare(lockstep(planes), schedules, 1 << 30, make_empty=make_shipped)


def by_chance(count: int) -> Iterator[Schedule]:
    return islice(generated(make_shipped, SEED), count)


def test_two_hundred_schedules_leave_the_same_bits() -> None:
    planes = Builder()
    compared = moved_alike(planes, by_chance(SCHEDULES))
    assert compared.told == ""
    assert compared.schedules == len(planes.built) == SCHEDULES
    assert planes.compared == compared.operations > 30 * SCHEDULES


def test_the_corpus_leaves_the_same_bits() -> None:
    planes = Builder()
    fitting = [schedule for schedule in load_corpus() if set(schedule.header.needs) <= {"full", "recurrent"}]
    compared = moved_alike(planes, iter(fitting))
    assert compared.told == ""
    assert compared.schedules == len(fitting) > 50
    assert planes.compared == compared.operations


HELD = "held = offsets < words"
FAULTS = {
    "a layer skipped": (EDITS["a layer skipped"], "recurrent"),
    "the source's slot for all tensors": (EDITS["the source's slot for all tensors"], "recurrent"),
    "a layer not zeroed": (EDITS["a layer not zeroed"], "recurrent"),
    "the windows not copied": (Edit("copy", HELD, "held = offsets < words - low * words"), "convolution"),
}
"""Faults in the kernels' source, and the part of memory where they show."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_planted_in_a_kernel_is_noticed(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit, part = FAULTS[fault]
    name = f"{edit.module}_slots"
    monkeypatch.setattr(memory, name, getattr(edit.load(tmp_path), name))
    told = moved_alike(Builder(), by_chance(20)).told
    assert "MovedDifferently" in told
    assert f"{part} at [[" in told
