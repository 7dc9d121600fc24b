"""Pools of cells for the tests: every tensor lies between guards, so that a write beside a row is seen."""

import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import torch

GUARD_BYTES = 16384
SENTINEL = 0x5A


@dataclass(frozen=True)
class Pool:
    """Tensors `[layers, cells, *row]`, and the buffers that they are cut from."""

    tensors: list[torch.Tensor]
    buffers: list[torch.Tensor]

    @property
    def bits(self) -> list[torch.Tensor]:
        """A copy of every byte, guards included."""
        return [buffer.clone() for buffer in self.buffers]


def pool_of(shapes: Sequence[tuple[torch.dtype, tuple[int, ...]]], seed: int = 0) -> Pool:
    """A pool of random bits."""
    generator = torch.Generator().manual_seed(seed)
    tensors, buffers = [], []
    for kind, shape in shapes:
        size = torch.Size(shape).numel() * kind.itemsize
        buffer = torch.full((2 * GUARD_BYTES + size,), SENTINEL, dtype=torch.uint8)
        buffer[GUARD_BYTES : GUARD_BYTES + size] = torch.randint(256, (size,), generator=generator, dtype=torch.uint8)
        tensors.append(buffer[GUARD_BYTES : GUARD_BYTES + size].view(kind).view(shape))
        buffers.append(buffer)
    return Pool(tensors, buffers)


def state_pool(seed: int = 0) -> Pool:
    """Three layers and six slots: states that end inside a tile, windows of 120 bytes, and a tensor of two layers."""
    shapes = [
        (torch.float32, (3, 6, 2, 32, 33)),
        (torch.bfloat16, (3, 6, 20, 3)),
        (torch.float16, (2, 6, 5000)),
    ]
    return pool_of(shapes, seed)


def odd_pool(seed: int = 0) -> Pool:
    """Rows of 42 and 15 bytes, which only narrow words divide."""
    return pool_of([(torch.bfloat16, (2, 6, 7, 3)), (torch.int8, (3, 6, 5, 3))], seed)


def far_pool() -> tuple[list[torch.Tensor], mmap.mmap]:
    """Four cells of 32 floats, each more than 2^31 elements from the next; only touched pages exist in memory."""
    stride = 2**31 + 64
    span_bytes = (3 * stride + 64) * 4
    no_reserve = 0x4000  # MAP_NORESERVE of Linux, which the module names from Python 3.13 on
    memory = mmap.mmap(-1, span_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    flat = torch.frombuffer(memory, dtype=torch.float32)
    return [flat.as_strided((1, 4, 32), (32, stride, 1))], memory
