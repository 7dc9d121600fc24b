"""Schedules that the tests of the command line write to files."""

from importlib import resources
from pathlib import Path

SHORT = """\
{"schedule": 1, "id": "short", "page_size": 4, "chunk_size": 8, "pools": {"kv": 12, "state": 8}}
{"op": "open", "request": "r1", "tokens": "ababaabbaaabbbba"}
{"op": "extend", "request": "r1", "to": 8}
{"op": "land"}
{"op": "publish", "request": "r1"}
{"op": "close", "request": "r1", "keep": true}
{"end": 5}
"""

FLOORED = resources.files("milepost.conformance.schedules").joinpath(
    "over-advanced.final-state-is-floored.jsonl").read_text(encoding="utf-8")
"""The schedule of the corpus that `mutant:final-state-is-floored` faults in."""


def short(folder: Path) -> str:
    """Write a schedule of five operations, and return its path."""
    return written(folder, "short.jsonl", SHORT)


def written(folder: Path, name: str, text: str) -> str:
    """Write a file, and return its name."""
    (folder / name).write_text(text, encoding="utf-8")
    return name
