"""What a layer of the gated delta rule is given: the inputs of a step, and what the kernels ask of them."""

from dataclasses import dataclass

import torch

WIDTHS = {32, 64, 128}
"""The widths of keys and values that the kernels can cut into tiles: those of the public models, and two below."""


@dataclass(frozen=True)
class DeltaInputs:
    """What a layer feeds into the rule, tokens end to end; each token's numbers in one piece, tokens at any stride."""

    queries: torch.Tensor
    """`[tokens, key_heads, K]`."""
    keys: torch.Tensor
    """`[tokens, key_heads, K]`."""
    values: torch.Tensor
    """`[tokens, heads, V]`; heads share keys in groups of heads / key_heads neighbours."""
    decays: torch.Tensor
    """`[tokens, heads]`, a above."""
    betas: torch.Tensor
    """`[tokens, heads]`, b above."""
    rates: torch.Tensor
    """`[heads]`, float32."""
    biases: torch.Tensor
    """`[heads]`, float32."""

    def check(self, states: torch.Tensor, tokens: int) -> None:
        """Raise ValueError unless these inputs and states `[slots, heads, K, V]` fit so many tokens."""
        _, heads, width, value_width = states.shape
        key_heads = self.keys.shape[1]
        shapes = {
            "queries": (tokens, key_heads, width),
            "keys": (tokens, key_heads, width),
            "values": (tokens, heads, value_width),
            "decays": (tokens, heads),
            "betas": (tokens, heads),
            "rates": (heads,),
            "biases": (heads,),
        }
        for name, shape in shapes.items():
            tensor = getattr(self, name)
            if tensor.shape != shape or not tensor[0].is_contiguous() or tensor.device != states.device:
                raise ValueError(f"The {name} should be {[*shape]}, each token in one piece: {[*tensor.shape]}.")
        if heads % key_heads or not {width, value_width} <= WIDTHS:
            raise ValueError(f"{heads} heads can't share {key_heads} key heads, or {width} x {value_width} is no size.")
        if states.dtype != torch.float32 or not states[0].is_contiguous():
            raise ValueError(f"States are float32, each in one piece, to be resumed exactly: {states.dtype}.")
        if len({self.queries.dtype, self.keys.dtype, self.values.dtype}) > 1:
            raise ValueError("Queries, keys and values must have one type.")
