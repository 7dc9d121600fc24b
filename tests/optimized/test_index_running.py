"""A decode batch publishes exactly what each of its requests would have published by itself."""

from __future__ import annotations

import random

import numpy as np
import pytest

from milepost.optimized.index import FULL, RECURRENT, Lease, PrefixIndex, Running

PAGE, ROWS, CELLS = 4, 6, 400


class Alone:
    """Requests that publish one by one, each time with all their tokens."""

    def __init__(self) -> None:
        self.index = PrefixIndex(PAGE, ghosts=CELLS)
        self.leases: list[Lease] = []
        self.tokens: list[list[int]] = []
        self.columns: list[list[int]] = []

    def open(self, prompt: list[int]) -> None:
        self.leases.append(self.index.lease(self.index.match(prompt)))
        self.tokens.append(list(prompt))
        self.columns.append([])

    def append(self, row: int, token: int, cell: int) -> None:
        self.tokens[row].append(token)
        if len(self.tokens[row]) % PAGE:
            return
        self.columns[row].append(cell)
        published = self.index.publish(self.leases[row], self.tokens[row], self.columns[row])
        for column, there in published.repointed.items():
            self.columns[row][column] = there


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_publishes_what_each_request_would(seed: int) -> None:
    pick, alone, index = random.Random(seed), Alone(), PrefixIndex(PAGE, ghosts=CELLS)
    running, cells, rows = Running(index, ROWS), iter(range(CELLS)), []
    for _ in range(ROWS):
        prompt = [pick.randint(0, 1) for _ in range(pick.randint(1, PAGE - 1))]
        alone.open(prompt)
        rows.append(running.join(index.lease(index.match(prompt)), prompt, next(cells)))
    for _ in range(40):
        turn = sorted(pick.sample(range(ROWS), pick.randint(1, ROWS)))
        sampled = np.array([pick.randint(0, 1) for _ in turn], np.int32)
        numbered = np.array([rows[number] for number in turn])
        given = running.cells[numbered].tolist()
        appended = running.append(numbered, sampled)
        for number, token, cell in zip(turn, sampled.tolist(), given, strict=True):
            alone.append(number, token, cell)
        running.cells[appended.full] = [next(cells) for _ in appended.full]
        index.check()
        assert index.inventory() == alone.index.inventory()
        kinds = (FULL, RECURRENT)
        assert [index.evictable(kind) for kind in kinds] == [alone.index.evictable(kind) for kind in kinds]
    assert index.evict({FULL: 0}) == []
    for number, row in enumerate(rows):
        tail = alone.tokens[number][len(alone.tokens[number]) // PAGE * PAGE :]
        assert np.frombuffer(running.leave(row), np.int32).tolist() == tail
