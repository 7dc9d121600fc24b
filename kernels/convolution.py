"""The causal convolution in front of a recurrent layer, over the requests of a step, with its windows in slots.

The window after n tokens is the last `width - 1` inputs, zeros before the first token: `[channels, width - 1]`, oldest
first. It is the convolution's part of a snapshot, and belongs to the same position as the recurrent part.
"""


import torch
import triton.language as tl

from milepost.kernels.backend import Backend, backend_for, launch
from milepost.kernels.step import NO_SLOT, Step

TILE_TOKENS = 64
TILE_CHANNELS = 256


def convolve(
    inputs: torch.Tensor,
    weights: torch.Tensor,
    bias: torch.Tensor | None,
    windows: torch.Tensor,
    step: Step,
    chunk: int,
) -> torch.Tensor:
    """Convolve inputs `[tokens, channels]` with weights `[channels, width]`, apply silu, and keep the windows.

    `windows` is one layer's `[slots, channels, width - 1]`, of the inputs' type. Live slots get the windows after the
    last tokens, freeze slots those at the boundaries. Raises ValueError before anything is written: for shapes or
    types that don't fit, and for a step that `Step.check` refuses.
    """
    channels, width = weights.shape
    if inputs.shape != (step.tokens, channels) or not inputs.is_contiguous() or not weights.is_contiguous():
        raise ValueError(f"{step.tokens} tokens of {channels} channels are needed, in one piece: {[*inputs.shape]}.")
    if windows.shape[1:] != (channels, width - 1) or not windows[0].is_contiguous():
        raise ValueError(f"Windows of {channels} x {width - 1} in one piece each are needed: {[*windows.shape]}.")
    if windows.dtype != inputs.dtype:
        raise ValueError(f"A window holds inputs: {windows.dtype} can't hold {inputs.dtype} unchanged.")
    step.check(windows.shape[0], chunk)
    outputs = torch.empty_like(inputs)
    if backend_for(inputs.device) is Backend.TORCH:
        convolve_twin(inputs, weights, bias, windows, step, outputs)
        return outputs
    table, tiles = step.table(TILE_TOKENS, inputs.device)
    launch(
        convolution_kernel, inputs.device, tiles * -(-channels // TILE_CHANNELS),
        inputs, weights, bias if bias is not None else weights, windows, outputs, table, len(step.lengths), channels,
        windows.stride(0), biased=bias is not None, width=width, tile_tokens=TILE_TOKENS, tile_channels=TILE_CHANNELS,
    )  # fmt: skip
    return outputs


def convolve_twin(
    inputs: torch.Tensor,
    weights: torch.Tensor,
    bias: torch.Tensor | None,
    windows: torch.Tensor,
    step: Step,
    outputs: torch.Tensor,
) -> None:
    """The same, unchecked, with plain torch, in pieces of equal shape: silu rounds by the place in a vector."""
    before = weights.shape[1] - 1
    for first, length, initial, live, freeze, boundary in step.rows:
        started = initial != NO_SLOT
        window = windows[initial].t() if started else inputs.new_zeros(before, inputs.shape[1])
        history = torch.cat([window, inputs[first : first + length]])
        padded = torch.cat([history, inputs.new_zeros(-length % TILE_TOKENS, inputs.shape[1])])
        for start in range(0, length, TILE_TOKENS):
            piece = _piece(padded[start : start + before + TILE_TOKENS].float(), weights.float(), bias)
            held = min(TILE_TOKENS, length - start)
            outputs[first + start : first + start + held] = piece[:held].to(outputs.dtype)
        if freeze != NO_SLOT:
            windows[freeze] = history[boundary : boundary + before].t()
        windows[live] = history[length:].t()


def _piece(history: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    total = history.new_zeros(TILE_TOKENS, history.shape[1]) + (bias.float() if bias is not None else 0)
    for tap in range(weights.shape[1]):
        total += history[tap : tap + TILE_TOKENS] * weights[:, tap]
    return total / (1 + torch.exp(-total))


def convolution_kernel(
    inputs: tl.tensor,
    weights: tl.tensor,
    bias: tl.tensor,
    windows: tl.tensor,
    outputs: tl.tensor,
    table: tl.tensor,
    requests: tl.tensor,
    channels: tl.tensor,
    slot_stride: tl.tensor,
    biased: tl.constexpr,
    width: tl.constexpr,
    tile_tokens: tl.constexpr,
    tile_channels: tl.constexpr,
) -> None:
    """Some channels of some tokens of one request; the program of a request's first tokens also moves its window."""
    blocks = (channels + tile_channels - 1) // tile_channels
    channel = (tl.program_id(0) % blocks) * tile_channels + tl.arange(0, tile_channels)
    tile = table + requests * 6 + (tl.program_id(0) // blocks) * 2
    row = table + tl.load(tile) * 6
    number = tl.load(tile + 1)
    first = tl.load(row)
    length = tl.load(row + 1)
    initial = tl.load(row + 2)
    started = tl.where(initial >= 0, channels, 0)
    window = windows + initial * slot_stride + channel * (width - 1)
    token = number * tile_tokens
    end = tl.minimum(token + tile_tokens, length)
    while token < end:
        total = tl.full([tile_channels], 0.0, tl.float32)
        if biased:
            total += tl.load(bias + channel, mask=channel < channels, other=0).to(tl.float32)
        for tap in tl.static_range(width):
            at = token + tap - (width - 1)
            new = tl.load(inputs + (first + at) * channels + channel, mask=channel < tl.where(at >= 0, channels, 0))
            old = tl.load(window + at + (width - 1), mask=channel < tl.where(at < 0, started, 0), other=0)
            weight = tl.load(weights + channel * width + tap, mask=channel < channels)
            total += tl.where(at >= 0, new, old).to(tl.float32) * weight.to(tl.float32)
        total = (total / (1 + tl.exp(-total))).to(outputs.dtype.element_ty)
        tl.store(outputs + (first + token) * channels + channel, total, mask=channel < channels)
        token += 1
    if number == 0:
        for side in tl.static_range(2):  # first the freeze slot: the live one may be where the window is read from
            slot = tl.load(row + 4 - side)
            position = tl.where(side == 0, tl.load(row + 5), length)
            written = tl.where(slot >= 0, channels, 0)
            kept = tl.where(slot >= 0, started, 0)
            target = windows + slot * slot_stride + channel * (width - 1)
            for column in tl.static_range(width - 1):
                at = position + column - (width - 1)
                new = tl.load(inputs + (first + at) * channels + channel, mask=channel < tl.where(at >= 0, written, 0))
                old = tl.load(window + at + (width - 1), mask=channel < tl.where(at < 0, kept, 0), other=0)
                # A column moves towards the front, to one that every thread has read by now.
                tl.debug_barrier()
                tl.store(target + column, tl.where(at >= 0, new, old), mask=channel < written)
