"""The gated delta rule over a step, in chunks: states come from slots, and go to slots at each request's boundary.

For each head, with a state S `[K, V]`, a token does

    S = exp(g) S;  S = S + k (beta (v - k^T S));  o = q^T S / sqrt(K)

with q and k divided by their norms, g = -exp(rate) softplus(a + bias) and beta = sigmoid(b) (Yang, Kautz and
Hatamizadeh 2024, "Gated Delta Networks", whose section 3.3 has the form in chunks). Chunks are worked on one by one
from the first token of the step, each from the state that the last one left, in tensors of equal shape. So a pass that
resumes at a chunk's end repeats a cold pass bit by bit.
"""

from typing import Any

import torch
import triton.language as tl

from milepost.kernels.backend import Backend, backend_for, launch
from milepost.kernels.delta_inputs import DeltaInputs
from milepost.kernels.delta_twin import delta_twin
from milepost.kernels.step import Step

CHUNK = 64
TILE_VALUES = 32


def dots(device: torch.device, kind: torch.dtype) -> dict[str, object]:
    """How matrices are multiplied: float32 on NVIDIA's tensor cores in three parts, elsewhere as it is.

    The interpreter multiplies no bfloat16: what was rounded to it goes there as float32, which holds the same products.
    """
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    operand = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}.get(kind, tl.float32)
    if backend_for(device) is Backend.INTERPRET:
        operand = tl.float32
    return {"precision": "tf32x3" if is_nvidia else "ieee", "operand": operand}


