"""Everything that a report names can be explained, in 80 columns, from public facts only."""

from __future__ import annotations

import re

import pytest

from milepost.conformance.errors import UsageError
from milepost.conformance.report.explain import corpus_ids, explain, explanations, law_name, mutants_of
from milepost.reference.mutants import MUTANTS
from milepost.spec.faults import FAULTS
from milepost.spec.laws import FREEDOMS, LAWS, PROMISES

NAMES = [*FAULTS, *PROMISES, *(law_name(law) for law in LAWS), *FREEDOMS]


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_texts_are_those_of_the_registries() -> None:
    texts = explanations()
    assert set(texts["fault"]) == set(FAULTS)
    assert set(texts["promise"]) == set(PROMISES)
    assert set(texts["law"]) == {law_name(law) for law in LAWS}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_explained_in_80_columns_of_ascii(name: str) -> None:
    text = explain(name)
    assert text.isascii()
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert not re.search(r"\n\n\n|[ ]\n", text)


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_explained_from_meaning_to_remedy(code: str) -> None:
    text, kind = explain(code), FAULTS[code]
    said = explanations()["fault"][code]
    assert text.splitlines()[0].split()[0] == code
    assert f"law {kind.law}, " in text.splitlines()[0]
    for part in (said["means"], said["why"], said["fix"], *said["causes"]):
        assert words(part) in words(text)
    assert all(line in text for line in said["picture"].strip("\n").splitlines())
    assert all(FREEDOMS[freedom] in words(text) for freedom in said["freedoms"])
    assert f"seen before  {kind.precedent}" in text


def test_every_freedom_that_a_text_names_is_one() -> None:
    named = {freedom for texts in explanations().values() for text in texts.values() for freedom in text["freedoms"]}
    assert named <= set(FREEDOMS)
    assert named >= set(FREEDOMS) - {"publishes-on-abort"}


def test_every_cause_but_plain_ones_names_a_public_report() -> None:
    causes = [one for kind in ("fault", "promise") for text in explanations()[kind].values() for one in text["causes"]]
    assert len(causes) > 80
    referenced = [one for one in causes if re.search(r"\([\w./-]+#\d+(, [\w./-]+#\d+)*\)$", one)]
    assert len(causes) - len(referenced) <= 2


@pytest.mark.parametrize("name", ["law 4", "4", "Joint boundary", "joint-boundary", "LAW-4"])
def test_a_law_goes_by_its_number_and_its_name(name: str) -> None:
    assert explain(name).startswith("law 4, joint boundary")
    assert "torn-hit" in explain(name)


def test_a_promise_goes_by_the_code_of_its_faults_too() -> None:
    assert explain("promise:not-inert") == explain("not-inert")


def test_a_code_names_mutants_that_die_of_it() -> None:
    for code in FAULTS:
        named = mutants_of(code)
        assert all(code in MUTANTS[name].codes for name in named)
        assert all(f"milepost run mutant:{name}" in explain(code) for name in named)
    assert mutants_of("torn-hit")


def test_a_code_names_only_schedules_of_the_corpus_written_for_it() -> None:
    for code in FAULTS:
        assert all(one.startswith(f"{code}/") and one in explain(code) for one in corpus_ids(code))


@pytest.mark.parametrize(("typed", "meant"), [("torn", "torn-hit"), ("leek", "leak"), ("statle-kv", "stale-kv")])
def test_an_unknown_name_is_answered_with_what_it_may_have_meant(typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"nothing is called '{typed}'; did you mean .*{meant}"):
        explain(typed)


def test_a_name_like_no_other_is_answered_with_all_codes() -> None:
    with pytest.raises(UsageError, match=r"torn-hit.*deterministic"):
        explain("xyzzy")
