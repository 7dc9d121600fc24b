"""FreeToken 0.2.1 in an environment of its own: a short campaign of each configuration, and edits that must be seen.

Everything runs as a stranger's would, through the command line in the engine's environment. Where `make peers` has not
made one, these tests are skipped and say so.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from milepost.conformance.adapters import freetoken, freetoken_window
from milepost.conformance.errors import AdapterError, UsageError
from milepost.conformance.targets import SHIPPED, peer_python
from milepost.spec.capabilities import Configuration

from .freetoken_edits import BREAKS
from .peer_runs import PeerRuns, report_of

HERE = Path(__file__).resolve().parent
PEER = peer_python("freetoken")
SECONDS = 300
needs_peer = pytest.mark.skipif(PEER is None, reason="FreeToken is not installed beside the kit: run `make peers`")

WANTED = ("hits", "restores", "re-granted-cells", "landings-after-aborts", "grants-after-abort", "anchors",
          "frozen-inside", "batched-steps", "drains-compared")
"""What a short campaign must have reached, besides what its profile asks for."""


PEER_RUNS = PeerRuns(PEER, SECONDS)
in_peer, milepost = PEER_RUNS.run, PEER_RUNS.milepost


@needs_peer
@pytest.mark.parametrize("name", freetoken.SIZES)
def test_a_short_campaign_finds_no_fault_and_has_its_evidence(name: str, tmp_path: Path) -> None:
    run = milepost("run", name, "--schedules", "150", "--report", str(tmp_path))
    report = report_of(tmp_path)
    assert report["faults"] == [], run.stdout
    assert report["result"] == "conformant", report["reasons"]
    assert run.returncode == 0
    reached = {mark["name"]: mark["count"] for mark in report["marks"]}
    assert [mark for mark in WANTED if not reached.get(mark)] == []
    assert {one["result"] for one in report["promises"]} == {"kept"}
    header = report["header"]
    assert (header["engine"], header["version"]) == ("FreeToken", freetoken.WRITTEN_FOR)
    assert header["fidelity"]["level"] == "imported"
    assert any("CHUNK_SIZE" in one for one in header["fidelity"]["faked"])


@needs_peer
def test_the_laws_alone_notice_every_illegal_edit_of_the_engine() -> None:
    run = in_peer("freetoken_edits.py", "400", "1", "1")
    assert run.returncode == 0, run.stderr
    noticed = {line["name"]: set(line["codes"]) for line in map(json.loads, run.stdout.splitlines())}
    assert noticed.keys() == BREAKS.keys()
    unseen = {name: codes for name, codes in noticed.items() if not codes or not codes <= set(BREAKS[name].codes)}
    assert unseen == {}


@needs_peer
def test_a_fault_of_the_engine_ends_as_a_shrunk_schedule_that_replays(tmp_path: Path) -> None:
    target = "freetoken_edits:snapshot_moved_by_a_split"
    run = milepost("run", target, "--schedules", "20", "--report", str(tmp_path))
    assert run.returncode == 1, run.stderr
    fault = next(one for one in report_of(tmp_path)["faults"] if one["code"] == "over-advanced")
    assert fault["text"] in run.stdout
    replayed = milepost("replay", fault["replay"])
    assert replayed.returncode == 1
    assert "FAULT over-advanced" in replayed.stdout


def test_all_configurations_are_shipped_with_their_sizes() -> None:
    names = [one.name for one in SHIPPED if one.peer == "freetoken"]
    assert names == [*freetoken.SIZES, *freetoken_window.SIZES]
    assert names == ["freetoken:page1", "freetoken:page16", "freetoken:window", "freetoken:compressed"]
    for name, page in zip(freetoken.SIZES, (1, 16), strict=True):
        assert {one.page_size for one in freetoken.SIZES[name]} == {page}
        assert freetoken.SIZES[name][0].chunk_size == freetoken.REAL_CHUNK


def test_every_shipped_size_is_one_that_the_engine_takes_as_it_is() -> None:
    for sizes in freetoken.SIZES.values():
        assert [freetoken.rounded(one) for one in sizes] == list(sizes)
    windows, compressed = freetoken_window.SIZES.values()
    assert [freetoken_window.rounded(one) for one in windows] == list(windows)
    assert [freetoken_window.rounded_compressed(one) for one in compressed] == list(compressed)


def test_another_page_keeps_pages_or_tokens_whichever_is_more() -> None:
    asked = Configuration(page_size=4, chunk_size=8, pools={"kv": 12, "state": 8}, max_live=4)
    assert freetoken.with_page(asked, 1).pools["kv"] == 48
    assert freetoken.with_page(asked, 16).pools["kv"] == 12


def test_sizes_that_the_engine_could_not_have_are_rounded() -> None:
    asked = Configuration(page_size=16, chunk_size=8, pools={"kv": 1, "state": 3}, max_live=6)
    built = freetoken.rounded(asked)
    assert (built.chunk_size, built.pools, built.max_live) == (16, {"kv": 2, "state": 8}, 2)


@pytest.mark.parametrize(("found", "error", "sentence"), [
    ("0.3.0", AdapterError, "this adapter was written for FreeToken 0.2.1, found 0.3.0"),
    (None, UsageError, "FreeToken is not installed here: run `make peers`"),
])
def test_another_freetoken_or_none_is_said_in_one_line(
    found: str | None, error: type[Exception], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(error) as raised:
        freetoken.make_page1(Configuration())
    assert str(raised.value) == sentence
