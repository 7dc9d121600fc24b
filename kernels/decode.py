"""One token of the gated delta rule for each request of a step: the state is read, updated and written in its slot."""


import torch
import triton.language as tl

from milepost.kernels.backend import Backend, backend_for, launch
from milepost.kernels.delta_inputs import DeltaInputs
from milepost.kernels.delta_twin import decode_twin
from milepost.kernels.step import Step

TILE_VALUES = 32


def decode(inputs: DeltaInputs, states: torch.Tensor, step: Step) -> torch.Tensor:
    """Run the rule of `scan` over a step of one token a request: the same inputs, outputs, slots and refusals.

    It follows the rule itself, not its form in chunks, so it is close to `scan` and not bitwise the same.
    """
    inputs.check(states, step.tokens)
    step.check(states.shape[0], chunk=1)
    if {*step.lengths} != {1}:
        raise ValueError(f"A decode step has one token a request: {[*step.lengths]}.")
    values = inputs.values
    outputs = torch.empty(values.shape, dtype=values.dtype, device=values.device)
    if backend_for(states.device) is Backend.TORCH:
        decode_twin(inputs, states, step, outputs)
        return outputs
    table, _ = step.table(1, states.device)
    heads, value_width = values.shape[1:]
    key_heads, width = inputs.keys.shape[1:]
    tile_values = min(TILE_VALUES, value_width)
    launch(
        decode_kernel, states.device, len(step.lengths) * heads * (value_width // tile_values),
        inputs.queries, inputs.keys, inputs.values, inputs.decays, inputs.betas, inputs.rates, inputs.biases, states,
        outputs, table, heads, heads // key_heads, inputs.queries.stride(0), inputs.keys.stride(0),
        inputs.values.stride(0), inputs.decays.stride(0), inputs.betas.stride(0), states.stride(0), width**-0.5,
        tile_values=tile_values, width=width, value_width=value_width,
    )  # fmt: skip
    return outputs


def decode_kernel(
    queries: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    decays: tl.tensor,
    betas: tl.tensor,
    rates: tl.tensor,
    biases: tl.tensor,
    states: tl.tensor,
    outputs: tl.tensor,
    table: tl.tensor,
    heads: tl.tensor,
    heads_per_key: tl.tensor,
    query_stride: tl.tensor,
    key_stride: tl.tensor,
    value_stride: tl.tensor,
    decay_stride: tl.tensor,
    beta_stride: tl.tensor,
    slot_stride: tl.tensor,
    scale: tl.tensor,
    tile_values: tl.constexpr,
    width: tl.constexpr,
    value_width: tl.constexpr,
) -> None:
    """One head of one request, for some columns of its state."""
    tiles: tl.constexpr = value_width // tile_values
    head = (tl.program_id(0) // tiles) % heads
    row = table + (tl.program_id(0) // tiles // heads).to(tl.int64) * 6
    token = tl.load(row)
    initial = tl.load(row + 2)
    freeze = tl.load(row + 4)
    key_column = tl.arange(0, width)
    column = (tl.program_id(0) % tiles) * tile_values + tl.arange(0, tile_values)
    place = head * (width * value_width) + key_column[:, None] * value_width + column[None, :]
    started = place < tl.where(initial >= 0, heads * width * value_width, 0)
    state = tl.load(states + initial * slot_stride + place, mask=started, other=0)
    a = tl.load(decays + token * decay_stride + head).to(tl.float32) + tl.load(biases + head)
    softplus = tl.where(a > 20, a, tl.log(1 + tl.exp(tl.minimum(a, 20))))
    state = state * tl.exp(-tl.exp(tl.load(rates + head)) * softplus)
    beta = 1 / (1 + tl.exp(-tl.load(betas + token * beta_stride + head).to(tl.float32)))
    places = (head // heads_per_key) * width + key_column
    query = tl.load(queries + token * query_stride + places).to(tl.float32)
    query = query / tl.sqrt(tl.reduce(query * query, 0, tl.standard._sum_combine) + 1e-6) * scale
    key = tl.load(keys + token * key_stride + places).to(tl.float32)
    key = key / tl.sqrt(tl.reduce(key * key, 0, tl.standard._sum_combine) + 1e-6)
    value = tl.load(values + token * value_stride + head * value_width + column).to(tl.float32)
    change = (value - tl.reduce(state * key[:, None], 0, tl.standard._sum_combine)) * beta
    state = state + key[:, None] * change[None, :]
    output = tl.reduce(state * query[:, None], 0, tl.standard._sum_combine)
    tl.store(outputs + (token * heads + head) * value_width + column, output.to(outputs.dtype.element_ty))
    frozen = place < tl.where(freeze >= 0, heads * width * value_width, 0)
    tl.debug_barrier()  # the live slot may be the one that other threads of this program read above
    tl.store(states + freeze * slot_stride + place, state, mask=frozen)
    tl.store(states + tl.load(row + 3) * slot_stride + place, state)
