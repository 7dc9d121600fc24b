"""An answer in process is held to what one behind a wire is held to."""

import re
from dataclasses import replace
from typing import Any

import pytest

from milepost.conformance.answer_form import checked
from milepost.conformance.generation import SeededSource
from milepost.conformance.shapes import ShapeError
from milepost.reference.cache import make
from milepost.spec.answers import Answer, Evicted, Frozen, Grant, Hit, Landing, Launched, Pages, Phase, Slots
from milepost.spec.capabilities import Configuration

from .bench import run

DECLARED = make(Configuration()).capabilities


def grant(**fields: Any) -> Grant:
    return replace(Grant(8, {"kv": Pages((3, 4)), "state": Slots(1)}), **fields)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (None, "expected one of Drained, Evicted, Frozen, Grant, Hit"),
        ({"hit": {"length": 0}}, "found {'hit': {'length': 0}}"),
        (Hit("8"), 'hit.length: expected an integer, found "8"'),  # type: ignore[arg-type]
        (Hit(True), "hit.length: expected an integer, found true"),
        (Hit(-3), "hit.length: expected an integer of at least 0, found -3"),
        (grant(length=2.5), "grant.length: expected an integer, found 2.5"),
        (grant(table={"kv": 5}), "table.kv: expected Pages or Slots, found 5"),
        (grant(tables={"r1": {"kv": [1, 2]}}), "tables.r1.kv: expected Pages or Slots, found [1, 2]"),
        (grant(table={"kv": Pages(("1",))}), 'grant.table.kv[0]: expected an integer, found "1"'),  # type: ignore[arg-type]
        (grant(table={"kv": Pages((-7,))}), "grant.table.kv[0]: expected an integer of at least -1, found -7"),
        (grant(table={"conv": Slots(1)}), "it names the group 'conv', declared are kv, state"),
        (grant(frozen=(("conv", 1, 8),)), "it names the group 'conv'"),
        (grant(frozen=(("state", 1),)), "a row is too short or too long: Grant(length=8"),
        (grant(initial_state={"conv": 1}), "it names the group 'conv'"),
        (grant(initial_state=None), "object has no attribute 'items'"),
        (Frozen(8, (("conv", 1),)), "it names the group 'conv'"),
        (Evicted((("gpu", 1),)), "it names the pool 'gpu', declared are kv, state"),
        (Launched(None), "launch.step: expected an integer, found null"),  # type: ignore[arg-type]
        (Launched(1, (Phase(copies=(("gpu", 1, 2),)),)), "it names the pool 'gpu'"),
        (Launched(1, (Phase(zeros=(("gpu", 1),)),)), "it names the pool 'gpu'"),
        (Launched(1, (Phase(copies=((1, 2),)),)), "a row is too short or too long: Launched(step=1"),  # type: ignore[arg-type]
        (Launched(1, (Phase(at="later"),)), "launch.phases[0].at: expected one of queue, now"),
        (Landing({"r1": 5}), "object has no attribute 'items'"),  # type: ignore[dict-item]
    ],
)
def test_what_has_no_written_form_is_refused_with_its_place(answer: Any, complaint: str) -> None:
    with pytest.raises(ShapeError, match=re.escape(complaint)):
        checked(answer, DECLARED)


def test_a_list_that_the_engine_goes_on_to_change_does_not_change_what_was_answered() -> None:
    columns = [3, 4]
    settled = checked(grant(table={"kv": Pages(columns)}), DECLARED)  # type: ignore[arg-type]
    columns.append(5)
    assert settled == grant(table={"kv": Pages((3, 4))})


def test_two_slots_that_are_frozen_at_one_position_are_both_kept() -> None:
    answer = grant(table={"kv": Pages((3, 4)), "state": Slots(1, ((0, 2), (0, 3)))})
    assert checked(answer, DECLARED) == answer
    with pytest.raises(ShapeError):
        checked(replace(answer, length=-1), DECLARED)


@pytest.mark.parametrize("number", range(3))
def test_right_answers_come_through_as_they_are(number: int) -> None:
    source = SeededSource(1, 40, (), lambda configuration: make(configuration).capabilities)
    answers: list[Answer] = [line.answer for line in run(make, source.schedule(number)).lines if line.answer]
    assert len(answers) > 20
    assert [checked(answer, DECLARED) for answer in answers] == answers
