"""A queue of victims stays sorted however its runs are halved and joined."""

from __future__ import annotations

import random

import pytest

from milepost.optimized.index import victims
from milepost.optimized.index.edge import Edge
from milepost.optimized.index.victims import VictimQueue

from .index_edits import QUEUE_EDITS, Edit

RUN = 8


def play(seed: int) -> str:
    """Queue, move and withdraw candidates at random; return the first difference from a sorted list, '' for none."""
    pick, queue = random.Random(seed), VictimQueue[Edge]({0, 1})
    candidates = [Edge(None, 0, b"", b"") for _ in range(60)]
    stamps = iter(pick.sample(range(1, 10_000), 2_000))
    for step in range(1_000):
        candidate, growing = pick.choice(candidates), step // 100 % 2
        stamp = next(stamps) if pick.random() < (0.2, 0.8)[growing] else 0
        queue.place(candidate, pick.randint(0, 1) if stamp else candidate.rank, stamp)
        expected = sorted((one.rank, one.queued) for one in candidates if one.queued)
        listed = [(rank, stamp) for rank, runs in queue.runs.items() for stamp, _ in runs]
        if listed != expected:
            return f"step {step}: {listed} are queued and not {expected}"
        first = queue.first()
        if (first and (first.rank, first.queued)) != (expected[0] if expected else None):
            return f"step {step}: {first} is first"
        if any(len(run) > RUN for runs in queue.runs.values() for run in runs.stamps):
            return f"step {step}: a run is too long"
    return ""


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victims, "RUN", RUN)


@pytest.mark.parametrize("seed", range(5))
def test_candidates_stay_sorted(seed: int) -> None:
    assert play(seed) == ""


@pytest.mark.parametrize("edit", QUEUE_EDITS, ids=lambda edit: edit.name)
def test_an_edit_of_the_queue_is_noticed(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    edit.apply(monkeypatch)
    with pytest.raises((AssertionError, LookupError, ValueError)):
        assert play(1) == ""
