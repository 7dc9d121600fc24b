"""The recurrent part of a gated delta rule layer over one step: its convolution and its rule, in one call."""

from dataclasses import dataclass

import torch

from milepost.kernels.convolution import convolve
from milepost.kernels.decode import decode
from milepost.kernels.delta import CHUNK, scan
from milepost.kernels.delta_inputs import DeltaInputs
from milepost.kernels.step import Step


@dataclass(frozen=True)
class DeltaWeights:
    """What such a layer has learnt between its projections."""

    taps: torch.Tensor
    """`[channels, width]` of the convolution; channels are those of queries, keys and values, in this order."""
    rates: torch.Tensor
    """`[heads]`, float32; the logarithm of how fast a head forgets."""
    biases: torch.Tensor
    """`[heads]`, float32."""


def delta_layer(
    mixed: torch.Tensor,
    decays: torch.Tensor,
    betas: torch.Tensor,
    weights: DeltaWeights,
    windows: torch.Tensor,
    states: torch.Tensor,
    step: Step,
) -> torch.Tensor:
    """Outputs `[tokens, heads, V]` for projected inputs `[tokens, channels]` and gates `[tokens, heads]`.

    The step's windows and states are written into the same slots of `windows` `[slots, channels, width - 1]` and
    `states` `[slots, heads, K, V]`, so a slot always holds both parts at one position. A step of one token a request
    runs as `decode`, any other as `scan`. Raises ValueError before anything is written, as the two do.
    """
    # The rule's guards come before the convolution moves the windows; its inputs have the shapes of its outputs.
    inputs_of(mixed, decays, betas, weights, states).check(states, step.tokens)
    step.check(states.shape[0], CHUNK)
    convolved = convolve(mixed, weights.taps, None, windows, step, CHUNK)
    inputs = inputs_of(convolved, decays, betas, weights, states)
    return (decode if {*step.lengths} == {1} else scan)(inputs, states, step)


def inputs_of(
    mixed: torch.Tensor, decays: torch.Tensor, betas: torch.Tensor, weights: DeltaWeights, states: torch.Tensor
) -> DeltaInputs:
    """Channels cut into queries, keys and values: views, nothing is copied."""
    _, heads, width, value_width = states.shape
    end = (mixed.shape[1] - heads * value_width) // 2
    return DeltaInputs(
        mixed[:, :end].view(len(mixed), -1, width),
        mixed[:, end : 2 * end].view(len(mixed), -1, width),
        mixed[:, 2 * end :].view(len(mixed), heads, value_width),
        decays,
        betas,
        weights.rates,
        weights.biases,
    )
