"""Runs vLLM's kernels for recurrent states twice, in Triton's own interpreter and on the adapter's stand-in.

Run as a script where Triton is installed, with TRITON_INTERPRET=1 and the file of the kernels as its first argument, it
prints as a JSON line how many launches left the same memory, and how many states they copied.
"""

from __future__ import annotations

import ast
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language

from milepost.conformance.adapters import vllm_kernels

KERNELS = (
    "_memcpy_u64_tiled", "_copy_mamba_state_block", "postprocess_mamba_fused_kernel",
    "preprocess_mamba_align_fused_kernel", "precopy_mamba_align_fused_kernel",
)
LAYERS, BLOCKS, PLACES, COLUMNS, BLOCK = 2, 40, 4, 8, 8


def kernels(path: str, jit: object, language: object, folder: Path) -> dict[str, Any]:
    """Compile the kernels from their own text; Triton wants a file that it can read them in."""
    source = Path(path).read_text()
    kept = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name in KERNELS]
    text = "\n\n".join(
        "\n".join(source.splitlines()[node.decorator_list[0].lineno - 1 : node.end_lineno]) for node in kept
    )
    file = folder / "kernels_of_vllm.py"
    file.write_text(text)
    names: dict[str, Any] = {"triton": jit, "tl": language, "__name__": "kernels_of_vllm"}
    exec(compile(text, str(file), "exec"), names)
    return names


class World:
    """Tables, states and counts of some requests; equal for equal seeds."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.drafts = chance.randint(1, 3)
        self.rows = 1 + self.drafts
        self.words = self.rows + 4
        numbers = torch.arange(LAYERS * BLOCKS * self.words, dtype=torch.int64)
        self.region = (numbers * 7919 + seed).reshape(LAYERS, BLOCKS, self.words)
        self.table = torch.zeros((PLACES, COLUMNS), dtype=torch.int32)
        blocks = chance.sample(range(1, BLOCKS), PLACES * COLUMNS)
        self.table[:] = torch.tensor(blocks, dtype=torch.int32).reshape(PLACES, COLUMNS)
        self.computed = [chance.randint(1, 3 * BLOCK) for _ in range(PLACES)]
        self.places = chance.sample(range(PLACES), chance.randint(1, PLACES))
        self.spans = [1 + chance.randint(0, self.drafts) for _ in self.places]
        self.accepted = [1 + chance.randint(0, self.drafts) for _ in range(PLACES)]
        self.columns = [chance.choice((-1, (one - 1) // BLOCK, one // BLOCK)) for one in self.computed]

    def states(self) -> tuple[list[int], ...]:
        """Return what `_populate_metadata` makes of the state tensors: convolution first, then recurrence."""
        size = self.words * 8
        starts = [self.region.data_ptr() + layer * BLOCKS * size for layer in range(LAYERS)]
        bases = [start + part for start in starts for part in (0, self.rows * 8)]
        return bases, [size] * 4, [8] * 4, [1, 4] * LAYERS, [self.rows, 0] * LAYERS, [0] * 4, [0] * 4, [0] * 4


def run(world: World, kernel: dict[str, Any]) -> list[list[int]]:
    """Begin and end a step; return everything that kernels may have written."""
    small, large = torch.int32, torch.int64
    mapping, accepted = torch.tensor(world.places, dtype=small), torch.tensor(world.accepted, dtype=small)
    columns = torch.tensor(world.columns, dtype=small)
    source, bias = torch.full((PLACES,), -1, dtype=small), torch.zeros(PLACES, dtype=small)
    computed = torch.tensor(world.computed, dtype=small)
    starts = torch.tensor([0, *torch.tensor(world.spans).cumsum(0).tolist()], dtype=small)
    count = len(world.places)
    kernel["preprocess_mamba_align_fused_kernel"][(1,)](
        mapping, columns, computed, starts, accepted, source, bias, count, BLOCK_SIZE=8, MAMBA_BLOCK_SIZE=BLOCK
    )
    kinds = (large, large, small, large, small, small, small, large)
    states = [torch.tensor(one, dtype=kind) for one, kind in zip(world.states(), kinds, strict=True)]
    tables = torch.tensor([world.table.data_ptr()], dtype=large)
    grid = (count, 2 * LAYERS, 1)
    kernel["precopy_mamba_align_fused_kernel"][grid](
        columns, source, bias, tables, world.table.stride(0), *states, mapping, count, COPY_BLOCK_SIZE=16,
        CONV_STATE_DIM_FIRST=False, HAS_IDX_MAPPING=True, TEMPORAL_TILES=1,
    )
    said = torch.tensor([min(one, span) for one, span in zip(world.accepted, world.spans + [1] * PLACES, strict=False)])
    accepted[:] = said[:PLACES].to(small)
    for place, span in zip(world.places, world.spans, strict=True):
        computed[place] += min(span, int(accepted[place]))
    kernel["postprocess_mamba_fused_kernel"][grid](
        accepted.clone(), columns, None, computed, None, tables, world.table.stride(0), *states, accepted, mapping,
        count, block_size=BLOCK, COPY_BLOCK_SIZE=16, CONV_STATE_DIM_FIRST=False, HAS_IDX_MAPPING=True,
        PRECOMPUTED_NEW_COMPUTED=True, TEMPORAL_TILES=1,
    )
    return [one.flatten().tolist() for one in (world.region, columns, source, bias, accepted)]


def main() -> None:
    """Compare as many worlds as the second argument says; the third is a folder for the text."""
    path, worlds, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    real = kernels(path, triton, triton.language, folder)
    ours = kernels(path, vllm_kernels.TRITON, vllm_kernels.LANGUAGE, folder)
    met: Counter[str] = Counter()
    for seed in range(worlds):
        untouched = World(seed).region.flatten().tolist()
        first, second = run(World(seed), real), run(World(seed), ours)
        assert first == second, f"world {seed} ends in another way"
        met["same"] += 1
        met["copied"] += first[0] != untouched
    print(json.dumps(met))


if __name__ == "__main__":
    main()
