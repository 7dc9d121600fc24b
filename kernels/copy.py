"""Copy slots or pages of a pool: every layer, every tensor and every pair in one launch.

This is what restores a snapshot into a live slot, and what freezes a state that the forward path did not write itself.
"""

from collections.abc import Iterable, Sequence

import torch
import triton.language as tl

from milepost.kernels.backend import Backend, backend_for, launch
from milepost.kernels.rows import checked_cells, checked_distinct, plan, rows_of


def copy_slots(tensors: Sequence[torch.Tensor], sources: Iterable[int], destinations: Iterable[int]) -> None:
    """Copy cell `sources[i]` to cell `destinations[i]` in every layer of every tensor `[layers, cells, *row]`, bitwise.

    A source may be copied to several destinations. Raises ValueError before anything is written: for a cell out of
    range, a destination named twice or also a source, and for tensors that `rows_of` refuses.
    """
    rows = rows_of(tensors)
    read = checked_cells(sources, rows[0].cells, "sources")
    written = checked_distinct(destinations, rows[0].cells, "destinations")
    if len(read) != len(written):
        raise ValueError(f"There are {len(read)} sources for {len(written)} destinations.")
    if both := set(read) & set(written):
        raise ValueError(f"Cell {min(both)} is both a source and a destination.")
    if not read:
        return
    device = tensors[0].device
    if backend_for(device) is Backend.TORCH:
        copy_twin(tensors, read, written)
        return
    layout = plan([rows, rows], [read, written], widest_bytes=8, device=str(device))
    launch(copy_kernel, device, layout.programs, layout.entries, layout.tensors, layout.tiles, **layout.constants)


def copy_twin(tensors: Sequence[torch.Tensor], sources: Sequence[int], destinations: Sequence[int]) -> None:
    """The same, unchecked, with plain torch; one copy at a time runs at the speed of memory, indexing does not."""
    for tensor in tensors:
        for source, destination in zip(sources, destinations, strict=True):
            tensor[:, destination].copy_(tensor[:, source])


def copy_kernel(
    entries: tl.tensor,
    tensors: tl.tensor,
    tiles: tl.tensor,
    tile_words: tl.constexpr,
    word: tl.constexpr,
    words_aligned: tl.constexpr,
) -> None:
    """One tile of one row of one pair; `entries` is a Plan of two sides."""
    item = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    low = 0
    high = tensors
    while low + 1 < high:  # the last tensor whose first tile is not behind this one
        middle = (low + high) // 2
        reached = tl.load(entries + middle * 10) <= tile
        low = tl.where(reached, middle, low)
        high = tl.where(reached, high, middle)
    row = entries + low * 10
    tile -= tl.load(row).to(tl.int32)
    tiles_of_row = tl.load(row + 1).to(tl.int32)
    words = tl.multiple_of(tl.load(row + 2), words_aligned)
    layer = (tile // tiles_of_row).to(tl.int64)
    offsets = (tile % tiles_of_row).to(tl.int64) * tile_words + tl.arange(0, tile_words)
    held = offsets < words
    cells = entries + tensors * 10 + item.to(tl.int64) * 2
    source = tl.multiple_of(tl.load(row + 4).to(tl.pointer_type(word)), word.primitive_bitwidth // 8 * words_aligned)
    source += layer * tl.multiple_of(tl.load(row + 5), words_aligned)
    source += tl.load(cells) * tl.multiple_of(tl.load(row + 6), words_aligned)
    target = tl.multiple_of(tl.load(row + 7).to(tl.pointer_type(word)), word.primitive_bitwidth // 8 * words_aligned)
    target += layer * tl.multiple_of(tl.load(row + 8), words_aligned)
    target += tl.load(cells + 1) * tl.multiple_of(tl.load(row + 9), words_aligned)
    tl.store(target + offsets, tl.load(source + offsets, mask=held), mask=held)
