"""Where cells lie in memory: what tensors of slots or pages must look like, and the plan that a kernel reads.

A tensor of cells is `[layers, cells, *row]`: a pool's recurrent states, its convolution windows, its keys. A row is
what one layer keeps for one cell, in one piece of memory. Layers of separate tensors are passed as separate tensors.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from operator import index

import torch
import triton.language as tl

TILE_BYTES = 8192
"""What one program moves: at 128 threads, four accesses of 16 bytes each."""

WIDEST_ACCESS_BYTES = 16

WORDS = {8: (torch.int64, tl.int64), 4: (torch.int32, tl.int32), 2: (torch.int16, tl.int16), 1: (torch.int8, tl.int8)}
"""The integers in which rows are moved, by size in bytes: a copy of bits rounds nothing."""

ROW_TYPES = {
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
}  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """The rows of one tensor of cells: addresses and strides in bytes."""

    address: int
    layers: int
    cells: int
    layer_stride_bytes: int
    cell_stride_bytes: int
    row_bytes: int

    @property
    def end(self) -> int:
        """The address behind the last row."""
        steps_bytes = (self.layers - 1) * self.layer_stride_bytes + (self.cells - 1) * self.cell_stride_bytes
        return self.address + steps_bytes + self.row_bytes

    @property
    def strides(self) -> tuple[int, int, int, int]:
        """What two tensors that are interleaved in one buffer have in common."""
        return self.layers, self.cells, self.layer_stride_bytes, self.cell_stride_bytes

    @property
    def are_apart(self) -> bool:
        """No two rows share a byte: the smaller stride spans a row, the larger one all that the smaller one walks."""
        steps = [(self.layer_stride_bytes, self.layers), (self.cell_stride_bytes, self.cells)]
        reach = self.row_bytes
        for stride, count in sorted(step for step in steps if step[1] > 1):
            if stride < reach:
                return False
            reach += stride * (count - 1)
        return True

    def overlaps(self, other: "Rows") -> bool:
        """Whether a byte may belong to rows of both: spans that meet, but for layouts that interleave the two."""
        if self.end <= other.address or other.end <= self.address:
            return False
        first, second = sorted((self, other), key=lambda rows: rows.address)
        strides = [s for s, n in zip(first.strides[2:], first.strides[:2], strict=True) if n > 1]
        shift = second.address - first.address
        fits = first.row_bytes <= shift and all(shift + second.row_bytes <= stride for stride in strides)
        return not (first.strides == second.strides and strides and fits)


def rows_of(tensors: Sequence[torch.Tensor]) -> list[Rows]:
    """Where the rows of these tensors lie; raises ValueError for what a kernel could not address safely."""
    if not tensors:
        raise ValueError("There is no tensor of cells.")
    every = [_rows_of_one(tensor) for tensor in tensors]
    if len({tensor.device for tensor in tensors}) > 1:
        raise ValueError(f"Tensors of cells lie on {len({tensor.device for tensor in tensors})} devices.")
    if len({rows.cells for rows in every}) > 1:
        raise ValueError(f"Tensors hold different numbers of cells: {[rows.cells for rows in every]}.")
    # Sorted by address, tensors that meet are mostly neighbours; a long one may still reach past its neighbour.
    by_address = sorted(every, key=lambda rows: rows.address)
    for number, rows in enumerate(by_address):
        for other in by_address[number + 1 :]:
            if other.address >= rows.end:
                break
            if rows.overlaps(other):
                raise ValueError("Two tensors of cells overlap in memory.")
    return every


def _rows_of_one(tensor: torch.Tensor) -> Rows:
    if tensor.dtype not in ROW_TYPES:
        raise ValueError(f"Cells of {tensor.dtype} can't be moved.")
    if tensor.dim() < 3 or tensor.numel() == 0:
        raise ValueError(f"A tensor of cells is [layers, cells, *row], nowhere empty; this one is {[*tensor.shape]}.")
    if not tensor[0, 0].is_contiguous():
        raise ValueError(f"A cell's row must be in one piece; the strides here are {[*tensor.stride()]}.")
    size = tensor.element_size()
    rows = Rows(
        address=tensor.data_ptr(),
        layers=tensor.shape[0],
        cells=tensor.shape[1],
        layer_stride_bytes=tensor.stride(0) * size,
        cell_stride_bytes=tensor.stride(1) * size,
        row_bytes=tensor[0, 0].numel() * size,
    )
    if not rows.are_apart:
        raise ValueError(f"Rows of one tensor overlap; its strides are {[*tensor.stride()]}.")
    return rows


def checked_cells(cells: Iterable[int], count: int, what: str) -> list[int]:
    """These cells as plain integers; raises ValueError for one that is none of the `count`."""
    try:
        plain = [index(cell) for cell in cells]
    except TypeError:
        raise ValueError(f"The {what} must be integers.") from None
    for cell in plain:
        if not 0 <= cell < count:
            raise ValueError(f"{what[:1].upper()}{what[1:]} include {cell}, and there are cells 0 to {count - 1}.")
    return plain


def checked_distinct(cells: Iterable[int], count: int, what: str) -> list[int]:
    """These cells as plain integers; raises ValueError too where one is named twice."""
    plain = checked_cells(cells, count, what)
    if len(set(plain)) < len(plain):
        raise ValueError(f"The {what} name a cell twice.")
    return plain


@dataclass(frozen=True)
class Plan:
    """What a launch over rows reads, in one tensor, so that one transfer brings it to the device.

    For each tensor of cells: the number of its first tile, tiles in a row, words in a row, words of a cell in earlier
    tensors; then for each side (sources and destinations; or the one side there is) address, layer stride and cell
    stride. Behind them, the cells of each item, one for each side. Strides are in words.
    """

    entries: torch.Tensor
    tensors: int
    tiles: int
    items: int
    word_bytes: int
    words_aligned: int
    """Every length and stride is a multiple of this number of words: of 16 bytes where the layout allows."""

    @property
    def programs(self) -> int:
        """One for each tile of each item."""
        return self.tiles * self.items

    @property
    def constants(self) -> dict[str, object]:
        """What the kernels are specialised on."""
        return {
            "tile_words": TILE_BYTES // self.word_bytes,
            "word": WORDS[self.word_bytes][1],
            "words_aligned": self.words_aligned,
        }


def plan(sides: Sequence[Sequence[Rows]], cells: Sequence[Sequence[int]], widest_bytes: int, device: str) -> Plan:
    """Lay out one launch over these cells: `sides[side][tensor]`, `cells[side][item]`.

    Words are as wide as addresses, strides and lengths allow, and `widest_bytes` at most.
    """
    access_bytes = WIDEST_ACCESS_BYTES
    for rows in (rows for side in sides for rows in side):
        access_bytes = gcd(
            access_bytes, rows.address, rows.row_bytes, rows.layer_stride_bytes, rows.cell_stride_bytes
        )
    word_bytes = min(access_bytes, widest_bytes, 8)
    entries, first_tile, first_word = [], 0, 0
    for places in zip(*sides, strict=True):
        tiles = -(-places[0].row_bytes // TILE_BYTES)
        words = places[0].row_bytes // word_bytes
        entries += [first_tile, tiles, words, first_word]
        for rows in places:
            entries += [rows.address, rows.layer_stride_bytes // word_bytes, rows.cell_stride_bytes // word_bytes]
        first_tile += tiles * places[0].layers
        first_word += words * places[0].layers
    entries += [cell for item in zip(*cells, strict=True) for cell in item]
    return Plan(
        entries=torch.tensor(entries, dtype=torch.int64).to(device, non_blocking=True),
        tensors=len(sides[0]),
        tiles=first_tile,
        items=len(cells[0]),
        word_bytes=word_bytes,
        words_aligned=access_bytes // word_bytes,
    )
