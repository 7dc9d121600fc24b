"""The gated delta rule over a step, in chunks: states come from slots, and go to slots at each request's boundary.

For each head, with a state S `[K, V]`, a token does

    S = exp(g) S;  S = S + k (beta (v - k^T S));  o = q^T S / sqrt(K)

with q and k divided by their norms, g = -exp(rate) softplus(a + bias) and beta = sigmoid(b) (Yang, Kautz and
Hatamizadeh 2024, "Gated Delta Networks", whose section 3.3 has the form in chunks). Chunks are worked on one by one
from the first token of the step, each from the state that the last one left, in tensors of equal shape. So a pass that
resumes at a chunk's end repeats a cold pass bit by bit.
"""


import torch
import triton.language as tl

from milepost.kernels.backend import Backend, backend_for, launch
from milepost.kernels.delta_inputs import DeltaInputs
from milepost.kernels.delta_twin import delta_twin
from milepost.kernels.step import Step

CHUNK = 64


def dots(device: torch.device, kind: torch.dtype) -> dict[str, object]:
    """How matrices are multiplied: float32 on NVIDIA's tensor cores in three parts, elsewhere as it is.

    The interpreter multiplies no bfloat16: what was rounded to it goes there as float32, which holds the same products.
    """
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    operand = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}.get(kind, tl.float32)
    if backend_for(device) is Backend.INTERPRET:
        operand = tl.float32
    return {"precision": "tf32x3" if is_nvidia else "ieee", "operand": operand}


