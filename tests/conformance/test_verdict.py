"""From findings and evidence to one of four results, and to the exit code that a gate reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from milepost.conformance.campaign import Campaign, Finding, Options, PromiseResult
from milepost.conformance.errors import UsageError
from milepost.conformance.known_faults import KnownFault
from milepost.conformance.marks import MARKS, PROFILES
from milepost.conformance.outcome import Broken, Outcome
from milepost.conformance.verdict import Result, Verdict, choose_profile, judge
from milepost.reference.cache import make
from milepost.spec.capabilities import Capabilities, Configuration, Group
from milepost.spec.faults import Fault
from milepost.spec.schedule import Header, Schedule
from milepost.spec.state import initial
from milepost.spec.words import GroupKind

HYBRID = make(Configuration()).capabilities
PAGED = replace(HYBRID, groups=HYBRID.groups[:1], pools={"kv": 12}, cells_per_request={}, independent_evict=("kv",))
STATES = replace(HYBRID, groups=HYBRID.groups[1:], pools={"state": 8}, independent_evict=("state",))
NEAR = Group("near", GroupKind.WINDOW, "kv", page_size=4, window=8)
FAR = Group("far", GroupKind.COMPRESSED, "kv", page_size=4, ratio=2)
KNOWN = KnownFault("torn-hit", "3f9c1a", "https://github.com/acme/engine/issues/7")


def campaign(capabilities: Capabilities = HYBRID, options: Options | None = None, marks: int = 10**6) -> Campaign:
    """A campaign that met every mark often and found nothing."""
    found = Campaign("acme", capabilities, options or Options())
    found.operations, found.marks = 10_000, Counter(dict.fromkeys(MARKS, marks))
    return found


def finding(code: str, mark: str = "3f9c1a", url: str = "") -> Finding:
    outcome = Outcome(Schedule(Header(id="x"), ()), initial(HYBRID))
    if code.startswith("promise:"):
        outcome.broken = Broken(code.removeprefix("promise:"), "it was not kept")
    else:
        outcome.fault = Fault(code, "r1")
    return Finding(outcome, mark, 9, url=url)


# -- profiles


@pytest.mark.parametrize(("capabilities", "name"), [(PAGED, "paged"), (HYBRID, "hybrid")])
def test_the_profile_is_the_one_for_the_group_kinds_that_are_there(capabilities: Capabilities, name: str) -> None:
    assert choose_profile(campaign(capabilities)).name == name


def test_a_profile_may_be_asked_for() -> None:
    assert choose_profile(campaign(HYBRID, Options(profile="paged"))) is PROFILES["paged"]
    with pytest.raises(UsageError, match="unknown profile 'hybird'; there are paged, hybrid"):
        choose_profile(campaign(HYBRID, Options(profile="hybird")))


# -- results


def test_evidence_without_a_fault_is_conformant() -> None:
    verdict = judge(campaign())
    assert (verdict.result, verdict.reasons, verdict.exit_code(strict=True)) == (Result.CONFORMANT, [], 0)
    assert verdict.wanted and set(verdict.wanted) <= set(MARKS)


@pytest.mark.parametrize("code", ["torn-hit", "leak", "crash", "promise:not-inert"])
def test_a_fault_or_a_broken_promise_is_nonconformant(code: str) -> None:
    found = campaign()
    found.findings = [finding(code), finding(code, "other")]
    verdict = judge(found)
    assert (verdict.result, verdict.exit_code(strict=False)) == (Result.NONCONFORMANT, 1)
    assert verdict.reasons == ["2 distinct faults or broken promises"]


def test_a_run_without_evidence_is_not_a_pass() -> None:
    verdict = judge(campaign(marks=0))
    assert (verdict.result, verdict.exit_code(strict=False)) == (Result.INCONCLUSIVE, 4)
    assert all(reason.startswith("too little evidence: ") for reason in verdict.reasons)


def test_one_mark_that_was_met_too_rarely_is_named() -> None:
    found = campaign()
    wanted = judge(found).wanted
    found.marks["hits"] = wanted["hits"] - 1
    assert judge(found).reasons == [f"too little evidence: hits was met {wanted['hits'] - 1} times of {wanted['hits']}"]
    found.marks["hits"] += 1
    assert judge(found).result is Result.CONFORMANT


def test_a_fault_outweighs_too_little_evidence() -> None:
    found = campaign(marks=0)
    found.findings = [finding("torn-hit")]
    assert judge(found).result is Result.NONCONFORMANT


def test_a_profile_that_the_cache_has_no_groups_for_is_inconclusive() -> None:
    verdict = judge(campaign(PAGED, Options(profile="hybrid")))
    assert (verdict.result, verdict.reasons) == (
        Result.INCONCLUSIVE, ["profile hybrid needs a group of kind recurrent"]
    )
    assert judge(campaign(STATES)).reasons == ["profile paged needs a group of kind full"]


# -- known faults


def test_a_known_fault_leaves_a_partial_result() -> None:
    found = campaign(options=Options(known=(KNOWN,)))
    found.findings = [finding("torn-hit", url=KNOWN.url)]
    verdict = judge(found)
    assert (verdict.result, verdict.exit_code(strict=False), verdict.exit_code(strict=True)) == (Result.PARTIAL, 0, 4)
    assert verdict.reasons == [f"known: torn-hit 3f9c1a ({KNOWN.url})"]


def test_a_known_fault_does_not_mask_the_next() -> None:
    found = campaign(options=Options(known=(KNOWN,)))
    found.findings = [finding("torn-hit", url=KNOWN.url), finding("torn-hit", "b00b1e")]
    verdict = judge(found)
    assert verdict.result is Result.NONCONFORMANT and verdict.reasons == ["1 distinct fault or broken promise"]


def test_a_known_fault_that_does_not_show_is_an_unexpected_pass() -> None:
    verdict = judge(campaign(options=Options(known=(KNOWN,))))
    assert (verdict.result, verdict.exit_code(strict=False)) == (Result.NONCONFORMANT, 1)
    assert verdict.reasons == [f"unexpected pass: torn-hit 3f9c1a did not show ({KNOWN.url})"]


# -- what cannot be seen


def test_a_cache_without_a_reset_is_partial() -> None:
    verdict = judge(campaign(replace(HYBRID, resets="never")))
    assert verdict.result is Result.PARTIAL
    assert verdict.reasons == ["conservation (law 6) cannot be seen: the cache has no reset"]


def test_groups_without_a_profile_of_their_own_leave_a_partial_result() -> None:
    verdict = judge(campaign(replace(HYBRID, groups=(*HYBRID.groups, FAR))))
    assert verdict.result is Result.PARTIAL
    assert verdict.reasons == ["no profile of this version covers the groups of kind compressed with evidence"]


def test_the_widest_profile_that_fits_the_groups_is_taken() -> None:
    kinds = {
        "paged": HYBRID.groups[:1], "hybrid": HYBRID.groups, "paged-window": (HYBRID.groups[0], NEAR),
        "window-compressed": (FAR, NEAR), "hybrid-window": (*HYBRID.groups, NEAR),
        "hybrid-compressed": (*HYBRID.groups, NEAR, FAR),
    }
    found = {name: choose_profile(campaign(replace(HYBRID, groups=groups))).name for name, groups in kinds.items()}
    assert found == {name: name for name in PROFILES}


def test_a_promise_that_nobody_could_judge_leaves_a_partial_result() -> None:
    found = campaign()
    found.promises = [
        PromiseResult("deterministic", "kept", "25 schedules answered alike"),
        PromiseResult("maximal-hit", "not judged", "this version of the kit has no check for it"),
    ]
    verdict = judge(found)
    assert verdict.result is Result.PARTIAL
    assert verdict.reasons == ["promise maximal-hit was not judged: this version of the kit has no check for it"]


def test_all_four_results_have_an_exit_code() -> None:
    codes = {result: (Verdict(result).exit_code(False), Verdict(result).exit_code(True)) for result in Result}
    assert codes == {
        Result.CONFORMANT: (0, 0), Result.PARTIAL: (0, 4), Result.NONCONFORMANT: (1, 1), Result.INCONCLUSIVE: (4, 4),
    }
