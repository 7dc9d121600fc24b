"""Traces that were damaged on their way: a clear message with its place, exit code 2, no traceback, little memory."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from milepost.cli.main import run
from milepost.conformance.checking import check_trace
from milepost.conformance.errors import FormatError
from milepost.conformance.partial import Chain
from milepost.spec.payload import make_stream
from milepost_record.trace import NULL, Trace

from .test_recording import begin, files, hit, prefill

GIGABYTE, MEMORY_BYTES = 1 << 30, 512 << 20


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    """A good recording: header, seven operations, end."""
    trace = begin(tmp_path / "good")
    prefill(trace, [1, 2, 3, 4, 5], 0, 0)
    hit(trace, [1, 2, 3, 4, 6], 0, 0)
    trace.finish()
    return files(tmp_path / "good")[0].read_text().splitlines()


def cut_in_a_line(lines: list[str]) -> list[str]:
    return [*lines[:4], lines[4][:20]]


def without(number: int) -> Callable[[list[str]], list[str]]:
    """Leave a line out, and let the end line agree."""
    def damaged(lines: list[str]) -> list[str]:
        kept = lines[: number - 1] + lines[number:-1]
        return [*kept, json.dumps({"end": len(kept) - 1})]
    return damaged


def swapped(number: int) -> Callable[[list[str]], list[str]]:
    def damaged(lines: list[str]) -> list[str]:
        first, second = lines[number - 1 : number + 1]
        return [*lines[: number - 1], second, first, *lines[number + 1 :]]
    return damaged


def replaced(number: int, old: str, new: str) -> Callable[[list[str]], list[str]]:
    def damaged(lines: list[str]) -> list[str]:
        assert old in lines[number - 1]
        return [*lines[: number - 1], lines[number - 1].replace(old, new), *lines[number:]]
    return damaged


@pytest.mark.parametrize(("damage", "place", "says"), [
    (cut_in_a_line, ":5:21", "is not JSON"),
    (lambda lines: lines[:-1], ":7", "cut short after this line"),
    (lambda lines: [], "", "the file is empty"),
    (lambda lines: [*lines[:5], *lines[6:]], ":7", "counts 6 operations, but there are 5"),
    (without(2), ":2", "'r1' is not open"),
    (without(4), ":4", "step 1 is not in flight"),
    (swapped(2), ":2", "'r1' is not open"),
    (swapped(4), ":4", "step 1 is not in flight"),
    (replaced(1, '"trace": 2', '"trace": 3'), ":1", "trace format 3 is newer than 2"),
    (replaced(1, '"partial": []', '"partial": ["hearsay"]'), ":1", "partial"),
    (replaced(3, '"kv":[0]', '"kv":["x"]'), ":3", "expected an integer"),
    (replaced(3, '"table":', '"changes":'), ":3", "changes.kv"),
    (replaced(3, '"kv":[0]', '"kv":[]'), ":7", ""),
])
def test_a_damaged_trace_is_refused_in_its_place(
    damage: Callable[[list[str]], list[str]], place: str, says: str, lines: list[str], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_text("".join(f"{line}\n" for line in damage(lines)))
    if not says:  # what is missing makes the trace show a fault, which is one by all that it says
        assert run(["check", str(path)]) == 1
        return
    assert run(["check", str(path)]) == 2
    error = capsys.readouterr().err
    assert f"{path}{place}: " in error
    assert says in error
    assert "Traceback" not in error


@pytest.mark.parametrize(("old", "new", "says"), [
    ('"said":[[', '"said":[[],[', "1 are named, with 1 lengths, 2 sayings and 1 cells"),
    ('"requests":["r1"]', '"requests":"r1"', "requests: expected a list"),
    ('"requests":["r1"]', '"requests":["r9"]', "'r9' is not open"),
    ('"cells":[1]', '"cells":["x"]', "cells[0]: expected an integer"),
    ('"cells":[1]', '"cells":[1,2]', "1 are named, with 1 lengths, 1 sayings and 2 cells"),
    ('"to":[5]', '"to":[6]', "'r1' goes on to 6 tokens, but had 4: a line is missing"),
    ('"to":[5]', '"to":5', "to: expected a list"),
])
def test_a_damaged_line_of_requests_that_go_on_is_refused_in_its_place(
    old: str, new: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = begin(tmp_path / "good")
    trace.open("r1", trace.digests.tokens([1, 2, 3, 4]), [], 0, {})
    trace.extend("r1", 4, "", ',"table":{"kv":[0],"state":{"live":0}}')
    trace.launch(1, [])
    trace.go_on("r1", 5, trace.digests.of_token[5], 1)
    trace.launch(2, [])
    trace.finish()
    lines = files(tmp_path / "good")[0].read_text().splitlines()
    assert old in lines[4]
    path = tmp_path / "damaged.jsonl"
    path.write_text("\n".join([*lines[:4], lines[4].replace(old, new), *lines[5:]]) + "\n")
    assert run(["check", str(path)]) == 2
    error = capsys.readouterr().err
    assert f"{path}:5: " in error
    assert says in error


def test_a_column_far_beyond_its_table_does_not_fill_the_memory(lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl"
    lines[2] = lines[2].replace('"table":{"kv":[0]', '"changes":{"kv":[[99999999999,0]]')
    path.write_text("\n".join(lines))
    with pytest.raises(FormatError, match="far beyond"):
        check_trace(path)


def test_a_chain_gives_the_digests_of_a_stream() -> None:
    space = (("salt", "x"),)
    chain = Chain(make_stream(space, 3, (1, 2)))
    chain.grow((3,))
    assert chain.grow((4, 5)).digests == make_stream(space, 3, (1, 2, 3, 4, 5)).digests


def test_a_long_trace_with_a_fault_at_its_end_names_the_fault_without_the_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("milepost.conformance.checking.KEPT_TOKENS", 100)
    monkeypatch.setattr("milepost.conformance.checking.PROVENANCE_TOKENS", 100)
    trace = begin(tmp_path)
    for number in range(60):
        prefill(trace, [number, 2, 3, 4, 5], number % 9, number % 9)
    hit(trace, [58, 2, 3, 4, 9], 5, 4)
    trace.finish()
    path = files(tmp_path)[0]
    assert run(["check", str(path)]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("FAULT stale-kv")
    assert f"{path.name}:302" in shown.replace("\n           ", "")
    assert "the first 1 tokens of r60" in shown


def prompts(trace: Trace, number: int) -> None:
    """Record a hundred distinct prompts of 2,000 tokens."""
    for one in range(number * 100, (number + 1) * 100):
        prefill(trace, [*range(one * 2000, (one + 1) * 2000)], one % 9, one % 9)


def answers(trace: Trace, number: int) -> None:
    """Record four requests that go on together for 60 tokens: each step reads all that they hold."""
    names = [trace.new_request() for _ in range(4)]
    for place, name in enumerate(names):
        trace.open(name, trace.digests.tokens([number, place, 3, 4]), [], 0, {})
        trace.extend(name, 4, "", f',"table":{{"kv":[{place}],"state":{{"live":{place}}}}}')
    trace.launch(1, [])
    trace.land(1)
    for length in range(5, 65):
        for place, name in enumerate(names):
            page = length * 4 + place if length % 4 == 1 else NULL
            trace.go_on(name, length, trace.digests.of_token[number * 65 + length], page)
        trace.launch(length, [])
        trace.land(length)
    for name in names:
        trace.close(name, "")


def test_long_answers_to_short_prompts_are_forgotten_as_prompts_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("milepost.conformance.checking.PROVENANCE_TOKENS", 1000)
    trace = begin(tmp_path)
    for number in range(20):
        answers(trace, number)
    trace.finish()
    checked = check_trace(files(tmp_path)[0])
    assert checked.outcome.code == ""
    assert sum(len(stream.tokens) for _, stream in checked.outcome.state.streams) < 1500


def write_much(folder: Path, record: Callable[[Trace, int], None], size_bytes: int) -> Path:
    """Record until the file is large enough."""
    trace, number = begin(folder, file_bytes=1 << 40), 0
    while not (kept := files(folder)) or kept[0].stat().st_size < size_bytes:
        record(trace, number)
        number += 1
        trace.digests = type(trace.digests)(b"s")
    trace.finish()
    return files(folder)[0]


@pytest.mark.soak
@pytest.mark.parametrize(("record", "size_bytes"), [(prompts, GIGABYTE), (answers, GIGABYTE // 4)])
def test_a_large_trace_is_judged_in_512_megabytes(
    record: Callable[[Trace, int], None], size_bytes: int, tmp_path: Path
) -> None:
    path = write_much(tmp_path, record, size_bytes)
    limited = [sys.executable, "-m", "milepost.cli.main", "check", str(path)]
    checked = subprocess.Popen(limited, stdout=subprocess.PIPE, text=True, env={**os.environ})
    shown, _ = checked.communicate()
    assert checked.returncode == 0, shown
    peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert peak_bytes < MEMORY_BYTES
