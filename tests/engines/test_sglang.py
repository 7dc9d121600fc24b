"""SGLang 0.5.23 in an environment of its own: short campaigns, edits that must be seen, and the findings.

Everything runs as a stranger's would, through the command line in the engine's environment. Where `make peers` has not
made one, these tests are skipped and say so.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from milepost.conformance.adapters import sglang
from milepost.conformance.adapters.sglang_scheduler import Sizes, engine_sizes
from milepost.conformance.adapters.sglang_settings import Settings
from milepost.conformance.errors import AdapterError, UsageError
from milepost.conformance.targets import SHIPPED, peer_python
from milepost.spec.capabilities import Configuration
from milepost.spec.words import GroupKind

from .peer_runs import PeerRuns, report_of
from .sglang_edits import EDITS

HERE = Path(__file__).resolve().parent
FINDINGS = HERE.parent.parent / "docs" / "findings" / "sglang"
PEER = peer_python("sglang")
SECONDS = 600
needs_peer = pytest.mark.skipif(PEER is None, reason="SGLang is not installed beside the kit: run `make peers`")

WANTED = ("hits", "re-granted-cells", "landings-after-aborts", "grants-after-abort", "drains-compared")
WANTED_BY_PROFILE = {"hybrid": ("restores",), "window": ("window-hits", "slid-out-pages", "revived-pages")}
"""What a short campaign must have reached, besides what its profile asks for."""

SOUND = [name for name in sglang.SIZES if "mixed" not in name and name not in ("sglang:rust", "sglang:python")]
"""Configurations in which no finding shows within a short campaign."""

SHORTER = ("sglang:rust-window", "sglang:python-window", "sglang:rust-window16", "sglang:rust-window-only")
LONGER = [name for name in SOUND if "window" in name and name not in SHORTER]

FAULTY = {
    "first-decode-step-on-a-boundary": ("sglang:rust", "sglang:python"),
    "boundary-in-a-mixed-step": ("sglang:rust-mixed", "sglang:python-mixed"),
    "chunk-cut-inside-a-page": ("sglang:rust-mixed16", "sglang:python-mixed16"),
}


PEER_RUNS = PeerRuns(PEER, SECONDS, ("-W", "ignore"))
in_peer, milepost = PEER_RUNS.run, PEER_RUNS.milepost


@cache
def short_campaign(name: str) -> dict[str, Any]:
    """Run 60 schedules and the corpus on a target, once in a session; return the report."""
    with TemporaryDirectory() as folder:
        milepost("run", name, "--schedules", "60", "--report", folder)
        return report_of(Path(folder))


def reached(report: dict[str, Any]) -> dict[str, int]:
    return {mark["name"]: mark["count"] for mark in report["marks"]}


@needs_peer
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.soak] if one in LONGER else []) for one in SOUND]
)
def test_a_short_campaign_finds_no_fault(name: str) -> None:
    report = short_campaign(name)
    assert report["faults"] == []
    parts = report["header"]["profile"].split("-")
    wanted = (*WANTED, *(mark for part in parts for mark in WANTED_BY_PROFILE.get(part, ())))
    assert [mark for mark in wanted if not reached(report).get(mark)] == []
    assert {one["result"] for one in report["promises"]} == {"kept"}
    header = report["header"]
    assert (header["engine"], header["version"]) == ("SGLang", sglang.WRITTEN_FOR)
    assert header["fidelity"]["level"] == "imported"
    assert any("GPU packages" in one for one in header["fidelity"]["faked"])


@needs_peer
@pytest.mark.parametrize("variant", [
    "window", *(pytest.param(one, marks=pytest.mark.soak) for one in ("window16", "window-only", "window-only16"))
])
def test_both_cores_reach_the_same_with_a_window(variant: str) -> None:
    compiled, plain = (short_campaign(f"sglang:{core}-{variant}") for core in ("rust", "python"))
    assert reached(compiled) == reached(plain)


@needs_peer
def test_every_illegal_edit_of_the_engine_is_noticed() -> None:
    run = in_peer("sglang_edits.py", "300", "1")
    assert run.returncode == 0, run.stderr
    noticed = {line["name"]: set(line["codes"]) for line in map(json.loads, run.stdout.splitlines())}
    assert noticed.keys() == EDITS.keys()
    unseen = {name: codes for name, codes in noticed.items() if not codes or not codes <= set(EDITS[name].codes)}
    assert unseen == {}


@needs_peer
@pytest.mark.parametrize("name", FAULTY)
def test_a_finding_replays(name: str) -> None:
    replayed = milepost("replay", str(FINDINGS / f"{name}.jsonl"))
    assert replayed.returncode == 1, replayed.stderr
    assert "FAULT over-advanced" in replayed.stdout


@needs_peer
def test_the_first_finding_replays_beside_a_window_too() -> None:
    schedule = str(FINDINGS / "first-decode-step-on-a-boundary.jsonl")
    assert "FAULT over-advanced" in milepost("replay", "--target", "sglang:rust-window", schedule).stdout


@needs_peer
def test_the_findings_show_on_the_engines_own_scheduler_and_not_beside_them() -> None:
    shown = in_peer(str(FINDINGS / "reproduce.py")).stdout.splitlines()
    assert shown
    assert [line for line in shown if ("control" in line) != ("nothing wrong" in line)] == []
    changed = in_peer(str(FINDINGS / "reproduce.py"), "changed").stdout.splitlines()
    assert len(changed) == len(shown)
    assert [line for line in changed if "nothing wrong" not in line] == []


def test_every_finding_names_a_target_that_is_shipped() -> None:
    names = {one.name for one in SHIPPED if one.peer == "sglang"}
    assert names == set(sglang.SIZES)
    for schedule, targets in FAULTY.items():
        header = json.loads((FINDINGS / f"{schedule}.jsonl").read_text().splitlines()[0])
        assert header["target"] == targets[0]
        assert set(targets) <= names


def test_every_shipped_size_is_one_that_the_engine_takes_as_it_is() -> None:
    for name, sizes in sglang.SIZES.items():
        strategy = "no_buffer" if "no-buffer" in name else "extra_buffer"
        for one in sizes:
            windows = [group.window for group in one.groups if group.kind is GroupKind.WINDOW]
            assert bool(windows) == ("window" in name)
            settings = Settings(
                "rust", strategy, one.page_size, strategy != "no_buffer", chunk=one.chunk_size,
                window=max(windows, default=0), recurrent="only" not in name,
            )
            built = engine_sizes(settings, one)
            pools = [one.pools.get(pool, 0) for pool in ("kv", "window", "state")]
            assert [built.pages, built.window_pages, built.slots] == pools
            assert built.rows == one.max_live


def test_sizes_that_the_engine_could_not_have_are_rounded() -> None:
    asked = Configuration(page_size=4, chunk_size=8, pools={"kv": 2, "state": 3}, max_live=6)
    assert engine_sizes(Settings("rust", "extra_buffer", 16, True, False, 8), asked) == Sizes(4, 10, 2)
    assert engine_sizes(Settings("rust", "no_buffer", 1, False, False, 8), asked) == Sizes(32, 6, 2)
    near = Settings("rust", "extra_buffer", 1, True, False, 8, window=5)
    assert engine_sizes(near, replace(asked, pools={"kv": 8, "window": 2, "state": 10})) == Sizes(32, 10, 2, 11)
    alone = Settings("rust", "no_buffer", 16, True, False, 16, window=40, recurrent=False)
    assert engine_sizes(alone, replace(asked, pools={"kv": 64, "window": 40})) == Sizes(16, 0, 6, 10)


@pytest.mark.parametrize(("found", "error", "sentence"), [
    ("0.6.0", AdapterError, "this adapter was written for SGLang 0.5.23, found 0.6.0"),
    (None, UsageError, "SGLang is not installed here: run `make peers`"),
])
def test_another_sglang_or_none_is_said_in_one_line(
    found: str | None, error: type[Exception], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(error) as raised:
        sglang.make_rust(Configuration())
    assert str(raised.value) == sentence
