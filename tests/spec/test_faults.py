"""The registry of faults and the list of laws belong together."""

from __future__ import annotations

import re

import pytest

from milepost.spec.answers import ANSWERS, REASONS
from milepost.spec.faults import FAULT_KINDS, FAULTS, READ_PRECEDENCE, Fault, FaultKind
from milepost.spec.laws import FREEDOMS, LAWS, PROMISES, law
from milepost.spec.operations import OPERATIONS, RESERVED

NEVER_RENAMED = {
    "stale-kv", "stale-state", "torn-hit", "kv-gap", "window-gap", "uninitialized-read", "read-before-landing",
    "late-write", "evicted-while-leased", "double-grant", "write-to-published", "reads-private", "leak",
    "lease-underflow", "torn-refusal", "reset-survivor", "cross-namespace", "illegal-boundary", "over-advanced",
    "crash", "hang",
}


def test_codes_are_never_renamed() -> None:
    assert set(FAULTS) == NEVER_RENAMED and len(FAULT_KINDS) == len(FAULTS)


@pytest.mark.parametrize("kind", FAULT_KINDS, ids=lambda kind: kind.code)
def test_a_code_has_a_law_and_says_what_happened_and_what_follows(kind: FaultKind) -> None:
    assert law(kind.law).number == kind.law
    assert kind.happened and kind.consequence
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code)
    assert re.fullmatch(r"[\w.-]+#\d+", kind.precedent), kind.precedent


def test_every_law_has_a_code_that_shows_it_broken() -> None:
    assert {kind.law for kind in FAULT_KINDS} == {one.number for one in LAWS}


def test_the_precedence_ranks_exactly_the_codes_of_wrong_reads() -> None:
    reads = {code for code in FAULTS if FAULTS[code].law in (3, 4)} - {"illegal-boundary"}
    assert set(READ_PRECEDENCE) == reads | {"uninitialized-read", "read-before-landing"}
    assert len(set(READ_PRECEDENCE)) == len(READ_PRECEDENCE)


def test_a_fault_knows_its_kind() -> None:
    assert Fault("leak", "").kind is FAULTS["leak"]


def test_laws_are_counted_from_one() -> None:
    assert [one.number for one in LAWS] == list(range(1, 9)) and all(law(one.number) is one for one in LAWS)
    assert all(one.name and one.text.endswith(".") for one in LAWS)


def test_names_that_others_write_down_are_kebab_case() -> None:
    names = [*PROMISES, *FREEDOMS, *REASONS, *OPERATIONS, *ANSWERS, *RESERVED]
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)
    assert len(set(REASONS)) == len(REASONS) and not set(RESERVED) & set(OPERATIONS)


def test_promises_and_freedoms_say_what_they_are() -> None:
    assert all(PROMISES.values()) and all(FREEDOMS.values())
    assert set(PROMISES) == {
        "deterministic", "not-inert", "maximal-hit", "retains-until-pressure", "admits-when-idle", "exact-accounting",
        "strict-boundaries",
    }
