"""Recorded conversations with a model, read one at a time: what each request's prompt was made of, and what was said.

Two forms are known. Sessions: one a line, `{"id", "block", "tool", "sys", "reqs"}`, where a request is a list whose
members 1, 2, 3, 5, 8 and 9 are prompt and completion tokens, the stop letter (T for a tool call), the letters of what
was said (x for text), and the block ids as the previous request's first p and then runs of (first, count); an object
`{"sub": [...]}` among them is a nested conversation of its own. Transcripts: lists of messages with `role` and
`content`, one a line or one document, or one message a line; tokens are words and signs there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

from milepost.conformance.codec import COUNT, SIZE
from milepost.conformance.errors import FormatError
from milepost.conformance.lines import parse_json, read_lines
from milepost.conformance.shapes import TEXT, Shape, ShapeError, expected, many, member, read_object, row

PIECES_PER_BLOCK = 16
"""Words and signs of a transcript that make one block."""

_MESSAGE_LISTS = ("messages", "traj", "history", "conversation")
_PIECE = re.compile(r"\w+|[^\w\s]")
_ANYTHING: Shape[Any] = Shape(lambda value, path: value, lambda value: value)
_REQUEST = row(_ANYTHING, COUNT, COUNT, TEXT, TEXT, TEXT, _ANYTHING, _ANYTHING, COUNT, many(COUNT))
_FIELDS = 10


@dataclass(frozen=True, slots=True)
class Turn:
    """One request: the ids of its prompt's whole blocks, the tokens behind them, the tokens that the model said, and
    how many of those came before it opened a tool call (None where it opened none). Equal ids are equal text.
    """

    blocks: list[int]
    tail: int
    said: int
    opener: int | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Requests that build on each other, read while they are asked for; `block` is in tokens."""

    name: str
    block: int
    turns: Iterator[Turn]


def read_conversations(path: str | Path) -> Iterator[Conversation]:
    """Yield the conversations of a file of either form; FormatError with the line where it is wrong."""
    name, values = str(path), _values(path)
    first = next(values, None)
    if first is None:
        raise FormatError(name, 0, 0, "the file is empty")
    every = chain([first], values)
    value = first[1]
    if isinstance(value, dict) and "reqs" in value:
        for number, (line, session) in enumerate(every):
            yield from _session(name, line, number, session)
    elif isinstance(value, dict) and "role" in value:
        yield Conversation(_stem(path), PIECES_PER_BLOCK, _message_turns(name, every))
    else:
        for line, one in every:
            yield from _transcripts(name, line, str(line), one)


def _stem(path: str | Path) -> str:
    return Path(path).name.split(".")[0]


