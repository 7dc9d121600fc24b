"""Where a step writes checkpoints: read off the arguments that the engine gives its kernels, never off its labels."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True, slots=True)
class Track:
    """A checkpoint that the forward writes: into which slot, and the position of what it writes."""

    slot: int
    position: int


class TornTrack(AssertionError):
    """The convolution part and the recurrent part of one checkpoint are taken at different positions."""


def prefill_track(batch: Any, chunk: int) -> Track | None:
    """Return the checkpoint of a prefill of one request; `chunk` are the tokens of a chunk of the kernel.

    The recurrent part is either the final state or the state before a chunk of the kernel
    (layers/attention/mamba/prefill_track_metadata.py), the convolution part the inputs that end at the aligned length
    (layers/attention/hybrid_linear_attn_backend.py:413, model_executor/forward_batch_info.py:1454).
    """
    from sglang.srt.layers.attention.mamba.prefill_track_metadata import build_prefill_track_plan
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch

    if not batch.mamba_prefill_track_mask_cpu[0]:
        return None
    start, length = batch.prefix_lens[0], batch.extend_lens[0]
    plan = build_prefill_track_plan(
        batch.mamba_prefill_track_mask_cpu[:1], batch.mamba_track_seqlens_cpu[:1], [length], [start], chunk,
        mamba2=False,
    )
    recurrent = start + (length if plan.final_rows else plan.h_src[0] * chunk)
    import torch

    aligned = ForwardBatch.mamba_track_aligned_lens(SimpleNamespace(
        mamba_track_mask=batch.mamba_track_mask, mamba_track_seqlens=batch.mamba_track_seqlens,
        extend_prefix_lens=torch.tensor([start]),
    ))
    convolution = start + int(aligned[0])
    if convolution != recurrent:
        raise TornTrack(f"the convolution ends at {convolution}, the recurrent state at {recurrent}")
    return Track(int(batch.mamba_track_indices[0]), recurrent)


def decode_track(batch: Any) -> Track | None:
    """Return the checkpoint of a decode step, a copy of the live state after it (mamba_state_scatter_triton.py:192)."""
    if not batch.mamba_track_mask_cpu[0]:
        return None
    return Track(int(batch.mamba_track_indices[0]), int(batch.seq_lens_cpu[0]))
