"""What is refused is refused in one sentence, and before anything is written."""

from collections.abc import Callable

import pytest
import torch

from milepost.kernels.backend import running
from milepost.kernels.copy import copy_slots
from milepost.kernels.fingerprint import changed_slots
from milepost.kernels.pages import gather_pages, scatter_pages
from milepost.kernels.step import Step
from milepost.kernels.zero import zero_slots

from .cell_checks import same_bits
from .pools import Pool, state_pool

Call = Callable[[list[torch.Tensor]], object]

CALLS: dict[str, tuple[Call, str]] = {
    "destination twice": (lambda t: copy_slots(t, [0, 1], [2, 2]), "The destinations name a cell twice."),
    "source and destination": (lambda t: copy_slots(t, [0, 1], [1, 2]), "Cell 1 is both a source and a destination."),
    "onto itself": (lambda t: copy_slots(t, [4], [4]), "Cell 4 is both a source and a destination."),
    "source too high": (lambda t: copy_slots(t, [0, 6], [1, 2]), "Sources include 6, and there are cells 0 to 5."),
    "destination negative": (lambda t: copy_slots(t, [0], [-1]), "Destinations include -1, and there are "),
    "counts": (lambda t: copy_slots(t, [0], [1, 2]), "There are 1 sources for 2 destinations."),
    "fractions": (lambda t: zero_slots(t, [0.5]), "The slots must be integers."),  # type: ignore[list-item]
    "slot too high": (lambda t: zero_slots(t, [0, 6]), "Slots include 6, and there are cells 0 to 5."),
    "no tensors": (lambda t: zero_slots([], [0]), "There is no tensor of cells."),
    "truth values": (lambda t: zero_slots([*t, torch.ones(1, 6, 8) > 0], [0]), "Cells of torch.bool can't be moved."),
    "no layers": (lambda t: zero_slots([*t, torch.ones(6, 8)], [0]), "A tensor of cells is [layers, cells, *row], "),
    "torn rows": (lambda t: zero_slots([*t, torch.ones(1, 8, 6).mT], [0]), "A cell's row must be in one piece; "),
    "shared rows": (
        lambda t: zero_slots([*t, torch.ones(1, 1, 8).expand(1, 6, 8)], [0]),
        "Rows of one tensor overlap; its strides are [8, 0, 1].",
    ),
    "cells": (lambda t: zero_slots([*t, torch.ones(1, 5, 8)], [0]), "Tensors hold different numbers of cells: "),
    "one tensor twice": (lambda t: copy_slots([*t, t[0]], [0], [1]), "Two tensors of cells overlap in memory."),
    "overlapping parts": (lambda t: copy_slots([t[0], t[0][1:]], [0], [1]), "Two tensors of cells overlap in memory."),
    "page twice": (lambda t: scatter_pages(t, [1, 1], gather_pages(t, [2, 3])), "The pages name a cell twice."),
    "other pages": (lambda t: scatter_pages(t, [1], gather_pages(t, [2, 3])), "The gathered tensors are not those of"),
    "other types": (
        lambda t: scatter_pages(t, [1], [part.double() for part in gather_pages(t, [2])]),
        "The gathered tensors are not those of",
    ),
    "own memory": (
        lambda t: scatter_pages(t, [1], [part[:, 2:3] for part in t]),
        "The gathered tensors lie in the pool's own memory.",
    ),
    "digests": (lambda t: changed_slots(t, [1, 2], torch.zeros(3)), "2 slots need as many int64 digests; "),
}


@pytest.mark.parametrize("backend", ["torch", "interpret"])
@pytest.mark.parametrize("case", CALLS)
def test_a_call_that_makes_no_sense_is_refused_and_writes_nothing(case: str, backend: str) -> None:
    pool: Pool = state_pool()
    before = pool.bits
    call, sentence = CALLS[case]
    with running(backend), pytest.raises(ValueError, match=r"^[^\n]*\.$") as refused:
        call(pool.tensors)
    assert str(refused.value).startswith(sentence)
    same_bits(pool, before)


STEPS: dict[str, tuple[Step, str]] = {
    "no requests": (Step([], [], [], [], []), "A step needs one entry a request in each field, and a request."),
    "fields": (Step([64], [-1], [0, 1], [-1], [0]), "A step needs one entry a request in each field, and a request."),
    "slot too high": (Step([64], [-1], [4], [-1], [0]), "The step names slot 4, and there are slots 0 to 3."),
    "no live slot": (Step([64], [-1], [-1], [-1], [0]), "The step names slot -1, and there are slots 0 to 3."),
    "live twice": (Step([64, 64], [-1, -1], [0, 0], [-1, -1], [0, 0]), "Two states of the step would be written"),
    "frozen is live": (Step([64], [-1], [0], [0], [64]), "Two states of the step would be written to one slot."),
    "frozen is read": (Step([64], [1], [0], [1], [64]), "Slot 1 is read by one request of the step and written by "),
    "another's live": (
        Step([64, 64], [1, -1], [0, 1], [-1, -1], [0, 0]),
        "Slot 1 is read by one request of the step and written by another.",
    ),
    "no tokens": (Step([0], [-1], [0], [-1], [0]), "A request of the step has 0 tokens."),
    "off the grid": (Step([100], [-1], [0], [1], [65]), "A state after 65 of 100 tokens can't be frozen: "),
    "at the start": (Step([100], [-1], [0], [1], [0]), "A state after 0 of 100 tokens can't be frozen: "),
    "behind the end": (Step([100], [-1], [0], [1], [128]), "A state after 128 of 100 tokens can't be frozen: "),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_step_that_no_order_of_its_requests_can_serve_is_refused(case: str) -> None:
    step, sentence = STEPS[case]
    with pytest.raises(ValueError, match=r"^[^\n]*\.$") as refused:
        step.check(slots=4, chunk=64)
    assert str(refused.value).startswith(sentence)


def test_a_snapshot_may_start_many_requests_and_a_live_slot_its_own() -> None:
    step = Step([64, 1, 70], [3, 3, 2], [0, 1, 2], [-1, 4, 5], [0, 1, 64])
    step.check(slots=6, chunk=64)


def test_compiled_kernels_are_refused_on_the_cpu_in_one_sentence() -> None:
    with running("triton"), pytest.raises(ValueError, match=r"^Compiled kernels need tensors on a device"):
        zero_slots(state_pool().tensors, [0])
