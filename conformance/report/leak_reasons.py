"""Accounts of leaks: what a drain could not fill again, and what keeps a cache from ever being idle."""

from __future__ import annotations

from milepost.conformance.report.case import Account, Case
from milepost.conformance.report.history import Event
from milepost.conformance.report.layout import count, listed, plain
from milepost.spec.answers import Refused
from milepost.spec.operations import Close, Drain, Preempt
from milepost.spec.words import Cell


def leak(case: Case) -> Account:
    """Less can be granted after a drain than on a fresh instance."""
    if case.fault.detail:
        return _never_idle(case)
    granted, fresh = case.fault.numbers.get("granted", 0), case.fault.numbers.get("fresh", 0)
    lost = fresh - granted
    short = _refusals(case)
    suspects = [(cell, event) for cell, event in _never_again(case) if _fits(case, cell, short)]
    proof = [f"the filling after {case.where} was granted {granted}, the same filling on a fresh instance {fresh}"]
    proof += [f"its refusals were {listed(short)}"] if short else []
    proof += [f"{case.operation(event.line)} granted {case.cell(cell)} to {case.short(event.request)}, and nothing did "
              "since" for cell, event in suspects[:3]]
    if len(suspects) > 3:
        proof.append(f"{len(suspects) - 3} more cells were not seen again")
    if unseen := _unseen(case, short):
        proof.append(f"the filling was never granted {case.cells(unseen)}")
    notes = [(event.line.index, f"{case.cell(cell)} is not seen again") for cell, event in suspects[:1]]
    pools = {cell[0] for cell, _ in suspects}
    pool = f"pool {plain(pools.pop())}" if len(pools) == 1 else "the pool"
    return Account(
        f"After the drain of {case.where}, {granted} tokens can be granted; on a fresh instance, {fresh}.",
        f"Room for {count(lost, 'token')} is gone for good: {pool} shrinks until nothing is admitted.",
        tuple(proof), tuple(notes),
    )


def _never_idle(case: Case) -> Account:
    """A reset that is refused though nothing is open."""
    closed = [line.index for line in case.outcome.lines if isinstance(line.operation, Close | Preempt)]
    return Account(
        f"{case.where} refuses to reset, and nothing is open or in flight.",
        "Something is held for a request that is gone: it is never given back, and the cache can never be emptied.",
        (*((f"op {closed[-1]} ended the last request",) if closed else ()), "no step is in flight"),
    )


def _drain_lines(case: Case) -> range:
    """Return the positions of the lines that the last drain expands to."""
    lines = case.outcome.lines
    stop = len(lines) - 1 if lines and isinstance(lines[-1].operation, Drain) else len(lines)
    start = stop
    while start and lines[start - 1].part == "drain":
        start -= 1
    return range(start, stop)


def _refusals(case: Case) -> list[str]:
    """Return the reasons for which the filling after a drain was refused, each once."""
    answers = (case.outcome.lines[number].answer for number in _drain_lines(case))
    return list(dict.fromkeys(plain(answer.reason) for answer in answers if isinstance(answer, Refused)))


def _fits(case: Case, cell: Cell, reasons: list[str]) -> bool:
    """Tell whether the want of such a cell can be what a refusal says; any cell where no reason names a kind."""
    kinds = {"no-slot": False, "no-page": True}
    named = {kinds[reason] for reason in reasons if reason in kinds}
    return not named or any(group.kind.paged in named for group in case.groups_of(cell[0]))


def _unseen(case: Case, reasons: list[str]) -> list[Cell]:
    """Return the cells of an exhausted pool that no line of the run ever granted; none where they are many."""
    if not {"no-slot", "no-page"} & set(reasons):
        return []
    seen = {event.cell for event in case.history.events if event.kind == "granted"}
    cells = [(pool, index) for pool, size in case.capabilities.pools.items() for index in range(size)]
    unseen = [cell for cell in cells if cell not in seen and _fits(case, cell, reasons)]
    return unseen if len(unseen) <= 3 else []


def _never_again(case: Case) -> list[tuple[Cell, Event]]:
    """Return cells that were granted before the drain and not in its filling, with their last grant."""
    inside = {id(case.outcome.lines[number]) for number in _drain_lines(case)}
    if not inside:
        return []
    refilled = {event.cell for event in case.history.events if id(event.line) in inside and event.kind == "granted"}
    last = {event.cell: event for event in case.history.events
            if event.kind == "granted" and id(event.line) not in inside}
    return sorted((cell, event) for cell, event in last.items() if cell not in refilled)
