"""Payloads in the engine's state tensors: a slot is a row in every layer of the convolution and recurrent parts."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from milepost.spec.payload import GARBAGE, ZERO


class StateMemory:
    """Reads and writes a payload in all parts of a slot, masked for each part: two parts never hold equal bytes."""

    def __init__(self, pool: Any, torch: Any) -> None:
        """`pool` is the engine's MambaPool, its tensors [layers, slots, ...]."""
        self._parts: list[tuple[int, Any]] = []
        tensors = [*enumerate(pool.mamba_cache.conv), ("temporal", pool.mamba_cache.temporal)]
        for name, tensor in tensors:
            for layer in range(tensor.shape[0]):
                words = tensor[layer].view(tensor.shape[1], -1).view(torch.int64).numpy()
                mask = int.from_bytes(blake2b(f"{name}.{layer}".encode(), digest_size=7).digest(), "big")
                self._parts.append((mask, words))

    def read(self, slot: int) -> int:
        """Return the payload that all parts agree on, ZERO where all are zero, else GARBAGE."""
        raw = []
        for _, words in self._parts:
            row = words[slot]
            first = int(row[0])
            if (row != first).any():
                return GARBAGE
            raw.append(first)
        if not any(raw):
            return ZERO
        found = {one ^ mask for one, (mask, _) in zip(raw, self._parts, strict=True)}
        return found.pop() if len(found) == 1 else GARBAGE

    def write(self, slot: int, content: int) -> None:
        """Write a payload into every part."""
        for mask, words in self._parts:
            words[slot] = content ^ mask if content else 0
