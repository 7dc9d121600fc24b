"""A run ends with one screen, three files, a replay file for each fault, and the exit code that a gate reads."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from milepost.conformance.report.json_report import report_schema
from milepost.conformance.targets import EXTRA_PROBES

from .conftest import Milepost
from .stories import written

MUTANT = "mutant:chunk-end-is-kept-under-the-grid"
"""Its faults all shrink to one."""


def report_of(folder: Path) -> dict[str, Any]:
    """The report in a folder, which is what its schema says."""
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, report_schema())
    return report


def test_a_correct_cache_conforms(milepost: Milepost, folder: Path) -> None:
    ended = milepost("run", "--schedules", "60")
    assert ended.code == 0 and "\nCONFORMANT " in ended.out and "Faults: none" in ended.out
    assert ended.err == "No target was named: judging milepost, the production cache.\n"
    report = report_of(folder / ".milepost/report")
    assert (report["result"], report["faults"], report["header"]["target"]) == ("conformant", [], "milepost")
    assert {promise["result"] for promise in report["promises"]} == {"kept"}
    assert [path.name for path in (folder / ".milepost").iterdir()] == ["report"]


def test_a_light_install_judges_the_reference_and_says_so(
    milepost: Milepost, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRA_PROBES, "cache", ("numpy", "absent_torch", "absent_triton"))
    ended = milepost("smoke")
    assert ended.code in (0, 4)
    assert ended.err == (
        "No target was named: judging the reference, since the production cache needs absent_torch and "
        "absent_triton, `pip install 'milepost[cache]'`.\n"
    )
    assert report_of(folder / ".milepost/report")["header"]["target"] == "reference"
    [line] = [line for line in milepost("list").out.splitlines() if line.startswith("milepost ")]
    assert "no: `pip install" in line


@pytest.mark.parametrize("profile", ["hybrid-window", "hybrid-compressed"])
def test_a_profile_asks_for_its_groups_and_has_its_evidence(milepost: Milepost, folder: Path, profile: str) -> None:
    ended = milepost("run", "reference", "--profile", profile, "--schedules", "60")
    assert ended.code == 0 and "\nCONFORMANT " in ended.out, ended.out
    report = report_of(folder / ".milepost/report")
    assert report["header"]["profile"] == profile
    reached = {one["name"] for one in report["marks"] if one["count"]}
    assert {"window-hits", "slid-out-pages", "drafts-accepted"} <= reached


def test_a_broken_cache_is_nonconformant_and_every_fault_is_replayed(milepost: Milepost, folder: Path) -> None:
    ended = milepost("run", MUTANT, "--schedules", "10")
    assert ended.code == 1 and "\nNONCONFORMANT " in ended.out and "FAULT over-advanced" in ended.out
    report = report_of(folder / ".milepost/report")
    assert report["result"] == "nonconformant" and report["faults"]
    for fault in report["faults"]:
        assert fault["command"] == f"milepost replay {fault['replay']}" and fault["command"] in ended.out
        again = milepost("replay", fault["replay"])
        assert again.code == 1 and again.out.startswith(f"FAULT {fault['code']} ")


def test_the_same_command_writes_the_same_replay_files(milepost: Milepost, folder: Path) -> None:
    for name in ("one", "two"):
        assert milepost("run", MUTANT, "--schedules", "10", "--report", name).code == 1
    one, two = ({path.name: path.read_bytes() for path in (folder / name / "faults").iterdir()}
                for name in ("one", "two"))
    assert one == two != {}


def test_a_run_writes_its_files_into_the_folder_that_was_named(milepost: Milepost, folder: Path) -> None:
    ended = milepost("run", MUTANT, "--schedules", "0", "--report", "some where/else")
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    [replay] = [name for name in names if name.endswith(".jsonl")]
    assert re.fullmatch(r"some where/else/faults/over-advanced-[0-9a-f]{6}\.jsonl", replay)
    assert set(names) - {replay} == {f"some where/else/{name}" for name in ("report.json", "junit.xml", "report.html")}
    assert f"replay '{replay}'" in ended.out.replace("\\\n", "")


def test_junit_has_a_case_for_each_law_and_fails_the_broken_one(milepost: Milepost, folder: Path) -> None:
    milepost("run", MUTANT, "--schedules", "0")
    suite = ElementTree.parse(folder / ".milepost/report/junit.xml").getroot()
    failed = [case.get("name", "") for case in suite if case.find("failure") is not None]
    assert failed == ["law 4, joint boundary", "result nonconformant"]
    assert suite.get("failures") == "2" and len([case for case in suite if "law" in case.get("name", "")]) == 8


def test_the_page_has_the_fault_and_loads_nothing(milepost: Milepost, folder: Path) -> None:
    milepost("run", MUTANT, "--schedules", "0")
    page = (folder / ".milepost/report/report.html").read_text(encoding="utf-8")
    assert "over-advanced" in page and not re.search(r"<(script|link|img)\b", page)


def test_annotations_come_after_the_screen(milepost: Milepost) -> None:
    ended = milepost("run", MUTANT, "--schedules", "0", "--format", "github")
    annotations = [line for line in ended.out.splitlines() if line.startswith("::")]
    assert ended.code == 1 and len(annotations) == 2 == len(ended.out.splitlines()[-2:])
    assert annotations[0].startswith("::error title=over-advanced in milepost reference")
    assert annotations[1].startswith("::error title=milepost%3A nonconformant::1 distinct fault")


def test_json_on_standard_output_is_the_report_and_nothing_else(milepost: Milepost, folder: Path) -> None:
    ended = milepost("run", MUTANT, "--schedules", "0", "--format", "json")
    assert json.loads(ended.out) == report_of(folder / ".milepost/report")


def test_a_cache_that_reuses_nothing_is_inconclusive(milepost: Milepost) -> None:
    milepost("new-adapter", "acme_milepost.py", "--engine", "acme")
    ended = milepost("run", "acme_milepost:make", "--schedules", "0", "--seed", str(10**30))
    assert ended.code == 4 and "\nINCONCLUSIVE " in ended.out
    assert "too little evidence: hits was met 0 times" in ended.out


def test_a_short_look_is_taken_at_a_cache(milepost: Milepost) -> None:
    ended = milepost("smoke", "misbehaving:Quiet")
    assert ended.code == 0 and "Promises: none declared" in ended.out


def test_a_budget_ends_the_generating(milepost: Milepost, folder: Path) -> None:
    assert milepost("run", "misbehaving:Quiet", "--budget", "0.5s").code in (0, 4)
    assert report_of(folder / ".milepost/report")["counts"]["schedules"] < 5_000


def test_a_nightly_run_has_a_seed_of_its_own_and_prints_it(milepost: Milepost, folder: Path) -> None:
    ended = milepost("run", "misbehaving:Quiet", "--tier", "nightly", "--schedules", "1")
    seed = report_of(folder / ".milepost/report")["header"]["seed"]
    assert seed >= 1_000 and f"tier nightly, seed {seed}" in ended.out


def test_partial_passes_unless_conformant_is_required(milepost: Milepost) -> None:
    evidence = ("misbehaving:Unjudged", "--schedules", "60")
    assert milepost("run", *evidence).code == 0
    ended = milepost("run", *evidence, "--require", "conformant")
    assert ended.code == 4 and "\nPARTIAL " in ended.out
    assert "promise maximal-hit was not judged" in ended.out


def test_a_promise_is_broken_kept_or_not_judged_and_never_kept_unseen(milepost: Milepost, folder: Path) -> None:
    assert milepost("run", "misbehaving:Forgetful", "--schedules", "0").code == 1
    report = report_of(folder / ".milepost/report")
    results = {promise["name"]: (promise["result"], promise["sentence"]) for promise in report["promises"]}
    assert results["not-inert"][0] == "broken" and "the second hit 0" in results["not-inert"][1]
    assert results["strict-boundaries"] == ("not judged", "nothing was hit")
    assert results["admits-when-idle"][0] == "kept" and "drains" in results["admits-when-idle"][1]
    assert results["maximal-hit"][0] == "not judged"
    assert [fault["code"] for fault in report["faults"]] == ["promise:not-inert"]


def test_recorded_traffic_is_run_too(milepost: Milepost, folder: Path) -> None:
    said = [{"role": "system", "content": "You help. " * 40}, {"role": "user", "content": "Say one word."}]
    written(folder, "sessions.jsonl", f"{json.dumps([*said, {'role': 'assistant', 'content': 'word'}])}\n" * 3)
    assert milepost("run", "misbehaving:Quiet", "--schedules", "0").code == 0
    without = report_of(folder / ".milepost/report")["counts"]["schedules"]
    milepost("run", "misbehaving:Quiet", "--schedules", "0", "--trace", "sessions.jsonl")
    assert report_of(folder / ".milepost/report")["counts"]["schedules"] > without


def test_an_engine_may_say_what_no_file_and_no_terminal_can_show(process: Milepost, folder: Path) -> None:
    ended = process("run", "misbehaving:Odd", "--schedules", "0", "--format", "github")
    assert ended.code == 1 and "\x07" not in ended.out.split("::error")[0]
    ElementTree.parse(folder / ".milepost/report/junit.xml")
    assert "<script>" not in (folder / ".milepost/report/report.html").read_text(encoding="utf-8")
    assert len([line for line in ended.out.splitlines() if line.startswith("::error")]) == 2
    report_of(folder / ".milepost/report")


# -- known faults


@pytest.fixture
def known(milepost: Milepost, folder: Path) -> str:
    """An entry for the one fault of the mutant."""
    milepost("run", MUTANT, "--schedules", "0")
    [fault] = report_of(folder / ".milepost/report")["faults"]
    return (f'[[fault]]\ncode = "{fault["code"]}"\nfingerprint = "{fault["fingerprint"]}"\n'
            'url = "https://github.com/acme/engine/issues/7"\n')


def test_a_known_fault_is_reported_and_fails_nothing(milepost: Milepost, folder: Path, known: str) -> None:
    written(folder, "known-faults.toml", known)
    ended = milepost("run", MUTANT, "--schedules", "0", "--known", "known-faults.toml")
    report = report_of(folder / ".milepost/report")
    assert [fault["known"] for fault in report["faults"]] == ["https://github.com/acme/engine/issues/7"]
    assert (ended.code, report["result"]) == (0, "partial")


def test_a_known_fault_that_no_longer_shows_fails_the_run(milepost: Milepost, folder: Path, known: str) -> None:
    written(folder, "known-faults.toml", known)
    ended = milepost("run", "misbehaving:Quiet", "--schedules", "0", "--known", "known-faults.toml")
    assert ended.code == 1 and "unexpected pass: over-advanced" in ended.out


def test_another_code_or_fingerprint_is_no_known_fault(milepost: Milepost, folder: Path, known: str) -> None:
    written(folder, "known-faults.toml", known.replace("over-advanced", "torn-hit"))
    ended = milepost("run", MUTANT, "--schedules", "0", "--known", "known-faults.toml")
    assert ended.code == 1 and "1 distinct fault or broken promise" in ended.out
    assert "unexpected pass: torn-hit" in ended.out


def test_a_promise_that_is_known_to_be_broken_fails_nothing(milepost: Milepost, folder: Path) -> None:
    written(folder, "known-faults.toml", '[[fault]]\ncode = "promise:not-inert"\nfingerprint = "not-inert"\n'
                                         'url = "https://github.com/acme/engine/issues/8"\n')
    ended = milepost("run", "misbehaving:Forgetful", "--schedules", "0", "--known", "known-faults.toml")
    [fault] = report_of(folder / ".milepost/report")["faults"]
    assert fault["known"] == "https://github.com/acme/engine/issues/8"
    assert ended.code == 4, "nothing is wrong that was not known, and nothing was hit"
