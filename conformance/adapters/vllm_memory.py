"""vLLM's block memory on a CPU: one region for each layer position, shared by all groups, as vLLM lays it out.

Payloads are real: each layer, and in a state each part, holds the digest in words of its own, so that a copy that
misses a layer or a part is seen. Block copies are carried out by vLLM's own function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from milepost.conformance.adapters.vllm_engine import LAYERS
from milepost.spec.payload import GARBAGE, ZERO, Content

PARTS = ("convolution", "recurrence")


class BlockMemory:
    """The tensors of the worker; `specs` are vLLM's specifications of the groups, which share `blocks` block ids."""

    def __init__(self, specs: Sequence[Any], state_shapes: Sequence[tuple[int, ...]], blocks: int) -> None:
        import torch

        self.blocks = blocks
        words = specs[0].page_size_bytes // 8
        region = torch.zeros((LAYERS, blocks, words), dtype=torch.int64)
        # As in vLLM's worker each group's layer is a view; those of one layer position alias the same bytes.
        self.views = [region[layer] for _ in specs for layer in range(LAYERS)]
        self.words = region.numpy()
        self.part_ends = [0]
        for shape in state_shapes:
            size = 1
            for one in shape:
                size *= one
            self.part_ends.append(self.part_ends[-1] + size)
        self.page_masks = [_mask("page", layer) for layer in range(LAYERS)]
        self.state_masks = [[_mask(part, layer) for part in PARTS] for layer in range(LAYERS)]

    # -- what the worker does before a forward

    def zero(self, blocks: Iterable[int]) -> None:
        """Zero the attention layers of whole blocks; they lie over those of every other group."""
        self.words[:, list(blocks)] = 0

    def copy_blocks(self, copies: Sequence[Any]) -> None:
        """Carry out vLLM's queued block copies with its own function: all sources are gathered, then scattered."""
        from vllm.v1.worker.utils import copy_kv_cache_blocks_inplace

        copy_kv_cache_blocks_inplace(self.views, self.blocks, copies)

    def copy_states(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy states, parts only: what vLLM's pre-copy kernel does for all requests of a step at once."""
        if copies:
            sources, targets = zip(*copies, strict=True)
            size = self.part_ends[-1]
            self.words[:, list(targets), :size] = self.words[:, list(sources), :size].copy()

    # -- payloads

    def write(self, block: int, content: Content) -> None:
        """Write a state whole, or those entries of a page that are not None."""
        if content is None:
            return
        for layer in range(LAYERS):
            row = self.words[layer, block]
            if isinstance(content, tuple):
                entries = row.reshape(len(content), -1)
                for entry, digest in enumerate(content):
                    if digest is not None:
                        entries[entry] = digest ^ self.page_masks[layer] if digest else 0
                continue
            for part, mask in enumerate(self.state_masks[layer]):
                row[self.part_ends[part] : self.part_ends[part + 1]] = content ^ mask if content else 0

    def read_page(self, block: int, entries: int) -> Content:
        """Read a page of so many entries; GARBAGE in those where layers disagree, ZERO where all is zero."""
        rows = [self.words[layer, block].reshape(entries, -1) for layer in range(LAYERS)]
        if not any(row.any() for row in rows):
            return ZERO
        found: list[int | None] = []
        for entry in range(entries):
            parts = [(row[entry], mask) for row, mask in zip(rows, self.page_masks, strict=True)]
            found.append(_digest(parts))
        return tuple(found)

    def read_state(self, block: int) -> Content:
        """Read a state; GARBAGE where layers or parts disagree."""
        parts = []
        for layer in range(LAYERS):
            row = self.words[layer, block]
            for part, mask in enumerate(self.state_masks[layer]):
                parts.append((row[self.part_ends[part] : self.part_ends[part + 1]], mask))
        return _digest(parts)


def _digest(parts: Sequence[tuple[Any, int]]) -> int:
    if not any(values.any() for values, _ in parts):
        return ZERO
    found = {int(value) ^ mask for values, mask in parts for value in values.flat}
    return found.pop() if len(found) == 1 else GARBAGE


def _mask(part: str, layer: int) -> int:
    """Return what keeps a layer's words apart from another's; it leaves the sign and never makes a digest zero."""
    return int.from_bytes(blake2b(f"{part} {layer}".encode(), digest_size=7).digest(), "big")
