"""Mamba-2 over a step, in plain torch, with the contract of `scan`: states come from slots and go to slots.

For each head, with a state S `[P, N]`, a token does

    S = exp(dt A) S + dt x B^T;  y = S C + D x

with A = -exp(rate) and dt = softplus(raw + bias) (Dao and Gu 2024, "Transformers are SSMs", section 6 for the form in
chunks). Chunks are worked on one by one in tensors of equal shape. One sum over all chunks, which some
implementations use, rounds by how many there are: no pass that resumes repeats it bit by bit.
"""

from dataclasses import dataclass

import torch

from milepost.kernels.step import NO_SLOT, Step


@dataclass(frozen=True)
class MambaInputs:
    """What a layer feeds into the recurrence, tokens end to end."""

    values: torch.Tensor
    """`[tokens, heads, P]`, x above."""
    keys: torch.Tensor
    """`[tokens, groups, N]`, B above; heads share them in groups of neighbours."""
    queries: torch.Tensor
    """`[tokens, groups, N]`, C above."""
    steps: torch.Tensor
    """`[tokens, heads]`, raw above."""
    rates: torch.Tensor
    """`[heads]`."""
    biases: torch.Tensor
    """`[heads]`."""
    skips: torch.Tensor
    """`[heads]`, D above."""


def mamba_scan(inputs: MambaInputs, states: torch.Tensor, step: Step, chunk: int) -> torch.Tensor:
    """Run the recurrence over a step, give outputs `[tokens, heads, P]`, and write the step's states into their slots.

    `states` is one layer's `[slots, heads, P, N]`, float32. Raises ValueError before anything is written: for shapes
    or types that don't fit, and for a step that `Step.check` refuses.
    """
    _, heads, width, state_width = states.shape
    groups = inputs.keys.shape[1]
    if inputs.values.shape != (step.tokens, heads, width) or inputs.steps.shape != (step.tokens, heads):
        raise ValueError(f"Values and steps should be of {step.tokens} tokens and {heads} heads of {width}.")
    if {inputs.keys.shape, inputs.queries.shape} != {(step.tokens, groups, state_width)} or heads % groups:
        raise ValueError(f"Keys and queries should be of {step.tokens} tokens, {state_width} wide, for {heads} heads.")
    if states.dtype != torch.float32:
        raise ValueError(f"States are float32, to be resumed exactly: {states.dtype}.")
    step.check(states.shape[0], chunk)
    outputs = torch.empty_like(inputs.values)
    for first, length, initial, live, freeze, boundary in step.rows:
        state = states[initial].clone() if initial != NO_SLOT else torch.zeros_like(states[live])
        for start in range(0, length, chunk):
            count = min(chunk, length - start)
            state, output = _chunk(inputs, state, first + start, count, chunk)
            outputs[first + start : first + start + count] = output[:, :count].transpose(0, 1).to(outputs.dtype)
            if freeze != NO_SLOT and start + count == boundary:
                states[freeze] = state
        states[live] = state
    return outputs


def _chunk(
    inputs: MambaInputs, state: torch.Tensor, first: int, count: int, chunk: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The state after one chunk, and its outputs `[heads, chunk, P]`, from the state before it."""

    def padded(tensor: torch.Tensor) -> torch.Tensor:
        piece = tensor.new_zeros(chunk, *tensor.shape[1:], dtype=torch.float32)
        piece[:count] = tensor[first : first + count]
        return piece

    sharing = inputs.values.shape[1] // inputs.keys.shape[1]
    key, query = (padded(part).repeat_interleave(sharing, 1).transpose(0, 1) for part in (inputs.keys, inputs.queries))
    value = padded(inputs.values).transpose(0, 1).contiguous()
    raised = padded(inputs.steps) + inputs.biases
    pace = torch.where(raised > 20, raised, torch.log1p(torch.exp(raised.clamp(max=20))))
    pace[count:] = 0
    pace = pace.t().contiguous()
    total = (-torch.exp(inputs.rates)[:, None] * pace).cumsum(-1)
    fresh = value * pace[:, :, None]
    near = (query @ key.transpose(1, 2) * torch.exp((total[:, :, None] - total[:, None, :]).tril())).tril()
    output = near @ fresh + (query * torch.exp(total)[:, :, None]) @ state.transpose(1, 2)
    output += inputs.skips[:, None, None] * value
    kept = torch.exp(total[:, -1:] - total)
    state = state * torch.exp(total[:, -1])[:, None, None] + (fresh * kept[:, :, None]).transpose(1, 2) @ key
    return state, output
