"""Schedules, traces, operations, answers and capabilities survive being written, and bad ones are refused in place."""

import gzip
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.conformance import codec, files, lines
from milepost.conformance.codec import (
    read_answer,
    read_capabilities,
    read_operation,
    write_answer,
    write_capabilities,
    write_operation,
)
from milepost.conformance.errors import FormatError, UsageError
from milepost.conformance.files import TraceHeader, TraceLine, parse_schedule, read_schedule, read_trace, write_schedule
from milepost.conformance.shapes import ShapeError, record
from milepost.spec.answers import (
    ANSWERS,
    Answer,
    Drained,
    Evicted,
    Frozen,
    Grant,
    Hit,
    Landing,
    Launched,
    Pages,
    Phase,
    Refused,
    ResetDone,
    Slots,
)
from milepost.spec.capabilities import Capabilities, Fidelity, FreezeGrid, Group
from milepost.spec.operations import (
    OPERATIONS,
    RESERVED,
    Close,
    Drain,
    Evict,
    Extend,
    Freeze,
    Land,
    Launch,
    Open,
    Operation,
    Preempt,
    Publish,
    Reset,
)
from milepost.spec.schedule import LONGEST, Header, Schedule, parse_tokens, write_tokens
from milepost.spec.words import GroupKind

NAMES = st.text(min_size=1, max_size=6)
COUNTS = st.integers(0, 2**63)
SIZES = st.integers(1, 4096)
CELLS = st.tuples(NAMES, COUNTS)
TOKENS = st.lists(st.one_of(st.integers(0, 2**31), st.sampled_from([*map(ord, "aAb1|9 ")]))).map(tuple)
NAMESPACES = st.lists(st.tuples(NAMES, st.text(max_size=4)), max_size=2).map(lambda pairs: tuple(sorted(pairs)))
SLOTS = st.builds(
    Slots,
    live=st.integers(-1, 9),
    frozen=st.dictionaries(COUNTS.filter(lambda one: one < 10**17), COUNTS, max_size=2).map(
        lambda slots: tuple(sorted(slots.items()))
    ),
    source=st.integers(-1, 9),
)
PAGES = st.builds(Pages, st.lists(st.integers(-1, 99), max_size=4).map(tuple))
TABLES = st.dictionaries(NAMES, st.one_of(PAGES, SLOTS), max_size=2)
MANY_TABLES = st.dictionaries(NAMES, TABLES, max_size=2)
PHASES = st.lists(
    st.builds(
        Phase,
        copies=st.lists(st.tuples(NAMES, COUNTS, COUNTS), max_size=2).map(tuple),
        zeros=st.lists(CELLS, max_size=2).map(tuple),
        unordered=st.booleans(),
        at=st.sampled_from(["queue", "now"]),
    ),
    max_size=2,
).map(tuple)
DIGESTS = st.one_of(st.none(), st.integers(-1, 2**63))
READINGS = st.dictionaries(CELLS, st.one_of(DIGESTS, st.lists(DIGESTS, max_size=3).map(tuple)), max_size=2)

