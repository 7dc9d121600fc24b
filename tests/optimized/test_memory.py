"""Payloads lie in every word of every layer of every part, so that whatever is forgotten on the way shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from milepost.optimized.memory import CopyFailed, Memory, Payloads, Shapes
from milepost.spec.answers import Phase
from milepost.spec.capabilities import Configuration
from milepost.spec.layout import make_layout
from milepost.spec.payload import GARBAGE, ZERO

SHAPES = Shapes()


@pytest.fixture
def memory() -> Memory:
    return Memory(SHAPES, make_layout(Configuration(page_size=4)), {"kv": 6, "state": 5})


@pytest.fixture
def payloads(memory: Memory) -> Payloads:
    return Payloads(memory)


def test_tensors_have_the_shapes_that_kernels_expect(memory: Memory) -> None:
    assert memory.recurrent.shape == (2, 5, 1, 2, 2)
    assert memory.convolution.shape == (2, 5, 4, 3)
    assert memory.kv.shape == (1, 2, 6, 4, 1, 4)


def test_what_is_written_is_read(payloads: Payloads) -> None:
    assert payloads.read_slot(1) == ZERO
    payloads.write_slot(1, 1 << 61)
    assert payloads.read_slot(1) == 1 << 61
    assert payloads.read_slot(2) == ZERO
    payloads.write_slot(1, ZERO)
    assert payloads.read_slot(1) == ZERO


def test_entries_of_a_page_are_written_one_by_one(payloads: Payloads) -> None:
    payloads.write_page("kv", 3, (5, None, 6, None))
    payloads.write_page("kv", 3, (None, 7, None, None))
    assert payloads.read_page("kv", 3) == (5, 7, 6, GARBAGE)


def test_a_phase_reads_all_sources_before_it_writes_and_moves_whole_slots(memory: Memory, payloads: Payloads) -> None:
    for slot in range(4):
        payloads.write_slot(slot, 100 + slot)
    memory.run(Phase((("state", 0, 4), ("state", 1, 2)), (("state", 3),)), "state")
    assert [payloads.read_slot(slot) for slot in range(5)] == [100, 101, 101, ZERO, 100]


@pytest.mark.parametrize("copies", [(("state", 0, 1), ("state", 1, 2)), (("state", 0, 9),), (("state", 0, 1),) * 2])
def test_copies_that_overlap_or_leave_the_pool_are_told_before_anything_is_written(
    memory: Memory, payloads: Payloads, copies: tuple[tuple[str, int, int], ...]
) -> None:
    payloads.write_slot(0, 100)
    with pytest.raises(CopyFailed):
        memory.run(Phase(copies), "state")
    assert [payloads.read_slot(slot) for slot in range(3)] == [100, ZERO, ZERO]


@pytest.mark.parametrize("forget", [
    lambda memory: memory.recurrent[0, 1].zero_(), lambda memory: memory.recurrent[1, 1].zero_(),
    lambda memory: memory.convolution[0, 1].zero_(), lambda memory: memory.convolution[1, 1].zero_(),
    lambda memory: memory.convolution[1, 1].copy_(memory.convolution[0, 1].clone()),
    lambda memory: memory.recurrent[:, 1].copy_(memory.recurrent[:, 2].clone()),
])
def test_a_slot_of_two_minds_is_garbage(
    memory: Memory, payloads: Payloads, forget: Callable[[Memory], object]
) -> None:
    payloads.write_slot(1, 12345)
    payloads.write_slot(2, 54321)
    forget(memory)
    assert payloads.read_slot(1) == GARBAGE


@pytest.mark.parametrize("forget", [
    lambda memory: memory.kv[0, 0, 3, 1].zero_(), lambda memory: memory.kv[0, 1, 3, 1].zero_(),
    lambda memory: memory.kv[0, 0, 3, 1].copy_(memory.kv[0, 1, 3, 1].clone()),
])
def test_an_entry_of_two_minds_is_garbage(
    memory: Memory, payloads: Payloads, forget: Callable[[Memory], object]
) -> None:
    payloads.write_page("kv", 3, (5, 6, 7, 8))
    forget(memory)
    assert payloads.read_page("kv", 3) == (5, GARBAGE, 7, 8)
