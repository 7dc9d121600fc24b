"""Traces written by a recorder inside a running engine: tables as changes, and what such a trace cannot show.

A recorder writes a table once and then what changed in it: `"changes": {"kv": [[column, page], ...]}` in a grant, and
by request in other answers. A grant with neither has the table of before. Requests that go on by one token each share
a line: `"op": "go-on"` with their names, the lengths that they go on `to`, what was said of each, and in `cells` the
page that is new at the end of each one's first paged group, -1 for none; their kernels read the live slots of their
tables. `said` are tokens that the engine has learnt of the request's answer; `unseen` are cells that requests outside
of the trace were granted or write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from milepost.conformance.codec import CELL, COUNT, INDEX
from milepost.conformance.shapes import TEXT, TOKENS, ShapeError, many, member, read_object, row
from milepost.spec.words import NULL

PARTIAL: dict[str, str] = {
    "sampled": "requests outside of the sample: what they read, and a cell of theirs that is given away",
    "rotated": "what was written before this file began: the first reader of such a cell is believed",
    "attached": "what was written before the recorder came: the first reader of such a cell is believed",
    "worker": "the worker's own copies of states: they are taken from the tables, as if each was made and was whole",
}
"""Why a recording is incomplete, and what it cannot show for that reason."""

LONGEST_JUMP = 1 << 20
"""The most columns by which one change may lie beyond a table, so that a damaged line cannot fill the memory."""

CHANGES = many(row(COUNT, INDEX))
UNSEEN = many(CELL)
NAMES, LENGTHS, SAID, CELLS = many(TEXT), many(COUNT), many(TOKENS), many(INDEX)


class Tables:
    """The last table of each open request, as JSON values, to apply changes to, and its length."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, Any]] = {}
        self._lengths: dict[str, Any] = {}

    def spread(self, line: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield a line as lines of one request each; ShapeError where it has another form."""
        if line.get("op") != "go-on":
            yield line
            return
        names, said = NAMES.read(line.get("requests"), "requests"), SAID.read(line.get("said"), "said")
        lengths = LENGTHS.read(line.get("to"), "to")
        cells = CELLS.read(line.get("cells", [NULL] * len(names)), "cells")
        if not len(names) == len(lengths) == len(said) == len(cells):
            counts = f"{len(lengths)} lengths, {len(said)} sayings and {len(cells)} cells"
            raise ShapeError("requests", f"{len(names)} are named, with {counts}")
        unseen = line.get("unseen", [])
        for name, length, told, cell in zip(names, lengths, said, cells, strict=True):
            yield {**self._going_on(name, length, cell), "said": list(told), "unseen": unseen}
            unseen = []

    def _going_on(self, name: str, length: int, cell: int) -> dict[str, Any]:
        table, before = self._tables.get(name, {}), self._lengths.get(name)
        if before is not None and before != length - 1:
            raise ShapeError("to", f"'{name}' goes on to {length} tokens, but had {before}: a line is missing")
        live = {group: part.get("live") for group, part in table.items() if isinstance(part, dict)}
        grant: dict[str, Any] = {"length": length, "initial_state": live}
        paged = next((group for group, part in table.items() if isinstance(part, list)), None)
        if cell != NULL and paged is not None:
            grant["changes"] = {paged: [[len(table[paged]), cell]]}
        return {"op": "extend", "request": name, "to": length, "got": {"grant": grant}}

    def expand(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a line with whole tables; ShapeError where a change has another form."""
        got, request = read_object(line["got"], "got"), str(line.get("request", ""))
        for tag in ("hit", "grant", "launch", "refused", "landing"):
            if tag in got:
                got = {**got, tag: self._answer(request, tag, read_object(got[tag], member("got", tag)))}
        if line.get("op") in ("close", "preempt"):
            self._tables.pop(request, None)
            self._lengths.pop(request, None)
        return got

    def _answer(self, request: str, tag: str, body: dict[str, Any]) -> dict[str, Any]:
        path = member(member("got", tag), "changes")
        changes = read_object(body.get("changes", {}), path)
        if tag in ("hit", "grant"):
            self._lengths[request] = body.get("length")
        if tag == "hit":
            self._tables[request] = read_object(body.get("table", {}), member("got", "hit.table"))
        elif tag == "grant":
            if "table" in body:
                self._tables[request] = read_object(body["table"], member("got", "grant.table"))
            self._apply(request, changes, path)
            return {**body, "table": self._tables.get(request, {})}
        elif changes:
            for name, changed in changes.items():
                self._apply(name, read_object(changed, member(path, name)), member(path, name))
            tables = read_object(body.get("tables", {}), member("got", tag))
            return {**body, "tables": {**tables, **{name: self._tables[name] for name in changes}}}
        return body

    def _apply(self, request: str, changes: dict[str, Any], path: str) -> None:
        table = dict(self._tables.get(request, {}))
        for group, changed in changes.items():
            table[group] = _columns(table.get(group), changed, member(path, group))
        self._tables[request] = table


def _columns(before: Any, changed: Any, path: str) -> Any:
    """Return a group's part after a change: slots are replaced whole, columns one by one."""
    if isinstance(changed, dict):
        return changed
    columns = list(before) if isinstance(before, list) else []
    for column, cell in CHANGES.read(changed, path):
        if column >= len(columns) + LONGEST_JUMP:
            raise ShapeError(path, f"column {column} lies far beyond the table of {len(columns)}")
        columns.extend([NULL] * (column + 1 - len(columns)))
        columns[column] = cell
    return columns
