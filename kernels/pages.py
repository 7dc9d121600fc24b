"""Gather pages of a pool into one piece, and scatter them back: how KV is moved between pools, hosts and engines."""

from collections.abc import Iterable, Sequence

import torch

from milepost.kernels.backend import Backend, backend_for, launch
from milepost.kernels.copy import copy_kernel
from milepost.kernels.rows import Rows, checked_cells, checked_distinct, plan, rows_of


def gather_pages(tensors: Sequence[torch.Tensor], pages: Iterable[int]) -> list[torch.Tensor]:
    """Copy these cells of every tensor `[layers, cells, *row]` into new tensors `[layers, len(pages), *row]`, bitwise.

    Raises ValueError for a cell out of range, and for tensors that `rows_of` refuses.
    """
    rows = rows_of(tensors)
    read = checked_cells(pages, rows[0].cells, "pages")
    gathered = [tensor.new_empty((tensor.shape[0], len(read), *tensor.shape[2:])) for tensor in tensors]
    if not read:
        return gathered
    if backend_for(tensors[0].device) is Backend.TORCH:
        gather_twin(tensors, read, gathered)
    else:
        _launch(rows, read, rows_of(gathered), range(len(read)), tensors[0].device)
    return gathered


def scatter_pages(tensors: Sequence[torch.Tensor], pages: Iterable[int], gathered: Sequence[torch.Tensor]) -> None:
    """Copy page i of the gathered tensors to cell `pages[i]` of every tensor, bitwise: what `gather_pages` undoes.

    Raises ValueError before anything is written: for a cell out of range or named twice, for gathered tensors of
    other shapes or types or in the pool's own memory, and for tensors that `rows_of` refuses.
    """
    rows = rows_of(tensors)
    written = checked_distinct(pages, rows[0].cells, "pages")
    expected = [((tensor.shape[0], len(written), *tensor.shape[2:]), tensor.dtype) for tensor in tensors]
    if [(tuple(tensor.shape), tensor.dtype) for tensor in gathered] != expected:
        raise ValueError(f"The gathered tensors are not those of {len(written)} pages of this pool.")
    if not written:
        return
    held = rows_of(gathered)
    if gathered[0].device != tensors[0].device:
        raise ValueError(f"Pages gathered on {gathered[0].device} can't be scattered on {tensors[0].device}.")
    if any(source.overlaps(target) for source in held for target in rows):
        raise ValueError("The gathered tensors lie in the pool's own memory.")
    if backend_for(tensors[0].device) is Backend.TORCH:
        scatter_twin(tensors, written, gathered)
    else:
        _launch(held, range(len(written)), rows, written, tensors[0].device)


def gather_twin(tensors: Sequence[torch.Tensor], pages: Sequence[int], gathered: Sequence[torch.Tensor]) -> None:
    """Gather, unchecked, with plain torch."""
    for tensor, target in zip(tensors, gathered, strict=True):
        for number, page in enumerate(pages):
            target[:, number].copy_(tensor[:, page])


def scatter_twin(tensors: Sequence[torch.Tensor], pages: Sequence[int], gathered: Sequence[torch.Tensor]) -> None:
    """Scatter, unchecked, with plain torch."""
    for tensor, source in zip(tensors, gathered, strict=True):
        for number, page in enumerate(pages):
            tensor[:, page].copy_(source[:, number])


def _launch(
    source: Sequence[Rows], read: Sequence[int], target: Sequence[Rows], written: Sequence[int], device: torch.device
) -> None:
    layout = plan([source, target], [read, written], widest_bytes=8, device=str(device))
    launch(copy_kernel, device, layout.programs, layout.entries, layout.tensors, layout.tiles, **layout.constants)
