"""Digest slots where they lie, so that an audit can show that no protected or donated slot was written.

A digest is the sum, modulo 2^64, of a mixed value for each word of the slot: of the word and its place, counted
through all tensors and layers. A sum is the same in every order, so grids, devices and the twin agree on it. Changing
any one word always changes it, since the mixing loses nothing; other changes escape with a chance of 2^-64. It is no
protection against somebody who wants to deceive it.
"""

from collections.abc import Iterable, Sequence
from math import gcd

import torch
import triton.language as tl

from milepost.kernels.backend import Backend, backend_for, launch
from milepost.kernels.rows import WORDS, Rows, checked_cells, plan, rows_of


def fingerprint_slots(tensors: Sequence[torch.Tensor], slots: Iterable[int]) -> torch.Tensor:
    """The digest of each of these cells over every layer of every tensor `[layers, cells, *row]`: int64 `[slots]`.

    The result lies on the tensors' device, behind what was launched before; nothing waits for it. Digests can be
    compared between pools whose rows have the same sizes. Raises ValueError for a cell out of range, and for tensors
    that `rows_of` refuses.
    """
    rows = rows_of(tensors)
    read = checked_cells(slots, rows[0].cells, "slots")
    word_bytes = _word_bytes(rows)
    device = tensors[0].device
    if backend_for(device) is Backend.TORCH:
        return fingerprint_twin(tensors, read, word_bytes)
    digests = torch.zeros(len(read), dtype=torch.int64, device=device)
    if read:
        layout = plan([rows], [read], widest_bytes=word_bytes, device=str(device))
        if layout.word_bytes != word_bytes:
            raise ValueError(f"Rows of a multiple of {word_bytes} bytes must lie at multiples of it to be digested.")
        arguments = (layout.entries, layout.tensors, layout.tiles, digests)
        launch(fingerprint_kernel, device, layout.programs, *arguments, **layout.constants)
    return digests


def changed_slots(tensors: Sequence[torch.Tensor], slots: Iterable[int], digests: torch.Tensor) -> list[int]:
    """Those of these cells whose digest is no longer the one given: they were written since. Waits for the device."""
    read = list(slots)
    if digests.dtype != torch.int64 or digests.shape != (len(read),):
        raise ValueError(f"{len(read)} slots need as many int64 digests; these are {digests.dtype} {[*digests.shape]}.")
    differ = fingerprint_slots(tensors, read) != digests.to(tensors[0].device)
    return [slot for slot, differs in zip(read, differ.tolist(), strict=True) if differs]


def _word_bytes(rows: Sequence[Rows]) -> int:
    """The digest's word depends on the rows' sizes alone: not on where they lie, which differs between devices."""
    return gcd(8, *(one.row_bytes for one in rows))


def fingerprint_twin(tensors: Sequence[torch.Tensor], slots: Sequence[int], word_bytes: int) -> torch.Tensor:
    """The same, unchecked, with plain torch."""
    digests = torch.zeros(len(slots), dtype=torch.int64, device=tensors[0].device)
    for item, slot in enumerate(slots):
        place = 1
        for tensor in tensors:
            for row in tensor[:, slot]:
                words = row.reshape(-1).view(torch.uint8).view(WORDS[word_bytes][0]).to(torch.int64)
                places = torch.arange(place, place + len(words), device=words.device)
                digests[item] += _mixed(words + places * _signed(0x9E3779B97F4A7C15)).sum()
                place += len(words)
    return digests


def _signed(constant: int) -> int:
    return constant - 2**64 if constant >= 2**63 else constant


def _mixed(value: torch.Tensor) -> torch.Tensor:
    """The finalizer of splitmix64, a bijection (Steele, Lea and Flood 2014); torch shifts signs in, so they are cut."""
    value = (value ^ (value >> 30 & 2**34 - 1)) * _signed(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> 27 & 2**37 - 1)) * _signed(0x94D049BB133111EB)
    return value ^ (value >> 31 & 2**33 - 1)


def fingerprint_kernel(
    entries: tl.tensor,
    tensors: tl.tensor,
    tiles: tl.tensor,
    digests: tl.tensor,
    tile_words: tl.constexpr,
    word: tl.constexpr,
    words_aligned: tl.constexpr,
) -> None:
    """Add one tile of one row of one cell to the cell's digest; `entries` is a Plan of one side."""
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
    held = offsets < words
    cell = tl.load(entries + tensors * 7 + item)
    source = tl.multiple_of(tl.load(row + 4).to(tl.pointer_type(word)), word.primitive_bitwidth // 8 * words_aligned)
    source += layer * tl.multiple_of(tl.load(row + 5), words_aligned)
    source += cell * tl.multiple_of(tl.load(row + 6), words_aligned)
    places = (tl.load(row + 3) + 1 + layer * words + offsets).to(tl.uint64)
    value = tl.load(source + offsets, mask=held, other=0).to(tl.uint64) + places * 0x9E3779B97F4A7C15
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB
    value = tl.where(held, value ^ (value >> 31), 0)
    # Named without tl.sum, a library function; the sum of integers is the same in every order.
    tl.atomic_add(digests + item, tl.reduce(value, 0, tl.standard._sum_combine).to(tl.int64))