OPERATIONS_DRAWN: dict[type[Operation], st.SearchStrategy[Operation]] = {
    Open: st.builds(
        Open,
        NAMES,
        TOKENS,
        samples=TOKENS,
        namespace=NAMESPACES,
        content=st.dictionaries(st.integers(0, 99), NAMES, max_size=2),
    ),
    Extend: st.builds(Extend, NAMES, COUNTS, draft=COUNTS),
    Launch: st.just(Launch()),
    Land: st.builds(Land, step=st.none() | COUNTS, accepted=st.dictionaries(NAMES, COUNTS, max_size=2)),
    Freeze: st.builds(Freeze, NAMES),
    Publish: st.builds(Publish, NAMES),
    Preempt: st.builds(Preempt, NAMES),
    Close: st.builds(Close, NAMES, keep=st.booleans()),
    Reset: st.just(Reset()),
    Evict: st.builds(Evict, NAMES, cells=COUNTS),
    Drain: st.just(Drain()),
}
ANSWERS_DRAWN: dict[type[Answer], st.SearchStrategy[Answer]] = {
    Hit: st.builds(Hit, COUNTS, table=TABLES, tables=MANY_TABLES, phases=PHASES, readings=READINGS),
    Grant: st.builds(
        Grant,
        COUNTS,
        table=TABLES,
        frozen=st.lists(st.tuples(NAMES, COUNTS, COUNTS), max_size=2).map(tuple),
        initial_state=st.dictionaries(NAMES, st.none() | COUNTS, max_size=2),
        tables=MANY_TABLES,
        draft=COUNTS,
    ),
    Launched: st.builds(Launched, COUNTS, phases=PHASES, tables=MANY_TABLES, readings=READINGS),
    Landing: st.builds(Landing, tables=MANY_TABLES, phases=PHASES, readings=READINGS),
    Frozen: st.builds(
        Frozen,
        COUNTS,
        st.lists(CELLS, max_size=2).map(tuple),
        table=TABLES,
        tables=MANY_TABLES,
        phases=PHASES,
        readings=READINGS,
    ),
    Refused: st.builds(Refused, NAMES, text=st.text(max_size=9), tables=MANY_TABLES),
    ResetDone: st.builds(ResetDone, st.booleans(), tables=MANY_TABLES),
    Evicted: st.builds(Evicted, st.lists(CELLS, max_size=2).map(tuple), listed=st.booleans(), tables=MANY_TABLES),
    Drained: st.builds(Drained, COUNTS, COUNTS, comparable=st.booleans()),
}
OPERATION = st.one_of(*OPERATIONS_DRAWN.values())
ANSWER = st.one_of(*ANSWERS_DRAWN.values())
HEADER = st.builds(
    Header,
    NAMES,
    page_size=SIZES,
    chunk_size=SIZES,
    pools=st.dictionaries(NAMES, SIZES, max_size=2),
    needs=st.lists(NAMES, max_size=2).map(tuple),
    origin=st.text(max_size=9),
    about=st.text(max_size=9),
    anchor=st.none() | COUNTS,
    max_live=SIZES,
    target=st.text(max_size=9),
    groups=st.lists(st.builds(Group, NAMES, st.sampled_from(GroupKind), NAMES, SIZES, COUNTS), max_size=2).map(tuple),
    speculates=COUNTS,
)
FLAGS = [one.name for one in fields(Capabilities) if one.type == "bool"]
CAPABILITIES = Capabilities(
    engine="acme",
    version="0.9.2",
    groups=(Group("kv", GroupKind.FULL, "kv", page_size=4), Group("state", GroupKind.RECURRENT, "state", layers=3)),
    pools={"kv": 12, "state": 8},
    fidelity=Fidelity("shimmed", ("device",)),
    freeze_grid=FreezeGrid(8, "step"),
    drops_planned=("close",),
    cells_per_request={"state": 2},
    promises=("not-inert",),
)
FIRST = '{"schedule": 1, "id": "a"}'


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def refusal(text: str) -> str:
    with pytest.raises(FormatError) as caught:
        parse_schedule(text, "file")
    return str(caught.value)


# -- tokens


@given(TOKENS)
def test_tokens_read_back_as_written(tokens: tuple[int, ...]) -> None:
    written = through_json(write_tokens(tokens))
    assert (parse_tokens(written) if isinstance(written, str) else tuple(written)) == tokens


@pytest.mark.parametrize(
    ("tokens", "written"),
    [
        ("abab", "abab"),
        ("A" * 64 + "B" * 17, "A64|B17"),
        ("aab", "aab"),
        ("", ""),
        ("a1", [97, 49]),
        ("a b", [97, 32, 98]),
        ("1" * 40, "1" * 40),
    ],
)
def test_tokens_are_written_in_the_shortest_readable_form(tokens: str, written: str | list[int]) -> None:
    assert write_tokens(map(ord, tokens)) == written


def test_tokens_beyond_characters_are_written_as_numbers() -> None:
    assert write_tokens([151_643, 97]) == [151_643, 97]
    assert write_tokens([0xD83D, 0xDE00]) == [0xD83D, 0xDE00], "as text, a JSON reader would join the two"


