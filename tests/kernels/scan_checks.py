"""What the forward path must do, for any modules that have it: also for those with a fault planted in them."""

from collections.abc import Callable, Sequence

import torch

from milepost.kernels.backend import running
from milepost.kernels.convolution import convolve
from milepost.kernels.decode import decode
from milepost.kernels.delta import CHUNK, scan
from milepost.kernels.delta_layer import inputs_of
from milepost.kernels.step import NO_SLOT, Step

from .layers import TAPS, Layer, difference, exact_delta, random_layer

LIMIT = {torch.float32: 1e-5, torch.bfloat16: 1e-2}


def step_of(lengths: Sequence[int], boundaries: Sequence[int]) -> Step:
    """Cold starts: live slots first, then a freeze slot for each request that has a boundary."""
    count = len(lengths)
    freezes = [count + number if boundary else NO_SLOT for number, boundary in enumerate(boundaries)]
    return Step(lengths, [NO_SLOT] * count, range(count), freezes, boundaries)


def scans(
    lengths: Sequence[int], kind: torch.dtype, backend: str, heads: int = 2, scan: Callable[..., torch.Tensor] = scan
) -> None:
    """Outputs, final states and frozen states are those of the rule in float64; nothing else is written."""
    limit = LIMIT[kind]
    layers = [random_layer(length, kind, heads, seed=length) for length in lengths]
    layers = [Layer(one.mixed, one.decays, one.betas, layers[0].weights, heads, one.width) for one in layers]
    boundaries = [length // CHUNK * CHUNK or length for length in lengths]
    _, states = layers[0].rooms(2 * len(lengths) + 1)
    step = step_of(lengths, boundaries)
    fed = [inputs_of(one.mixed, one.decays, one.betas, one.weights, states) for one in layers]
    mixed, decays, betas = (
        torch.cat([getattr(one, name) for one in layers]) for name in ("mixed", "decays", "betas")
    )
    together = inputs_of(mixed, decays, betas, layers[0].weights, states)
    with running(backend):
        outputs = scan(together, states, step)
    for number, (row, one) in enumerate(zip(step.rows, fed, strict=True)):
        wanted, after = exact_delta(one)
        assert difference(outputs[row[0] : row[0] + row[1]], wanted) < limit
        assert difference(states[number], after[-1]) < limit
        assert difference(states[step.freeze_slots[number]], after[boundaries[number] - 1]) < limit
    assert states[-1].isnan().all()


def convolves(kind: torch.dtype, backend: str, convolve: Callable[..., torch.Tensor] = convolve) -> None:
    """Outputs are close; windows are bitwise the last inputs at the boundary and at the end, in place too."""
    lengths, boundaries = [1, 2, 63, 64, 65, 130], [0, 2, 63, 64, 64, 128]
    count = len(lengths)
    layer = random_layer(sum(lengths), kind)
    windows, _ = layer.rooms(3 * count)
    before = torch.randn(count, *windows.shape[1:], generator=torch.Generator().manual_seed(1)).to(kind)
    windows[:count] = before
    freezes = [count + number if boundary else NO_SLOT for number, boundary in enumerate(boundaries)]
    initial = [number if number % 3 else NO_SLOT for number in range(count)]
    step = Step(lengths, initial, range(count), freezes, boundaries)
    bias = torch.randn(layer.mixed.shape[1], generator=torch.Generator().manual_seed(2))
    with running(backend):
        outputs = convolve(layer.mixed, layer.weights.taps, bias, windows, step, CHUNK)
    for number, (first, length, start, live, freeze, boundary) in enumerate(step.rows):
        begun = before[number].t() if start != NO_SLOT else torch.zeros_like(before[number].t())
        history = torch.cat([begun, layer.mixed[first : first + length]])
        taps = layer.weights.taps.double()
        total = sum(history[tap : tap + length].double() * taps[:, tap] for tap in range(TAPS)) + bias.double()
        wanted = total * torch.sigmoid(total)
        assert difference(outputs[first : first + length], wanted) < LIMIT[kind]
        assert torch.equal(windows[live], history[length:].t())
        if freeze != NO_SLOT:
            assert torch.equal(windows[freeze], history[boundary : boundary + TAPS - 1].t())
    assert windows[2 * count :].isnan().all()


def decodes(kind: torch.dtype, backend: str, decode: Callable[..., torch.Tensor] = decode) -> None:
    """Live slots are updated in place, a snapshot starts one request, and frozen copies are equal to live ones."""
    layer = random_layer(3, kind)
    _, states = layer.rooms(7)
    begun = torch.randn(states[:3].shape, generator=torch.Generator().manual_seed(1))
    states[[0, 5]] = begun[:2]
    inputs = inputs_of(layer.mixed, layer.decays, layer.betas, layer.weights, states)
    with running(backend):
        outputs = decode(inputs, states, Step([1, 1, 1], [0, NO_SLOT, 5], [0, 1, 2], [NO_SLOT, 3, 4], [0, 1, 1]))
    for number, start in enumerate((begun[0], None, begun[1])):
        one = layer.at(slice(number, number + 1))
        wanted, after = exact_delta(inputs_of(one.mixed, one.decays, one.betas, one.weights, states), start)
        assert difference(outputs[number], wanted[0]) < LIMIT[kind]
        assert difference(states[number], after[0]) < 1e-6
    assert torch.equal(states[3], states[1]) and torch.equal(states[4], states[2])
    assert torch.equal(states[5], begun[1]) and states[6].isnan().all()
