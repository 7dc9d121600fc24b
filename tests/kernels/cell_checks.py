"""What the kernels over cells must do, for any module that has them: also for one with a fault planted in it."""

from types import ModuleType
from typing import Any

import torch

from milepost.kernels.backend import running

from .pools import Pool, far_pool, odd_pool, state_pool


def same_bits(ours: Pool, expected: list[torch.Tensor]) -> None:
    for buffer, wanted in zip(ours.buffers, expected, strict=True):
        assert torch.equal(buffer, wanted)


def copies(module: ModuleType, backend: str) -> None:
    """Every layer of every tensor, one source for two destinations, and nothing else."""
    for make in (state_pool, odd_pool):
        ours, theirs = make(), make()
        for tensor in theirs.tensors:
            for source, destination in ((0, 1), (0, 5), (3, 2)):
                tensor[:, destination] = tensor[:, source].clone()
        with running(backend):
            module.copy_slots(ours.tensors, [0, 0, 3], [1, 5, 2])
        same_bits(ours, theirs.bits)


def copies_far_away(module: ModuleType, backend: str) -> None:
    """Between cells that are more than 2^31 words apart."""
    tensors, _ = far_pool()
    tensors[0][0, 0] = torch.arange(32.0)
    with running(backend):
        module.copy_slots(tensors, [0], [3])
        module.copy_slots(tensors, [3], [2])
    assert torch.equal(tensors[0][0, 2], torch.arange(32.0))


def zeros(module: ModuleType, backend: str) -> None:
    """Every layer of every tensor, and nothing else."""
    for make in (state_pool, odd_pool):
        ours, theirs = make(), make()
        for tensor in theirs.tensors:
            tensor[:, [1, 4]] = 0
        with running(backend):
            module.zero_slots(ours.tensors, [4, 1])
        same_bits(ours, theirs.bits)


def digests(module: ModuleType, backend: str) -> None:
    """As the twin gives them, different for different slots, and told apart by a change of a first or last byte."""
    from milepost.kernels.fingerprint import fingerprint_slots

    for make in (state_pool, odd_pool):
        pool = make()
        with running(backend):
            found = module.fingerprint_slots(pool.tensors, range(6))
        assert torch.equal(found, fingerprint_slots(pool.tensors, range(6)))
        assert len({*found.tolist()}) == 6
        for tensor in pool.tensors:
            for layer, place in ((0, 0), (tensor.shape[0] - 1, -1)):
                row = tensor[layer, 2].view(-1).view(torch.uint8)
                row[place] ^= 1
                with running(backend):
                    assert module.changed_slots(pool.tensors, [2, 3], found[2:4]) == [2]
                row[place] ^= 1


def moves_pages(module: ModuleType, backend: str) -> None:
    """Gathered pages are those that were named, in that order, and scattering them elsewhere puts them there."""
    pool, target = state_pool(), state_pool(seed=1)
    expected: Any = state_pool(seed=1)
    for tensor, source in zip(expected.tensors, pool.tensors, strict=True):
        tensor[:, [0, 3]] = source[:, [4, 1]]
    with running(backend):
        gathered = module.gather_pages(pool.tensors, [4, 1])
        module.scatter_pages(target.tensors, [0, 3], gathered)
    for found, tensor in zip(gathered, pool.tensors, strict=True):
        assert torch.equal(found.view(torch.uint8), tensor[:, [4, 1]].contiguous().view(torch.uint8))
    same_bits(target, expected.bits)
