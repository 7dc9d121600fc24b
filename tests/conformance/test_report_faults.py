"""What a person reads of each fault, word for word, and that no line of it is ever wider than it should be.

After a wanted change of words: `MILEPOST_WRITE_SNAPSHOTS=1 pytest tests/conformance/test_report_faults.py`.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.conformance.driver import Driver
from milepost.conformance.outcome import Broken, Outcome
from milepost.conformance.report.culprits import adapter_error_text, kit_bug_text
from milepost.conformance.report.fault_text import fault_report, promise_report
from milepost.reference.cache import ExplicitCache
from milepost.reference.requests import Request
from milepost.spec.capabilities import Capabilities
from milepost.spec.faults import FAULTS
from milepost.spec.geometry import columns_for, floor_to
from milepost.spec.operations import Close, Extend, Freeze, Open, Operation
from milepost.spec.schedule import Header, Schedule, parse_tokens

from .fault_stories import STORIES

SNAPSHOTS = Path(__file__).parent / "reports"
REPLAY = "milepost replay .milepost/faults/{}-3f9c1a.jsonl"

EXAMPLE = """\
FAULT torn-hit   law 4, joint boundary                                  acme 0.9.2, profile hybrid
  op 6 lets r2 resume at token 16 from a state that has only seen 8 tokens.
  Tokens 8..15 would never enter the recurrence: r2's output would be wrong and nothing would crash.
     page 4   chunk 8   pools kv=12 state=8                      6 operations, shrunk from 119
  1  open    r1  abab aabb|aaab bbba|abbb      hit 0
  2  extend  r1  to 8                          pages 11 10         state 3
  3  freeze  r1  at 8                          state 2          <- state 2 becomes: r1 after 8 tokens
  4  extend  r1  to 20                         pages 9 8 7         state 3
  5  close   r1  keep
  6  open    r2  abab aabb|aaab bbba|aaaa      hit 16, pages 11 10 9 8, state 2
  because  op 6 claims 16; state 2 was last written by op 3, at 8; r1 was never frozen between 8 and 20
  legal answers to op 6   hit 0  |  hit 8, pages 11 10, state 2
  seen before  vllm#46453      replay  milepost replay .milepost/faults/torn-hit-3f9c1a.jsonl
"""
"""The failing report of the design, which is wider than a terminal."""


class KeyValuesOutliveStates(ExplicitCache):
    """The edit that the example is about: the deepest page match decides, and any older snapshot will do."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), aborts=False)  # a close waits for the last step, as in the example

    def hit_length(self, claim: Request, shared: int) -> int:
        return floor_to(self.grid, self.longest_hit(claim, shared))

    def lease_hit(self, claim: Request) -> None:
        for column in range(columns_for(self.page_size, claim.hit)):
            entry = self.pages[self.key(claim, (column + 1) * self.page_size)]
            claim.columns.append(entry.cell)
            self.lease_page(claim, column, entry)
        older = (self.snapshots.get(self.key(claim, n)) for n in range(claim.hit, 0, -1))
        snapshot = next((entry for entry in older if entry), None)
        if snapshot:
            self.protect_snapshot(claim, snapshot)


@pytest.fixture(scope="module")
def example() -> Outcome:
    operations: tuple[Operation, ...] = (
        Open("r1", parse_tokens("ababaabbaaabbbbaabbb")),
        Extend("r1", 8),
        Freeze("r1"),
        Extend("r1", 20),
        Close("r1", keep=True),
        Open("r2", parse_tokens("ababaabbaaabbbbaaaaa")),
    )
    header = Header("torn-hit/kv-outlives-state")
    return Driver(KeyValuesOutliveStates(header.configuration)).run(Schedule(header, operations))


def report(outcome: Outcome, width: int = 80) -> str:
    return fault_report(outcome, "acme 0.9.2", "hybrid", 119, REPLAY.format(outcome.code), width)


