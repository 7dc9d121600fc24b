"""The tensors behind the pools: states and KV pages, moved and zeroed whole, in phases.

A slot is one index into every state tensor, a page one index into the KV tensor. The harness's payloads, where it
plays the model, lie in every word of every layer of every part: what is forgotten on the way shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from milepost.kernels.copy import copy_slots
from milepost.kernels.zero import zero_slots
from milepost.optimized.errors import BadInput, CacheError
from milepost.spec.answers import Phase
from milepost.spec.layout import Layout
from milepost.spec.payload import GARBAGE, ZERO, Content, Entries

WORD_BYTES = 8


class CopyFailed(CacheError):
    """A copy or a zeroing was not carried out, or not to its end: its destinations hold nothing that may be read."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """What lies behind one cell: numbers of layers, heads, channels and elements, and the tensors' types.

    The defaults are small, for tests on a CPU. A slot of each tensor and an entry of a page have whole words of 8 bytes
    in every layer.
    """

    state_layers: int = 2
    heads: int = 1
    key_dim: int = 2
    value_dim: int = 2
    conv_channels: int = 4
    conv_kernel: int = 4
    kv_layers: int = 1
    kv_heads: int = 1
    kv_dim: int = 4
    state_dtype: torch.dtype = torch.float32
    conv_dtype: torch.dtype = torch.bfloat16
    kv_dtype: torch.dtype = torch.bfloat16
    device: str = "cpu"


class Memory:
    """State tensors `[layers, slots, heads, K, V]` and `[layers, slots, channels, kernel - 1]`, and a tensor of pages
    `[layers, 2, pages, entries of a page, heads, dim]` for each paged group, as long as the pool that it draws from."""

    def __init__(self, shapes: Shapes, layout: Layout, cells: Mapping[str, int]) -> None:
        one, device = shapes, shapes.device
        slots = cells[layout.recurrent.pool] if layout.recurrent else 0
        self.recurrent = torch.zeros(
            (one.state_layers, slots, one.heads, one.key_dim, one.value_dim), dtype=one.state_dtype, device=device
        )
        self.convolution = torch.zeros(
            (one.state_layers, slots, one.conv_channels, one.conv_kernel - 1), dtype=one.conv_dtype, device=device
        )
        self.pages = {
            group.name: torch.zeros(
                (one.kv_layers, 2, cells[group.pool], group.page_size // group.stride, one.kv_heads, one.kv_dim),
                dtype=one.kv_dtype, device=device,
            )
            for group in (layout.full, *layout.sides)
        }
        self.kv = self.pages[layout.full.name]

    @property
    def state_parts(self) -> tuple[torch.Tensor, ...]:
        """The tensors that make up a slot, slots along dimension 1."""
        return self.recurrent, self.convolution

    @property
    def medium(self) -> str:
        """Where the memory lies, in the words of KV events."""
        return "CPU" if self.kv.device.type == "cpu" else "GPU"

    def run(self, phase: Phase, slot_pool: str) -> None:
        """Carry out a phase of slots: all sources are read before any destination is written. CopyFailed on the way."""
        pairs = [(source, target) for pool, source, target in phase.copies if pool == slot_pool]
        zeros = [index for pool, index in phase.zeros if pool == slot_pool]
        if len(pairs) + len(zeros) != len(phase.copies) + len(phase.zeros):
            raise BadInput(f"a phase may only touch slots of pool '{slot_pool}': {phase}")
        try:
            if pairs:
                copy_slots(self.state_parts, [source for source, _ in pairs], [target for _, target in pairs])
            if zeros:
                zero_slots(self.state_parts, zeros)
        except Exception as error:
            raise CopyFailed(f"a phase of {len(pairs)} copies and {len(zeros)} zeroings failed: {error}") from error


class Payloads:
    """Reads and writes payloads of the harness in a memory on the CPU, as the model's forward would write.

    Each word holds the payload under a mask of its own: [layers, cells, words] for states, [layers and k or v, pages,
    entries, words] for pages.
    """

    def __init__(self, memory: Memory) -> None:
        self._parts = [_words(part.flatten(2)) for part in memory.state_parts]
        self._pages = {name: _words(pages.flatten(4).flatten(0, 1)) for name, pages in memory.pages.items()}
        random = numpy.random.default_rng(20261130)
        shapes = [(part.shape[0], part.shape[-1]) for part in self._parts]
        self._masks = [random.integers(1, 1 << 62, shape, dtype=numpy.int64) for shape in shapes]
        forms = [(pages.shape[0], 1, pages.shape[-1]) for pages in self._pages.values()]
        masks = [random.integers(1, 1 << 62, form, dtype=numpy.int64) for form in forms]
        self._page_masks = dict(zip(self._pages, masks, strict=True))

    def read_slot(self, slot: int) -> Content:
        """Return the payload of a slot, ZERO where all of it is zeroed, GARBAGE where its words disagree."""
        first = int(self._parts[0][0, slot, 0])
        if not first:
            return GARBAGE if any(part[:, slot].any() for part in self._parts) else ZERO
        payload = first ^ int(self._masks[0][0, 0])
        for part, masks in zip(self._parts, self._masks, strict=True):
            if (part[:, slot] != masks ^ payload).any():
                return GARBAGE
        return payload if payload > ZERO else GARBAGE

    def write_slot(self, slot: int, payload: int) -> None:
        """Write a state into every word of a slot."""
        for part, masks in zip(self._parts, self._masks, strict=True):
            part[:, slot] = masks ^ payload if payload else 0

    def read_page(self, group: str, page: int) -> Content:
        """Return the payloads of a page's entries, GARBAGE for each whose words disagree."""
        found = self._pages[group][:, page] ^ self._page_masks[group]
        payloads = found[0, :, 0]
        agree = (found == payloads[None, :, None]).all(axis=(0, 2)) & (payloads > ZERO)
        return tuple(int(one) for one in numpy.where(agree, payloads, GARBAGE))

    def write_page(self, group: str, page: int, entries: Entries) -> None:
        """Write the entries that are not None."""
        pages, masks = self._pages[group], self._page_masks[group][:, 0]
        for place, payload in enumerate(entries):
            if payload is not None:
                pages[:, page, place] = masks ^ payload


def _words(part: torch.Tensor) -> Any:
    """Return a tensor as words of 64 bits that share its memory; BadInput where its last dimension has other parts."""
    if part.device.type != "cpu" or part.shape[-1] * part.element_size() % WORD_BYTES:
        raise BadInput("payloads are written in memory on the CPU, in whole words of 8 bytes for each layer")
    return part.view(torch.int64).numpy()