def _values(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield (line, value): one for each line, or the whole document where its first line is not one by itself."""
    lines = read_lines(path)
    for line, text in lines:
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            if error.pos < len(text.rstrip()):
                raise FormatError(str(path), line, error.colno, f"is not JSON: {error.msg}") from None
            yield line, _document(str(path), line, text, lines)
            return
        except (ValueError, RecursionError):
            value = parse_json(text, str(path), line)
        yield line, value
        break
    for line, text in lines:
        yield line, parse_json(text, str(path), line)


def _document(path: str, line: int, text: str, rest: Iterator[tuple[int, str]]) -> Any:
    gathered, last = [text], line
    for number, more in rest:
        gathered.append("\n" * (number - last) + more)
        last = number
    return parse_json("".join(gathered), path, line)


# -- sessions


def _session(path: str, line: int, number: int, value: Any) -> Iterator[Conversation]:
    """Yield a session and the conversations nested in it.

    Ids are local to a session, but what comes first is not: sessions whose tool definitions and system prompts have
    the same sizes are taken to share them, as they do where one program made them.
    """
    try:
        session = read_object(value, "")
        name = TEXT.read(session.get("id", f"line-{line}"), "id")
        block = SIZE.read(session.get("block", 64), "block")
        sizes = COUNT.read(session.get("tool", 0), "tool"), COUNT.read(session.get("sys", 0), "sys")
        requests, shared = session.get("reqs"), dict[int, int]()
        turns = _session_turns(path, line, "reqs", requests, _Ids(number, block, sizes, shared))
        yield Conversation(name, block, turns)
        for place, agent in _agents(requests, "reqs"):
            sizes = (
                COUNT.read(agent.get("tool_tokens", 0), f"{place}.tool_tokens"),
                COUNT.read(agent.get("system_tokens", 0), f"{place}.system_tokens"),
            )
            ids = _Ids(number, block, sizes, shared)
            turns = _session_turns(path, line, f"{place}.sub", agent["sub"], ids)
            yield Conversation(f"{name}/{place}", block, turns)
    except ShapeError as error:
        raise FormatError(path, line, 0, str(error)) from None


def _agents(requests: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every nested conversation, and behind it those of its own; a stack, for nesting has no limit."""
    waiting = [(path, requests)]
    while waiting:
        place, inner = waiting.pop()
        if isinstance(inner, dict):
            yield place, inner
            place, inner = f"{place}.sub", inner["sub"]
        members = enumerate(inner if isinstance(inner, list) else [])
        agents = [(f"{place}[{index}]", one) for index, one in members if isinstance(one, dict) and "sub" in one]
        waiting += reversed(agents)


class _Ids:
    """Gives the ids of one conversation a meaning beyond their session."""

    def __init__(self, session: int, block: int, sizes: tuple[int, int], shared: dict[int, int]) -> None:
        self._base, self._sizes, self._shared = session << 40, sizes, shared
        self._left = sum(sizes) // block
        self.block = block

    def expand(self, runs: tuple[int, ...]) -> Iterator[int]:
        """Yield an id for each block of runs (first, count, first, count, ...)."""
        for first, count in zip(runs[::2], runs[1::2], strict=True):
            for number in range(first, first + count):
                if self._left and number not in self._shared:
                    self._shared[number] = -1 - (self._sizes[0] << 80) - (self._sizes[1] << 40) - self._left
                self._left -= bool(self._left)
                yield self._shared.get(number, self._base + number)


def _session_turns(path: str, line: int, place: str, requests: Any, ids: _Ids) -> Iterator[Turn]:
    blocks: list[int] = []
    try:
        if not isinstance(requests, list):
            raise expected("a list of requests", requests, place)
        for index, request in enumerate(requests):
            if isinstance(request, dict) and "sub" in request:
                continue
            blocks, turn = _session_turn(f"{place}[{index}]", request, blocks, ids)
            yield turn
    except ShapeError as error:
        raise FormatError(path, line, 0, str(error)) from None


def _session_turn(place: str, request: Any, before: list[int], ids: _Ids) -> tuple[list[int], Turn]:
    given = request[:_FIELDS] if isinstance(request, list) else request
    _, prompt, said, stop, _, letters, _, _, kept, runs = _REQUEST.read(given, place)
    if kept > len(before):
        raise ShapeError(f"{place}[8]", f"keeps {kept} blocks of the request before, which has {len(before)}")
    if len(runs) % 2 or kept + sum(runs[1::2]) > prompt // ids.block:
        raise ShapeError(f"{place}[9]", f"expected runs of (first, count) that fit into {prompt} tokens")
    blocks = [*before[:kept], *ids.expand(runs)]
    opener = (said // 2 if "x" in letters else 0) if stop == "T" and said else None
    return blocks, Turn(blocks, prompt % ids.block, said, opener)


# -- transcripts


def _transcripts(path: str, line: int, name: str, value: Any) -> Iterator[Conversation]:
    """Yield the conversation that a value is, or those that it holds."""
    if isinstance(value, dict):
        value = next((value[key] for key in _MESSAGE_LISTS if key in value), None)
    if not isinstance(value, list):
        known = ", ".join(f'"{key}"' for key in ("reqs", *_MESSAGE_LISTS))
        raise FormatError(path, line, 0, f"expected a session or a list of messages: a list, or an object with {known}")
    if value and not (isinstance(value[0], dict) and "role" in value[0]):
        for index, one in enumerate(value):
            yield from _transcripts(path, line, f"{name}.{index}", one)
    else:
        turns = _message_turns(path, ((line, message) for message in value))
        yield Conversation(f"{_stem(path)}:{name}", PIECES_PER_BLOCK, turns)


def _message_turns(path: str, messages: Iterator[tuple[int, Any]]) -> Iterator[Turn]:
    """Yield a request for each message of the assistant: all messages before it are its prompt."""
    blocks: list[int] = []
    pieces: list[str] = []
    for index, (line, message) in enumerate(messages):
        try:
            role, said, opener = _read_message(message, f"[{index}]")
        except ShapeError as error:
            raise FormatError(path, line, 0, str(error)) from None
        pieces.append(f"<{role}>")
        if role == "assistant" and said:
            _fill(blocks, pieces)
            yield Turn(list(blocks), len(pieces), len(said), opener)
        pieces.extend(said)
        _fill(blocks, pieces)


def _fill(blocks: list[int], pieces: list[str]) -> None:
    """Move whole blocks out of the pieces."""
    while len(pieces) >= PIECES_PER_BLOCK:
        text = " ".join(pieces[:PIECES_PER_BLOCK])
        blocks.append(int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big"))
        del pieces[:PIECES_PER_BLOCK]


def _read_message(message: Any, path: str) -> tuple[str, list[str], int | None]:
    """Return the role, the pieces, and how many come before the first tool call."""
    given = read_object(message, path)
    role = TEXT.read(given.get("role"), member(path, "role"))
    pieces = _PIECE.findall(_content_text(given.get("content"), member(path, "content")))
    opener = None
    calls = many(_ANYTHING).read(given.get("tool_calls") or [], member(path, "tool_calls"))
    for call in (*calls, *filter(None, [given.get("function_call")])):
        opener = len(pieces) if opener is None else opener
        pieces += ["<call>", *_PIECE.findall(json.dumps(call, ensure_ascii=False))]
    return role, pieces, opener


def _content_text(content: Any, path: str) -> str:
    """Return content as text: it may be missing, or a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise expected("a text or a list of parts", content, path)
    parts = [part.get("text", part) if isinstance(part, dict) else part for part in content]
    return " ".join(part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in parts)
