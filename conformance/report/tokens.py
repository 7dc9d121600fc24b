"""How a prompt is shown: by page and chunk where it fits, as runs or against an earlier prompt where it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from milepost.conformance.report.layout import ELLIPSIS, shorten

READABLE = frozenset(range(ord("!"), ord("~") + 1)) - {ord("|")}
"""Tokens that are shown as a character; `|` marks chunks, and any other token is shown as its number: `<872>`."""

DIGITS = frozenset(range(ord("0"), ord("9") + 1))


@dataclass(frozen=True, slots=True)
class Grid:
    """Where a prompt is cut for the eye: a space at each page end, `|` at each chunk end."""

    page_size: int
    chunk_size: int

    def separator(self, position: int) -> str:
        """Return what stands before the token at `position`."""
        if not position:
            return ""
        if self.chunk_size > 1 and position % self.chunk_size == 0:
            return "|"
        return " " if self.page_size > 1 and position % self.page_size == 0 else ""


def grouped(tokens: Sequence[int], grid: Grid, start: int = 0) -> str:
    """Return readable tokens as characters, cut by page and chunk; `start` is the position of the first."""
    shown = "".join(grid.separator(start + offset) + chr(token) for offset, token in enumerate(tokens))
    return shown.lstrip(" |")


def runs(tokens: Sequence[int]) -> list[str]:
    """Return token runs: `A64` for 64 tokens `A`, `<872>x3` for three tokens with that id."""
    return [_run(token, len(list(same))) for token, same in groupby(tokens)]


def _run(token: int, length: int) -> str:
    if token in READABLE and token not in DIGITS:
        return chr(token) if length == 1 else f"{chr(token)}{length}"
    shown = f"'{chr(token)}'" if token in DIGITS else f"<{token}>"
    return shown if length == 1 else f"{shown}x{length}"


def shared_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many tokens two prompts share from the first on."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length


def forms(tokens: Sequence[int], grid: Grid, earlier: Sequence[tuple[str, Sequence[int]]]) -> Iterator[str]:
    """Yield ways to show a prompt, the most telling first: by page, as runs, against the prompt that shares most.

    Every form is exact, and each names all tokens.
    """
    if len(tokens) <= 4096 and all(token in READABLE for token in tokens):
        yield grouped(tokens, grid)
    name, shared = _most_shared(tokens, earlier)
    rest = tokens[shared:]
    if shared >= max(grid.page_size, 2):
        reference = f"{shorten(name, 12)}'s first {shared}"
        if not rest:
            yield reference
        elif len(rest) <= 64 and all(token in READABLE for token in rest):
            yield f"{reference}, {grouped(rest, grid, shared)}"
    yield " ".join(runs(tokens))
    if shared >= max(grid.page_size, 2) and rest:
        yield f"{reference}, {' '.join(runs(rest))}"


def _most_shared(tokens: Sequence[int], earlier: Sequence[tuple[str, Sequence[int]]]) -> tuple[str, int]:
    best = ("", 0)
    for name, other in earlier:
        shared = shared_length(tokens, other)
        if shared > best[1]:
            best = (name, shared)
    return best


def elided(tokens: Sequence[int], room: int) -> str:
    """Return the first runs that fit into `room`, and how many tokens there are."""
    tail = f"{ELLIPSIS} {len(tokens)} tokens"
    shown = ""
    for run in runs(tokens):
        if len(shown) + len(run) + 1 + len(tail) > room:
            break
        shown += run + " "
    return shown + tail
