"""A cache behind standard input and output is asked, answered for, and told apart from its engine when it fails."""

import gc
import io
import json
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost.conformance.errors import AdapterError, EngineCrash, EngineHang, KitError, UsageError
from milepost.conformance.serve import serve
from milepost.conformance.wire import StdioAdapter, StdioTarget
from milepost.reference.cache import make
from milepost.spec.answers import Grant, Hit, Landing, Launched, Pages, Refused, ResetDone
from milepost.spec.capabilities import Configuration
from milepost.spec.seam import Accounted, Adapter, Inventoried, Remembered

TOY = [sys.executable, str(Path(__file__).with_name("toy_program.py"))]
REFERENCE = shlex.join([sys.executable, "-m", "milepost.conformance.serve", "milepost.reference.cache:make"])
SIZES = Configuration()
EMPTY = {"capabilities": {"engine": "e", "version": "1", "groups": [], "pools": {}}}
PAGED = [{"name": "kv", "kind": "full", "pool": "kv"}]
RIGHT = {"capabilities": {"engine": "e", "version": "1", "groups": PAGED, "pools": {"kv": 1}}}
DEAF = f"""
import time
input()
print({json.dumps({"id": 1, **RIGHT})!r}, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the programs that are started find the package, installed or not."""
    monkeypatch.setenv("PYTHONPATH", str(Path(sys.modules["milepost"].__file__ or "").parent.parent))


@pytest.fixture
def toy() -> Iterator[StdioAdapter]:
    adapter = StdioAdapter(TOY, SIZES)
    yield adapter
    adapter.shutdown()


def misbehaving(manner: str, **options: Any) -> StdioAdapter:
    return StdioAdapter([*TOY, manner], SIZES, **options)


def use(adapter: Adapter) -> list[object]:
    """Two requests with the same prompt, one after the other, and everything that they were answered."""
    answers: list[object] = []
    tokens = tuple(b"ababababbbbbbbbba")
    for step, request in enumerate(("r1", "r2"), start=1):
        answers += [adapter.open(request, tokens, (("salt", "s"),), {2: "image"}), adapter.extend(request, 17)]
        answers += [adapter.launch(), adapter.land(step, {}, {request: (7,)})]
        answers += [adapter.publish(request), adapter.close(request, True)]
    return [*answers, adapter.evict("kv", 1), adapter.reset()]


def test_the_toy_grants_refuses_and_gives_back(toy: StdioAdapter) -> None:
    assert toy.capabilities.engine == "toy"
    assert toy.open("r1", (1, 2), (), {}) == Hit(0)
    assert toy.extend("r1", 2) == Grant(2, {"kv": Pages((0,))})
    assert toy.launch() == Launched(1)
    assert toy.extend("r2", 2) == Grant(2, {"kv": Pages((1,))})
    assert toy.extend("r3", 2) == Refused("no-page", "both pages are taken")
    assert toy.account() == {"kv": {"free": 0, "private": 2}}
    assert toy.close("r1", keep=False) == Landing({"r1": {"kv": Pages()}})
    assert toy.reset() == ResetDone(True)


def test_memory_is_written_and_read_back(toy: StdioAdapter) -> None:
    for content in ((5, None, 7), 2**62, -1, None):
        toy.write(("kv", 1), "kv", content)
        assert toy.read(("kv", 1), "kv") == content


def test_the_adapter_has_every_method_that_the_kit_may_call(toy: StdioAdapter) -> None:
    assert isinstance(toy, Accounted) and isinstance(toy, Inventoried) and isinstance(toy, Remembered)


def test_the_reference_answers_the_same_over_the_wire_and_in_process() -> None:
    over_the_wire = StdioAdapter(REFERENCE, SIZES)
    assert over_the_wire.capabilities == make(SIZES).capabilities
    assert use(over_the_wire) == use(make(SIZES))
    assert over_the_wire.inventory() == _used_reference().inventory()
    over_the_wire.shutdown()


def _used_reference() -> Inventoried:
    cache = make(SIZES)
    use(cache)
    assert isinstance(cache, Inventoried)
    return cache


def test_a_long_message_passes_both_ways() -> None:
    adapter = misbehaving("launch:long")
    assert adapter.open("r1", tuple(range(200_000)), (), {}) == Hit(0)
    assert len(adapter.launch().phases[0].zeros) == 50_000
    adapter.shutdown()