def words(text: str) -> str:
    """The text with single spaces, and the reference's slots as the example calls them."""
    text = re.sub(r"\bstate 7\b", "state 3", re.sub(r"\bstate 6\b", "state 2", text))
    return re.sub(r"[ \n]+", " ", text).strip()


def test_the_example_of_the_design_comes_out_line_by_line(example: Outcome) -> None:
    wide = report(example, 104)
    assert [words(line) for line in wide.splitlines()] == [words(line) for line in EXAMPLE.splitlines()]


def test_the_example_keeps_its_words_in_80_columns(example: Outcome) -> None:
    assert words(report(example)) == words(EXAMPLE)
    assert max(map(len, report(example).splitlines())) <= 80


def test_an_operation_of_the_example_takes_one_line_in_80_columns(example: Outcome) -> None:
    rows = [line for line in report(example).splitlines() if re.match(r"  \d  ", line)]
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert rows[2].endswith("<- state 6 becomes: r1 after 8 tokens")


@pytest.mark.parametrize("name", STORIES)
def test_a_fault_reads_as_it_did(name: str) -> None:
    text = report(STORIES[name]().tell()) + "\n"
    text = re.sub(r"(stories\.py):\d+", r"\1:1", text)
    path = SNAPSHOTS / f"{name.replace('_', '-')}.txt"
    if os.environ.get("MILEPOST_WRITE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_every_snapshot_belongs_to_a_story() -> None:
    assert sorted(path.stem for path in SNAPSHOTS.iterdir()) == sorted(name.replace("_", "-") for name in STORIES)


def test_every_code_has_a_story_and_a_consequence_of_its_own() -> None:
    told = {name: STORIES[name]().tell() for name in STORIES}
    assert {outcome.code for outcome in told.values()} == set(FAULTS)
    consequences = {" ".join(report(outcome, 10_000).splitlines()[1:3]) for outcome in told.values()}
    assert len(consequences) == len(told)


@pytest.mark.parametrize("name", STORIES)
def test_a_report_says_what_where_and_how_to_replay_it(name: str) -> None:
    outcome = STORIES[name]().tell()
    text = report(outcome)
    assert outcome.fault and outcome.lines
    lines = text.splitlines()
    assert lines[0].startswith(f"FAULT {outcome.code}   law {outcome.fault.kind.law}, ")
    assert f"op {outcome.lines[-1].index}" in " ".join(lines[1:3])
    assert "\n  because  " in text
    assert f"  seen before  {outcome.fault.kind.precedent}" in text
    assert text.endswith(REPLAY.format(outcome.code))
    assert len([line for line in lines if re.match(r" *\d+  [a-z]", line)]) == outcome.lines[-1].index


# -- widths


def stretched(outcome: Outcome, chance: random.Random) -> Outcome:
    """The same outcome under names, tokens and details that are hard to show."""
    name = "".join(chance.choice("abcé日\t\n|- ") for _ in range(chance.choice((1, 9, 40, 300))))
    factor = chance.choice((1, 7, 300))

    def rename(text: str) -> str:
        return re.sub(r"\br(\d)\b", rf"r\1{name}".replace("\\", "/"), text) if text else text

    def reworded(operation: Operation) -> Operation:
        changes: dict[str, object] = {}
        if hasattr(operation, "request"):
            changes["request"] = rename(operation.request)
        if isinstance(operation, Open):
            tokens = operation.tokens if factor == 1 else tuple(one + chance.choice((0, 2000)) for one in
                                                                operation.tokens for _ in range(factor))
            changes |= {"tokens": tokens, "namespace": (("salt", name),), "samples": tokens[:factor]}
        return replace(operation, **changes)  # type: ignore[arg-type]

    assert outcome.fault
    fault = replace(outcome.fault, request=rename(outcome.fault.request), other=rename(outcome.fault.other),
                    detail=(outcome.fault.detail + name) if outcome.fault.detail else "")
    schedule = Schedule(outcome.schedule.header, tuple(reworded(one) for one in outcome.schedule.operations))
    lines = [replace(line, operation=reworded(line.operation)) for line in outcome.lines]
    return Outcome(schedule, outcome.state, lines, fault)


def hard_cases(seed: int) -> Iterator[Outcome]:
    chance = random.Random(seed)
    for story in STORIES.values():
        yield stretched(story().tell(), chance)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_asked_whatever_the_names_and_tokens(width: int) -> None:
    for seed in range(4):
        for outcome in hard_cases(seed):
            for shown in (replace_text(outcome), ""):
                text = fault_report(outcome, "engine " * 20, "hybrid" * 30, 7, shown, width)
                assert text.isascii()
                assert [line for line in text.splitlines() if len(line) > width] == []


def replace_text(outcome: Outcome) -> str:
    return REPLAY.format(outcome.code + "x" * 200)


def test_a_command_that_is_broken_over_lines_is_still_the_same_command_to_a_shell(example: Outcome) -> None:
    command = "milepost replay " + "deep/" * 60 + "file.jsonl"
    text = fault_report(example, "acme", "", 6, command)
    shown = text.partition("  replay  ")[2]
    assert re.sub(r" +", " ", shown.replace("\\\n", "")) == command


def test_a_schedule_that_could_not_be_shrunk_is_cut_where_it_does_not_matter(example: Outcome) -> None:
    idle = (Close("r9"),) * 200
    operations = (*example.schedule.operations[:5], *idle, example.schedule.operations[5])
    lines = [replace(line, index=206) if line.index == 6 else line for line in example.lines]
    text = report(Outcome(Schedule(example.schedule.header, operations), example.state, lines, example.fault))
    assert len(text.splitlines()) < 60
    assert "     ... 191 more operations ..." in text
    assert "  3  freeze  r1  at 8" in text and "206  open    r2" in text


# -- the three other culprits


def test_a_broken_promise_has_a_headline_of_its_own(example: Outcome) -> None:
    broken = Broken("strict-boundaries", "operation 6 hits at 16, which is no multiple of 12")
    outcome = Outcome(example.schedule, example.state, example.lines, broken=broken)
    text = promise_report(outcome, "acme 0.9.2", "hybrid", 119, "milepost replay x.jsonl")
    assert text.splitlines()[0].split()[:3] == ["BROKEN", "PROMISE", "strict-boundaries"]
    assert "Operation 6 hits at 16, which is no multiple of 12." in text
    assert "  6  open    r2  abab aabb|aaab bbba|aaaa      hit 16, pages 11 10 9 8, state 6" in text
    assert "without this promise the same behaviour is legal" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_promise_that_no_schedule_shows_has_no_schedule(example: Outcome) -> None:
    broken = Broken("deterministic", "two processes answered in two ways")
    outcome = Outcome(Schedule(Header("promise/deterministic"), ()), example.state, broken=broken)
    text = promise_report(outcome, "acme 0.9.2", "hybrid", 0, "milepost run acme")
    assert "Two processes answered in two ways." in text and "operations" not in text


def test_four_culprits_have_four_words(example: Outcome) -> None:
    broken = Outcome(example.schedule, example.state, broken=Broken("not-inert", "it hit 0"))
    first = [
        report(example), promise_report(broken, "acme", "", 0, ""),
        adapter_error_text("the answer has a table for 'r9', which is not open", "acme:make"),
        kit_bug_text(IndexError("list index out of range"), "0.1.0"),
    ]
    assert [text.split("  ")[0].split("\n")[0] for text in first] == [
        "FAULT torn-hit", "BROKEN PROMISE not-inert", "ADAPTER ERROR", "KIT BUG",
    ]
    assert "not the engine" in first[2] and "nothing about the engine" in first[3]
    assert all(len(line) <= 80 for text in first for line in text.splitlines())


def test_a_report_needs_the_thing_it_reports(example: Outcome) -> None:
    with pytest.raises(ValueError, match="with a fault"):
        fault_report(Outcome(example.schedule, example.state), "acme", "", 0, "")
    with pytest.raises(ValueError, match="broken promise"):
        promise_report(example, "acme", "", 0, "")
