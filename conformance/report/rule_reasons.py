"""Accounts of broken rules: who holds what, who was given it all the same, what was lost, and what fell over."""

from __future__ import annotations

from collections.abc import Callable

from milepost.conformance.report.boundary_reasons import illegal_boundary
from milepost.conformance.report.case import SILENT, Account, Case
from milepost.conformance.report.holding import held_since
from milepost.conformance.report.layout import count, listed, plain, shorten, span
from milepost.conformance.report.leak_reasons import leak
from milepost.conformance.report.refusal_reasons import torn_refusal
from milepost.spec.answers import Evicted, Grant, Hit, Pages
from milepost.spec.operations import Launch
from milepost.spec.words import Cell


def _tokens_in(case: Case, request: str, cell: Cell) -> str:
    """Return which tokens of a request a cell stands for, '' where that is not a page of its table."""
    claim = case.before.claims.get(request) or case.after.claims.get(request)
    for name, part in claim.table.items() if claim else ():
        group = case.capabilities.group(name)
        if claim and isinstance(part, Pages) and group.pool == cell[0] and cell[1] in part.columns:
            column = part.columns.index(cell[1])
            first = column * group.page_size
            return span("token", first, max(min(first + group.page_size, max(claim.length, first + 1)), first + 1))
    return ""


def double_grant(case: Case) -> Account:
    """A cell granted while another table names it."""
    fault, name = case.fault, case.cell_name
    if fault.other == fault.request:
        return Account(
            f"{case.where} grants {name} to {case.name} twice in one table.",
            f"Two places of {case.name} share one {case.noun(fault.cell[0])}, and the later write destroys the "
            f"earlier: {case.name}{SILENT}",
            (f"the answer to {case.where} names {name} in two places that it fills",),
        )
    clauses, notes = held_since(case, fault.other, fault.cell)
    tokens = _tokens_in(case, fault.other, fault.cell)
    kept = f" for its {tokens}" if tokens else ""
    return Account(
        f"{case.where} grants {name} to {case.name} while {case.other} still holds it{kept}.",
        f"Two requests would write one {case.noun(fault.cell[0])}: each "
        f"{'goes on from the other' if case.holds_state(fault.cell) else 'reads the other'}'s text, and nothing "
        "crashes.",
        (*clauses, f"{case.where} names it for {case.name}"), tuple(notes),
    )


def evicted_while_leased(case: Case) -> Account:
    """A cell granted or evicted while a request reads it."""
    fault, name = case.fault, case.cell_name
    evicts = case.line is not None and isinstance(case.line.answer, Evicted)
    tokens = _tokens_in(case, fault.other, fault.cell)
    what = f"its {tokens}" if tokens else "the state that it is to be restored from"
    verb = f"evicts {name}" if evicts else f"grants {name} to {case.name}"
    clauses, notes = held_since(case, fault.other, fault.cell)
    clauses = [one.replace("gives it up", "ends that lease") for one in clauses]
    return Account(
        f"{case.where} {verb} while {case.other} reads it: {what}.",
        f"{case.other}'s prefix would be overwritten under it: {case.other}{SILENT}",
        (*clauses, f"{case.where} {'lists it as given up' if evicts else f'names it for {case.name}'}"),
        tuple(notes),
    )


def late_write(case: Case) -> Account:
    """A step's effect in a cell that has since been granted to another."""
    fault, name = case.fault, case.cell_name
    flight = next((one for one in case.before.flights if fault.cell in one.writes), None)
    event = case.history.last_write(fault.cell)
    notes = [case.becomes(event)] if event else []
    if case.line is not None and isinstance(case.line.answer, Grant | Hit) and fault.other:
        step = f"step {flight.step}" if flight else "a step in flight"
        return Account(
            f"{case.where} grants {name} to {case.name} while {step} of {case.other} may still write it.",
            f"{case.other}'s write would land in {case.name}'s memory: {case.name}{SILENT}",
            (*_launched(case, flight.step if flight else 0, name), f"no line lands {step} before {case.where}",
             "the engine does not declare ordered_steps"),
            tuple(notes),
        )
    clause, _ = case.last_written(fault.cell)
    return Account(
        f"{case.where} lets {case.name} read {name}, into which a step in flight wrote after it had been refilled.",
        f"An effect outside the device queue was overtaken by an older step: {case.name}{SILENT}",
        (clause, "an effect at 'now' ran before a step that was launched earlier"), tuple(notes),
    )


