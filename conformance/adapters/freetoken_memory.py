"""FreeToken's state tensors as the harness sees them: payloads really lie in every layer of every part of a slot."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from freetoken.kvcache.linear_state_pool import LinearStatePool
from freetoken.models.config import LinearGatedDeltaGroupConfig, SlotStateSpec

from milepost.spec.payload import GARBAGE, ZERO, Content

CPU = torch.device("cpu")
LAYERS = (0, 1, 2)
WORD_BYTES = 8

LAYER_GROUP = LinearGatedDeltaGroupConfig(
    name="linear", layer_ids=LAYERS, num_key_heads=1, num_value_heads=1, key_head_dim=2, value_head_dim=4,
    conv_kernel_dim=4, output_gate="silu",
)
# Two more parts on the same slots, one for each layer and one for all of them, as Qwen4-exp declares.
MORE_PARTS = (
    SlotStateSpec("ple_conv", (2, 4), LAYERS),
    SlotStateSpec("ple_ngram_ctx", (2,), (), torch.int32),
)


class WatchedPool(LinearStatePool):  # type: ignore[misc]  # FreeToken ships no types
    """FreeToken's own pool, which notes the copies that it carries out."""

    def __init__(self, slots: int) -> None:
        # Slot 0 is its padding sink and never handed out (linear_state_pool.py:91-96).
        super().__init__(LAYER_GROUP, slots + 1, torch.bfloat16, CPU, tp_size=1, slot_states=MORE_PARTS)
        self.copies: list[tuple[int, int]] = []

    def copy_from(self, src: int, dst: int) -> None:
        """Copy one slot to another, and note it."""
        super().copy_from(src, dst)
        self.copies.append((src, dst))

    def take_copies(self) -> list[tuple[int, int]]:
        """Return (source, destination) of the copies since the last call, in order."""
        copies, self.copies = self.copies, []
        return copies


class StateMemory:
    """Reads and writes one payload through all parts of a slot; each word of each layer holds it under its own mask.

    `torn` are slots whose next write is a snapshot that the kernels cut at two positions: it becomes garbage.
    """

    def __init__(self, pool: WatchedPool) -> None:
        parts = (pool.recurrent_states, pool.conv_states, *pool.slot_states.values())
        self._words = [_words(part) for part in parts]
        random = numpy.random.default_rng(20261130)
        shapes = [(words.shape[0], words.shape[2]) for words in self._words]
        self._masks = [random.integers(1, 1 << 62, shape, dtype=numpy.int64) for shape in shapes]
        self.torn: set[int] = set()

    def read(self, slot: int) -> Content:
        """Return the payload of a slot, ZERO where all of it is zeroed, GARBAGE where its words disagree."""
        first = int(self._words[0][0, slot, 0])
        if not first:
            return GARBAGE if any(words[:, slot].any() for words in self._words) else ZERO
        payload = first ^ int(self._masks[0][0, 0])
        for words, masks in zip(self._words, self._masks, strict=True):
            if (words[:, slot] != masks ^ payload).any():
                return GARBAGE
        return payload if payload > ZERO else GARBAGE

    def write(self, slot: int, payload: int) -> None:
        """Write a payload into every layer of every part of a slot, as the kernels of one step do."""
        for words, masks in zip(self._words, self._masks, strict=True):
            words[:, slot] = masks ^ payload if payload else 0
        if slot in self.torn:
            self.torn.remove(slot)
            for words in self._words[1:]:
                words[:, slot] += 1


def _words(part: torch.Tensor) -> Any:
    """Return a part as [layers, slots, words] of 64 bits that share its memory."""
    flat = part.reshape(part.shape[0], part.shape[1], -1)
    assert flat.data_ptr() == part.data_ptr() and flat.shape[2] * flat.element_size() % WORD_BYTES == 0
    return flat.view(torch.int64).numpy()
