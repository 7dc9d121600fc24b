"""One quick case on each real side; the caches of engines that `make peers` has not installed are skipped aloud."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

SIDES = ("milepost", "sglang-rust", "vllm", "freetoken")
"""One for each program; SGLang's two cores share theirs, and its import takes the longest."""


@pytest.mark.parametrize("name", SIDES)
def test_a_side_measures_a_short_match_that_hits(sides: ModuleType, name: str) -> None:
    command = sides.commands()[name]
    if not Path(command[0]).exists():
        pytest.skip(f"{name} is not installed beside the kit: run `make peers`")
    side = sides.Side(name, command)
    try:
        values = side.ask("match", 1024, 3)
        assert len(values) == 3 and all(0 < value < 1_000_000 for value in values)
        assert all(side.cases.values()), "every case says in a sentence what is timed"
    finally:
        side.close()


def test_the_anchor_compares_memory(sides: ModuleType) -> None:
    side = sides.Side("anchor", sides.commands()["anchor"])
    small, large = (min(side.ask("match", size, 20)) for size in (1024, 1 << 20))
    side.close()
    assert 0 < small < large
