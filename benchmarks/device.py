"""Every kernel against its twin, and restore, freeze and prefill against what else could move the same bytes.

    .venv/bin/python benchmarks/device.py

With a GPU the kernels are compiled for it, checked and timed, in under four minutes. Without one the interpreted
kernels are checked, the twins are timed on the CPU, and the table says what is unmeasured. Flash-linear-attention is
timed where it is installed. It ends with 1 if a kernel differs from its twin.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec

import torch
import triton
import triton.language as tl

from milepost.kernels.backend import Backend, decorated, running
from milepost.kernels.convolution import convolve
from milepost.kernels.copy import copy_slots
from milepost.kernels.decode import decode
from milepost.kernels.delta import CHUNK, scan
from milepost.kernels.delta_inputs import DeltaInputs
from milepost.kernels.fingerprint import changed_slots, fingerprint_slots
from milepost.kernels.pages import gather_pages, scatter_pages
from milepost.kernels.step import NO_SLOT, Step
from milepost.kernels.zero import zero_slots

ON_DEVICE = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_DEVICE else "cpu")
KERNELS = Backend.TRITON if ON_DEVICE else Backend.INTERPRET
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
LAYERS, STATE, WINDOW = (48, (48, 128, 128), (10240, 3)) if ON_DEVICE else (4, (8, 128, 128), (2560, 3))
"""Qwen3.5-27B's recurrent layers (its public configuration); on a CPU 1/72 of them."""
PAIRS = 32 if ON_DEVICE else 8


@dataclass(frozen=True)
class Line:
    """One line of a table."""

    what: str
    figure: str


