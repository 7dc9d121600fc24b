"""`milepost prove --schedules` finds schedules for a goal at given sizes, and says in a sentence why there are none."""

from pathlib import Path

import pytest

from milepost.conformance.files import read_schedule
from milepost.proofs.schedules import GOALS

from .conftest import Milepost

GOAL = "freeze-at-both-ends-of-a-step"


def test_schedules_are_found_replayed_and_written(milepost: Milepost, folder: Path) -> None:
    ended = milepost("prove", "--schedules", GOAL, "--page", "4", "--chunk", "6", "--pools", "kv=20,state=4",
                     "--count", "2", "--write", "found")
    assert ended.code == 0
    assert ended.out.splitlines() == [
        f"found/goal.{GOAL}.jsonl: reached by operation 4 of 13, page 4, chunk 6, kv=20,state=4",
        f"found/goal.{GOAL}-2.jsonl: reached by operation 4 of 13, page 4, chunk 6, kv=20,state=4",
    ]
    first, second = (read_schedule(folder / "found" / f"goal.{GOAL}{end}.jsonl") for end in ("", "-2"))
    assert first.header.pools == {"kv": 20, "state": 4}
    assert first.operations != second.operations
    assert milepost("replay", f"found/goal.{GOAL}.jsonl").code == 0


def test_all_goals_are_listed_with_their_meaning(milepost: Milepost) -> None:
    ended = milepost("prove", "--goals")
    assert ended.code == 0
    assert ended.out.splitlines()[::2] == list(GOALS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["own-copy-takes-an-entry"],
         "there is no goal 'own-copy-takes-an-entry'; did you mean own-copy-takes-the-entry?"),
        (["x"], "there is no goal 'x'; --goals lists them"),
        ([GOAL, "--pools", "kv=2,kv=3"], "--pools kv=2,kv=3: write the cells of a pool, 1 to 64, as in kv=12,state=4"),
        ([GOAL, "--pools", "pages=2"], "--pools pages=2: write the cells of a pool, 1 to 64, as in kv=12,state=4"),
        ([GOAL, "--pools", "state=2"], "--pools state=2: a restored request needs 3 cells of state"),
        ([GOAL, "--page", "4", "--chunk", "8", "--pools", "kv=2"],
         f"no lengths of prompts reach {GOAL} with page 4, chunk 8, a pool of pages of 2"),
        ([GOAL, "--page", "1", "--chunk", "1"], f"no lengths of prompts reach {GOAL} with page 1, chunk 1"),
        ([GOAL, "--seed", "3"], "--goals and --schedules prove nothing: leave the options of theorems out"),
    ],
)
def test_what_is_impossible_is_told_in_a_sentence(
    milepost: Milepost, folder: Path, arguments: list[str], message: str
) -> None:
    ended = milepost("prove", "--schedules", *arguments)
    assert (ended.code, ended.out, ended.err) == (2, "", f"milepost: {message}\n")
    assert not (folder / ".milepost").exists()


def test_sizes_belong_to_schedules(milepost: Milepost) -> None:
    assert milepost("prove", "--page", "4").err == "milepost: --page, --chunk and --pools belong to --schedules\n"