# -- whose fault it is


@pytest.mark.parametrize(
    ("manner", "message"),
    [
        ("close:exit", "the program ended during close with status 7; its last words: segmentation fault, said"),
        ('close:{"error": "ValueError: no such request"}', "ValueError: no such request"),
    ],
)
def test_an_engine_that_fails_after_the_handshake_crashed(manner: str, message: str) -> None:
    adapter = misbehaving(manner)
    with pytest.raises(EngineCrash, match=message):
        adapter.close("r1", True)


def test_an_engine_that_does_not_answer_in_time_hangs_and_its_program_is_gone() -> None:
    adapter = misbehaving("launch:sleep", call_seconds=0.5)
    started = time.monotonic()
    with pytest.raises(EngineHang, match=r"no answer to launch within 0\.5 seconds"):
        adapter.launch()
    assert time.monotonic() - started < 5
    adapter.shutdown()
    assert not adapter._program.alive


def test_an_engine_that_stops_to_read_hangs_too() -> None:
    adapter = StdioAdapter([sys.executable, "-c", DEAF], SIZES, call_seconds=0.5)
    with pytest.raises(EngineHang):
        adapter.open("r1", tuple(range(200_000)), (), {})


@pytest.mark.parametrize(
    ("manner", "message"),
    [
        ("hello:exit", "the program ended during hello with status 7"),
        ('hello:{"error": "no device"}', "no handshake with .*: no device"),
        ("hello:{}", "hello got no capabilities"),
        ("hello:noise", "answered hello with a line that is not JSON: 'loading weights ...'; its standard output is"),
        ('hello:{"capabilities": {"engine": 3}}', "capabilities.version: is missing"),
        ("hello:" + json.dumps({"protocol": 2, **RIGHT}), "speaks protocol 2"),
        ("hello:" + json.dumps(EMPTY), "declares what cannot be: groups need at least one member"),
        ('hello:{"id": 99}', "answered hello without its id 1"),
    ],
)
def test_what_fails_before_the_end_of_the_handshake_is_the_adapters_fault(manner: str, message: str) -> None:
    with pytest.raises(AdapterError, match=message) as caught:
        misbehaving(manner)
    assert caught.value.exit_code == 3


def test_a_handshake_that_takes_too_long_is_the_adapters_fault() -> None:
    with pytest.raises(AdapterError, match=r"no answer to hello within 0\.5 seconds"):
        misbehaving("hello:sleep", start_seconds=0.5)


@pytest.mark.parametrize(
    ("manner", "message"),
    [
        ("launch:noise", "answered launch with a line that is not JSON"),
        ("launch:endless", "answered launch with a line of more than"),
        ('launch:{"launch": {"step": "one"}}', 'launch was answered with nonsense: launch.step: expected an integer'),
        ('launch:{"landing": {}}', "launch cannot be answered with 'landing'"),
        ("launch:{}", "launch was answered with nonsense: expected one answer"),
        ('launch:{"adapter_error": "cannot map blocks"}', "launch: cannot map blocks"),
    ],
)
def test_an_answer_that_cannot_be_read_is_the_adapters_fault(manner: str, message: str) -> None:
    adapter = misbehaving(manner)
    with pytest.raises(AdapterError, match=message):
        adapter.launch()
    adapter.shutdown()


def test_an_unsupported_call_contradicts_what_was_declared(toy: StdioAdapter) -> None:
    with pytest.raises(AdapterError, match="preempt is not supported, and the capabilities declare that it is"):
        toy.preempt("r1")
    with pytest.raises(AdapterError, match="inventory is not supported"):
        toy.inventory()
    assert toy.reset() == ResetDone(True), "the program is still well"


def test_a_count_that_cannot_be_read_is_the_adapters_fault() -> None:
    adapter = misbehaving('account:{"account": {"kv": {"free": -1}}}')
    with pytest.raises(AdapterError, match=r"account\.kv\.free: expected an integer of at least 0"):
        adapter.account()
    adapter.shutdown()


@pytest.mark.parametrize("command", ["./no-such-program --fast", __file__])
def test_a_program_that_cannot_be_started_is_a_usage_error(command: str) -> None:
    with pytest.raises(UsageError, match="cannot be started: "):
        StdioAdapter(command, SIZES)


def test_an_empty_command_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="expected a program to start"):
        StdioAdapter("", SIZES)


