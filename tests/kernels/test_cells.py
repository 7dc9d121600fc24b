"""Cells are copied, zeroed, digested, gathered and scattered, by the twin and by the interpreted kernel alike."""

import pytest
import torch

from milepost.kernels import copy, fingerprint, pages, zero
from milepost.kernels.backend import running

from . import cell_checks
from .pools import odd_pool, state_pool

both_ways = pytest.mark.parametrize("backend", ["torch", "interpret"])


@both_ways
def test_a_copy_takes_every_layer_of_every_tensor_and_nothing_else(backend: str) -> None:
    cell_checks.copies(copy, backend)


@both_ways
def test_cells_may_lie_further_apart_than_32_bits_count(backend: str) -> None:
    cell_checks.copies_far_away(copy, backend)


@both_ways
def test_zeroing_takes_every_layer_of_every_tensor_and_nothing_else(backend: str) -> None:
    cell_checks.zeros(zero, backend)


@both_ways
def test_pages_are_gathered_in_order_and_scattered_to_other_cells(backend: str) -> None:
    cell_checks.moves_pages(pages, backend)


@both_ways
def test_a_digest_tells_any_changed_byte_and_is_the_same_both_ways(backend: str) -> None:
    cell_checks.digests(fingerprint, backend)


def test_equal_words_in_other_places_have_another_digest() -> None:
    tensor = torch.zeros(2, 3, 16)
    tensor[0, 0, 0], tensor[0, 1, 1], tensor[1, 2, 0] = 1, 1, 1
    digests = fingerprint.fingerprint_slots([tensor], [0, 1, 2])
    assert len({*digests.tolist()}) == 3


def test_a_digest_does_not_depend_on_where_the_pool_lies() -> None:
    tensors = odd_pool().tensors
    elsewhere = [torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape) for tensor in tensors]
    for target, tensor in zip(elsewhere, tensors, strict=True):
        target.copy_(tensor)
    assert torch.equal(fingerprint.fingerprint_slots(tensors, [0, 5]), fingerprint.fingerprint_slots(elsewhere, [0, 5]))


def test_layers_of_separate_tensors_and_parts_interleaved_in_one_buffer_are_cells_too() -> None:
    buffer = torch.arange(4 * 96, dtype=torch.float32)
    states, windows = buffer.as_strided((1, 4, 64), (0, 96, 1)), buffer.as_strided((1, 4, 32), (0, 96, 1), 64)
    expected = buffer.clone()
    expected[96:192] = expected[288:]
    with running("interpret"):
        copy.copy_slots([states, windows], [3], [1])
    assert torch.equal(buffer, expected)


@both_ways
def test_no_pairs_are_no_work(backend: str) -> None:
    pool = state_pool()
    before = pool.bits
    with running(backend):
        copy.copy_slots(pool.tensors, [], [])
        zero.zero_slots(pool.tensors, [])
        pages.scatter_pages(pool.tensors, [], pages.gather_pages(pool.tensors, []))
        assert fingerprint.fingerprint_slots(pool.tensors, []).shape == (0,)
    cell_checks.same_bits(pool, before)


def test_ids_may_come_as_tensors() -> None:
    pool = state_pool()
    copy.copy_slots(pool.tensors, torch.tensor([0, 2]), torch.tensor([1, 3]))
    assert torch.equal(pool.tensors[1][:, 3], pool.tensors[1][:, 2])
