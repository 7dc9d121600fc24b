"""Resuming at a chunk's end repeats a cold pass bit by bit; elsewhere it is close; a wrong state is far off."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from milepost.kernels.backend import running
from milepost.kernels.delta_layer import delta_layer
from milepost.kernels.step import NO_SLOT, Step

from .layers import random_layer

ROOT = Path(__file__).parents[2]
CLOSE = {"float32": 1e-6, "bfloat16": 1e-2}


@pytest.fixture(scope="module")
def alignment() -> ModuleType:
    """The script that prints the table."""
    place = importlib.util.spec_from_file_location("alignment", ROOT / "benchmarks" / "alignment.py")
    assert place is not None and place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_aligned_resumes_are_bitwise_others_close_and_wrong_states_far_off(alignment: ModuleType) -> None:
    rows = alignment.measured()
    assert len(rows) == 14
    for case, layer, kind, found in rows:
        if case == "1,024, from the state of 1,024":
            assert found.are_none, (layer, kind)
        elif case == "1,000, from the state of 1,000":
            assert 0 < found.outputs < CLOSE[kind] and 0 < found.state < CLOSE[kind], (layer, kind)
        else:
            assert found.first_outputs > 0.3 and found.state > 2 * CLOSE[kind], (case, layer, kind)


def test_the_page_shows_the_table_that_the_script_prints(alignment: ModuleType) -> None:
    """Figures between bitwise and wrong depend on the processor: only their rows and the bitwise ones are compared."""
    page = (ROOT / "docs" / "alignment.md").read_text().splitlines()
    shown = [line for line in page if line.startswith("| ")]
    printed = alignment.table()
    assert [line.split(" | ")[:3] for line in shown] == [line.split(" | ")[:3] for line in printed]
    assert [line for line in shown if "bitwise" in line] == [line for line in printed if "bitwise" in line]


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_an_interpreted_resume_at_a_chunks_end_is_bitwise_too(kind: torch.dtype) -> None:
    layer = random_layer(150, kind, heads=1)
    windows, states = layer.rooms(3)
    with running("interpret"):
        cold = delta_layer(
            layer.mixed, layer.decays, layer.betas, layer.weights, windows, states,
            Step([150], [NO_SLOT], [0], [1], [64]),
        )  # fmt: skip
        rest = layer.at(slice(64, 150))
        resume = Step([86], [1], [2], [NO_SLOT], [0])
        warm = delta_layer(rest.mixed, rest.decays, rest.betas, rest.weights, windows, states, resume)
    assert torch.equal(warm, cold[64:])
    assert torch.equal(states[2], states[0]) and torch.equal(windows[2], windows[0])
