"""The recorder without an engine: digests, sampling, files, and that nothing it does reaches the engine."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import milepost_record
from milepost.conformance.checking import check_trace
from milepost.conformance.errors import FormatError
from milepost.spec.schedule import NEWEST, VERSION
from milepost_record import ENGINES
from milepost_record.digests import Digests
from milepost_record.guard import watch
from milepost_record.settings import Settings, read_settings
from milepost_record.trace import FORMAT, Trace

RECORDER = Path(__file__).resolve().parents[2] / "recorder"
HEADER = {
    "id": "recorded/toy", "page_size": 4, "chunk_size": 4, "pools": {"kv": 9, "state": 9},
    "capabilities": {
        "engine": "toy", "version": "1", "pools": {"kv": 9, "state": 9}, "leases_on_open": False,
        "groups": [{"name": "kv", "kind": "full", "pool": "kv", "page_size": 4},
                   {"name": "state", "kind": "recurrent", "pool": "state"}],
    },
}


def begin(folder: Path, partial: tuple[str, ...] = (), **more: Any) -> Trace:
    return Trace(Settings(str(folder), salt=b"s", **more), "toy", HEADER, partial)


def prefill(trace: Trace, tokens: list[int], page: int, slot: int) -> str:
    """Record one request that computes a page of four tokens and ends."""
    name = trace.new_request()
    trace.open(name, trace.digests.tokens(tokens), [], 0, {})
    trace.extend(name, 4, "", f',"table":{{"kv":[{page}],"state":{{"live":{slot}}}}}')
    trace.launch(7, [])
    trace.land(7)
    trace.close(name, "")
    return name


def hit(trace: Trace, tokens: list[int], page: int, slot: int) -> None:
    name = trace.new_request()
    table = {"kv": [page], "state": {"source": slot}}
    trace.open(name, trace.digests.tokens(tokens), [], 4, table)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def code(folder: Path) -> str:
    return check_trace(files(folder)[0]).outcome.code


def test_equal_tokens_have_equal_digests_under_one_salt_only() -> None:
    one, same, other = Digests(b"a"), Digests(b"a"), Digests(b"b")
    assert one.tokens([5, 6, 5]) == same.tokens([5, 6, 5]) != other.tokens([5, 6, 5])
    first, second, third = json.loads(one.tokens([5, 6, 5]))
    assert first == third != second
    assert one.name("secret") != other.name("secret")


def test_no_token_and_no_name_is_written(tmp_path: Path) -> None:
    trace = begin(tmp_path)
    trace.open("r1", trace.digests.tokens([71234, 81234]), [["salt", trace.digests.name("tenant")]], 0, {})
    trace.finish()
    text = files(tmp_path)[0].read_text()
    assert not any(secret in text for secret in ("71234", "81234", "tenant", '"s"'))


def test_a_request_is_always_in_the_sample_or_never_is() -> None:
    digests = Digests(b"a")
    chosen = [digests.chooses(f"request {number}", Fraction(1, 4)) for number in range(2000)]
    assert chosen == [digests.chooses(f"request {number}", Fraction(1, 4)) for number in range(2000)]
    assert 400 < sum(chosen) < 600
    assert digests.chooses("x", Fraction(1))
    assert not digests.chooses("x", Fraction(0))


def test_a_recording_is_a_trace_that_the_kit_judges(tmp_path: Path) -> None:
    trace = begin(tmp_path)
    prefill(trace, [1, 2, 3, 4, 5], 0, 0)
    hit(trace, [1, 2, 3, 4, 6], 0, 0)
    trace.finish()
    checked = check_trace(files(tmp_path)[0])
    assert (checked.outcome.code, checked.counted, checked.header.partial) == ("", 6, ())


def test_a_recording_has_a_number_that_readers_of_whole_tables_refuse() -> None:
    assert VERSION < FORMAT <= NEWEST["trace"]


def test_a_wrong_hit_in_a_recording_is_a_fault_with_its_place(tmp_path: Path) -> None:
    trace = begin(tmp_path)
    prefill(trace, [1, 2, 3, 4, 5], 0, 0)
    hit(trace, [1, 2, 3, 5, 6], 0, 0)
    trace.finish()
    checked = check_trace(files(tmp_path)[0])
    assert (checked.outcome.code, checked.place) == ("stale-kv", 7)


def test_what_an_unseen_request_was_granted_is_no_fault_for_its_first_reader(tmp_path: Path) -> None:
    for folder, told in ((tmp_path / "told", True), (tmp_path / "untold", False)):
        trace = begin(folder, ("sampled",))
        prefill(trace, [1, 2, 3, 4, 5], 0, 0)
        if told:
            trace.unseen([("kv", 0), ("state", 0)])
        hit(trace, [7, 7, 7, 7, 7], 0, 0)
        trace.finish()
    assert code(tmp_path / "told") == ""
    assert code(tmp_path / "untold") == "stale-kv"


def test_two_readers_of_unknown_memory_contradict_each_other(tmp_path: Path) -> None:
    trace = begin(tmp_path, ("attached",))
    hit(trace, [7, 7, 7, 7, 7], 3, 3)
    hit(trace, [7, 7, 7, 7, 9], 3, 3)
    hit(trace, [8, 7, 7, 7, 9], 3, 3)
    trace.finish()
    checked = check_trace(files(tmp_path)[0])
    assert (checked.outcome.code, checked.place, checked.assumed) == ("stale-kv", 4, 2)


def test_without_a_reason_to_doubt_memory_that_nobody_wrote_is_a_fault(tmp_path: Path) -> None:
    trace = begin(tmp_path)
    hit(trace, [7, 7, 7, 7, 7], 3, 3)
    trace.finish()
    assert code(tmp_path) == "uninitialized-read"


def test_requests_that_go_on_together_share_a_line_and_are_judged_one_by_one(tmp_path: Path) -> None:
    trace = begin(tmp_path)
    for page, slot in ((0, 0), (1, 1)):
        name = trace.new_request()
        trace.open(name, trace.digests.tokens([1, 2, 3, page]), [], 0, {})
        trace.extend(name, 4, "", f',"table":{{"kv":[{page}],"state":{{"live":{slot}}}}}')
    trace.launch(1, [])
    trace.go_on("r1", 5, trace.digests.of_token[7], 4)
    trace.go_on("r2", 5, trace.digests.of_token[8], 5)
    trace.launch(2, [])
    trace.close("r1", "")
    hit(trace, [1, 2, 3, 0, 8, 9], 0, 0)
    trace.finish()
    lines = [json.loads(line) for line in files(tmp_path)[0].read_text().splitlines()]
    assert [line.get("op") for line in lines].count("go-on") == 1
    checked = check_trace(files(tmp_path)[0])
    # r1 went on by a token, so that its slot is worth nothing at 4 any more.
    assert (checked.outcome.code, checked.counted, checked.place) == ("over-advanced", 10, 10)


def test_a_process_that_is_killed_loses_what_waited_for_less_than_a_second(tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "from milepost_record.settings import Settings\n"
        "from milepost_record.trace import Trace\n"
        f"trace = Trace(Settings({str(tmp_path)!r}, salt=b's'), 'toy', {HEADER!r})\n"
        "for number in range(13):\n"
        "    trace.launch(number, [])\n"
        "    trace.land(number)\n"
        "    time.sleep(0.1)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    paths = {**os.environ, "PYTHONPATH": str(RECORDER / "src")}
    assert subprocess.run([sys.executable, "-c", program], env=paths, check=False, timeout=60).returncode == -9
    lines = files(tmp_path)[0].read_text().splitlines()
    assert len(lines) > 16
    assert all(json.loads(line) for line in lines)
    with pytest.raises(FormatError, match="cut short after this line"):
        check_trace(files(tmp_path)[0])


def test_tokens_that_are_told_late_belong_where_they_were_computed(tmp_path: Path) -> None:
    trace = begin(tmp_path)
    trace.open("r1", trace.digests.tokens([1, 2, 3]), [], 0, {})
    trace.extend("r1", 3, "", ',"table":{"kv":[0],"state":{"live":0}}')
    trace.launch(1, [])
    trace.extend("r1", 4, "", "", "", '"state":0')
    trace.launch(2, [])
    trace.land(1)
    trace.land(2)
    trace.close("r1", trace.said([4, 5]))
    hit(trace, [1, 2, 3, 4, 9], 0, 0)
    hit(trace, [1, 2, 3, 5, 9], 0, 0)
    trace.finish()
    checked = check_trace(files(tmp_path)[0])
    assert (checked.outcome.code, checked.counted) == ("stale-kv", 10)


def test_files_are_bounded_and_each_is_a_trace_of_its_own(tmp_path: Path) -> None:
    trace = begin(tmp_path, file_bytes=20_000, files=3)
    for number in range(400):
        prefill(trace, [number, 2, 3, 4, 5], 0, 0)
        if trace.full:
            trace.rotate()
    trace.finish()
    kept = files(tmp_path)
    assert len(kept) == 3
    assert sum(file.stat().st_size for file in kept) < 3 * 24_000
    for file in kept:
        checked = check_trace(file)
        assert (checked.outcome.code, checked.header.partial) == ("", ("rotated",))


def test_a_disk_that_refuses_switches_the_recording_off_and_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "blocked").write_text("")
    trace = begin(tmp_path)
    trace.fail(OSError("no space left"))
    trace.fail(OSError("again"))
    assert not trace.on
    assert capsys.readouterr().err.count("switched off") == 1
    assert check_trace(files(tmp_path)[0]).stopped == "OSError: no space left"


class Cache:
    def look(self, tokens: int) -> int:
        if tokens < 0:
            raise KeyError(tokens)
        return tokens + 1


class Broken:
    on = True
    errors = 0

    def fail(self, error: BaseException) -> None:
        self.on, self.errors = False, self.errors + 1


def _raises(*_: object, **__: object) -> Any:
    raise RuntimeError("a watcher's own error")


@pytest.mark.parametrize("hooks", [(_raises, None), (None, _raises), (_raises, _raises)])
def test_no_error_of_a_watcher_reaches_the_engine(
    hooks: tuple[Callable[..., Any] | None, Callable[..., Any] | None],
) -> None:
    watched, broken = type("Watched", (Cache,), {}), Broken()
    watch(watched, "look", lambda cache: broken, *hooks)
    assert [watched().look(1), watched().look(2)] == [2, 3]
    assert broken.errors == 1


def test_an_error_of_the_engine_passes_through_unchanged() -> None:
    watched, seen = type("Watched", (Cache,), {}), []
    watch(watched, "look", lambda cache: Broken(), after=lambda *noted: seen.append(noted))
    with pytest.raises(KeyError):
        watched().look(-1)
    assert seen == []


def test_watching_twice_is_watching_once() -> None:
    watched, seen = type("Watched", (Cache,), {}), []
    for _ in range(2):
        watch(watched, "look", lambda cache: Broken(), after=lambda *noted: seen.append(1))
    watched().look(1)
    assert seen == [1]


def test_settings_come_from_the_environment_and_are_none_without_a_folder() -> None:
    assert read_settings({}) is None
    given = {"MILEPOST_RECORD": "traces", "MILEPOST_RECORD_SAMPLE": "0.1", "MILEPOST_RECORD_BYTES": "1000",
             "MILEPOST_RECORD_FILES": "2", "MILEPOST_RECORD_SALT": "x"}
    assert read_settings(given) == Settings("traces", Fraction(1, 10), 1000, 2, b"x")


@pytest.mark.parametrize(("name", "text", "says"), [
    ("SAMPLE", "2", "the share of requests is between 0 and 1, not 2"),
    ("SAMPLE", "1/0", "MILEPOST_RECORD_SAMPLE is a share such as 1/10, not '1/0'"),
    ("SAMPLE", "tenth", "MILEPOST_RECORD_SAMPLE is a share such as 1/10, not 'tenth'"),
    ("BYTES", "64MB", "MILEPOST_RECORD_BYTES is a whole number, not '64MB'"),
    ("FILES", "0", "the recorder needs room for one file of one byte at least"),
])
def test_a_setting_that_makes_no_sense_is_named(name: str, text: str, says: str) -> None:
    with pytest.raises(ValueError) as refused:
        read_settings({"MILEPOST_RECORD": "traces", f"MILEPOST_RECORD_{name}": text})
    assert str(refused.value) == says


def test_the_two_line_call_refuses_what_it_does_not_know_without_raising(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not milepost_record.attach(Cache(), str(tmp_path))
    assert "Cache is no cache that the recorder knows" in capsys.readouterr().err


def test_the_recorder_needs_only_the_standard_library() -> None:
    declared = tomllib.loads((RECORDER / "pyproject.toml").read_text())
    assert declared["project"]["dependencies"] == []
    known, found = {*sys.stdlib_module_names, "milepost_record", *ENGINES, "torch"}, set()
    for file in (RECORDER / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(), feature_version=(3, 10))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found |= {name.split(".")[0] for name in names}
    assert found <= known


def test_every_entry_point_names_a_function_that_does_nothing_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILEPOST_RECORD", raising=False)
    groups = tomllib.loads((RECORDER / "pyproject.toml").read_text())["project"]["entry-points"]
    assert set(groups) == {"vllm.general_plugins", "sglang.srt.plugins"}
    for entries in groups.values():
        for target in entries.values():
            module, _, name = target.partition(":")
            getattr(sys.modules[module], name)()