def sizes_for(kind: torch.dtype, width: int, value_width: int) -> tuple[dict[str, int], dict[str, int]]:
    """Tiles and warps of the two kernels: float32 in three parts needs twice the registers, and more."""
    if kind == torch.float32:
        prepare_sizes = {"tile_width": 16, "num_warps": 8, "num_stages": 1}
        return prepare_sizes, {"tile_values": 16, "num_warps": 8, "num_stages": 1}
    prepare_sizes = {"tile_width": min(64, width, value_width), "num_warps": 4, "num_stages": 1}
    return prepare_sizes, {"tile_values": min(32, value_width), "num_warps": 4, "num_stages": 2}


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
    # Of each head's tokens: keys to ask the state, keys to add to it, queries, answers of the chunk to itself, values.
    asking, adding, far = (values.new_empty((step.tokens, heads, width)) for _ in range(3))
    near = values.new_empty((step.tokens, heads, CHUNK))
    updates = torch.empty_like(outputs)
    fading = torch.empty((step.tokens, heads), dtype=torch.float32, device=values.device)
    sizes = {"width": width, "value_width": value_width, "chunk": CHUNK, **dots(states.device, values.dtype)}
    prepare_sizes, scan_sizes = sizes_for(values.dtype, width, value_width)
    launch(
        prepare_kernel, states.device, chunks * heads,
        inputs.queries, inputs.keys, inputs.values, inputs.decays, inputs.betas, inputs.rates, inputs.biases,
        asking, adding, far, near, updates, fading, table, len(step.lengths), heads, heads // key_heads,
        inputs.queries.stride(0), inputs.keys.stride(0), inputs.values.stride(0), inputs.decays.stride(0),
        inputs.betas.stride(0), width**-0.5, **prepare_sizes, **sizes,
    )  # fmt: skip
    launch(
        scan_kernel, states.device, len(step.lengths) * heads * (value_width // scan_sizes["tile_values"]),
        asking, adding, far, near, updates, fading, states, outputs, table, heads, states.stride(0),
        **scan_sizes, **sizes,
    )  # fmt: skip
    return outputs


def prepare_kernel(
    queries: tl.tensor, keys: tl.tensor, values: tl.tensor, decays: tl.tensor, betas: tl.tensor, rates: tl.tensor,
    biases: tl.tensor, asking: tl.tensor, adding: tl.tensor, far: tl.tensor, near: tl.tensor, updates: tl.tensor,
    fading: tl.tensor, table: tl.tensor, requests: tl.tensor, heads: tl.tensor, heads_per_key: tl.tensor,
    query_stride: tl.tensor, key_stride: tl.tensor, value_stride: tl.tensor, decay_stride: tl.tensor,
    beta_stride: tl.tensor, scale: tl.tensor, tile_width: tl.constexpr, width: tl.constexpr,
    value_width: tl.constexpr, chunk: tl.constexpr, precision: tl.constexpr, operand: tl.constexpr,
) -> None:  # fmt: skip
    """All of one head's chunk that needs no state: with T = (1 + tril(diag(beta) K K^T exp(G_i - G_j), -1))^-1 and
    decays summed up to G, T diag(beta exp(G)) K asks the state, and T diag(beta) V updates it."""
    head = tl.program_id(0) % heads
    tile = table + requests * 6 + (tl.program_id(0) // heads).to(tl.int64) * 2
    row = table + tl.load(tile) * 6
    rows = tl.arange(0, chunk)
    held = rows < tl.load(row + 1) - tl.load(tile + 1) * chunk
    token = tl.load(row) + tl.load(tile + 1) * chunk + rows
    lines = token * heads + head
    a = tl.load(decays + token * decay_stride + head, mask=held, other=0).to(tl.float32) + tl.load(biases + head)
    softplus = tl.where(a > 20, a, tl.log(1 + tl.exp(tl.minimum(a, 20))))
    decay = tl.where(held, -tl.exp(tl.load(rates + head)) * softplus, 0)
    total = tl.associative_scan(decay, 0, tl.standard._sum_combine)
    last = tl.reduce(tl.where(rows == chunk - 1, total, 0), 0, tl.standard._sum_combine)
    beta = 1 / (1 + tl.exp(-tl.load(betas + token * beta_stride + head, mask=held, other=0).to(tl.float32)))
    tl.store(fading + lines, tl.exp(last), mask=held)
    column = tl.arange(0, tile_width)[None, :]
    query_places = (token * query_stride + (head // heads_per_key) * width)[:, None] + column
    key_places = (token * key_stride + (head // heads_per_key) * width)[:, None] + column
    kind = keys.dtype.element_ty
    alike = tl.full([chunk, chunk], 0.0, tl.float32)
    asked = tl.full([chunk, chunk], 0.0, tl.float32)
    key_norm = tl.full([chunk], 1e-6, tl.float32)
    query_norm = tl.full([chunk], 1e-6, tl.float32)
    for part in range(0, width // tile_width):
        key = tl.load(keys + key_places + part * tile_width, mask=held[:, None], other=0).to(operand)
        query = tl.load(queries + query_places + part * tile_width, mask=held[:, None], other=0).to(operand)
        alike += tl.dot(key, tl.trans(key), input_precision=precision)
        asked += tl.dot(query, tl.trans(key), input_precision=precision)
        key_norm += tl.reduce(key.to(tl.float32) * key.to(tl.float32), 1, tl.standard._sum_combine)
        query_norm += tl.reduce(query.to(tl.float32) * query.to(tl.float32), 1, tl.standard._sum_combine)
    key_norm = 1 / tl.sqrt(key_norm)
    query_norm = scale / tl.sqrt(query_norm)
    seen = rows[:, None] >= rows[None, :]
    apart = tl.exp(tl.where(seen, total[:, None] - total[None, :], 0)) * key_norm[None, :]
    asked = tl.where(seen, asked * apart * query_norm[:, None], 0).to(kind)
    tl.store(near + lines[:, None] * chunk + rows[None, :], asked, mask=held[:, None])
    alike = tl.where(rows[:, None] > rows[None, :], alike * apart * (key_norm * beta)[:, None], 0)
    inverse = tl.full([chunk, chunk], 0.0, tl.float32)  # row by row: powers of the triangle would cancel
    for line in range(1, chunk):
        mine = (rows == line)[:, None]
        weights = tl.reduce(tl.where(mine, alike, 0), 0, tl.standard._sum_combine)
        solved = -weights - tl.reduce(weights[:, None] * inverse, 0, tl.standard._sum_combine)
        inverse = tl.where(mine, solved[None, :], inverse)
    inverse = tl.where(rows[:, None] == rows[None, :], 1, inverse).to(kind).to(operand)
    targets = lines[:, None] * width + column
    for part in range(0, width // tile_width):
        query = tl.load(queries + query_places + part * tile_width, mask=held[:, None], other=0).to(tl.float32)
        query *= (query_norm * tl.exp(total))[:, None]
        tl.store(far + targets + part * tile_width, query.to(kind), mask=held[:, None])
        key = tl.load(keys + key_places + part * tile_width, mask=held[:, None], other=0).to(tl.float32)
        added = key * (key_norm * tl.exp(last - total))[:, None]
        tl.store(adding + targets + part * tile_width, added.to(kind), mask=held[:, None])
        key = (key * (key_norm * beta * tl.exp(total))[:, None]).to(kind).to(operand)
        key = tl.dot(inverse, key, input_precision=precision).to(kind)
        tl.store(asking + targets + part * tile_width, key, mask=held[:, None])
    places = (token * value_stride + head * value_width)[:, None] + column
    targets = lines[:, None] * value_width + column
    for part in range(0, value_width // tile_width):
        value = tl.load(values + places + part * tile_width, mask=held[:, None], other=0) * beta[:, None]
        value = tl.dot(inverse, value.to(kind).to(operand), input_precision=precision)
        tl.store(updates + targets + part * tile_width, value.to(kind), mask=held[:, None])


def scan_kernel(
    asking: tl.tensor, adding: tl.tensor, far: tl.tensor, near: tl.tensor, updates: tl.tensor, fading: tl.tensor,
    states: tl.tensor, outputs: tl.tensor, table: tl.tensor, heads: tl.tensor, slot_stride: tl.tensor,
    tile_values: tl.constexpr, width: tl.constexpr, value_width: tl.constexpr, chunk: tl.constexpr,
    precision: tl.constexpr, operand: tl.constexpr,
) -> None:  # fmt: skip
    """One head of one request, for some columns of its state, chunk by chunk; the state never leaves the program."""
    tiles: tl.constexpr = value_width // tile_values
    head = (tl.program_id(0) // tiles) % heads
    row = table + (tl.program_id(0) // tiles // heads).to(tl.int64) * 6
    length = tl.load(row + 1)
    initial = tl.load(row + 2)
    freeze = tl.load(row + 4)
    boundary = tl.load(row + 5)
    rows = tl.arange(0, chunk)
    half: tl.constexpr = width // 2  # in two halves, of which fewer registers are needed at a time
    key_column = tl.arange(0, half)
    column = (tl.program_id(0) % tiles) * tile_values + tl.arange(0, tile_values)
    low = head * (width * value_width) + key_column[:, None] * value_width + column[None, :]
    high = low + half * value_width
    size = heads * width * value_width
    begun = tl.where(initial >= 0, size, 0)
    state_low = tl.load(states + initial * slot_stride + low, mask=low < begun, other=0)
    state_high = tl.load(states + initial * slot_stride + high, mask=high < begun, other=0)
    kind = asking.dtype.element_ty
    for number in range(0, ((length + chunk - 1) // chunk).to(tl.int32)):
        count = tl.minimum(length - number * chunk, chunk)
        held = (rows < count)[:, None]
        lines = (tl.load(row) + number * chunk + rows) * heads + head
        wide = lines[:, None] * width + key_column[None, :]
        narrow = lines[:, None] * value_width + column[None, :]
        known_low = state_low.to(kind).to(operand)
        known_high = state_high.to(kind).to(operand)
        update = tl.load(updates + narrow, mask=held, other=0).to(tl.float32)
        asked = tl.load(asking + wide, mask=held, other=0).to(operand)
        update -= tl.dot(asked, known_low, input_precision=precision)
        asked = tl.load(asking + half + wide, mask=held, other=0).to(operand)
        update -= tl.dot(asked, known_high, input_precision=precision)
        update = update.to(kind).to(operand)
        asked = tl.load(far + wide, mask=held, other=0).to(operand)
        output = tl.dot(asked, known_low, input_precision=precision)
        asked = tl.load(far + half + wide, mask=held, other=0).to(operand)
        output += tl.dot(asked, known_high, input_precision=precision)
        asked = tl.load(near + lines[:, None] * chunk + rows[None, :], mask=held, other=0).to(operand)
        output += tl.dot(asked, update, input_precision=precision)
        tl.store(outputs + narrow, output.to(kind), mask=held)
        kept = tl.load(fading + (tl.load(row) + number * chunk) * heads + head)
        added = tl.trans(tl.load(adding + wide, mask=held, other=0).to(operand))
        state_low = state_low * kept + tl.dot(added, update, input_precision=precision)
        added = tl.trans(tl.load(adding + half + wide, mask=held, other=0).to(operand))
        state_high = state_high * kept + tl.dot(added, update, input_precision=precision)
        if number * chunk + count == boundary:
            frozen = tl.where(freeze >= 0, size, 0)
            tl.store(states + freeze * slot_stride + low, state_low, mask=low < frozen)
            tl.store(states + freeze * slot_stride + high, state_high, mask=high < frozen)
    tl.debug_barrier()  # the live slot may be the one that other threads of this program read above
    live = tl.load(row + 3) * slot_stride
    tl.store(states + live + low, state_low)
    tl.store(states + live + high, state_high)