def test_runs_are_read_only_where_all_of_the_text_is_runs() -> None:
    assert parse_tokens("A2|A1|B2") == tuple(map(ord, "AAABB"))
    for text in ("A2|", "|A2", "A2|B", "A0", "A02", "22", "A2B3"):
        assert parse_tokens(text) == tuple(map(ord, text)), text


def test_runs_that_would_fill_the_memory_are_refused() -> None:
    for text in (f"A{LONGEST}|A1", "A99999999999999999999"):
        with pytest.raises(ValueError, match="at most"):
            parse_tokens(text)
    assert "op 2" not in refusal(f'{FIRST}\n{{"op": "open", "request": "r", "tokens": "A99999999"}}')


# -- operations, answers, capabilities


def test_every_verb_and_every_answer_is_drawn() -> None:
    assert set(OPERATIONS_DRAWN) == set(OPERATIONS.values())
    assert set(ANSWERS_DRAWN) == set(ANSWERS.values())


@given(OPERATION)
def test_operations_survive_json(operation: Operation) -> None:
    assert read_operation(through_json(write_operation(operation))) == operation


@given(ANSWER)
def test_answers_survive_json(answer: Answer) -> None:
    assert read_answer(through_json(write_answer(answer))) == answer


@given(st.dictionaries(st.sampled_from(FLAGS), st.booleans()), SIZES, st.sampled_from(["page", "any"]))
def test_capabilities_survive_json(flags: dict[str, bool], size: int, end_donation: str) -> None:
    drawn = replace(CAPABILITIES, hit_alignment=size, end_donation=end_donation, **flags)  # type: ignore[arg-type]
    assert read_capabilities(through_json(write_capabilities(drawn))) == drawn


def test_the_forms_are_those_of_the_documentation() -> None:
    grant = {"length": 4, "table": {"kv": [11, -1], "state": {"live": 3}}, "initial_state": {"state": None}}
    assert read_answer({"id": 3, "grant": grant}) == Grant(
        4, {"kv": Pages((11, -1)), "state": Slots(live=3)}, initial_state={"state": None}
    )
    assert write_answer(read_answer({"grant": grant})) == {"grant": grant}
    slots = {"live": 3, "frozen": {"8": 2}, "source": 5}
    assert read_answer({"hit": {"length": 0, "table": {"s": slots}}}) == Hit(0, {"s": Slots(3, ((8, 2),), 5)})
    landing = Landing(readings={("kv", 3): (1, None), ("state", 0): None})
    assert write_answer(landing) == {"landing": {"readings": [["kv", 3, [1, None]], ["state", 0, None]]}}
    assert read_answer({"reset": True}) == read_answer({"reset": {"done": True}}) == ResetDone(True)


def test_defaults_are_left_out_when_writing() -> None:
    assert write_operation(Extend("r1", 8)) == {"op": "extend", "request": "r1", "to": 8}
    assert write_answer(Landing()) == {"landing": {}}
    assert "max_live" not in write_capabilities(CAPABILITIES)


