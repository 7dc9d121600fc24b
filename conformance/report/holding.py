"""Proof that a request holds a cell: who gave it, and that nothing took it back."""

from __future__ import annotations

from milepost.conformance.report.case import Case
from milepost.conformance.report.history import Event
from milepost.spec.words import Cell


def _holding(case: Case, request: str, cell: Cell) -> Event | None:
    """Return how a request came to hold a cell."""
    events = [event for event in case.history.of(cell, "granted", "offered") if event.request == request]
    earlier = [event for event in events if event.line is not case.line]
    return (earlier or events)[-1] if events else None


def held_since(case: Case, request: str, cell: Cell) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the proof that a request holds a cell: who gave it, and that nothing took it back."""
    event, name = _holding(case, request, cell), case.short(request)
    if event is None:
        return [f"{name} holds {case.cell(cell)}"], []
    verb = "granted" if event.kind == "granted" else "offered"
    clauses = [f"{case.operation(event.line)} {verb} {case.cell(cell)} to {name}",
               f"no line between {_between(case, event)} gives it up"]
    return clauses, [(event.line.index, f"{name} {'holds' if verb == 'granted' else 'reads'} {case.cell(cell)}")]


def _between(case: Case, event: Event) -> str:
    """Return the operations between an event and the fault, as text."""
    last = case.line.index if case.line else event.line.index
    return f"{event.line.index} and {last}"
