"""Random layers for the tests, and the recurrences that they are judged by, in float64 and token by token."""

from dataclasses import dataclass, replace

import torch

from milepost.kernels.delta_inputs import DeltaInputs
from milepost.kernels.delta_layer import DeltaWeights, inputs_of
from milepost.kernels.mamba import MambaInputs

TAPS = 4


@dataclass(frozen=True)
class Layer:
    """One gated delta rule layer, and the projected inputs of some tokens."""

    mixed: torch.Tensor
    decays: torch.Tensor
    betas: torch.Tensor
    weights: DeltaWeights
    heads: int
    width: int

    def at(self, *tokens: slice) -> "Layer":
        """The same layer with these tokens, end to end."""
        mixed, decays, betas = (
            torch.cat([part[one] for one in tokens]) for part in (self.mixed, self.decays, self.betas)
        )
        return replace(self, mixed=mixed, decays=decays, betas=betas)

    def rooms(self, slots: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Windows and states of so many slots, poisoned: what is read before it was written shows in every sum."""
        windows = torch.full((slots, self.mixed.shape[1], TAPS - 1), float("nan"), dtype=self.mixed.dtype)
        return windows, torch.full((slots, self.heads, self.width, self.width), float("nan"))


def random_layer(tokens: int, kind: torch.dtype, heads: int = 2, key_heads: int = 1, seed: int = 0) -> Layer:
    """With 32 x 32 states, and gates such as trained layers have: some heads forget fast, others hardly."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    width = 32
    channels = (2 * key_heads + heads) * width
    weights = DeltaWeights((normal(channels, TAPS) / 2).to(kind), 0.5 * normal(heads) - 1, normal(heads) - 2)
    mixed, decays, betas = normal(tokens, channels), normal(tokens, heads), normal(tokens, heads)
    return Layer(mixed.to(kind), decays.to(kind), betas.to(kind), weights, heads, width)


def exact_inputs(layer: Layer) -> DeltaInputs:
    """What the rule is fed with from the start of the layer's tokens, in float64."""
    taps, mixed = layer.weights.taps.double(), layer.mixed.double()
    history = torch.cat([mixed.new_zeros(TAPS - 1, mixed.shape[1]), mixed])
    total = sum(history[tap : tap + len(mixed)] * taps[:, tap] for tap in range(TAPS))
    assert isinstance(total, torch.Tensor)
    convolved = (total * torch.sigmoid(total)).to(layer.mixed.dtype).double()
    shaped = torch.empty(1, layer.heads, layer.width, layer.width)
    return inputs_of(convolved, layer.decays.double(), layer.betas.double(), layer.weights, shaped)


def exact_delta(inputs: DeltaInputs, state: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs `[tokens, heads, V]` and the state behind each token `[tokens, heads, K, V]`, as the rule is written."""
    _tokens, heads, value_width = inputs.values.shape
    width = inputs.keys.shape[-1]
    sharing = heads // inputs.keys.shape[1]
    wide = [part.double().repeat_interleave(sharing, dim=1) for part in (inputs.queries, inputs.keys)]
    queries, keys = (part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt() for part in wide)
    softplus = torch.log1p(torch.exp(inputs.decays.double() + inputs.biases.double()))
    fading = torch.exp(-torch.exp(inputs.rates.double()) * softplus)
    betas = torch.sigmoid(inputs.betas.double())
    state = torch.zeros(heads, width, value_width).double() if state is None else state.double()
    outputs, states = [], []
    for query, key, value, fade, beta in zip(queries, keys, inputs.values.double(), fading, betas, strict=True):
        state = state * fade[:, None, None]
        change = beta[:, None] * (value - torch.einsum("hkv,hk->hv", state, key))
        state = state + torch.einsum("hk,hv->hkv", key, change)
        outputs.append(torch.einsum("hkv,hk->hv", state, query) * width**-0.5)
        states.append(state)
    return torch.stack(outputs), torch.stack(states)


def random_mamba(tokens: int, kind: torch.dtype, seed: int = 0) -> MambaInputs:
    """Four heads of 8 x 16 that share two groups."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    return MambaInputs(
        values=normal(tokens, 4, 8).to(kind),
        keys=normal(tokens, 2, 16).to(kind),
        queries=normal(tokens, 2, 16).to(kind),
        steps=(normal(tokens, 4) - 2).to(kind),
        rates=0.5 * normal(4),
        biases=normal(4),
        skips=normal(4),
    )


def exact_mamba(inputs: MambaInputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs `[tokens, heads, P]` and the state behind each token `[tokens, heads, P, N]`, as it is written."""
    keys, queries = (part.double().repeat_interleave(2, dim=1) for part in (inputs.keys, inputs.queries))
    paces = torch.log1p(torch.exp(inputs.steps.double() + inputs.biases.double()))
    fading = torch.exp(-torch.exp(inputs.rates.double()) * paces)
    state = torch.zeros(*inputs.values.shape[1:], keys.shape[-1]).double()
    outputs, states = [], []
    for key, query, value, pace, fade in zip(keys, queries, inputs.values.double(), paces, fading, strict=True):
        state = state * fade[:, None, None] + torch.einsum("hp,hn->hpn", pace[:, None] * value, key)
        outputs.append(torch.einsum("hpn,hn->hp", state, query) + inputs.skips.double()[:, None] * value)
        states.append(state)
    return torch.stack(outputs), torch.stack(states)


def difference(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The norm of the difference relative to the norm of what is wanted; not a number where anything found is none."""
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())