def test_unknown_fields_are_ignored() -> None:
    assert read_operation({"op": "launch", "colour": 1.5}) == Launch()
    assert read_answer({"id": 1, "launch": {"step": 1, "note": []}, "seconds": 0.25}) == Launched(1)
    declared = {**write_capabilities(CAPABILITIES), "from_the_future": {"x": 1}}
    assert read_capabilities(declared) == CAPABILITIES


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            {"landing": {"tables": {"r1": {"kv": [1, 2, "x"]}}}},
            'landing.tables.r1.kv[2]: expected an integer, found "x"',
        ),
        ({"landing": {"tables": {"r 1": {"kv": 3}}}}, 'landing.tables["r 1"].kv: expected a list of page columns'),
        ({"hit": {"length": -1}}, "hit.length: expected an integer of at least 0, found -1"),
        ({"hit": {"length": 4.0}}, "hit.length: expected an integer, found 4.0"),
        ({"hit": {"length": True}}, "hit.length: expected an integer, found true"),
        ({"hit": {}}, "hit.length: is missing"),
        ({"hit": 3}, "hit: expected an object, found 3"),
        ({"hit": {"length": 0, "table": {"kv": [-2]}}}, "hit.table.kv[0]: expected an integer of at least -1"),
        ({"hit": {"length": 0, "table": {"s": {"frozen": {"x": 1}}}}}, "expected a whole number as key"),
        ({"hit": {"length": 0}, "refused": {"reason": "busy"}}, "expected one answer"),
        ({"id": 4}, "expected one answer"),
        ([], "expected an object, found []"),
        ({"launch": {"step": 1, "phases": [{"at": "later"}]}}, "launch.phases[0].at: expected one of queue, now"),
        ({"launch": {"step": 1, "phases": [{"copies": [["kv", 1]]}]}}, "copies[0]: expected a list of 3"),
        ({"landing": {"readings": [["kv", 1, "x"]]}}, "landing.readings[0][2]: expected an integer"),
        ({"reset": {"done": 1}}, "reset.done: expected true or false, found 1"),
    ],
)
def test_a_wrong_answer_is_refused_with_its_path(answer: Any, message: str) -> None:
    with pytest.raises(ShapeError) as caught:
        read_answer(answer)
    assert message in str(caught.value)


def test_a_long_value_is_cut_in_a_refusal() -> None:
    with pytest.raises(ShapeError) as caught:
        read_answer({"hit": {"length": "x" * 5000}})
    assert len(str(caught.value)) < 120


def test_a_declaration_with_an_unknown_kind_is_refused() -> None:
    declared = through_json(write_capabilities(CAPABILITIES))
    declared["groups"][1]["kind"] = "sparse"
    with pytest.raises(ShapeError, match=r'capabilities.groups\[1\].kind: expected one of full, .*, found "sparse"'):
        read_capabilities(declared)


def test_a_field_without_a_shape_is_noticed() -> None:
    with pytest.raises(TypeError, match="fields and shapes differ"):
        record(Extend, {"request": codec.COUNT, "to": codec.COUNT})


# -- schedule files


@given(HEADER, st.lists(OPERATION, max_size=4))
def test_schedules_survive_being_written(header: Header, operations: list[Operation]) -> None:
    schedule = Schedule(header, tuple(operations))
    assert parse_schedule("\n".join(files.schedule_lines(schedule))) == schedule