def _launched(case: Case, step: int, name: str) -> list[str]:
    """Return the clause that says which line launched a step that writes a cell."""
    for line in case.outcome.lines:
        if isinstance(line.operation, Launch) and getattr(line.answer, "step", None) == step:
            return [f"{case.operation(line)} launched step {step}, which writes {name}"]
    return [f"step {step} writes {name}"] if step else []


def write_to_published(case: Case) -> Account:
    """An entry or slot that another request may read is written."""
    fault, name = case.fault, case.cell_name
    reader = fault.other or fault.request
    if not reader:
        return _written_under_a_step(case)
    clauses, notes = held_since(case, reader, fault.cell)
    tokens = _tokens_in(case, reader, fault.cell)
    holder = case.before.claims.get(reader)
    restores = holder is not None and fault.cell in holder.restoring
    reads = f"reads it for {tokens}" if tokens else "is to be restored from it" if restores else "may read it"
    whole = fault.other == fault.request or not fault.other
    written = [event for event in case.history.of(fault.cell, "written") if event.line is case.line
               and event.request == fault.request and not case.holds_state(fault.cell)]
    what = f"{span('token', written[0].first, written[0].length)} into {name}" if written else name
    doer = f"{case.where} {_whole_write(case)} {name}" if whole else f"{case.where} lets {case.name} write {what}"
    last = f"{case.where} writes all of it" if whole else f"{case.where} writes {what} for {case.name}"
    return Account(
        f"{doer} while {case.short(reader)} {reads}.",
        f"Every reader of that prefix gets the writer's content: {case.short(reader)}{SILENT}",
        (*clauses, last), tuple(notes),
    )


def _written_under_a_step(case: Case) -> Account:
    """An effect outside the device queue, over what a step in flight still reads."""
    name = case.cell_name
    flight = next((one for one in case.before.flights if case.fault.cell in one.reads), None)
    step = f"step {flight.step} of {listed(case.short(one) for one in flight.spans)}" if flight else "a step in flight"
    launched = [one.replace("writes", "reads") for one in _launched(case, flight.step if flight else 0, name)]
    return Account(
        f"{case.where} {_whole_write(case)} {name} at once while {step} still reads it.",
        "The step would read what was written over its input: its output would be wrong and nothing would crash.",
        (*launched, f"no line lands {f'step {flight.step}' if flight else 'it'} before {case.where}",
         f"the effect of {case.where} is marked at='now', outside the device queue"),
    )


def _whole_write(case: Case) -> str:
    """Return what a phase does to the faulting cell, as a verb."""
    for phase in getattr(case.line.answer, "phases", ()) if case.line else ():
        for pool, source, target in phase.copies:
            if (pool, target) == case.fault.cell:
                return f"copies {case.cell((pool, source))} over"
        if case.fault.cell in phase.zeros:
            return "zeroes"
    return "overwrites"


def crash(case: Case) -> Account:
    """The engine raised or died."""
    asked = _asked(case)
    detail = shorten(case.fault.detail, 300) or "no text"
    return Account(f"{case.where} ({asked}) raised {detail}.", f"The server goes down with {_open_requests(case)}.",
                   _up_to_here(case))


def hang(case: Case) -> Account:
    """The engine did not answer in time."""
    detail = f": {plain(case.fault.detail)}" if case.fault.detail else ""
    return Account(f"{case.where} ({_asked(case)}) got no answer{detail}.",
                   f"The server stops without a word, with {_open_requests(case)}.", _up_to_here(case))


def _asked(case: Case) -> str:
    operation = case.line.operation if case.line else None
    request = case.short(getattr(operation, "request", ""))
    goal = f" to {operation.to}" if operation and hasattr(operation, "to") else ""
    return f"{operation.verb if operation else 'nothing'}{f' {request}' if request else ''}{goal}"


def _open_requests(case: Case) -> str:
    names = [case.short(claim.request) for claim in case.before.open_claims()]
    if not names:
        return "no request open"
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{count(len(names), 'open request')}: {listed(names[:4]) if not more else ', '.join(names[:4]) + more}"


def _up_to_here(case: Case) -> tuple[str, ...]:
    judged = len(case.outcome.lines) - 1
    legal = f"the {judged} answers before it broke no law" if judged > 1 else (
        "the answer before it broke no law" if judged == 1 else "it is the first call")
    return (legal, "after the handshake an exception or a time-out is the engine's own")


RULE_ACCOUNTS: dict[str, Callable[[Case], Account]] = {
    "double-grant": double_grant,
    "evicted-while-leased": evicted_while_leased,
    "late-write": late_write,
    "write-to-published": write_to_published,
    "leak": leak,
    "torn-refusal": torn_refusal,
    "illegal-boundary": illegal_boundary,
    "crash": crash,
    "hang": hang,
}
