"""vLLM 0.33.0 in an environment of its own: short campaigns, its own scheduler beside the adapter, edits that are seen.

Everything runs as a stranger's would, through the command line in the engine's environment. Where `make peers` has not
made one, these tests are skipped and say so.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from milepost.conformance.adapters import vllm, vllm_engine, vllm_loader
from milepost.conformance.errors import AdapterError, UsageError
from milepost.conformance.targets import SHIPPED, peer_python
from milepost.spec.capabilities import Configuration

from .peer_runs import PeerRuns
from .vllm_edits import BREAKS, REPAIRS

HERE = Path(__file__).resolve().parent
PEER = peer_python("vllm")
SECONDS = 300
needs_peer = pytest.mark.skipif(PEER is None, reason="vLLM is not installed beside the kit: run `make peers`")

REPAIRED = {edit.target: f"vllm_edits:{name}" for name, edit in REPAIRS.items()}
"""What is run for each target in which faults are known (docs/findings/vllm.md): the same with them repaired."""

WANTED = ("hits", "deep-hits", "restores", "re-granted-cells", "landings-after-aborts", "grants-after-abort",
          "overlapped-steps", "preemptions", "drains-compared")
"""What a short campaign must have reached, besides what its profile asks for."""

DRAFTED = ("drafts-rejected", "drafts-accepted-in-part", "drafts-accepted", "boundaries-inside-drafts")


PEER_RUNS = PeerRuns(PEER, SECONDS)
in_peer, milepost = PEER_RUNS.run, PEER_RUNS.milepost


@needs_peer
@pytest.mark.parametrize("name", vllm.SIZES)
def test_a_short_campaign_finds_nothing_but_what_is_known_and_has_its_evidence(name: str, tmp_path: Path) -> None:
    run = milepost("run", REPAIRED.get(name, name), "--schedules", "70", "--report", str(tmp_path))
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert report["faults"] == [], run.stdout
    drafts = any(one.drafts for one in vllm.TARGETS[name])
    # What drafts reach is spread thin over six configurations: a short campaign meets each mark, if not so often.
    short = all(reason.startswith("too little evidence") for reason in report["reasons"])
    assert report["result"] == "conformant" or (drafts and short), report["reasons"]
    reached = {mark["name"]: mark["count"] for mark in report["marks"]}
    assert [mark for mark in WANTED + DRAFTED * drafts if not reached.get(mark)] == []
    assert {one["result"] for one in report["promises"]} == {"kept"}
    header = report["header"]
    assert (header["engine"], header["version"]) == ("vLLM", vllm_loader.VERSION)
    assert header["fidelity"]["level"] == "shimmed"
    assert any("Scheduler.schedule()" in one for one in header["fidelity"]["faked"])


@needs_peer
def test_the_adapter_does_step_for_step_what_the_engine_s_own_schedule_does() -> None:
    run = in_peer("vllm_schedule.py", "3")
    assert run.returncode == 0, run.stderr
    compared = json.loads(run.stdout)
    floors = {
        "steps": 3000, "hits": 300, "preempted": 50, "resumed": 10, "copies": 200, "drafts": 1000, "accepted": 500,
    }
    assert {what: compared[what] for what in floors if compared[what] < floors[what]} == {}


@needs_peer
@pytest.mark.parametrize("words", [(), ("uneven",)])
def test_with_drafts_in_flight_the_engine_s_own_schedule_reads_nothing_wrong_but_what_is_known(
    words: tuple[str, ...]
) -> None:
    run = in_peer("vllm_in_flight.py", "2" if words else "1", "repaired", *words)
    assert run.returncode == 0, run.stderr
    met = json.loads(run.stdout)
    assert [what for what in met if what.startswith("wrong")] == []
    floors = {"steps": 200, "planned behind drafts": 150, "accepted": 300, "copied behind": 50}
    assert {what: met[what] for what in floors if met[what] < floors[what]} == {}


@needs_peer
@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("6", "vllm:full+state+draft"), "starts at 1 from a state of what is not its own"),
        (("2", "uneven"), "starts at 16 from a state of"),
        (("1", "uneven", "repaired", "seeded"), "from a state of what is not its own"),
    ],
)
def test_with_drafts_in_flight_a_wrong_state_is_seen(words: tuple[str, ...], wrong: str) -> None:
    run = in_peer("vllm_in_flight.py", *words)
    assert wrong in run.stdout, run.stderr


@needs_peer
def test_the_stand_in_for_triton_does_what_triton_s_interpreter_does(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: nothing to compare with")
    kernels = Path(str(PEER)).parents[1] / "engine" / "vllm" / "v1" / "worker" / "mamba_utils.py"
    command = [sys.executable, str(HERE / "vllm_kernels_twice.py"), str(kernels), "40", str(tmp_path)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    met = json.loads(run.stdout)
    assert met["same"] == 40 and met["copied"] > 10


@needs_peer
def test_the_laws_alone_notice_every_illegal_edit_of_the_engine() -> None:
    run = in_peer("vllm_edits.py", "800", "1", "1")
    assert run.returncode == 0, run.stderr
    noticed = {line["name"]: set(line["codes"]) for line in map(json.loads, run.stdout.splitlines())}
    assert noticed.keys() == BREAKS.keys()
    unseen = {name: codes for name, codes in noticed.items() if not codes or not codes <= set(BREAKS[name].codes)}
    assert unseen == {}


def test_every_configuration_is_shipped_and_found_again_by_its_sizes() -> None:
    assert [one.name for one in SHIPPED if one.peer == "vllm"] == list(vllm.SIZES)
    for sizes in vllm.SIZES.values():
        assert len({repr(one) for one in sizes}) == len(sizes)


def test_every_kind_of_setting_is_met_and_budgets_cut_inside_a_block() -> None:
    met = [one for settings in vllm.TARGETS.values() for one in settings]
    for what in ("unit", "checkpoint", "window_block", "drafts", "retention"):
        values = {bool(getattr(one, what)) if what != "retention" else one.retention for one in met}
        assert values == ({0, None} if what == "retention" else {True, False})
    assert {one.states for one in met} == {1, 2}
    assert {one.drafter for one in met if one.drafts} == set(vllm_engine.DRAFTERS)
    assert any(one.budget < one.state_block for one in met)


def test_a_request_as_long_as_the_model_takes_fits_into_an_empty_pool() -> None:
    for one in (one for settings in vllm.TARGETS.values() for one in settings):
        assert one.blocks_for(one.model_length) <= one.blocks < one.blocks_for(one.model_length + 1)
        assert one.model_length > 2 * one.block


def test_sizes_that_are_not_listed_give_a_pool_that_the_engine_can_use() -> None:
    asked = Configuration(page_size=4, chunk_size=8, pools={"kv": 2, "state": 1}, max_live=2)
    built = vllm_engine.fit(vllm.TARGETS["vllm:full+state"][0], asked)
    assert (built.block, built.running) == (8, 2)
    assert built.model_length >= 2 * built.block + 2


def engine_folder(folder: Path, version: str) -> Path:
    """A package that calls itself vLLM."""
    package = folder / "vllm"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_version.py").write_text(f"__version__ = version = {version!r}\n")
    return package


def test_another_vllm_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine_folder(tmp_path, "0.34.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(AdapterError) as raised:
        vllm.make_full_state(Configuration())
    assert str(raised.value) == "this adapter was written for vLLM 0.33.0, found 0.34.0"


def test_no_vllm_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as raised:
        vllm.make_full_state(Configuration())
    assert str(raised.value) == "vLLM is not installed here: run `make peers`"


def test_the_adapter_is_light_until_it_is_asked_for_an_engine() -> None:
    heavy = "print([name for name in ('torch', 'numpy', 'vllm') if name in sys.modules])"
    code = f"import sys; import milepost.conformance.adapters.vllm; {heavy}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_stand_in_can_be_named_and_refuses_to_be_used() -> None:
    stand_in = vllm_loader.missing("vllm.somewhere", "Thing")
    assert not isinstance(3, stand_in)
    assert (stand_in | None) is not None
    child = type("Child", (stand_in,), {})
    assert isinstance(child(), stand_in)
    with pytest.raises(AdapterError, match=r"vllm\.somewhere\.Thing"):
        stand_in()
    with pytest.raises(AdapterError, match=r"truth of vllm\.somewhere\.Thing"):
        bool(stand_in)


def test_a_file_that_has_lost_a_definition_is_said(tmp_path: Path) -> None:
    package = engine_folder(tmp_path, vllm_loader.VERSION)
    (package / "utils").mkdir()
    (package / "utils" / "__init__.py").write_text("def something_else(): ...\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from milepost.conformance.adapters.vllm_loader import load; load(); import vllm.utils"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "vLLM's vllm.utils has no length_from_prompt_token_ids_or_embeds" in run.stderr