def test_a_schedule_file_says_its_sizes_even_where_they_are_the_defaults() -> None:
    first, *_ = files.schedule_lines(Schedule(Header("a"), ()))
    assert json.loads(first) == {
        "schedule": 1, "id": "a", "page_size": 4, "chunk_size": 8, "pools": {"kv": 12, "state": 8}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file: the file is empty"),
        ("[1]", "file:1: no header"),
        ('{"op": "launch"}', "file:1: no header"),
        ('{"schedule": 2, "id": "a"}', "file:1: schedule format 2 is newer than 1"),
        ('{"schedule": 0, "id": "a"}', "file:1: schedule format 0 does not exist"),
        ('{"schedule": 1.0, "id": "a"}', "file:1: schedule: expected an integer, found 1.0"),
        ('{"schedule": 1}', "file:1: id: is missing"),
        ('{"schedule": 1, "id": "a", "page_size": 0}', "page_size: expected an integer of at least 1, found 0"),
        ('{"schedule": 1, "id": "a", "chunk_size": 2.5}', "chunk_size: expected an integer, found 2.5"),
        ('{"schedule": 1, "id": "a", "pools": {"kv": -3}}', "pools.kv: expected an integer of at least 1, found -3"),
        (FIRST, "file:1: the file is cut short"),
        (FIRST + '\n{"op": "launch"}', "file:2: the file is cut short"),
        (FIRST + '\n{"op": "launch"}\n{"end": 2}', "file:3: end: counts 2 operations, but there are 1"),
        (FIRST + '\n{"end": 0}\n{"op": "launch"}', "file:3: text after the end line"),
        (FIRST + '\n{"op": launch}', "file:2:8: is not JSON"),
        (FIRST + '\n\n{"op": "launch"', "file:3:16: is not JSON"),
        (FIRST + "\n" + "[" * 100_000, "file:2: is not JSON that can be read: nested too deeply"),
        (FIRST + '\n{"op": "extend", "request": "r", "to": ' + "9" * 5000 + "}", "file:2: is not JSON"),
        (FIRST + '\n{"op": "extend", "request": "r", "to": NaN}', "file:2: is not JSON: NaN"),
        (FIRST + "\n3", "file:2: expected an object, found 3"),
        (FIRST + '\n{"verb": "launch"}', "file:2: op: is missing"),
        (FIRST + '\n{"op": 7}', "file:2: op: expected a text, found 7"),
        (FIRST + '\n{"op": "lunch"}', "file:2: op: unknown verb 'lunch', known are open, extend, launch"),
        (FIRST + '\n{"op": "extend", "to": 8}', "file:2: request: is missing"),
        (FIRST + '\n{"op": "extend", "request": "", "to": 8}', "file:2: request: expected a name"),
        (FIRST + '\n{"op": "extend", "request": "r", "to": "8"}', 'file:2: to: expected an integer, found "8"'),
        (FIRST + '\n{"op": "extend", "request": "r", "to": 8.0}', "file:2: to: expected an integer, found 8.0"),
        (FIRST + '\n{"op": "extend", "request": "r", "to": -8}', "file:2: to: expected an integer of at least 0"),
        (FIRST + '\n{"op": "open", "request": "r", "tokens": [1, -1]}', "file:2: tokens[1]: expected an integer of at"),
        (FIRST + '\n{"op": "open", "request": "r", "tokens": {}}', "file:2: tokens: expected a list, found {}"),
        (FIRST + '\n{"op": "open", "request": "r", "tokens": "a", "namespace": ["salt"]}', "namespace[0]: expected a"),
        (FIRST + '\n{"op": "close", "request": "r", "keep": 1}', "file:2: keep: expected true or false, found 1"),
    ],
)
def test_a_bad_schedule_is_refused_with_its_line(text: str, message: str) -> None:
    assert message in refusal(text)


@pytest.mark.parametrize("verb", RESERVED)
def test_a_reserved_verb_is_refused_by_name(verb: str) -> None:
    assert refusal(f'{FIRST}\n{{"op": "{verb}"}}') == (
        f"file:2: op: '{verb}' is reserved for a later version of the format"
    )


def test_a_refusal_is_a_usage_error_and_carries_its_place() -> None:
    with pytest.raises(UsageError) as caught:
        parse_schedule(FIRST + '\n{"op": launch}', "f")
    error = caught.value
    assert isinstance(error, FormatError)
    assert (error.path, error.line, error.column, error.exit_code) == ("f", 2, 8, 2)


def test_blank_lines_windows_line_ends_and_a_byte_order_mark_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + FIRST.encode() + b'\r\n\r\n{"op": "launch"}\r\n{"end": 1}\r\n')
    assert read_schedule(file).operations == (Launch(),)


def test_a_compressed_file_is_read_like_a_plain_one_and_a_damaged_one_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl.gz"
    whole = gzip.compress(f'{FIRST}\n{{"op": "launch"}}\n{{"end": 1}}\n'.encode())
    file.write_bytes(whole)
    assert read_schedule(file).operations == (Launch(),)
    file.write_bytes(whole[:-12])
    with pytest.raises(FormatError, match="is damaged after this line"):
        read_schedule(file)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read: No such file"):
        read_schedule(tmp_path / "missing.jsonl")
    with pytest.raises(FormatError, match="cannot be read"):
        read_schedule(tmp_path)
    (tmp_path / "binary").write_bytes(FIRST.encode() + b"\n\xff\xfe\n")
    with pytest.raises(FormatError, match=r"binary:2:1: is not UTF-8 text"):
        read_schedule(tmp_path / "binary")


# -- writing


