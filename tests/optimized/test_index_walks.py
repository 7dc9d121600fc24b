"""The index equals two dictionaries, answer by answer and cell by cell, on seeded walks."""

import pytest

from .index_pair import Pair
from .index_walks import Walk, sizes_for


def walk(seed: int, steps: int) -> None:
    pair = Pair(sizes_for(seed))
    one = Walk(pair, seed)
    for _ in range(steps):
        one.step()


@pytest.mark.parametrize("seed", range(40))
def test_a_walk_finds_no_difference(seed: int) -> None:
    walk(seed, 250)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_a_long_walk_finds_no_difference(seed: int) -> None:
    walk(seed, 2500)
