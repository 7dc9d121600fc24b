"""What alignment is worth: a resumed pass against one cold pass, for states and windows of right and wrong positions.

    .venv/bin/python benchmarks/alignment.py

prints the table of docs/alignment.md. It runs on the torch twins, on one core, in a few seconds.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from milepost.kernels.delta_layer import DeltaWeights, delta_layer
from milepost.kernels.mamba import MambaInputs, mamba_scan
from milepost.kernels.step import NO_SLOT, Step

TOKENS, ALIGNED, UNALIGNED = 1280, 1024, 1000
HEADS, WIDTH, TAPS = 4, 64, 4
COLD, SNAPSHOT, LIVE, OTHER = range(4)
KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Forward = Callable[[int, int, Step], torch.Tensor]


@dataclass(frozen=True)
class Differences:
    """Of a resumed pass from a cold one, relative by norm: outputs of the first 24 tokens, of all, and the state."""

    first_outputs: float
    outputs: float
    state: float

    @property
    def are_none(self) -> bool:
        """Bit by bit the same."""
        return self == Differences(0, 0, 0)


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The norm of the difference in float64, 0 only where all bits are equal."""
    difference = float((found.double() - wanted.double()).norm() / wanted.double().norm())
    return difference if torch.equal(found, wanted) else max(difference, 1e-300)


def resumed(forward: Forward, rooms: list[torch.Tensor], at: int, state_at: int, window_at: int) -> Differences:
    """Resume at one position from the state and window of others; rooms are states, and windows if there are any."""
    chunked = state_at % 64 == 0
    step = Step([TOKENS], [NO_SLOT], [COLD], [SNAPSHOT if chunked else NO_SLOT], [state_at if chunked else 0])
    cold = forward(0, TOKENS, step)
    if not chunked:  # no chunk of the cold pass ends here: a pass of its own has to
        forward(0, state_at, Step([state_at], [NO_SLOT], [SNAPSHOT], [NO_SLOT], [0]))
    if window_at != state_at:
        forward(0, window_at, Step([window_at], [NO_SLOT], [OTHER], [NO_SLOT], [0]))
        rooms[1][SNAPSHOT] = rooms[1][OTHER]
    outputs = forward(at, TOKENS, Step([TOKENS - at], [SNAPSHOT], [LIVE], [NO_SLOT], [0]))
    return Differences(
        relative(outputs[:24], cold[at : at + 24]),
        relative(outputs, cold[at:]),
        relative(rooms[0][LIVE], rooms[0][COLD]),
    )


def delta_forward(kind: torch.dtype, seed: int = 0) -> tuple[Forward, list[torch.Tensor]]:
    """A gated delta rule layer with its convolution, on random inputs; half of the heads forget slowly."""
    generator = torch.Generator().manual_seed(seed)
    channels = 3 * HEADS * WIDTH
    mixed = torch.randn(TOKENS, channels, generator=generator).to(kind)
    decays, betas = (torch.randn(TOKENS, HEADS, generator=generator).to(kind) for _ in range(2))
    taps = (torch.randn(channels, TAPS, generator=generator) / 2).to(kind)
    weights = DeltaWeights(taps, torch.linspace(-4, 0, HEADS), torch.full((HEADS,), -2.0))
    windows = torch.zeros(4, channels, TAPS - 1, dtype=kind)
    states = torch.zeros(4, HEADS, WIDTH, WIDTH)

    def forward(first: int, end: int, step: Step) -> torch.Tensor:
        tokens = slice(first, end)
        return delta_layer(mixed[tokens], decays[tokens], betas[tokens], weights, windows, states, step)

    return forward, [states, windows]


def mamba_forward(kind: torch.dtype, seed: int = 0) -> tuple[Forward, list[torch.Tensor]]:
    """A Mamba-2 recurrence on random inputs."""
    generator = torch.Generator().manual_seed(seed)
    values, keys, queries = (torch.randn(TOKENS, HEADS, WIDTH, generator=generator).to(kind) for _ in range(3))
    steps = (torch.randn(TOKENS, HEADS, generator=generator) - 2).to(kind)
    inputs = MambaInputs(values, keys, queries, steps, torch.linspace(-4, 0, HEADS), *torch.zeros(2, HEADS))
    states = torch.zeros(4, HEADS, WIDTH, WIDTH)

    def forward(first: int, end: int, step: Step) -> torch.Tensor:
        parts = {name: getattr(inputs, name)[first:end] for name in ("values", "keys", "queries", "steps")}
        return mamba_scan(replace(inputs, **parts), states, step, chunk=64)

    return forward, [states]


def measured() -> list[tuple[str, str, str, Differences]]:
    """Each row of the table: what is resumed, the layer, the type, and what came out."""
    cases = [
        ("1,024, from the state of 1,024", ALIGNED, ALIGNED, ALIGNED),
        ("1,000, from the state of 1,000", UNALIGNED, UNALIGNED, UNALIGNED),
        ("1,000, from the state of 1,024", UNALIGNED, ALIGNED, ALIGNED),
        ("1,024, from the state of 1,024 and the window of 1,023", ALIGNED, ALIGNED, ALIGNED - 1),
    ]
    rows = []
    for case, at, state_at, window_at in cases:
        for layer, make in (("gated delta rule", delta_forward), ("Mamba-2", mamba_forward)):
            if layer == "Mamba-2" and window_at != state_at:
                continue  # its convolution is that of the other layer
            for name, kind in KINDS.items():
                forward, rooms = make(kind)
                rows.append((case, layer, name, resumed(forward, rooms, at, state_at, window_at)))
    return rows


def said(difference: float) -> str:
    """A figure of the table."""
    return "bitwise" if difference == 0 else f"{difference:.0e}"


def table() -> list[str]:
    """The table as it stands in the docs."""
    lines = ["| resumed at | layer | type | first 24 outputs | all outputs | final state |", "| --- " * 6 + "|"]
    for case, layer, name, found in measured():
        figures = " | ".join(said(one) for one in (found.first_outputs, found.outputs, found.state))
        lines.append(f"| {case} | {layer} | {name} | {figures} |")
    return lines


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("\n".join(table()))
