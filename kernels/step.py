"""One step of a forward path as its kernels see it: whose tokens, from which states, and where states are written."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

NO_SLOT = -1


@dataclass(frozen=True)
class Step:
    """The requests of one step, whose tokens lie end to end in this order; one entry a request in each field.

    A request starts from the state in its initial slot, or from zeros where that is NO_SLOT. Its state behind its last
    token is written to its live slot, and its state behind `boundaries[i]` of its tokens to its freeze slot, unless
    that is NO_SLOT. Chunks are cut from a request's first token in the step.
    """

    lengths: Sequence[int]
    initial_slots: Sequence[int]
    live_slots: Sequence[int]
    freeze_slots: Sequence[int]
    boundaries: Sequence[int]

    @property
    def tokens(self) -> int:
        """How many there are in all."""
        return sum(self.lengths)

    @property
    def rows(self) -> list[tuple[int, int, int, int, int, int]]:
        """First token, length, initial, live and freeze slot, and boundary of each request."""
        rows, first = [], 0
        slots = zip(self.initial_slots, self.live_slots, self.freeze_slots, strict=True)
        for length, (initial, live, freeze), boundary in zip(self.lengths, slots, self.boundaries, strict=True):
            rows.append((first, length, initial, live, freeze, boundary))
            first += length
        return rows

    def check(self, slots: int, chunk: int) -> None:
        """Raise ValueError unless a pool of so many slots can take this step, whatever order its requests run in."""
        counts = {len(self.lengths), len(self.initial_slots), len(self.live_slots)}
        if counts | {len(self.freeze_slots), len(self.boundaries)} != {len(self.lengths)} or not self.lengths:
            raise ValueError("A step needs one entry a request in each field, and a request.")
        frozen = [slot for slot in self.freeze_slots if slot != NO_SLOT]
        read = [slot for slot in self.initial_slots if slot != NO_SLOT]
        for slot in (*read, *self.live_slots, *frozen):
            if not 0 <= slot < slots:
                raise ValueError(f"The step names slot {slot}, and there are slots 0 to {slots - 1}.")
        if len({*self.live_slots, *frozen}) < len(self.live_slots) + len(frozen):
            raise ValueError("Two states of the step would be written to one slot.")
        for initial, live in zip(self.initial_slots, self.live_slots, strict=True):
            if initial in frozen or (initial in self.live_slots and initial != live):
                raise ValueError(f"Slot {initial} is read by one request of the step and written by another.")
        for length, freeze, boundary in zip(self.lengths, self.freeze_slots, self.boundaries, strict=True):
            if length < 1:
                raise ValueError(f"A request of the step has {length} tokens.")
            if freeze != NO_SLOT and not (boundary == length or (0 < boundary < length and boundary % chunk == 0)):
                raise ValueError(f"A state after {boundary} of {length} tokens can't be frozen: chunks have {chunk}.")

    def chunks(self, chunk: int) -> list[tuple[int, int]]:
        """Each chunk of each request: the request's number, and the chunk's."""
        return [(row, number) for row, length in enumerate(self.lengths) for number in range(-(-length // chunk))]

    def table(self, chunk: int, device: torch.device) -> tuple[torch.Tensor, int]:
        """What the kernels read, int64 in one transfer: `rows`, and behind them `chunks`; and the number of those."""
        chunks = self.chunks(chunk)
        numbers = [number for entry in (*self.rows, *chunks) for number in entry]
        return torch.tensor(numbers, dtype=torch.int64).to(device, non_blocking=True), len(chunks)