def scan(inputs: DeltaInputs, states: torch.Tensor, step: Step) -> torch.Tensor:
    """Run the rule over a step, give outputs `[tokens, heads, V]`, and write the step's states into their slots.

    `states` is one layer's `[slots, heads, K, V]`, float32. Raises ValueError before anything is written: for shapes
    or types that don't fit, and for a step that `Step.check` refuses.
    """
    inputs.check(states, step.tokens)
    step.check(states.shape[0], CHUNK)
    values = inputs.values
    outputs = torch.empty(values.shape, dtype=values.dtype, device=values.device)
    if backend_for(states.device) is Backend.TORCH:
        delta_twin(inputs, states, step, outputs, CHUNK)
        return outputs
    table, chunks = step.table(CHUNK, states.device)
    heads, value_width = values.shape[1:]
    key_heads, width = inputs.keys.shape[1:]
    keys = torch.empty((step.tokens, heads, width), dtype=values.dtype, device=values.device)
    updates = torch.empty_like(outputs)
    totals = torch.empty((step.tokens, heads), dtype=torch.float32, device=values.device)
    sizes = {"width": width, "value_width": value_width, "chunk": CHUNK, **dots(states.device, values.dtype)}
    launch(
        prepare_kernel, states.device, chunks * heads,
        inputs.keys, inputs.values, inputs.decays, inputs.betas, inputs.rates, inputs.biases, keys, updates, totals,
        table, len(step.lengths), heads, heads // key_heads, inputs.keys.stride(0), inputs.values.stride(0),
        inputs.decays.stride(0), inputs.betas.stride(0), **sizes,
    )  # fmt: skip
    tile_values = min(TILE_VALUES, value_width)
    launch(
        scan_kernel, states.device, len(step.lengths) * heads * (value_width // tile_values),
        inputs.queries, inputs.keys, keys, updates, totals, states, outputs, table, heads, heads // key_heads,
        inputs.queries.stride(0), inputs.keys.stride(0), states.stride(0), width**-0.5,
        tile_values=tile_values, **sizes,
    )  # fmt: skip
    return outputs


def prepare_kernel(
    keys: Any,
    values: Any,
    decays: Any,
    betas: Any,
    rates: Any,
    biases: Any,
    corrected_keys: Any,
    corrected_values: Any,
    totals: Any,
    table: Any,
    requests: Any,
    heads: Any,
    heads_per_key: Any,
    key_stride: Any,
    value_stride: Any,
    decay_stride: Any,
    beta_stride: Any,
    width: tl.constexpr,
    value_width: tl.constexpr,
    chunk: tl.constexpr,
    precision: tl.constexpr,
    operand: tl.constexpr,
) -> None:
    """What one head's chunk needs of itself alone: the decays summed up, and keys and values with the chunk's own
    corrections worked in, T diag(beta exp(sums)) K and T diag(beta) V with T = (1 + tril(diag(beta) K K^T decays))^-1.
    """
    head = tl.program_id(0) % heads
    tile = table + requests * 6 + (tl.program_id(0) // heads).to(tl.int64) * 2
    row = table + tl.load(tile) * 6
    begin = tl.load(tile + 1) * chunk
    count = tl.load(row + 1) - begin
    rows = tl.arange(0, chunk)
    held = rows < count
    token = tl.load(row) + begin + rows
    a = tl.load(decays + token * decay_stride + head, mask=held, other=0).to(tl.float32) + tl.load(biases + head)
    softplus = tl.where(a > 20, a, tl.log(1 + tl.exp(tl.minimum(a, 20))))
    decay = tl.where(held, -tl.exp(tl.load(rates + head)) * softplus, 0)
    total = tl.associative_scan(decay, 0, tl.standard._sum_combine)
    b = tl.load(betas + token * beta_stride + head, mask=held, other=0).to(tl.float32)
    beta = tl.where(held, 1 / (1 + tl.exp(-b)), 0)
    column = tl.arange(0, width)
    places = (token * key_stride + (head // heads_per_key) * width)[:, None] + column[None, :]
    key = tl.load(keys + places, mask=held[:, None], other=0).to(tl.float32)
    key = key / tl.sqrt(tl.reduce(key * key, 1, tl.standard._sum_combine) + 1e-6)[:, None]
    kind = keys.dtype.element_ty
    key = key.to(kind).to(operand)
    below = rows[:, None] > rows[None, :]
    apart = tl.exp(tl.where(below, total[:, None] - total[None, :], 0))
    overlap = tl.dot(key, tl.trans(key), input_precision=precision) * apart * beta[:, None]
    overlap = tl.where(below, overlap, 0)
    inverse = tl.full([chunk, chunk], 0.0, tl.float32)  # row by row: powers of the triangle would cancel
    for line in range(1, chunk):
        mine = rows == line
        weights = tl.reduce(tl.where(mine[:, None], overlap, 0), 0, tl.standard._sum_combine)
        solved = -weights - tl.reduce(weights[:, None] * inverse, 0, tl.standard._sum_combine)
        inverse = tl.where(mine[:, None], solved[None, :], inverse)
    inverse = tl.where(rows[:, None] == rows[None, :], 1, inverse).to(kind).to(operand)
    scaled = (key.to(tl.float32) * (beta * tl.exp(total))[:, None]).to(kind).to(operand)
    corrected = tl.dot(inverse, scaled, input_precision=precision).to(kind)
    lines = token * heads + head
    tl.store(corrected_keys + lines[:, None] * width + column[None, :], corrected, mask=held[:, None])
    column = tl.arange(0, value_width)
    places = (token * value_stride + head * value_width)[:, None] + column[None, :]
    value = tl.load(values + places, mask=held[:, None], other=0).to(tl.float32) * beta[:, None]
    corrected = tl.dot(inverse, value.to(kind).to(operand), input_precision=precision).to(kind)
    tl.store(corrected_values + lines[:, None] * value_width + column[None, :], corrected, mask=held[:, None])
    tl.store(totals + lines, total, mask=held)


def scan_kernel(
    queries: Any,
    keys: Any,
    corrected_keys: Any,
    corrected_values: Any,
    totals: Any,
    states: Any,
    outputs: Any,
    table: Any,
    heads: Any,
    heads_per_key: Any,
    query_stride: Any,
    key_stride: Any,
    slot_stride: Any,
    scale: Any,
    tile_values: tl.constexpr,
    width: tl.constexpr,
    value_width: tl.constexpr,
    chunk: tl.constexpr,
    precision: tl.constexpr,
    operand: tl.constexpr,
) -> None:
    """One head of one request, for some columns of its state, chunk by chunk; the state never leaves the program."""
    tiles: tl.constexpr = value_width // tile_values
    head = (tl.program_id(0) // tiles) % heads
    row = table + (tl.program_id(0) // tiles // heads).to(tl.int64) * 6
    first = tl.load(row)
    length = tl.load(row + 1)
    initial = tl.load(row + 2)
    freeze = tl.load(row + 4)
    boundary = tl.load(row + 5)
    rows = tl.arange(0, chunk)
    key_column = tl.arange(0, width)
    column = (tl.program_id(0) % tiles) * tile_values + tl.arange(0, tile_values)
    place = head * (width * value_width) + key_column[:, None] * value_width + column[None, :]
    started = place < tl.where(initial >= 0, heads * width * value_width, 0)
    state = tl.load(states + initial * slot_stride + place, mask=started, other=0)
    kind = keys.dtype.element_ty
    for number in range(0, ((length + chunk - 1) // chunk).to(tl.int32)):
        count = tl.minimum(length - number * chunk, chunk)
        held = (rows < count)[:, None]
        token = first + number * chunk + rows
        lines = token * heads + head
        total = tl.load(totals + lines, mask=rows < count, other=0)
        last = tl.load(totals + (first + number * chunk + count - 1) * heads + head)
        places = (token * query_stride + (head // heads_per_key) * width)[:, None] + key_column[None, :]
        query = tl.load(queries + places, mask=held, other=0).to(tl.float32)
        query = query / tl.sqrt(tl.reduce(query * query, 1, tl.standard._sum_combine) + 1e-6)[:, None] * scale
        places = (token * key_stride + (head // heads_per_key) * width)[:, None] + key_column[None, :]
        key = tl.load(keys + places, mask=held, other=0).to(tl.float32)
        key = (key / tl.sqrt(tl.reduce(key * key, 1, tl.standard._sum_combine) + 1e-6)[:, None]).to(kind).to(operand)
        corrected = tl.load(corrected_keys + lines[:, None] * width + key_column[None, :], mask=held, other=0)
        places = lines[:, None] * value_width + column[None, :]
        update = tl.load(corrected_values + places, mask=held, other=0).to(tl.float32)
        known = state.to(kind).to(operand)
        update = update - tl.dot(corrected.to(operand), known, input_precision=precision)
        update = update.to(kind).to(operand)
        seen = rows[:, None] >= rows[None, :]
        apart = tl.exp(tl.where(seen, total[:, None] - total[None, :], 0))
        near = tl.dot(query.to(kind).to(operand), tl.trans(key), input_precision=precision) * apart
        near = tl.where(seen, near, 0).to(kind).to(operand)
        far = (query * tl.exp(total)[:, None]).to(kind).to(operand)
        output = tl.dot(far, known, input_precision=precision)
        output += tl.dot(near, update, input_precision=precision)
        tl.store(outputs + places, output.to(kind), mask=held)
        fading = tl.where(rows < count, tl.exp(last - total), 0)
        fresh = tl.trans((key.to(tl.float32) * fading[:, None]).to(kind).to(operand))
        state = state * tl.exp(last) + tl.dot(fresh, update, input_precision=precision)
        if number * chunk + count == boundary:
            frozen = place < tl.where(freeze >= 0, heads * width * value_width, 0)
            tl.store(states + freeze * slot_stride + place, state, mask=frozen)
    tl.debug_barrier()  # the live slot may be the one that other threads of this program read above
    tl.store(states + tl.load(row + 3) * slot_stride + place, state)
