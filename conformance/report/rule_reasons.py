"""Accounts of broken rules: who holds what, who was given it all the same, what was lost, and what fell over."""

from __future__ import annotations

from collections.abc import Callable

from milepost.conformance.report.case import SILENT, Account, Case
from milepost.conformance.report.history import Event
from milepost.conformance.report.layout import count, listed, numbers, plain, shorten, span
from milepost.spec.answers import Evicted, Grant, Hit, Pages, Refused, named_cells
from milepost.spec.geometry import lies_on
from milepost.spec.operations import Drain, Launch
from milepost.spec.words import NULL, Cell


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


def leak(case: Case) -> Account:
    """Less can be granted after a drain than on a fresh instance."""
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


def torn_refusal(case: Case) -> Account:
    """A refusal that changed what an open request relies on."""
    fault, answer = case.fault, case.line.answer if case.line else None
    reason = f" ({plain(answer.reason)})" if isinstance(answer, Refused) else ""
    asked = getattr(case.line.operation, "request", "") if case.line else ""
    victim = "it" if asked == fault.request else case.name
    start = f"{case.where} refuses {case.short(asked)}{reason}"
    tail = f"The caller goes on as if nothing had happened: {case.name}{SILENT}"
    if "still holds cells" in fault.detail:
        shown = case.cells(_refused_cells(case)) or "cells"
        return Account(
            f"{start}, and leaves it holding {shown}.",
            "The caller believes that the request holds nothing and never closes it: the cells are lost.",
            (f"the answer to {case.where} is a refusal", f"its table still names {shown}"),
        )
    lost = case.cell_name if fault.cell[1] != NULL else "a page that it needs"
    if fault.detail:
        what = f"and {victim} can no longer read token {fault.position} ({plain(fault.detail)})"
    else:
        what = f"and takes {lost}, the state that {victim} goes on from"
    clauses, notes = held_since(case, fault.request, fault.cell) if fault.cell[1] != NULL else ([], [])
    clauses = [one for one in clauses if not one.startswith("no line")]
    return Account(f"{start}, {what}.", tail,
                   (*clauses, f"{case.where} refused, and its answer takes {_taken(case)} from {case.name}"),
                   tuple(notes))


def _taken(case: Case) -> str:
    """Return the cells that a refusal took from the request that the fault is about."""
    claim, now = case.before.claims.get(case.fault.request), case.after.claims.get(case.fault.request)
    cells = sorted((claim.cells if claim else frozenset()) - (now.cells if now else frozenset()))
    return case.cells(cells) or "content"


def _refused_cells(case: Case) -> set[Cell]:
    """Return the cells that the refusing answer's tables name for the refused request."""
    answer = case.line.answer if case.line else None
    table = getattr(answer, "tables", {}).get(case.fault.request, {})
    claim = case.after.claims.get(case.fault.request)
    return set(named_cells(table, case.before.pools)) or set(claim.cells if claim else ())


def illegal_boundary(case: Case) -> Account:
    """A hit or freeze off the declared grid, or where no resume is possible."""
    fault, answer = case.fault, case.line.answer if case.line else None
    n = fault.position
    if isinstance(answer, Grant):
        return _illegal_freeze(case, answer)
    prompt, alignment = fault.numbers.get("prompt", 0), case.capabilities.hit_alignment
    if n > prompt - 1 or n < 0:
        return Account(
            f"{case.where} lets {case.name} resume at token {n} of a prompt of {count(prompt, 'token')}.",
            "The last prompt token has to be computed, it gives the first logits: there would be nothing to sample "
            "from.",
            (f"a hit on {count(prompt, 'token')} is at most {max(prompt - 1, 0)}", f"{case.where} claims {n}"),
        )
    return Account(
        f"{case.where} lets {case.name} resume at token {n}, off the engine's own hit alignment of {alignment}.",
        "The engine's arithmetic no longer holds: chunks, pages and copies are computed for a grid that this hit is "
        "not on.",
        (f"{case.where} claims {n}", f"the engine declares hit_alignment {alignment}",
         f"the nearest multiples are {n - n % alignment} and {n - n % alignment + alignment}"),
    )


def _illegal_freeze(case: Case, answer: Grant) -> Account:
    grid, n = case.capabilities.freeze_grid, case.fault.position
    claim = case.before.claims.get(case.fault.request)
    start = claim.length if claim else 0
    tail = "The state there is not the one that its label says: a later hit would resume from another position."
    if not start <= n <= answer.length:
        return Account(
            f"{case.where} freezes {case.name} at {n}, outside its own step over tokens {start}..{answer.length - 1}.",
            tail, (f"{case.where} goes from {start} to {answer.length}", f"it claims a snapshot at {n}"),
        )
    origin = f"its start at {start}" if grid.origin == "step" else "token 0"
    reached = [at for at in range(start + 1, answer.length)
               if lies_on(grid.chunk_size, at - (start if grid.origin == "step" else 0))]
    points = f"the grid points inside the step are {numbers(reached, 30)}" if reached else (
        "no grid point lies inside the step")
    return Account(
        f"{case.where} freezes {case.name} at {n}, off the declared grid of {grid.chunk_size} from {origin}.",
        tail, (f"{case.where} goes from {start} to {answer.length}", points, f"it claims a snapshot at {n}"),
    )


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