def random(*shape: int, kind: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Drawn on the CPU, so that every device gets the same."""
    generator = torch.Generator().manual_seed(seed + len(shape))
    return torch.randn(shape, generator=generator).to(kind).to(DEVICE)


def poisoned(*shape: int, kind: torch.dtype = torch.float32) -> torch.Tensor:
    """What is read before it was written spreads."""
    return torch.full(shape, float("nan"), dtype=kind, device=DEVICE)


def delta_inputs(tokens: int, heads: int, key_heads: int, width: int, kind: torch.dtype) -> DeltaInputs:
    """Random inputs with gates such as trained layers have."""
    return DeltaInputs(
        queries=random(tokens, key_heads, width, kind=kind, seed=10),
        keys=random(tokens, key_heads, width, kind=kind, seed=20),
        values=random(tokens, heads, width, kind=kind, seed=30),
        decays=random(tokens, heads, kind=kind, seed=40),
        betas=random(tokens, heads, kind=kind, seed=50),
        rates=random(heads, seed=60) / 2 - 1,
        biases=random(heads, seed=70) - 2,
    )


def both_ways(run: Callable[[], list[torch.Tensor]]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What the kernel gives, and what its twin gives, on the same inputs."""
    results = []
    for backend in (KERNELS, Backend.TORCH):
        with running(backend):
            results.append(run())
    return results[0], results[1]


def far(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The difference relative by norm; not a number where anything is none."""
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


def cells() -> list[torch.Tensor]:
    """A small pool of states, windows and keys."""
    return [random(3, 6, 2, 32, 33), random(3, 6, 20, 3, kind=torch.bfloat16), random(2, 6, 5000, kind=torch.float16)]


def moved() -> list[torch.Tensor]:
    """Everything that moves cells, once."""
    tensors = cells()
    copy_slots(tensors, [0, 0, 3], [1, 5, 2])
    zero_slots(tensors, [4])
    before = fingerprint_slots(tensors, range(6))
    scatter_pages(tensors, [0], gather_pages(tensors, [5]))
    digests = fingerprint_slots(tensors, range(6))
    changed = torch.tensor(changed_slots(tensors, range(6), before), device=DEVICE)
    return [*tensors, before, digests, changed]


def ran(kind: torch.dtype, small: bool) -> list[torch.Tensor]:
    """The forward path, once: outputs, windows and states, of a scan and of a decode step."""
    heads, key_heads, width = (1, 1, 32) if small else (8, 4, 128)
    lengths, boundaries = ([65, 1], [64, 1]) if small else ([1000, 1, 64, 127], [960, 1, 64, 64])
    count = len(lengths)
    step = Step(lengths, [NO_SLOT] * count, range(count), range(count, 2 * count), boundaries)
    inputs = delta_inputs(sum(lengths), heads, key_heads, width, kind)
    states, windows = poisoned(2 * count, heads, width, width), poisoned(2 * count, 96, 3, kind=kind)
    outputs = scan(inputs, states, step)
    mixed = convolve(random(sum(lengths), 96, kind=kind), random(96, 4, kind=kind), None, windows, step, CHUNK)
    after = [outputs, mixed, windows, states.clone()]
    one = Step([1] * count, range(count), range(count), [NO_SLOT] * count, [0] * count)
    return [*after, decode(delta_inputs(count, heads, key_heads, width, kind), states, one), states]


def resumes(kind: torch.dtype) -> bool:
    """Whether a pass that resumes at a chunk's end repeats the cold pass bit by bit."""
    heads, width, tokens = (1, 32, 130) if not ON_DEVICE else (8, 128, 1000)
    inputs, states = delta_inputs(tokens, heads, heads, width, kind), poisoned(3, heads, width, width)
    with running(KERNELS):
        cold = scan(inputs, states, Step([tokens], [NO_SLOT], [0], [1], [CHUNK]))
        moving = ("queries", "keys", "values", "decays", "betas")
        rest = replace(inputs, **{name: getattr(inputs, name)[CHUNK:] for name in moving})
        warm = scan(rest, states, Step([tokens - CHUNK], [1], [2], [NO_SLOT], [0]))
    return torch.equal(warm, cold[CHUNK:]) and torch.equal(states[0], states[2])


def checks() -> list[tuple[str, bool, str]]:
    """Each check: what, whether it holds, and by how much."""
    found, wanted = both_ways(moved)
    same = all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
    rows = [("copy, zero, gather, scatter, fingerprint", same, "bitwise" if same else "differs")]
    for kind in LIMITS:
        found, wanted = both_ways(lambda kind=kind: ran(kind, small=not ON_DEVICE))  # type: ignore[misc]
        names = ("scan's outputs", "convolution", "windows", "states", "decode's outputs", "decode's states")
        for name, one, other in zip(names, found, wanted, strict=True):
            limit = 0.0 if name == "windows" else LIMITS[kind]
            rows.append((f"{name}, {kind}", far(one, other) <= limit, f"{far(one, other):.0e}"))
        rows.append((f"aligned resume, {kind}", resumes(kind), "bitwise" if resumes(kind) else "differs"))
    return rows


def seconds(*runs: Callable[[], object], rounds: int = 9) -> list[float]:
    """The median of each over some rounds in turns, behind one that warms up: what else the machine does hits all."""
    times: list[list[float]] = [[] for _ in runs]
    for number in range(rounds + 1):
        for run, mine in zip(runs, times, strict=True):
            begun = time.perf_counter()
            run()
            if ON_DEVICE:
                torch.cuda.synchronize()
            mine += [time.perf_counter() - begun] if number else []
    return [statistics.median(mine) for mine in times]


def tiled_copy_kernel(
    pairs: tl.tensor, data: tl.tensor, layer_stride: tl.tensor, slot_stride: tl.tensor, words: tl.tensor,
    layers: tl.tensor, tile: tl.constexpr,
) -> None:  # fmt: skip
    """A fused copy as engines have it: one launch a tensor, one program a tile of a (pair, layer), in u64 words."""
    row = tl.program_id(1)
    layer = (row % layers).to(tl.int64) * layer_stride
    source = tl.load(pairs + row // layers * 2) * slot_stride + layer
    target = tl.load(pairs + row // layers * 2 + 1) * slot_stride + layer
    offsets = tl.program_id(0) * tile + tl.arange(0, tile)
    held = offsets < words
    tl.store(data + target + offsets, tl.load(data + source + offsets, mask=held), mask=held)


def tiled_copy(tensors: list[torch.Tensor], pairs: torch.Tensor) -> None:
    """That kernel over each tensor."""
    for tensor in tensors:
        words = tensor.view(*tensor.shape[:2], -1).view(torch.int64)
        grid = (triton.cdiv(words.shape[2], 1024), len(pairs) * words.shape[0])
        decorated(tiled_copy_kernel, Backend.TRITON)[grid](
            pairs, words, words.stride(0), words.stride(1), words.shape[2], words.shape[0], tile=1024,
            enable_fp_fusion=True,
        )  # fmt: skip


def index_copy(tensors: list[torch.Tensor], sources: torch.Tensor, targets: torch.Tensor) -> None:
    """What torch indexing does with the same cells."""
    for tensor in tensors:
        tensor.index_copy_(1, targets, tensor.index_select(1, sources))


def restores() -> list[Line]:
    """A restore of some slots, by each means, against plain copying of as many bytes."""
    tensors = [torch.zeros(LAYERS, 2 * PAIRS, *STATE, device=DEVICE)]
    tensors.append(torch.zeros(LAYERS, 2 * PAIRS, *WINDOW, device=DEVICE, dtype=torch.bfloat16))
    sources, targets = list(range(PAIRS)), list(range(PAIRS, 2 * PAIRS))
    read, written = torch.tensor(sources, device=DEVICE), torch.tensor(targets, device=DEVICE)
    moved_bytes = sum(tensor[:, 0].numel() * tensor.element_size() for tensor in tensors) * PAIRS
    plain = torch.empty(2, moved_bytes // 8, dtype=torch.int64, device=DEVICE)
    plain.zero_()
    means: dict[str, Callable[[], object]] = {
        "plain copy": lambda: plain[0].copy_(plain[1]),
        "copy_slots": lambda: copy_slots(tensors, sources, targets),
        "torch indexing": lambda: index_copy(tensors, read, written),
    }
    if ON_DEVICE:
        pairs = torch.stack([read, written], dim=1).contiguous()
        means["a fused u64 tiled copy, one launch a tensor"] = lambda: tiled_copy(tensors, pairs)
    size = f"{PAIRS} slots of {LAYERS} layers, {moved_bytes / 2**20:.0f} MiB"
    limit, *others = seconds(*means.values())
    lines = [Line(f"plain copy of {size}", f"{moved_bytes / limit / 1e9:.1f} GB/s, the limit")]
    for name, taken in zip([*means][1:], others, strict=True):
        lines.append(Line(f"{name}, {size}", f"{limit / taken:.2f} of the limit"))
    return lines


def prefills() -> list[Line]:
    """A scan with and without a freeze, and flash-linear-attention's where it is installed."""
    tokens, heads, width = (8192, 48, 128) if ON_DEVICE else (1024, 4, 128)
    kind = torch.bfloat16 if ON_DEVICE else torch.float32
    inputs = delta_inputs(tokens, heads, 16 if ON_DEVICE else 4, width, kind)
    states = torch.zeros(2, heads, width, width, device=DEVICE)
    bare = Step([tokens], [NO_SLOT], [0], [NO_SLOT], [0])
    freezing = Step([tokens], [NO_SLOT], [0], [1], [tokens - CHUNK])
    runs = [lambda: scan(inputs, states, bare), lambda: scan(inputs, states, freezing)]
    compare = ON_DEVICE and find_spec("fla") is not None
    without, including, *others = seconds(*runs, *([fla_run(inputs)] if compare else []))
    lines = [
        Line(f"scan of {tokens} tokens, {heads} heads, {kind}", f"{without * 1e3:.2f} ms"),
    ]
    if ON_DEVICE:
        lines.append(Line("the same with a freeze", f"{including / without:.3f} of that"))
    lines += [Line("flash-linear-attention with one row copied", f"{taken / including:.2f} of it") for taken in others]
    return lines


def fla_run(inputs: DeltaInputs) -> Callable[[], None]:
    """Its operator, which writes the state of every chunk inside, and a copy of one of those."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule  # type: ignore[import-not-found,unused-ignore]

    sharing = inputs.values.shape[1] // inputs.keys.shape[1]
    queries, keys = (part.repeat_interleave(sharing, 1)[None] for part in (inputs.queries, inputs.keys))
    gates = -torch.exp(inputs.rates) * torch.nn.functional.softplus(inputs.decays.float() + inputs.biases)
    betas = torch.sigmoid(inputs.betas)
    row = torch.zeros(2, *inputs.values.shape[1:], keys.shape[-1], device=DEVICE)

    def run() -> None:
        chunk_gated_delta_rule(
            queries, keys, inputs.values[None], gates[None], betas[None], output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )  # fmt: skip
        row[0].copy_(row[1])

    return run


UNMEASURED = (
    "compiled kernels against their twins",
    "restore against the device's copy bandwidth, torch indexing and a fused u64 tiled copy",
    "what a freeze adds to a compiled scan",
    "prefill against flash-linear-attention",
)


def main() -> int:
    """Print the tables; 1 where a check fails."""
    torch.set_num_threads(1)
    begun = time.perf_counter()
    place = torch.cuda.get_device_name() if ON_DEVICE else "no GPU: one CPU core, interpreted kernels, twins timed"
    print(f"{place}; torch {torch.__version__}, Triton {triton.__version__}, Python {sys.version.split()[0]}\n")
    rows = checks()
    print("| kernel against twin | | difference |\n| --- | --- | --- |")
    for what, holds, figure in rows:
        print(f"| {what} | {'ok' if holds else 'WRONG'} | {figure} |")
    print("\n| timed | |\n| --- | --- |")
    for line in (*restores(), *prefills()):
        print(f"| {line.what} | {line.figure} |")
    for what in () if ON_DEVICE else UNMEASURED:
        print(f"| {what} | not measured: there was no GPU |")
    if ON_DEVICE and not find_spec("fla"):
        print(f"| {UNMEASURED[-1]} | not measured: it is not installed |")
    print(f"\n{time.perf_counter() - begun:.0f} s")
    return 0 if all(holds for _, holds, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
