"""Plain text at a fixed width: wrapping, headlines, commands, and lists of numbers that are short enough to read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise

ELLIPSIS = "..."


def plain(text: str) -> str:
    """Return the text in printable ASCII, everything else as escapes: one character is one column everywhere."""
    escaped = "".join(one if one.isprintable() or one == " " else one.encode("unicode_escape").decode() for one in text)
    return escaped.encode("ascii", "backslashreplace").decode()


def shorten(text: str, room: int) -> str:
    """Return the text with its middle left out where it is longer than `room`."""
    text = plain(text)
    if len(text) <= room:
        return text
    kept = max(room - len(ELLIPSIS), 0)
    tail = kept // 2
    return (text[: kept - tail] + ELLIPSIS + (text[-tail:] if tail else ""))[:room]


def wrap(text: str, width: int, first: str = "", indent: str | None = None) -> list[str]:
    """Wrap one paragraph behind `first`; the lines after it start with `indent`, as wide as `first` if None."""
    hanging = " " * len(first) if indent is None else indent
    return textwrap.wrap(
        plain(text), width, initial_indent=first, subsequent_indent=hanging, break_on_hyphens=False
    ) or [first.rstrip()]


def both_ends(left: str, right: str, width: int, indent: str = "  ") -> list[str]:
    """Put `left` and `right` at the two ends of a line, or `right` below where both do not fit."""
    left, right = plain(left), plain(right)
    if not right:
        return wrap(left, width, indent=indent)
    if len(left) + 2 + len(right) <= width:
        return [left + " " * (width - len(left) - len(right)) + right]
    return wrap(left, width, indent=indent) + wrap(right, width, first=indent)


def command_lines(command: str, width: int, first: str) -> list[str]:
    """Return a command that can be copied out of the text: line breaks are escaped as a shell reads them."""
    line = first + plain(command)
    if len(line) <= width:
        return [line]
    lines: list[str] = []
    current = first
    for word in plain(command).split(" "):
        joined = current + word if current in (first, " " * len(first)) else f"{current} {word}"
        if len(joined) + 2 <= width:
            current = joined
            continue
        if current.strip():
            lines.append(current + " \\")
            current = " " * len(first) + word
        else:
            current = joined
        while len(current) > width - 2:  # a word that is longer than a line goes on at the margin
            lines.append(current[: width - 1] + "\\")
            current = current[width - 1 :]
    return [*lines, current]


def count(number: int, noun: str) -> str:
    """Return `1 token`, `2 tokens`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def span(noun: str, first: int, stop: int) -> str:
    """Return `Tokens 8..15` for [8, 16), `Token 8` for one."""
    return f"{noun} {first}" if stop - first == 1 else f"{noun}s {first}..{stop - 1}"


def listed(names: Iterable[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    found = list(names)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}" if found else "nobody"


def ranges(values: Sequence[int], step: int = 1) -> str:
    """Return ascending numbers as ranges: `0, 8, 12..14`, or `8..24 by 8` where they are `step` apart."""
    groups: list[list[int]] = []
    for value in values:
        if groups and value == groups[-1][-1] + step:
            groups[-1].append(value)
        else:
            groups.append([value])
    return ", ".join(text for group in groups for text in _range(group, step))


def _range(group: list[int], step: int) -> list[str]:
    if len(group) < 3:
        return [str(value) for value in group]
    return [f"{group[0]}..{group[-1]}" + (f" by {step}" if step > 1 else "")]


def numbers(values: Sequence[int], room: int | None = None) -> str:
    """Return the numbers with spaces; where they need more than `room`, runs as `11..8`, and then the middle left out.

    -1 (nothing held) is shown as `-`.
    """
    full = " ".join("-" if value < 0 else str(value) for value in values)
    if room is None or len(full) <= room:
        return full
    runs = _runs(values)
    text = " ".join(runs)
    if len(text) <= room:
        return text
    tail = f"{ELLIPSIS} {runs[-1]} ({len(values)})"
    head = ""
    for run in runs:
        if len(head) + len(run) + 1 + len(tail) > room:
            break
        head += run + " "
    return head + tail


def _runs(values: Sequence[int]) -> list[str]:
    """Return maximal runs of equal steps of +1, -1, or 0 for -1, as text."""
    groups: list[list[int]] = []
    for value in values:
        last = groups[-1] if groups else []
        if last and _continues(last, value):
            last.append(value)
        else:
            groups.append([value])
    return [text for group in groups for text in _run(group)]


def _continues(group: list[int], value: int) -> bool:
    if value < 0 or group[0] < 0:
        return value == group[0]
    delta = value - group[-1]
    return abs(delta) == 1 and all(second - first == delta for first, second in pairwise(group[-2:]))


def _run(group: list[int]) -> list[str]:
    if group[0] < 0:
        return ["-"] if len(group) == 1 else [f"-x{len(group)}"]
    return [str(value) for value in group] if len(group) < 3 else [f"{group[0]}..{group[-1]}"]
