"""What the page for adapter writers shows is a conversation that the kit could have, and that breaks no law."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from milepost.conformance.answer_form import check_names
from milepost.conformance.codec import (
    CELL,
    CONFIGURATION,
    CONTENT,
    COUNTS,
    INVENTORY,
    read_answer,
    read_capabilities,
    read_operation,
)
from milepost.conformance.shapes import FLAG, Shape
from milepost.conformance.verifying import PROTOCOLS, objections
from milepost.reference.cache import make
from milepost.spec.answers import ANSWERS, REASONS
from milepost.spec.capabilities import Capabilities, Configuration, complaints
from milepost.spec.faults import Fault
from milepost.spec.operations import OPERATIONS
from milepost.spec.state import initial
from milepost.spec.step import step

PAGE = (Path(__file__).parents[2] / "docs/adapters.md").read_text(encoding="utf-8")
Message = dict[str, Any]

VALUES: dict[str, Shape[Any]] = {"account": COUNTS, "inventory": INVENTORY, "read": CONTENT, "write": FLAG}


def pairs() -> Iterator[tuple[Message, Message]]:
    """Each call with its answer."""
    [block] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    messages = [json.loads(line) for line in block.splitlines()]
    yield from zip(messages[::2], messages[1::2], strict=True)


def test_each_call_is_followed_by_its_answer() -> None:
    for number, (call, answer) in enumerate(pairs(), start=1):
        assert call["id"] == answer["id"] == number and "call" in call and "call" not in answer


def test_the_conversation_breaks_no_law_and_contradicts_nothing() -> None:
    conversation = [(call, answer) for call, answer in pairs() if call["call"] in OPERATIONS]
    declared = read_capabilities(next(pairs())[1]["capabilities"])
    assert not complaints(declared)
    state = initial(declared)
    for call, message in conversation:
        answer = read_answer(message)
        check_names(answer, declared)
        after = step(state, read_operation({**call, "op": call["call"]}), answer)
        assert not isinstance(after, Fault), (call, after)
        state = after
    assert state.epoch == 1 and not list(state.open_claims())


def test_every_verb_and_every_kind_of_answer_is_shown() -> None:
    methods = {name for protocol in PROTOCOLS for name in vars(protocol) if not name.startswith("_")}
    assert {call["call"] for call, _ in pairs()} == methods - {"capabilities"} | {"hello"}
    shown = {key for _, answer in pairs() for key in answer}
    assert shown >= set(ANSWERS) - {"drained"} | VALUES.keys()


def test_what_is_no_operation_has_the_form_that_is_read() -> None:
    read: set[str] = set()
    for call, answer in pairs():
        verb = call["call"]
        if verb in VALUES:
            VALUES[verb].read(answer[verb], verb)
            read.add(verb)
        for name, shape in (("cell", CELL), ("config", CONFIGURATION)):
            if name in call:
                shape.read(call[name], name)
                read.add(name)
    assert read == {*VALUES, "cell", "config"}


def test_every_capability_is_spoken_of() -> None:
    table = PAGE.split("## What to declare")[1].split("##")[0]
    assert {field.name for field in fields(Capabilities)} <= set(re.findall(r"`(\w+)`", table))


def test_every_verb_stands_with_the_arguments_that_it_gets() -> None:
    for verb in OPERATIONS.keys() - {"drain"}:
        [arguments] = re.findall(rf"^\| `{verb}\((.*?)\)`", PAGE, re.MULTILINE)
        method = next(getattr(protocol, verb) for protocol in PROTOCOLS if hasattr(protocol, verb))
        names = method.__code__.co_varnames[1 : method.__code__.co_argcount]
        assert tuple(filter(None, arguments.split(", "))) == names


@pytest.mark.parametrize("reason", re.findall(r"`(no-\w+|busy)`", PAGE))
def test_the_reasons_are_known(reason: str) -> None:
    assert reason in REASONS


def test_sizes_are_written_as_the_page_says() -> None:
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"Configuration": Configuration}
    exec(block, names)
    [configuration] = names["SIZES"]["make"]
    cache = make(configuration)
    assert not objections(cache, cache.capabilities)
