"""KV events of engines: what contradicts itself is found in its place, and what no event shows is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from milepost.cli.main import run
from milepost.conformance.errors import FormatError
from milepost.conformance.events import LIMITS, NO_ENDPOINT, TOLD_ENDPOINT, check_events

CLEARED = {"type": "AllBlocksCleared"}


def stored(hashes: list[Any], parent: Any = None, tokens: list[int] | None = None, **more: Any) -> dict[str, Any]:
    own = list(range(2 * len(hashes))) if tokens is None else tokens
    return {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent, "token_ids": own,
            "block_size": 2, "lora_id": None, "medium": "GPU", **more}


def removed(hashes: list[Any], **more: Any) -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU", **more}


def state(one: Any, parent: Any, endpoint: int) -> dict[str, Any]:
    """A state that says which tokens it has read, in a group of its own."""
    own = [2, 3] if parent else [0, 1]
    return stored([one], parent, own, kv_cache_spec_kind="mamba", group_idx=1, endpoint=endpoint)


def log(folder: Path, *values: Any) -> Path:
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


@pytest.mark.parametrize("values", [
    [stored([1, 2]), stored([3], 2), removed([3]), removed([2, 1]), CLEARED],
    [CLEARED, stored(["a"]), stored(["a"]), removed(["a"]), removed(["a"])],
    [stored([1]), CLEARED, stored([1], tokens=[7, 8])],
    [removed([9]), stored([2], 8)],
    [CLEARED, stored([2], 8, kv_cache_spec_kind="mamba", group_idx=1)],
    [stored([1], group_idx=0), stored([1], tokens=[7, 8], group_idx=1)],
    [stored([1]), removed([1]), stored([1])],
    [stored([1, 2]), state(2, 1, 4), state(1, None, 2)],
], ids=["chain", "two copies", "cleared", "from before", "sparse group", "two groups", "again", "endpoints"])
def test_events_that_agree_pass(values: list[Any], tmp_path: Path) -> None:
    assert check_events(log(tmp_path, *values)).fault == ""


@pytest.mark.parametrize(("values", "line", "says"), [
    ([stored([1]), stored([1], tokens=[7, 8])], 2, "block 1 is stored a second time"),
    ([stored([1]), removed([1]), stored([1], tokens=[7, 8])], 3, "block 1 is stored a second time"),
    ([stored([1, 2]), stored([2], None, [2, 3])], 2, "block 2 is stored a second time"),
    ([stored([1]), stored([1], lora_name="x")], 2, "block 1 is stored a second time"),
    ([CLEARED, removed([1])], 2, "block 1 is removed, and it is not there"),
    ([CLEARED, stored([1]), removed([1, 1])], 3, "block 1 is removed"),
    ([stored([1]), CLEARED, removed([1])], 3, "block 1 is removed"),
    ([CLEARED, stored([2], 8)], 2, "under a parent 8 that never was"),
    ([stored([1], tokens=[1, 2, 3])], 1, "1 blocks of 2 tokens are stored with 3 tokens"),
    ([stored([1, 2]), state(2, 1, 2)], 2, "the state of block 2 has read 2 tokens, and its block ends after 4"),
    ([stored([1, 2]), removed([1, 2]), state(2, 1, 6)], 3, "has read 6 tokens, and its block ends after 4"),
])
def test_events_that_contradict_each_other_are_found(
    values: list[Any], line: int, says: str, tmp_path: Path
) -> None:
    path = log(tmp_path, *values)
    found = check_events(path).fault
    assert f"{path}:{line}" in found
    assert says in found


def test_batches_and_events_without_names_are_read(tmp_path: Path) -> None:
    batch = [0.5, [["BlockStored", [1], None, [1, 2], 2, None, "GPU"], ["BlockRemoved", [1], "GPU"]], 0]
    report = check_events(log(tmp_path, batch, {"ts": 1.5, "events": [["AllBlocksCleared"]]}, ["BlockRemoved", [1]]))
    assert report.counts["BlockStored"] == 1
    assert "block 1 is removed" in report.fault


def test_what_no_event_shows_is_said_with_the_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log(tmp_path, stored([1, 2], kv_cache_spec_kind="mamba"), removed([7]))
    assert run(["check", "--events", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "1 stores of 2 blocks, 1 removals of 1, 0 clearings" in shown
    assert "2 of the stored blocks hold recurrent states" in shown
    assert "no event has the endpoint of a snapshot" in shown
    assert all(limit in shown for limit in LIMITS)


def test_a_contradiction_ends_with_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--events", str(log(tmp_path, CLEARED, removed([1])))]) == 1
    assert capsys.readouterr().out.startswith("CONTRADICTION")


@pytest.mark.parametrize(("text", "place"), [
    ('{"type": "BlockStored"', ":1:"),
    ('{"type": "BlockMoved"}', ":1:"),
    ("7", ":1:"),
    (json.dumps(stored([1.5])), ":1:"),
    (json.dumps(stored([1], tokens=["x"])), ":1:"),  # type: ignore[list-item]
    (json.dumps({**stored([1]), "block_size": 0}), ":1:"),
    ("", ": "),
])
def test_a_malformed_log_is_refused_in_its_place(text: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(text)
    with pytest.raises(FormatError) as error:
        check_events(path)
    assert str(error.value).startswith(f"{path}{place}")


def test_endpoints_are_proved_and_the_limit_that_they_lift_is_gone(tmp_path: Path) -> None:
    shown = check_events(log(tmp_path, stored([1, 2]), state(2, 1, 4))).lines()
    assert "  1 of their endpoints are where their block ends" in shown
    assert not [line for line in shown if NO_ENDPOINT in line]
    assert [line for line in shown if TOLD_ENDPOINT in line]


def test_an_endpoint_whose_text_began_before_the_log_is_not_compared(tmp_path: Path) -> None:
    report = check_events(log(tmp_path, state(2, 1, 4)))
    assert not report.fault
    assert "  1 endpoints could not be compared: their text began before the log" in report.lines()
    assert [line for line in report.lines() if NO_ENDPOINT in line]
