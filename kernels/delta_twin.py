"""The plain torch twins of the gated delta rule: chunk by chunk over a step, and one token at a time."""

import torch

from milepost.kernels.delta_inputs import DeltaInputs
from milepost.kernels.step import NO_SLOT, Step


def delta_twin(
    inputs: DeltaInputs, states: torch.Tensor, step: Step, outputs: torch.Tensor, chunk: int
) -> None:
    """`scan`, unchecked."""
    for first, length, initial, live, freeze, boundary in step.rows:
        state = states[initial].clone() if initial != NO_SLOT else torch.zeros_like(states[live])
        for start in range(0, length, chunk):
            count = min(chunk, length - start)
            state, output = _chunk(inputs, state, first + start, count, chunk)
            outputs[first + start : first + start + count] = output[:, :count].transpose(0, 1).to(outputs.dtype)
            if freeze != NO_SLOT and start + count == boundary:
                states[freeze] = state
        states[live] = state


def decode_twin(inputs: DeltaInputs, states: torch.Tensor, step: Step, outputs: torch.Tensor) -> None:
    """`decode`, unchecked."""
    for token, _, initial, live, freeze, _ in step.rows:
        state = states[initial].clone() if initial != NO_SLOT else torch.zeros_like(states[live])
        query, key, value, decay, beta = (part[:, 0] for part in _piece(inputs, token, 1, 1))
        state = state * torch.exp(decay)[:, None, None]
        change = (value - torch.einsum("hkv,hk->hv", state, key)) * beta[:, None]
        state = state + key[:, :, None] * change[:, None, :]
        outputs[token] = torch.einsum("hkv,hk->hv", state, query).to(outputs.dtype)
        if freeze != NO_SLOT:
            states[freeze] = state
        states[live] = state


def _piece(inputs: DeltaInputs, first: int, count: int, chunk: int) -> tuple[torch.Tensor, ...]:
    """Queries, keys, values `[heads, chunk, width]`, decays and betas `[heads, chunk]` in float32, padded with zeros.

    The shape is always the same, so that vectors and products are cut, and rounded, in the same way.
    """

    def padded(tensor: torch.Tensor) -> torch.Tensor:
        piece = tensor.new_zeros(chunk, *tensor.shape[1:], dtype=torch.float32)
        piece[:count] = tensor[first : first + count]
        return piece

    sharing = inputs.values.shape[1] // inputs.keys.shape[1]
    query, key = (_unit(padded(tensor)).repeat_interleave(sharing, dim=1) for tensor in (inputs.queries, inputs.keys))
    query = query * query.shape[-1] ** -0.5
    raised = padded(inputs.decays) + inputs.biases
    decay = -torch.exp(inputs.rates) * torch.where(raised > 20, raised, torch.log1p(torch.exp(raised.clamp(max=20))))
    beta = torch.sigmoid(padded(inputs.betas))
    decay[count:], beta[count:] = 0, 0
    wide = (part.transpose(0, 1).contiguous() for part in (query, key, padded(inputs.values), decay, beta))
    return tuple(wide)


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return vectors / torch.sqrt(vectors.square().sum(-1, keepdim=True) + 1e-6)


def _chunk(
    inputs: DeltaInputs, state: torch.Tensor, first: int, count: int, chunk: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The state after one chunk, and its outputs `[heads, chunk, V]`, from the state before it."""

    def rounded(tensor: torch.Tensor) -> torch.Tensor:
        """What a tensor core is given: products are of the inputs' type, sums of float32."""
        return tensor.to(inputs.keys.dtype).float()

    query, key, value, decay, beta = _piece(inputs, first, count, chunk)
    total = decay.cumsum(-1)
    apart = torch.exp((total[:, :, None] - total[:, None, :]).tril())
    overlap = (key @ key.transpose(1, 2) * apart * beta[:, :, None]).tril(-1)
    eye = torch.eye(chunk, device=state.device).expand_as(overlap)
    inverse = rounded(torch.linalg.solve_triangular(overlap + eye, eye, upper=False, unitriangular=True))
    corrected_keys = rounded(inverse @ rounded(key * (beta * torch.exp(total))[:, :, None]))
    corrected_values = rounded(inverse @ rounded(value * beta[:, :, None]))
    update = rounded(corrected_values - corrected_keys @ rounded(state))
    near = rounded((query @ key.transpose(1, 2) * apart).tril())
    output = rounded(query * torch.exp(total)[:, :, None]) @ rounded(state) + near @ update
    fading = torch.exp(total[:, -1:] - total)
    state = state * torch.exp(total[:, -1])[:, None, None] + rounded(key * fading[:, :, None]).transpose(1, 2) @ update
    return state, output
