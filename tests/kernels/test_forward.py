"""The forward path follows its recurrence, in both ways that run without a device, and freezes where it was told to."""

from dataclasses import replace

import pytest
import torch

from milepost.kernels.backend import running
from milepost.kernels.delta import CHUNK
from milepost.kernels.delta_layer import delta_layer
from milepost.kernels.mamba import MambaInputs, mamba_scan
from milepost.kernels.step import NO_SLOT, Step

from . import scan_checks
from .layers import difference, exact_delta, exact_inputs, exact_mamba, random_layer, random_mamba
from .scan_checks import LIMIT, step_of

kinds = pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
both_ways = pytest.mark.parametrize("backend", ["torch", "interpret"])
LENGTHS = range(1, 1001)
BOUNDARIES = [length // CHUNK * CHUNK for length in LENGTHS]


@kinds
def test_every_length_from_1_to_1000_follows_the_rule(kind: torch.dtype) -> None:
    """All prefixes of one prompt are the requests of one step, so that one exact pass judges them all."""
    layer = random_layer(LENGTHS[-1], kind)
    windows, states = layer.rooms(2 * len(LENGTHS))
    every = layer.at(*(slice(0, length) for length in LENGTHS))
    step = step_of(LENGTHS, BOUNDARIES)
    outputs = delta_layer(every.mixed, every.decays, every.betas, every.weights, windows, states, step)
    wanted, after = exact_delta(exact_inputs(layer))
    for number, (first, length, _, live, freeze, boundary) in enumerate(step.rows):
        assert difference(states[live], after[length - 1]) < LIMIT[kind], length
        assert torch.equal(windows[live], _window(layer.mixed, length)), length
        if freeze != NO_SLOT:
            assert difference(states[freeze], after[boundary - 1]) < LIMIT[kind], length
            assert torch.equal(windows[freeze], _window(layer.mixed, boundary)), length
        if number % 50 == 49:
            assert difference(outputs[first : first + length], wanted[:length]) < LIMIT[kind], length


def _window(mixed: torch.Tensor, position: int) -> torch.Tensor:
    return torch.cat([mixed.new_zeros(3, mixed.shape[1]), mixed[:position]])[-3:].t()


@kinds
@pytest.mark.parametrize("length", [1, 63, 64, 65, 127, 128, 129])
def test_the_interpreted_scan_follows_the_rule_around_chunks(length: int, kind: torch.dtype) -> None:
    scan_checks.scans([length], kind, "interpret", heads=1)


@kinds
@both_ways
def test_requests_of_one_step_do_not_touch_each_other(kind: torch.dtype, backend: str) -> None:
    scan_checks.scans([65, 1, 128], kind, backend)


@kinds
@both_ways
def test_windows_move_to_their_slots_bit_by_bit(kind: torch.dtype, backend: str) -> None:
    scan_checks.convolves(kind, backend)


@kinds
@both_ways
def test_a_decode_step_updates_live_slots_in_place(kind: torch.dtype, backend: str) -> None:
    scan_checks.decodes(kind, backend)


@both_ways
def test_decoding_goes_on_from_what_a_scan_left(backend: str) -> None:
    layer = random_layer(70, torch.float32, heads=1)
    windows, states = layer.rooms(1)
    outputs = []
    with running(backend):
        for first, end in ((0, 66), (66, 67), (67, 68), (68, 69), (69, 70)):
            piece = layer.at(slice(first, end))
            start = NO_SLOT if first == 0 else 0
            step = Step([end - first], [start], [0], [NO_SLOT], [0])
            outputs.append(delta_layer(piece.mixed, piece.decays, piece.betas, piece.weights, windows, states, step))
    wanted, after = exact_delta(exact_inputs(layer))
    assert difference(torch.cat(outputs), wanted) < 1e-5
    assert difference(states[0], after[-1]) < 1e-5


@kinds
def test_mamba_follows_its_recurrence_at_every_length(kind: torch.dtype) -> None:
    lengths = [*range(1, 131), 255, 256, 257, 999, 1000]
    inputs = random_mamba(1000, kind)
    wanted, after = exact_mamba(inputs)
    every = _prefixes(inputs, lengths)
    states = torch.full((2 * len(lengths), 4, 8, 16), float("nan"))
    step = step_of(lengths, [length // 64 * 64 for length in lengths])
    outputs = mamba_scan(every, states, step, chunk=64)
    for first, length, _, live, freeze, boundary in step.rows:
        assert difference(outputs[first : first + length], wanted[:length]) < LIMIT[kind], length
        assert difference(states[live], after[length - 1]) < LIMIT[kind], length
        if freeze != NO_SLOT:
            assert difference(states[freeze], after[boundary - 1]) < LIMIT[kind], length


def _prefixes(inputs: MambaInputs, lengths: list[int]) -> MambaInputs:
    names = ("values", "keys", "queries", "steps")
    parts = {name: torch.cat([getattr(inputs, name)[:length] for length in lengths]) for name in names}
    return replace(inputs, **parts)


def test_a_layer_refuses_before_its_windows_move() -> None:
    layer = random_layer(64, torch.float32)
    windows, states = layer.rooms(2)
    step = step_of([64], [0])
    with pytest.raises(ValueError, match=r"^The betas should be \[64, 2\], each token in one piece: \[63, 2\]\.$"):
        delta_layer(layer.mixed, layer.decays, layer.betas[:63], layer.weights, windows, states, step)
    with pytest.raises(ValueError, match=r"^States are float32, each in one piece, to be resumed exactly: torch.bf"):
        delta_layer(layer.mixed, layer.decays, layer.betas, layer.weights, windows, states.bfloat16(), step)
    assert windows.isnan().all()
