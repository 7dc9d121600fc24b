"""The schedule and trace formats: JSON lines, a header first, one operation a line, `{"end": count}` last.

    {"schedule": 1, "id": "torn-hit/example", "page_size": 4, "chunk_size": 8, "pools": {"kv": 12, "state": 8}}
    {"op": "open", "request": "r1", "tokens": "ababaabb"}
    {"op": "extend", "request": "r1", "to": 8}
    {"end": 2}

A trace has "trace" for "schedule", what the cache declared and who it was in its header, and "got" on each line.
Trace 2 is what a recorder inside an engine writes: tables as changes, lines that several requests share, tokens that
are told late. Read as trace 1 it would show faults that are none, so that it has a number of its own.

Stability: schedule 1, trace 1 and trace 2 replay for ever. A reader refuses a newer version and ignores fields that it
does not know. Numbers are integers; there are no clocks, no floats and no randomness. Ids, verbs and codes are never
renamed. Every subsequence of a schedule is a schedule: unknown requests are skipped and lengths are clamped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from milepost.spec.capabilities import Configuration, Group
from milepost.spec.operations import Operation

VERSION = 1
"""The version of schedules, and of traces that have whole tables and an answer on each line."""

NEWEST = {"schedule": VERSION, "trace": 2}
"""The newest version of each format; readers refuse newer ones."""

LONGEST = 1 << 24
"""The most tokens that one text of runs may stand for, so that a typing error cannot fill the memory."""

_RUNS = re.compile(r"[^0-9|][1-9][0-9]*(?:\|[^0-9|][1-9][0-9]*)*", re.DOTALL)
_READABLE = range(ord("!"), ord("~") + 1)


@dataclass(frozen=True, slots=True)
class Header:
    """What a schedule asks for.

    `needs` names the group kinds and capabilities without which it says nothing, `anchor` the token that opens a
    tool call, `origin` where the story comes from (a URL), `about` tells it in one sentence, and `target` names what
    it was found on. `groups` and `speculates` are those of `Configuration`.
    """

    id: str
    page_size: int = 4
    chunk_size: int = 8
    pools: dict[str, int] = field(default_factory=lambda: Configuration().pools)
    needs: tuple[str, ...] = ()
    origin: str = ""
    about: str = ""
    anchor: int | None = None
    max_live: int = 4
    target: str = ""
    groups: tuple[Group, ...] = ()
    speculates: int = 0

    @property
    def configuration(self) -> Configuration:
        """The sizes to build a cache with."""
        return Configuration(
            self.page_size, self.chunk_size, dict(self.pools), self.max_live, self.anchor, self.groups, self.speculates
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """Operations in order, under the sizes of a header."""

    header: Header
    operations: tuple[Operation, ...]


def parse_tokens(text: str) -> tuple[int, ...]:
    """Read tokens from text: runs such as `A64|A64|B17` where all of it has that form, else one code point a token.

    ValueError where the runs stand for more than `LONGEST` tokens.
    """
    if not _RUNS.fullmatch(text):
        return tuple(map(ord, text))
    counted = [(ord(run[0]), run[1:]) for run in text.split("|")]
    if any(len(count) > 8 for _, count in counted) or sum(int(count) for _, count in counted) > LONGEST:
        raise ValueError(f"expected at most {LONGEST} tokens, found runs of more")
    return tuple(token for token, count in counted for _ in range(int(count)))


def write_tokens(tokens: Iterable[int]) -> str | list[int]:
    """Return the shortest readable form that `parse_tokens` reads back: text or runs, else the list itself."""
    numbers = list(tokens)
    if not all(token in _READABLE for token in numbers):
        return numbers
    text = "".join(map(chr, numbers))
    runs = "|".join(f"{letter}{len(list(run))}" for letter, run in groupby(text))
    plain = [text] if not _RUNS.fullmatch(text) else []
    counted = [runs] if _RUNS.fullmatch(runs) else []
    return min(plain + counted, key=len, default=numbers)
