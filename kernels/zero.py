"""Zero slots or pages of a pool: every layer and every tensor in one launch, for a request that starts cold."""

from collections.abc import Iterable, Sequence

import torch
import triton.language as tl

from milepost.kernels.backend import Backend, backend_for, launch
from milepost.kernels.rows import checked_cells, plan, rows_of


def zero_slots(tensors: Sequence[torch.Tensor], slots: Iterable[int]) -> None:
    """Set these cells to zero bits in every layer of every tensor `[layers, cells, *row]`.

    Raises ValueError before anything is written: for a cell out of range, and for tensors that `rows_of` refuses.
    """
    rows = rows_of(tensors)
    written = checked_cells(slots, rows[0].cells, "slots")
    if not written:
        return
    device = tensors[0].device
    if backend_for(device) is Backend.TORCH:
        zero_twin(tensors, written)
        return
    layout = plan([rows], [written], widest_bytes=8, device=str(device))
    launch(zero_kernel, device, layout.programs, layout.entries, layout.tensors, layout.tiles, **layout.constants)


def zero_twin(tensors: Sequence[torch.Tensor], slots: Sequence[int]) -> None:
    """The same, unchecked, with plain torch."""
    for tensor in tensors:
        for slot in slots:
            tensor[:, slot].zero_()


def zero_kernel(
    entries: tl.tensor,
    tensors: tl.tensor,
    tiles: tl.tensor,
    tile_words: tl.constexpr,
    word: tl.constexpr,
    words_aligned: tl.constexpr,
) -> None:
    """One tile of one row of one cell; `entries` is a Plan of one side."""
    item = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    low = 0
    high = tensors
    while low + 1 < high:  # the last tensor whose first tile is not behind this one
        middle = (low + high) // 2
        reached = tl.load(entries + middle * 7) <= tile
        low = tl.where(reached, middle, low)
        high = tl.where(reached, high, middle)
    row = entries + low * 7
    tile -= tl.load(row).to(tl.int32)
    tiles_of_row = tl.load(row + 1).to(tl.int32)
    words = tl.multiple_of(tl.load(row + 2), words_aligned)
    layer = (tile // tiles_of_row).to(tl.int64)
    offsets = (tile % tiles_of_row).to(tl.int64) * tile_words + tl.arange(0, tile_words)
    cell = tl.load(entries + tensors * 7 + item)
    target = tl.multiple_of(tl.load(row + 4).to(tl.pointer_type(word)), word.primitive_bitwidth // 8 * words_aligned)
    target += layer * tl.multiple_of(tl.load(row + 5), words_aligned)
    target += cell * tl.multiple_of(tl.load(row + 6), words_aligned)
    tl.store(target + offsets, tl.full([tile_words], 0, word), mask=offsets < words)
