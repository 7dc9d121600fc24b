"""Accounts of gaps: a hit or a step for whose tokens a table names no page."""

from __future__ import annotations

from milepost.conformance.report.case import SILENT, Account, Case
from milepost.conformance.report.layout import span
from milepost.spec.answers import Pages
from milepost.spec.resume import first_needed
from milepost.spec.words import NULL, GroupKind


def kv_gap(case: Case) -> Account:
    """KV entries below the hit that no page is named for."""
    first, stop = _gap(case)
    n = _claimed(case)
    entries = span("token", first, stop)
    named = _named_columns(case)
    if not case.at_open and first >= n:
        return _nowhere_to_write(case, n, first)
    return Account(
        f"{_begin(case, n)} with no KV for {entries}.",
        f"Attention would read nothing there: {case.name}{SILENT}",
        (f"{case.where} claims {n}", f"its table names {named}, and nothing for {entries}", *_given_up(case, first)),
    )


def _nowhere_to_write(case: Case, length: int, first: int) -> Account:
    """A step computes tokens for which its table has no page."""
    claim = case.before.claims.get(case.fault.request)
    stop = claim.planned.length if claim and claim.planned else first + 1
    return Account(
        f"{case.where} lets {case.name} compute {span('token', length, stop)} with no page for token {first}.",
        f"Its KV would be written nowhere, and attention would not find it: {case.name}{SILENT}",
        (f"{case.where} goes from {length} to {stop}", f"its table names {_named_columns(case)}"),
    )


def window_gap(case: Case) -> Account:
    """Entries inside the window that no page is named for."""
    first, stop = _gap(case)
    n, group = _claimed(case), case.group
    window = group.window if group else 0
    entries = span("token", first, stop)
    start = first_needed(GroupKind.WINDOW, n, window)
    return Account(
        f"{_begin(case, n)} with nothing in its window for {entries}.",
        f"Window attention would read nothing there: {case.name}{SILENT}",
        (f"{case.where} claims {n}, and a window of {window} needs {span('token', start, n)} there",
         f"its table names {_named_columns(case)}, and nothing for {entries}", *_given_up(case, first)),
    )


def _claimed(case: Case) -> int:
    return getattr(case.line.answer, "length", 0) if case.at_open and case.line else case.length


def _begin(case: Case, n: int) -> str:
    verb = "lets {} resume at token" if case.at_open else "runs {} on from token"
    return f"{case.where} {verb.format(case.name)} {n}"


def _columns(case: Case) -> tuple[int, ...]:
    claim, group = case.claim(), case.group
    part = claim.table.get(group.name) if claim and group else None
    return part.columns if isinstance(part, Pages) else ()


def _gap(case: Case) -> tuple[int, int]:
    """Return [first, stop) of the tokens from the faulting one on for which the table names no page."""
    group = case.group
    page, position = (group.page_size if group else 1), case.fault.position
    columns = _columns(case)
    column = position // page
    while column < len(columns) and columns[column] == NULL:
        column += 1
    n = max(_claimed(case), position + 1)
    if not columns or position // page >= len(columns):
        return position, n
    return position, max(min(column * page, n), position + 1)


def _named_columns(case: Case) -> str:
    columns = [index for index in _columns(case) if index != NULL]
    group = case.group
    noun = case.noun(group.pool) if group else "page"
    if not columns:
        return f"no {noun}"
    shown = " ".join(map(str, columns[:8])) + (" ..." if len(columns) > 8 else "")
    return f"{noun} {shown}" if len(columns) == 1 else f"{noun}s {shown}"


def _given_up(case: Case, position: int) -> tuple[str, ...]:
    """Return who held the missing entry last, where the run can tell."""
    expected, group = case.fault.expected, case.group
    if expected is None or group is None:
        return ()
    for event in reversed(case.history.events):
        if event.kind == "written" and event.cell[0] == group.pool and event.first <= position < event.length:
            stream = case.stream(event.request)
            if stream and stream.digests[position + 1] == expected.stream.digests[position + 1]:
                return (f"{case.cell(event.cell)} was written with {case.written(event)} by "
                        f"{case.operation(event.line)}",)
    return ("no line wrote them for this prefix",)
