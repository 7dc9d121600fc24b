"""A campaign survives what it judges, and puts the blame where it belongs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from milepost.conformance import supervisor
from milepost.conformance.campaign import Campaign, Options, known_but_unseen, replay_schedule, run_campaign
from milepost.conformance.errors import AdapterError, KitBug, UsageError
from milepost.conformance.known_faults import KnownFault
from milepost.conformance.supervisor import Child, Lost
from milepost.spec.operations import Close, Extend, Open, Publish
from milepost.spec.schedule import Header, Schedule

SHORT = Options(schedules=3, length=15, corpus=False, promises=False, hang_seconds=1.5, shrink_seconds=3.0)
TEXT = tuple(b"abababab")
PUBLISHING = Schedule(
    Header(id="publishing"), (Open("r1", TEXT), Extend("r1", 8), Publish("r1"), Open("r2", TEXT), Close("r1"))
)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the child process import the troubled adapters; it starts with this process's path."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def run(target: str, options: Options = SHORT) -> Campaign:
    return run_campaign(target, options, lambda phase, done, total: None)


def recorded(*lengths: int) -> Options:
    """Run the first operations of `PUBLISHING`, once for each length, and nothing else."""
    schedules = [replace(PUBLISHING, operations=PUBLISHING.operations[:length]) for length in lengths]
    return replace(SHORT, schedules=0, traffic=lambda capabilities: schedules)


# -- engines that fail after the handshake: a fault, exit 1


@pytest.mark.parametrize(
    ("adapter", "code", "detail"),
    [
        ("Hanging", "hang", "no answer within 1.5 s"),
        ("Dying", "crash", "the process died: exit status 3"),
        ("Raising", "crash", "IndexError: pop from an empty list at conformance/troubled.py"),
    ],
)
def test_an_engine_that_hangs_dies_or_raises_is_at_fault(adapter: str, code: str, detail: str) -> None:
    outcome = replay_schedule(f"troubled:{adapter}", PUBLISHING, hang_seconds=1.5)
    assert outcome.code == code and outcome.fault is not None and outcome.fault.detail.startswith(detail)
    last = outcome.lines[-1]
    assert (last.index, last.operation, last.answer) == (3, Publish("r1"), None)
    assert outcome.fault.request == "r1" and len(outcome.schedule.operations) in (3, 5)


def test_a_campaign_goes_on_after_it_has_lost_its_child() -> None:
    campaign = run("troubled:Dying", recorded(5, 2, 4, 2))
    assert campaign.schedules == 4 and campaign.codes == {"crash": 2}
    assert campaign.operations == 8, "those that publish nothing run to their end: a launch and a landing are implied"
    [finding] = campaign.findings
    assert [one.verb for one in finding.outcome.schedule.operations] == ["open", "extend", "publish"]
    assert finding.count == 2 and finding.outcome.lines[-1].answer is None


def test_a_hang_is_found_and_shrunk_within_its_time() -> None:
    campaign = run("troubled:Hanging", replace(recorded(5), hang_seconds=1.0, shrink_seconds=1.0))
    assert campaign.codes == {"hang": 1}
    assert campaign.findings[0].outcome.code == "hang"
    assert campaign.findings[0].outcome.lines[-1].operation.verb == "publish"
    assert campaign.seconds < 60


def test_what_raises_in_the_process_is_shrunk_there() -> None:
    [finding] = run("troubled:Raising", recorded(5, 4)).findings
    assert finding.outcome.code == "crash" and finding.count == 2
    assert [one.verb for one in finding.outcome.schedule.operations] == ["open", "extend", "publish"]


def test_a_fault_that_is_not_shrunk_to_its_end_is_said_to_have_no_lasting_fingerprint() -> None:
    campaign = run("troubled:Raising", replace(recorded(5), shrink_seconds=0.0))
    assert campaign.notes == [
        f"crash {campaign.findings[0].fingerprint} could not be shrunk to its end in 0 s: on another machine its "
        "fingerprint may differ"
    ]


def test_a_broken_law_is_found_shrunk_and_counted() -> None:
    campaign = run("troubled:Forgetful", replace(SHORT, schedules=40, length=30))
    assert set(campaign.codes) == {"uninitialized-read"}
    finding = campaign.findings[0]
    assert len(finding.outcome.schedule.operations) < finding.shrunk_from
    assert finding.outcome.fault is not None and not finding.url
    assert sum(one.count for one in campaign.findings) <= campaign.codes["uninitialized-read"]


def test_what_does_not_show_again_is_noted_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILEPOST_TEST_MARKER", str(tmp_path / "seen"))
    campaign = run("troubled:Unstable", replace(SHORT, schedules=20, length=30))
    assert campaign.codes == {"crash": 1} and len(campaign.findings) == 1
    assert "did not show again" in campaign.notes[0]


def test_an_engine_that_prints_disturbs_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    assert not run("troubled:Chatty", replace(SHORT, schedules=6)).codes
    assert "freezing" not in capfd.readouterr().out


# -- adapters that are to blame: exit 3


@pytest.mark.parametrize(
    ("adapter", "text"),
    [
        ("Babbling", "operation 1, open: an answer that makes no sense"),
        ("Mislanding", "land: the answer has a table for 'nobody', which is not open"),
        ("Overlapping", "'troubled:Overlapping' declares what cannot be: overlap '7' is none of 0, 1"),
        ("failing", "make failed for 'troubled:failing': RuntimeError: no such device"),
        ("dying", "'troubled:dying' did not come up: the process died: exit status 5"),
        ("wrong", "make failed for 'troubled:wrong': AttributeError"),
    ],
)
def test_an_adapter_that_answers_nonsense_or_is_not_built_is_to_blame(adapter: str, text: str) -> None:
    with pytest.raises(AdapterError, match="(?s)" + text.replace("(", r"\(")) as raised:
        run(f"troubled:{adapter}", replace(SHORT, schedules=2))
    assert raised.value.exit_code == 3


def test_an_adapter_that_contradicts_its_capabilities_is_to_blame() -> None:
    with pytest.raises(AdapterError, match="reset: a reset was refused, and the capabilities say 'always'"):
        run("troubled:Refusing", replace(SHORT, schedules=60, length=40))


def test_a_cache_that_is_never_built_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "HANDSHAKE_SECONDS", 1.0)
    with pytest.raises(AdapterError, match="did not come up: no answer within"):
        run("troubled:sleeping", replace(SHORT, hang_seconds=1.0))


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("refernce", "unknown target 'refernce'; did you mean reference"),
        ("troubled:nothing", "module 'troubled' has no function 'nothing'"),
        ("nowhere:make", "there is no module 'nowhere'"),
        ("mutant:kv-outlives-stat", "unknown mutant 'kv-outlives-stat'; did you mean kv-outlives-state"),
    ],
)
def test_a_target_that_does_not_exist_is_the_callers_mistake(target: str, text: str) -> None:
    with pytest.raises(UsageError, match=text) as raised:
        run(target)
    assert raised.value.exit_code == 2


# -- what a campaign counts


def test_a_correct_cache_leaves_evidence_and_nothing_else() -> None:
    seen: list[tuple[str, int, int]] = []
    options = Options(schedules=70, length=20, corpus=False)
    campaign = run_campaign("reference", options, lambda *progress: seen.append(progress))
    assert not campaign.codes and not campaign.findings and not campaign.notes
    assert campaign.schedules == 70 and campaign.operations > 1_000 and campaign.marks["hits"] > 0
    assert campaign.engine_seconds > 0 and campaign.judging_seconds > 0
    assert [done for phase, done, total in seen if phase == "generated"] == list(range(1, 71))
    assert {one.name: one.result for one in campaign.promises} == dict.fromkeys(
        ("deterministic", "not-inert", "exact-accounting", "strict-boundaries", "admits-when-idle"), "kept"
    )


def test_the_same_seed_gives_the_same_campaign() -> None:
    one, two = (run("reference", replace(SHORT, schedules=20)) for _ in range(2))
    assert (one.operations, one.marks, one.skipped) == (two.operations, two.marks, two.skipped)
    assert run("reference", replace(SHORT, schedules=20, seed=2)).marks != one.marks


def test_a_budget_ends_a_campaign_before_its_schedules() -> None:
    campaign = run("reference", replace(SHORT, schedules=100_000, budget_seconds=5.0))
    assert 0 < campaign.schedules < 100_000


def test_a_broken_promise_is_a_finding() -> None:
    campaign = run("mutant:states-only-at-the-very-end", replace(SHORT, promises=True))
    assert [finding.outcome.code for finding in campaign.findings] == ["promise:not-inert"]
    assert next(one for one in campaign.promises if one.name == "not-inert").result == "broken"


def test_known_faults_are_matched_by_code_and_fingerprint() -> None:
    mark = run("troubled:Raising", recorded(5)).findings[0].fingerprint
    known = (KnownFault("crash", mark, "https://x/1"), KnownFault("crash", "0" * 8, "https://x/2"),
             KnownFault("leak", mark, "https://x/3"))
    again = run("troubled:Raising", replace(recorded(5), known=known))
    assert [finding.url for finding in again.findings] == ["https://x/1"]
    assert list(known_but_unseen(again)) == list(known[1:])


def test_a_finding_is_met_as_often_as_its_code_where_it_is_alone() -> None:
    campaign = run("troubled:Raising", replace(recorded(5, 4, 3, 5), shrunk_per_code=1))
    assert [finding.count for finding in campaign.findings] == [4]


# -- children


def test_a_lost_child_says_where_it_was_and_the_next_task_has_a_new_one() -> None:
    with Child("troubled:Dying", 5.0) as child:
        for _ in range(2):
            with pytest.raises(Lost) as lost:
                child.one("outcome", PUBLISHING)
            assert (lost.value.index, lost.value.error.code) == (3, "crash")
        outcome = child.one("outcome", replace(PUBLISHING, operations=PUBLISHING.operations[:2]))
        assert not outcome.failed


def test_a_task_that_nobody_listens_to_any_more_does_not_answer_the_next_one() -> None:
    with Child("reference", 5.0) as child:
        for _ in child.call("generate", 1, range(50), 10):
            break
        assert child.one("outcome", PUBLISHING).schedule.header.id == "publishing"


def test_a_bug_of_the_kit_is_nobody_elses() -> None:
    with Child("reference", 5.0) as child, pytest.raises(KitBug, match=r"AttributeError: .* at conformance/worker\.py"):
        child.one("outcome", 7)


def test_a_second_process_may_have_another_hash_seed() -> None:
    with Child("mutant:hash-order-decides-eviction", 5.0, hash_seed=12345) as child:
        assert child.one("outcome", PUBLISHING).schedule.header.id == "publishing"
