"""What the state kernels of a batch are told: whose slot they read, and where in whose tokens they freeze.

Positions come from the kernels' own arguments and never from the label that FreeToken keeps beside them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from freetoken.core import Batch
from freetoken.scheduler import scheduler as scheduler_module

from milepost.conformance.adapters.freetoken_memory import CPU


@dataclass(frozen=True, slots=True)
class Freeze:
    """A snapshot that a prefill writes; `whole` is False where its parts are cut at different positions."""

    slot: int
    position: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Told:
    """The arguments of one request in a batch: the slot that it reads and writes, None where it starts from zeros."""

    slot: int
    initial: int | None
    freezes: tuple[Freeze, ...]


def preview(reqs: list[Any], chunk: int) -> tuple[Any, Told]:
    """Return a copy of the last of these `Req`s as it will be after a prefill of all of them, and what it will be told.

    `build_fla_metadata` changes the requests that it is given, so that it is given copies.
    """
    batch = Batch([copy.copy(req) for req in reqs], "prefill")
    batch.padded_reqs = batch.reqs
    starts = [req.cached_len for req in reqs]
    return batch.reqs[-1], read_arguments(scheduler_module.build_fla_metadata(batch, CPU), starts, chunk)[-1]


def read_arguments(metadata: Any, starts: list[int], chunk: int) -> list[Told]:
    """Read `FLAMetadata` of a batch whose requests start at `starts`."""
    slots = metadata.cache_indices.tolist()
    frozen = _read_freezes(metadata, starts, chunk)
    if metadata.has_initial_state is None:  # a decode always goes on from its state (attention/linear.py:71)
        return [Told(slot, slot, freezes) for slot, freezes in zip(slots, frozen, strict=True)]
    continued = metadata.has_initial_state.tolist()
    return [
        Told(slot, slot if goes_on else None, freezes)
        for slot, goes_on, freezes in zip(slots, continued, frozen, strict=True)
    ]


def _read_freezes(metadata: Any, starts: list[int], chunk: int) -> list[tuple[Freeze, ...]]:
    """Tell where each snapshot is cut.

    The recurrent part is a row of the kernel's states by chunk, the convolution's are rows of its input, and other
    parts take the rows before `track_boundary_row` (models/qwen3_5_moe/gdn.py:111-123, models/qwen4_exp/ple.py).
    """
    found: list[list[Freeze]] = [[] for _ in starts]
    if metadata.track_dst is None:
        return [()] * len(starts)
    offsets = metadata.cu_seqlens.tolist()
    chunks = [-(-(stop - start) // chunk) for start, stop in pairwise(offsets)]
    first_rows = list(accumulate(chunks, initial=0))
    columns = (metadata.track_dst, metadata.track_h_row, metadata.track_conv_src, metadata.track_boundary_row)
    for slot, row, taps, boundary in zip(*(column.tolist() for column in columns), strict=True):
        owner = max(index for index in range(len(starts)) if first_rows[index] <= row)
        cut = (row - first_rows[owner]) * chunk
        end = offsets[owner] + cut
        whole = taps == list(range(end - len(taps), end)) and boundary == end
        found[owner].append(Freeze(slot, starts[owner] + cut, whole))
    return [tuple(freezes) for freezes in found]
