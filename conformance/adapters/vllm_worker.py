"""What vllm's worker knows of a request: the block tables as it has them, and where its kernels put states.

The worker appends to its tables what each step brings and never sees what the scheduler nulls or moves in its own, so
which block a forward reads and writes is decided here, by the worker's rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from milepost.spec.words import NULL

NULL_BLOCK = 0


@dataclass(eq=False, slots=True)
class WorkerRows:
    """The block tables of one request in the worker, one row of block ids for each group.

    `column` is where the running state is, -1 before the first token. `positions` has the tokens that the state in a
    column has read, by the arguments that kernels were given.
    """

    state_block: int
    rows: list[list[int]] = field(default_factory=list)
    column: int = -1
    positions: dict[int, int] = field(default_factory=dict)

    def start(self, rows: Iterable[Iterable[int]], hit: int) -> None:
        """Take over the tables of a new or resumed request that starts behind a hit.

        The running state is then in the column of the last computed token (gpu/model_states/mamba_hybrid.py:123).
        """
        self.rows = [list(row) for row in rows]
        self.column = (hit - 1) // self.state_block
        if hit:
            self.positions[self.column] = hit

    def append(self, added: Iterable[Iterable[int]]) -> None:
        """Append what a step adds to each row (gpu/model_runner.py:1280)."""
        for row, new in zip(self.rows, added, strict=True):
            row.extend(new)

    def block(self, group: int, column: int) -> int:
        """Return the block in a column; beyond the row lies what it was filled with, the null block."""
        row = self.rows[group] if self.rows else []
        return row[column] if column < len(row) else NULL_BLOCK

    def advance(self, groups: Sequence[int], stop: int) -> list[tuple[int, int]]:
        """Move the running states to the column of the step's last token; return each copy as (source, target).

        The copies run before the forward (worker/mamba_utils.py:541, 606).
        """
        before, self.column = self.column, -(-stop // self.state_block) - 1
        self.positions[self.column] = stop
        if before in (-1, self.column):
            return []
        return [(self.block(group, before), self.block(group, self.column)) for group in groups]

    def checkpoint(
        self, groups: Sequence[int], start: int, stop: int, hash_block: int, alignment: int, hit_alignment: int
    ) -> list[tuple[int, int, int]]:
        """Return (group, block, position) of each state that the backend writes out inside tokens [start, stop)."""
        from vllm.model_executor.layers.mamba.checkpoint import compute_mamba_prefill_checkpoints

        offsets, columns = compute_mamba_prefill_checkpoints(
            [stop], [stop - start], hash_block_size=hash_block, mamba_block_size=self.state_block,
            checkpoint_alignment=alignment, drop_eagle_block=False, cache_hit_alignment_tokens=hit_alignment,
        )
        if columns[0] < 0:
            return []
        self.positions[columns[0]] = start + offsets[0]
        written = [(group, self.block(group, columns[0]), start + offsets[0]) for group in groups]
        # The kernel skips the null block (layers/mamba/checkpoint.py:274).
        return [one for one in written if one[1] != NULL_BLOCK]

    def position(self, column: int) -> int:
        """Return how many tokens the state in a column has read; where none was written, the end of the column."""
        return self.positions.get(column, (column + 1) * self.state_block)


@dataclass(eq=False, slots=True)
class Claim:
    """One open request. `lookup` is (blocks, length) until its first extend, `seen` the changes before that lookup.

    `sources` are the blocks of its hit, by group, from which its first step restores states. `place` is its row in the
    worker's tensors, -1 before its first step and where nobody keeps any.
    """

    name: str
    request: Any
    worker: WorkerRows
    lookup: tuple[Any, int] | None = None
    seen: int = 0
    sources: dict[int, int] = field(default_factory=dict)
    place: int = -1


@dataclass(eq=False, slots=True)
class Planned:
    """What one request does in the step that is being planned; tokens [start, stop), and drafts behind them.

    `samples` tells whether the step ends behind the last token that was known when it was planned.
    """

    claim: Claim
    start: int
    stop: int
    copies: list[tuple[int, int]]
    fresh: bool
    drafts: int = 0
    samples: bool = True


def cells(blocks: Sequence[int]) -> tuple[int, ...]:
    """Return block ids as the kit names them: the null block names nothing."""
    return tuple(NULL if block == NULL_BLOCK else block for block in blocks)