def test_each_culprit_has_its_exit_code() -> None:
    assert [kind.exit_code for kind in (KitError, UsageError, AdapterError, EngineCrash, EngineHang)] == [2, 2, 3, 1, 1]


# -- programs


def test_a_program_that_can_begin_again_is_asked_again() -> None:
    target = StdioTarget(REFERENCE)
    first = target(SIZES)
    program, answers = first._program, use(first)
    second = target(SIZES)
    assert second._program is not program, "the first cache is still in use"
    first.shutdown()
    third = target(Configuration(page_size=8))
    assert third._program is program
    assert third.capabilities.page_size == 8
    third.shutdown()
    fourth = target(SIZES)
    assert use(fourth) == answers, "nothing of the earlier cache is left"
    for adapter in (second, fourth):
        adapter.shutdown()
    for program in target.idle:
        program.stop()


def test_a_forgotten_adapter_gives_its_program_back() -> None:
    target = StdioTarget(REFERENCE)
    program = target(SIZES)._program
    gc.collect()
    assert target.idle == [program]
    program.stop()
    second = target(SIZES)
    assert second._program is not program, "a program that has ended is not asked"
    second.shutdown()
    target.idle.pop().stop()


def test_a_program_that_cannot_begin_again_is_started_for_each_cache() -> None:
    target = StdioTarget(shlex.join(TOY))
    first = target(SIZES)
    first.shutdown()
    first.shutdown()
    assert not target.idle and not first._program.alive
    target(SIZES).shutdown()


def test_a_failed_engine_is_never_asked_again() -> None:
    target = StdioTarget(REFERENCE)
    adapter = target(SIZES)
    with pytest.raises(EngineCrash):
        adapter.land(99, {}, {})
    with pytest.raises(AdapterError, match="was asked to reset after it had failed"):
        adapter.reset()
    adapter.shutdown()
    assert not target.idle


def test_variables_are_added_to_the_environment_of_the_program() -> None:
    target = StdioTarget(shlex.join(TOY), environment={"PYTHONHOME": "nowhere"})
    with pytest.raises(AdapterError, match="the program ended during hello"):
        target(SIZES)


# -- serving


def served(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    incoming = io.StringIO("".join(json.dumps({"id": number, **one}) + "\n" for number, one in enumerate(messages)))
    outgoing = io.StringIO()
    serve(make, incoming, outgoing)
    return [json.loads(line) for line in outgoing.getvalue().splitlines()]


def test_a_call_before_hello_and_a_malformed_one_are_not_the_engines_fault() -> None:
    first, _, second, third = served(
        {"call": "launch"}, {"call": "hello", "config": {}}, {"call": "extend", "request": "r1", "to": "x"},
        {"call": "drain"},
    )  # fmt: skip
    assert first == {"id": 0, "adapter_error": "the first call has to be hello"}
    assert second == {"id": 2, "adapter_error": 'to: expected an integer, found "x"'}
    assert third == {"id": 3, "unsupported": True}


def test_unknown_calls_are_answered_as_unsupported() -> None:
    answers = served({"call": "hello", "config": {"page_size": 4, "later": 1}}, {"call": "offload"}, {"call": "stop"})
    assert answers[1:] == [{"id": 1, "unsupported": True}, {"id": 2, "unsupported": True}]


def test_what_a_cache_raises_is_reported_with_its_place() -> None:
    _, answer = served({"call": "hello", "config": {}}, {"call": "land", "step": 99})
    assert " at cache.py:" in answer["error"] and "Traceback" in answer["traceback"]


def test_what_the_engine_prints_does_not_reach_the_answers(tmp_path: Path) -> None:
    program = tmp_path / "noisy.py"
    program.write_text(
        "import os\nfrom milepost.conformance.serve import serve\nfrom milepost.reference.cache import make\n"
        "def noisy(configuration):\n    print('loading')\n    os.write(1, b'native noise')\n"
        "    return make(configuration)\nserve(noisy)\n"
    )
    adapter = StdioAdapter([sys.executable, str(program)], SIZES)
    assert adapter.open("r1", (1, 2), (), {}) == make(SIZES).open("r1", (1, 2), (), {})
    adapter.shutdown()


def test_threads_that_listen_end_with_their_program() -> None:
    before = threading.active_count()
    for _ in range(3):
        StdioAdapter(TOY, SIZES).shutdown()
    time.sleep(0.2)
    assert threading.active_count() <= before