def test_a_schedule_is_written_whole_into_a_folder_that_is_made_for_it(tmp_path: Path) -> None:
    file = tmp_path / "new" / "s.jsonl"
    schedule = Schedule(Header("a"), (Extend("r1", 8), Drain()))
    write_schedule(file, schedule)
    assert read_schedule(file) == schedule
    assert list(file.parent.iterdir()) == [file]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    write_schedule(file, Schedule(Header("old"), ()))
    with pytest.raises(AttributeError):
        write_schedule(file, Schedule(Header("new"), (Launch(), None)))  # type: ignore[arg-type]
    assert read_schedule(file).header.id == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_written_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with lines.replacing(tmp_path / "whole") as file:
        file.write("x\n")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


# -- traces

TRACED = (
    TraceLine(Open("r1", (97, 98)), Hit(0)),
    TraceLine(Launch(), Launched(1), "implied"),
    TraceLine(Close("r1"), Landing(), "drain"),
    TraceLine(Drain(), Drained(4, 4)),
    TraceLine(Launch(), None, "end", "hang", "no answer within 5 seconds"),
    TraceLine(Reset(), None, failure="crash", text="KeyError: 3"),
)


def test_a_trace_survives_being_written_and_is_read_again_for_each_iteration(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    header = TraceHeader(Header("a", anchor=3, target="stdio:./acme"), CAPABILITIES, "stdio:./acme")
    files.write_trace(file, header, TRACED)
    trace = read_trace(file)
    assert trace.header == header
    assert tuple(trace) == tuple(trace) == TRACED


def test_a_missing_answer_is_written_as_a_crash(tmp_path: Path) -> None:
    files.write_trace(tmp_path / "t", TraceHeader(Header("a"), CAPABILITIES, "toy"), [TraceLine(Launch(), None)])
    trace = read_trace(tmp_path / "t")
    assert [line.failure for line in trace] == ["crash"]
    assert trace.header.header.target == trace.header.target == "toy"


def test_the_schedule_inside_a_trace_is_without_the_lines_that_were_added(tmp_path: Path) -> None:
    files.write_trace(tmp_path / "t", TraceHeader(Header("a"), CAPABILITIES), TRACED)
    assert read_schedule(tmp_path / "t") == Schedule(Header("a"), (Open("r1", (97, 98)), Drain(), Reset()))


def test_a_trace_that_is_cut_short_gives_its_lines_and_then_an_error(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    files.write_trace(file, TraceHeader(Header("a"), CAPABILITIES), TRACED)
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join(whole[:3]))
    seen = []
    with pytest.raises(FormatError, match=r"t.jsonl:3: the file is cut short"):
        for line in read_trace(file):
            seen.append(line)
    assert tuple(seen) == TRACED[:2]


def test_an_interrupted_recording_leaves_no_file(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        files.writing_trace(tmp_path / "t", TraceHeader(Header("a"), CAPABILITIES)) as writer,
    ):
        writer.add(TRACED[0])
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"op": "launch"}', "t:2: got: is missing"),
        ('{"op": "launch", "got": {"launch": {"step": "1"}}}', 't:2: got.launch.step: expected an integer, found "1"'),
        ('{"op": "launch", "got": {"launch": {"step": 1}}, "in": 3}', "t:2: in: expected a text, found 3"),
        ('{"op": "reading", "got": {}}', "t:2: op: unknown verb 'reading'"),
    ],
)
def test_a_bad_trace_line_is_refused_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    first = {"trace": 1, "id": "a", "capabilities": write_capabilities(CAPABILITIES)}
    (tmp_path / "t").write_text(f'{json.dumps(first)}\n{line}\n{{"end": 1}}\n')
    with pytest.raises(FormatError) as caught:
        list(read_trace(tmp_path / "t"))
    assert message in str(caught.value)


def test_a_trace_header_must_declare_what_can_be(tmp_path: Path) -> None:
    impossible = write_capabilities(replace(CAPABILITIES, resets="perhaps"))
    for first, message in (
        ({"trace": 1, "id": "a"}, "capabilities: expected an object, found null"),
        ({"trace": 1, "id": "a", "capabilities": impossible}, "resets 'perhaps' is none of always"),
        ({"schedule": 1, "id": "a"}, "this is a schedule"),
    ):
        (tmp_path / "t").write_text(json.dumps(first) + '\n{"end": 0}\n')
        with pytest.raises(FormatError, match=message):
            read_trace(tmp_path / "t")
