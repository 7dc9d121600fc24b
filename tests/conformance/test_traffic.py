"""Recorded traffic becomes schedules that keep which requests share what, at the size of a small cache."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.conformance.driver import Driver
from milepost.conformance.errors import FormatError
from milepost.conformance.files import parse_schedule, schedule_lines
from milepost.conformance.traffic import ANCHOR, common_length, shorten, traffic_schedules
from milepost.conformance.traffic_sources import Turn, read_conversations
from milepost.reference.cache import make
from milepost.spec.answers import Hit
from milepost.spec.capabilities import Capabilities, Configuration, Group
from milepost.spec.operations import Close, Extend, Freeze, Land, Launch, Open, Publish
from milepost.spec.schedule import Schedule
from milepost.spec.words import GroupKind

SIZES = Configuration()
CAPABILITIES = make(SIZES).capabilities
ROOM = 48


def request(prompt: int, said: int, stop: str, letters: str, kept: int, runs: list[int]) -> list[Any]:
    return [0.5, prompt, said, stop, "r", letters, 1.5, 2.5, kept, runs]


def session(name: str, first: int = 1, tool: int = 128) -> dict[str, Any]:
    """Five requests: two that append, one that rewrites the end, one after a compaction, one that appends again."""
    requests = [
        request(64 * 20 + 32, 100, "T", "kux", 0, [first, 20]),
        request(64 * 24 + 7, 300, "T", "u", 20, [first + 20, 4]),
        request(64 * 26, 60, "E", "x", 23, [first + 30, 3]),
        request(64 * 12 + 1, 0, "-", "", 4, [first + 40, 8]),
        request(64 * 300, 5000, "E", "x", 12, [first + 50, 288]),
    ]
    return {"id": name, "block": 64, "tool": tool, "sys": 64, "reqs": requests}


def write_lines(path: Path, values: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def schedules(path: Path, capabilities: Capabilities = CAPABILITIES, **options: Any) -> list[Schedule]:
    return list(traffic_schedules(path, capabilities, **options))


def opened(schedule: Schedule) -> dict[str, Open]:
    return {one.request: one for one in schedule.operations if isinstance(one, Open)}


def refusal(path: Path) -> str:
    with pytest.raises(FormatError) as caught:
        schedules(path)
    return str(caught.value).replace(str(path), "file")


# -- sessions


def test_a_prompt_that_appends_begins_with_the_one_before_and_what_was_said(tmp_path: Path) -> None:
    requests = opened(schedules(write_lines(tmp_path / "s", [session("one")]), operations=120)[0])
    first, second, third = requests["a1"], requests["a2"], requests["a3"]
    said = first.tokens + first.samples
    assert second.tokens[: len(said)] == said
    shared = common_length(second.tokens, third.tokens)
    assert len(first.tokens) // 4 * 4 < shared < len(second.tokens), "the third rewrites the end of the second"


def test_prompts_end_off_the_grid_where_they_did(tmp_path: Path) -> None:
    requests = opened(schedules(write_lines(tmp_path / "s", [session("one")]), operations=120)[0])
    assert [len(requests[name].tokens) % 4 for name in ("a1", "a2", "a3")] == [2, 0, 0]


def test_a_tool_call_opens_with_the_anchor(tmp_path: Path) -> None:
    schedule = schedules(write_lines(tmp_path / "s", [session("one")]), operations=120)[0]
    requests = opened(schedule)
    assert schedule.header.anchor == ANCHOR
    assert ANCHOR in requests["a1"].samples
    assert requests["a2"].samples[0] == ANCHOR, "nothing was said before the call"
    assert ANCHOR not in requests["a3"].samples + requests["a4"].samples


def test_without_a_tool_call_there_is_no_anchor(tmp_path: Path) -> None:
    quiet = {"id": "quiet", "reqs": [request(200, 9, "E", "x", 0, [1, 3])]}
    assert schedules(write_lines(tmp_path / "s", [quiet]))[0].header.anchor is None


def test_every_prompt_fits_the_cache_that_was_declared(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "s", [session("one"), session("two", 900)])
    lengths = [
        len(one.tokens) + len(one.samples) for schedule in schedules(file) for one in opened(schedule).values()
    ]
    assert len(lengths) == 10
    assert all(0 < length <= ROOM for length in lengths)
    assert sum(length > ROOM // 2 for length in lengths) >= 4, "two such prompts have no room together"


def test_sessions_of_one_program_share_their_beginning_and_no_more(tmp_path: Path) -> None:
    alike = write_lines(tmp_path / "alike", [session("one"), session("two", 900)])
    requests = opened(schedules(alike)[0])
    assert 4 <= common_length(requests["a1"].tokens, requests["b1"].tokens) <= 3 * 4
    other = write_lines(tmp_path / "other", [session("one"), session("two", 900, tool=512)])
    requests = opened(schedules(other)[0])
    assert common_length(requests["a1"].tokens, requests["b1"].tokens) == 0


def test_sub_agents_are_conversations_of_their_own(tmp_path: Path) -> None:
    agent = {"sub": [request(640, 9, "T", "u", 0, [500, 10]), request(704, 9, "E", "x", 10, [510, 1])]}
    nested = {"sub": [request(640, 9, "T", "u", 0, [500, 10]), agent], "tool_tokens": 64, "system_tokens": 0, "t": 1.5}
    whole = session("one")
    whole["reqs"].insert(1, nested)
    file = write_lines(tmp_path / "s", [whole])
    found = [(one.name, len(list(one.turns))) for one in read_conversations(file)]
    assert found == [("one", 5), ("one/reqs[1]", 1), ("one/reqs[1].sub[1]", 2)]
    assert sum(len(opened(schedule)) for schedule in schedules(file)) == 8


def test_blocks_are_told_apart_by_session(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "s", [session("one", tool=0), session("two", tool=0)])
    first, second = (next(one.turns).blocks for one in read_conversations(file))
    assert first[0] == second[0], "the system prompt"
    assert not set(first[1:]) & set(second[1:])


# -- what a schedule looks like


def test_conversations_are_split_into_schedules_of_bounded_length(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "s", [session(f"s{number}", 1000 * number + 1) for number in range(6)])
    for wanted in (30, 60, 200):
        found = schedules(file, operations=wanted)
        assert sum(len(opened(schedule)) for schedule in found) == 30
        assert all(len(schedule.operations) <= wanted * 4 // 3 for schedule in found)
    assert len(schedules(file, operations=30)) > len(schedules(file, operations=200))


def test_turns_of_two_conversations_overlap_and_share_steps(tmp_path: Path) -> None:
    schedule = schedules(write_lines(tmp_path / "s", [session("one"), session("two", 900)]))[0]
    verbs = [type(one) for one in schedule.operations]
    assert {Open, Extend, Launch, Land, Publish, Freeze, Close} == set(verbs)
    names = [one.request[0] for one in schedule.operations if isinstance(one, Extend)]
    assert len([1 for one, other in pairwise(names) if one != other]) > 10
    assert all(one.keep for one in schedule.operations if isinstance(one, Close))
    assert schedule.header.about == "requests of one and two"


def test_one_lane_gives_one_conversation_at_a_time(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "s", [session("one"), session("two", 900)])
    assert {schedule.header.about for schedule in schedules(file, lanes=1)} == {"requests of one", "requests of two"}
    alone = replace(CAPABILITIES, max_live=1)
    assert all(" and " not in schedule.header.about for schedule in schedules(file, alone))


def test_the_same_file_gives_the_same_schedules_packed_or_not(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "trace.jsonl", [session("one"), session("two", 900)])
    packed = tmp_path / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert schedules(file) == schedules(file) == schedules(packed)
    for schedule in schedules(file):
        assert parse_schedule("\n".join(schedule_lines(schedule))) == schedule


def test_only_what_the_cache_offers_is_asked_for(tmp_path: Path) -> None:
    bare = replace(CAPABILITIES, explicit_freeze=False, explicit_publish=False)
    verbs = {type(one) for one in schedules(write_lines(tmp_path / "s", [session("one")]), bare)[0].operations}
    assert not verbs & {Freeze, Publish}


def test_the_scale_follows_the_cache(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "s", [session("one")])
    groups = (Group("kv", GroupKind.FULL, "all", 1), Group("state", GroupKind.RECURRENT, "all"))
    tiny_pages = replace(CAPABILITIES, groups=groups, pools={"all": 512}, chunk_size=64)
    longest = max(len(one.tokens) for one in opened(schedules(file, tiny_pages, operations=120)[0]).values())
    assert 64 < longest <= 256, "the pool is shared by two groups, and a boundary is reached"
    only_state = replace(CAPABILITIES, groups=groups[1:], pools={"all": 4})
    assert schedules(file, only_state)
    single = opened(schedules(file, tokens_per_block=1)[0])
    assert ANCHOR not in {token for one in single.values() for token in one.tokens + one.samples}


def test_the_reference_runs_traffic_without_a_fault_and_hits(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "s", [session(f"s{number}", 1000 * number + 1) for number in range(4)])
    hits = []
    for schedule in schedules(file):
        outcome = Driver(make(schedule.header.configuration)).run(schedule)
        assert not outcome.failed
        hits += [line.answer.length for line in outcome.lines if isinstance(line.answer, Hit)]
    assert len([length for length in hits if length >= 8]) >= 5


# -- shorter prompts

PROMPTS = st.lists(st.lists(st.integers(0, 3), max_size=30), min_size=1, max_size=5)


@given(PROMPTS, st.integers(2, 12))
def test_shortened_prompts_fit_and_stay_prefixes_of_each_other(prompts: list[list[int]], most: int) -> None:
    shortened = shorten(prompts, most)
    assert all(len(prompt) <= most for prompt in shortened)
    for before, after in zip(prompts, shortened, strict=True):
        for longer, kept in zip(prompts, shortened, strict=True):
            if longer[: len(before)] == before:
                assert kept[: len(after)] == after


def test_shortened_prompts_part_where_they_did() -> None:
    system, first, second = list(range(100)), list(range(200, 300)), list(range(300, 400))
    shortened = shorten([system, system + first, system + second, system + first + [1]], 9)
    assert shortened == [
        [0, 1, 2, 3], [0, 1, 2, 3, 200, 201, 202, 203], [0, 1, 2, 3, 300, 301, 302, 303],
        [0, 1, 2, 3, 200, 201, 202, 203, 1],
    ]  # fmt: skip


def test_with_more_turns_than_room_the_first_and_the_newest_blocks_stay() -> None:
    growing = [list(range(1, length + 1)) for length in range(1, 9)]
    assert shorten(growing, 3)[-1] == [1, 7, 8]


@given(st.lists(st.integers(0, 1)), st.lists(st.integers(0, 1)))
def test_the_common_length_is_that_of_a_comparison_one_by_one(left: list[int], right: list[int]) -> None:
    naive = 0
    while naive < min(len(left), len(right)) and left[naive] == right[naive]:
        naive += 1
    assert common_length(left, right) == naive


# -- transcripts

CALL = {"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"what": "flights"}'}}
MESSAGES = [
    {"role": "system", "content": "You book flights. " * 20},
    {"role": "user", "content": [{"type": "text", "text": "Get me to Paris"}, {"type": "image_url", "url": "x"}]},
    {"role": "assistant", "content": "Let me look. " * 6, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Nothing found, try later. " * 8},
    {"role": "assistant", "content": None, "function_call": {"name": "find", "arguments": "{}"}},
    {"role": "function", "name": "find", "content": ""},
    {"role": "assistant", "content": "There are none."},
]


def turns_of(path: Path) -> list[list[Turn]]:
    return [list(conversation.turns) for conversation in read_conversations(path)]


def test_a_transcript_has_a_request_for_each_message_of_the_assistant(tmp_path: Path) -> None:
    (turns,) = turns_of(write_lines(tmp_path / "t.jsonl", [MESSAGES]))
    assert [turn.opener is None for turn in turns] == [False, False, True]
    assert turns[0].opener == 24 and turns[1].opener == 0
    assert turns[1].blocks[: len(turns[0].blocks)] == turns[0].blocks
    requests = opened(schedules(tmp_path / "t.jsonl")[0])
    said = requests["a1"].tokens + requests["a1"].samples
    assert requests["a2"].tokens[: len(said)] == said
    assert requests["a2"].samples[0] == ANCHOR


def test_all_forms_of_a_transcript_read_alike(tmp_path: Path) -> None:
    forms: dict[str, str] = {
        "a list on a line": json.dumps(MESSAGES) + "\n",
        "an object on a line": json.dumps({"messages": MESSAGES, "model": "m"}) + "\n",
        "a message on a line": "".join(json.dumps(message) + "\n" for message in MESSAGES),
        "a document": json.dumps(MESSAGES, indent=2),
        "a document of objects": json.dumps([{"traj": MESSAGES, "reward": 0.5}], indent=1),
        "an object in a document": json.dumps({"history": MESSAGES}, indent=1),
    }
    expected = turns_of(write_lines(tmp_path / "t.jsonl", [MESSAGES]))
    for name, text in forms.items():
        (tmp_path / "form").write_text(text)
        assert turns_of(tmp_path / "form") == expected, name


def test_conversations_with_the_same_beginning_share_it(tmp_path: Path) -> None:
    other = [*MESSAGES[:1], {"role": "user", "content": "Cancel everything"}, {"role": "assistant", "content": "Done."}]
    first, second = turns_of(write_lines(tmp_path / "t.jsonl", [MESSAGES, other]))
    assert common_length(first[0].blocks, second[0].blocks) == len(second[0].blocks) > 2


def test_no_text_reaches_a_schedule(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "t.jsonl", [MESSAGES])
    text = "\n".join(line for schedule in schedules(file) for line in schedule_lines(schedule))
    assert "Paris" not in text and "flights" not in text


# -- bad files


def test_a_bad_line_is_refused_after_the_schedules_before_it(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "s", [session(f"s{number}", 1000 * number + 1) for number in range(4)])
    file.write_text(file.read_text() + '{"id": "cut", "reqs": [[0.0, 1\n')
    stream = traffic_schedules(file, CAPABILITIES)
    assert len(list(islice(stream, 3))) == 3
    with pytest.raises(FormatError, match=r"s:5:\d+: is not JSON"):
        list(stream)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file: the file is empty"),
        ("3", "file:1: expected a session or a list of messages"),
        ('{"requests": []}', 'file:1: expected a session or a list of messages: a list, or an object with "reqs"'),
        ("[[1, 2", "file:1:7: is not JSON"),
        ('[\n\n{"role": user}\n]', "file:3:10: is not JSON"),
        ('[{"role": "user" "content": 3}]\n[]\n', "file:1:18: is not JSON: Expecting ',' delimiter"),
        ('[{"role": "user", "content": 3}]', "file:1: [0].content: expected a text or a list of parts, found 3"),
        ('[{"role": "user", "content": ""}, 7]', "file:1: [1]: expected an object, found 7"),
        ('{"role": "user"}\n{"content": "x"}', "file:2: [1].role: expected a text, found null"),
        ('[{"role": "user", "tool_calls": 3}]', "file:1: [0].tool_calls: expected a list, found 3"),
        ('{"reqs": 3}', "file:1: reqs: expected a list of requests, found 3"),
        ('{"reqs": []}\n{"reqs": [3]}', "file:2: reqs[0]: expected a list of 10, found 3"),
        ('{"reqs": [], "block": 0}', "file:1: block: expected an integer of at least 1, found 0"),
        ('{"reqs": [[0, 64.5, 1, "T", "", "", 0, 0, 0, []]]}', "file:1: reqs[0][1]: expected an integer, found 64.5"),
        ('{"reqs": [[0, 64, 1, "T", "", "", 0, 0, 2, []]]}', "file:1: reqs[0][8]: keeps 2 blocks of the request"),
        ('{"reqs": [[0, 64, 1, "T", "", "", 0, 0, 0, [1]]]}', "file:1: reqs[0][9]: expected runs of (first, count)"),
        ('{"reqs": [[0, 64, 1, "T", "", "", 0, 0, 0, [1, 99999999999]]]}', "that fit into 64 tokens"),
        ('{"reqs": [{"sub": [[0]]}]}', "file:1: reqs[0].sub[0]: expected a list of 10, found [0]"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "file").write_text(text)
    assert message in refusal(tmp_path / "file")


def test_nesting_has_no_limit(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"sub": []}
    for _ in range(200):
        deep = {"sub": [deep]}
    assert len(list(read_conversations(write_lines(tmp_path / "s", [{"reqs": [deep, {"sub": []}]}])))) == 203
