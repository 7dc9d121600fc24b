"""FreeToken's sliding-window cache: what was found in it, that nothing else is wrong, and its long answers.

Everything runs through the command line in the engine's environment. Where `make peers` has not made one, these tests
are skipped and say so.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milepost.conformance.adapters import freetoken_window
from milepost.conformance.adapters.freetoken import ANCHOR
from milepost.conformance.files import write_schedule
from milepost.conformance.targets import peer_python
from milepost.spec.operations import Close, Extend, Land, Open, Operation
from milepost.spec.schedule import Header, Schedule

from .peer_runs import PeerRuns, report_of

HERE = Path(__file__).resolve().parent
FINDINGS = HERE.parents[1] / "docs" / "findings" / "freetoken"
PEER = peer_python("freetoken")
SECONDS = 300
needs_peer = pytest.mark.skipif(PEER is None, reason="FreeToken is not installed beside the kit: run `make peers`")

WANTED = ("hits", "window-hits", "hits-beside-tombstones", "slid-out-pages", "revived-pages", "re-granted-cells",
          "landings-after-aborts", "grants-after-abort", "decode-steps", "batched-steps", "drains-compared")
FAULTY = {
    "commit-frees-what-is-read": "evicted-while-leased",
    "last-cell-for-a-chunk": "crash",
    "commit-frees-a-page-of-rows": "window-gap",
}
"""The schedules of the page of findings, and what each shows."""


PEER_RUNS = PeerRuns(PEER, SECONDS)
in_peer, milepost = PEER_RUNS.run, PEER_RUNS.milepost


@needs_peer
@pytest.mark.parametrize(("name", "schedules"), [("window", "100"), ("compressed", "60")])
def test_with_its_repairs_it_keeps_every_law_and_promise(name: str, schedules: str, tmp_path: Path) -> None:
    run = milepost("run", f"freetoken_edits:repaired_{name}", "--schedules", schedules, "--report", str(tmp_path))
    report = report_of(tmp_path)
    assert report["faults"] == [], run.stdout
    assert report["result"] == "conformant", report["reasons"]
    reached = {mark["name"]: mark["count"] for mark in report["marks"]}
    assert [mark for mark in WANTED if not reached.get(mark)] == []
    assert {one["result"] for one in report["promises"]} == {"kept"}
    assert report["header"]["fidelity"]["level"] == "imported"


@needs_peer
@pytest.mark.parametrize("name", FAULTY)
def test_a_finding_replays_and_its_repair_ends_it(name: str) -> None:
    path = FINDINGS / f"{name}.jsonl"
    target = json.loads(path.read_text().splitlines()[0])["target"]
    assert target in freetoken_window.SIZES
    replayed = milepost("replay", str(path))
    assert replayed.returncode == 1, replayed.stderr
    assert f"FAULT {FAULTY[name]}" in replayed.stdout
    repaired = milepost("replay", str(path), "--target", f"freetoken_edits:repaired_{target.partition(':')[2]}")
    assert repaired.returncode == 0, repaired.stdout


def test_every_schedule_of_the_page_has_a_test() -> None:
    assert sorted(path.stem for path in FINDINGS.glob("*.jsonl")) == sorted(FAULTY)


# -- long answers, which generated schedules seldom have

PROMPT = (*(b"a" * 30), *b"bcb")
"""Its digits of chance give a request an answer as long as FreeToken allows it here."""


def long_answer(said: int, anchor: int, reads: tuple[int, ...]) -> Schedule:
    """One request says `said` tokens one by one, the opener of a call as number `anchor`; others come back behind it.

    Each of them has the first of `reads` tokens, and goes on in its own way.
    """
    answer = tuple(ANCHOR if place == anchor else ord("b") for place in range(said + 1))
    text = PROMPT + answer
    operations: list[Operation] = [Open("r1", PROMPT, answer), Extend("r1", len(PROMPT)), Land()]
    for length in range(len(PROMPT) + 1, len(PROMPT) + said + 1):
        operations += [Extend("r1", length), Land()]
    operations += [Close("r1", keep=True), Land()]
    for number, shared in enumerate(reads, 2):
        operations += [Open(f"r{number}", (*text[:shared], *b"ccc")), Close(f"r{number}", keep=True)]
    groups = freetoken_window.SIZES["freetoken:window"][1].groups
    header = Header(
        "long-answer", 1, 4, {"kv": 1600, "window": 1600}, anchor=ANCHOR, max_live=2, groups=groups,
        target="freetoken:window",
    )
    return Schedule(header, tuple(operations))


P = len(PROMPT)


@needs_peer
@pytest.mark.parametrize(("said", "anchor", "hits"), [
    (60, -1, {P: P, P + 30: P, P + 60: P + 60}),
    (33, 30, {P + 31: P + 31, P + 20: P}),
    (60, 30, {P + 31: P}),
], ids=["no-call", "a-call", "a-call-long-ago"])
def test_a_long_answer_keeps_windows_where_its_readers_come_back(
    said: int, anchor: int, hits: dict[int, int], tmp_path: Path
) -> None:
    schedule, trace = tmp_path / "long.jsonl", tmp_path / "trace.jsonl"
    write_schedule(schedule, long_answer(said, anchor, tuple(hits)))
    run = milepost("replay", str(schedule), "--record", str(trace))
    assert run.returncode == 0, run.stdout
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [line["got"]["hit"]["length"] for line in lines if line.get("op") == "open"] == [0, *hits.values()]
    landed = [line["got"]["landing"]["tables"] for line in lines if line.get("op") == "land"]
    held = [sum(cell >= 0 for cell in tables["r1"]["window"]) for tables in landed if "r1" in tables]
    assert len(held) > said and max(held) < len(PROMPT)
