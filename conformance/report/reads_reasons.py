"""Accounts of wrong reads: what a reader was told to read, what was there, and which line left it there."""

from __future__ import annotations

from collections.abc import Callable

from milepost.conformance.report.case import SILENT, Account, Case
from milepost.conformance.report.gap_reasons import kv_gap, window_gap
from milepost.conformance.report.history import Event
from milepost.conformance.report.layout import count, span
from milepost.conformance.report.tokens import shared_length
from milepost.spec.answers import Slots
from milepost.spec.operations import Reset
from milepost.spec.words import NULL, Cell


def _resumes(case: Case) -> str:
    """Return the beginning of a sentence about a reader that goes on from `position`."""
    verb = "lets {} resume at token" if case.at_open else "runs {} on from token"
    return f"{case.where} {verb.format(case.name)} {case.fault.position}"


def _claims(case: Case) -> str:
    """Return what the operation claims, as a clause of the proof."""
    if case.at_open:
        claim = case.after.claims.get(case.fault.request)
        answer = getattr(case.line.answer, "length", None) if case.line else None
        return f"{case.where} claims {answer if answer is not None else claim.length if claim else case.fault.position}"
    return f"{case.where} reads {case.cell_name} as {case.name}'s, who goes on from {case.length}"


def _found_length(case: Case) -> int:
    return case.fault.found.length if case.fault.found else 0


def _writes(case: Case, cell: Cell) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the clauses and annotations of what filled a cell last, and of the source where that was a copy."""
    clause, event = case.last_written(cell, case.fault.position)
    clauses, notes = [clause], []
    if event is not None:
        notes.append(case.becomes(event))
        if event.kind == "copied" and not event.frozen:
            source, origin = case.last_written(event.source)
            clauses.append(source)
            if origin is not None and origin is not event:
                notes.append(case.becomes(origin))
    return clauses, notes


def _writer(case: Case, cell: Cell) -> str:
    """Return the request whose forward a cell's content goes back to."""
    event: Event | None = case.history.last_write(cell)
    while event is not None and event.kind == "copied" and not event.request:
        event = case.history.last_write(event.source)
    if event is not None and event.request:
        return event.request
    return case.fault.found.request if case.fault.found else ""


# -- law 4


def torn_hit(case: Case) -> Account:
    """A state that has read fewer tokens than the reader claims."""
    n, seen = case.fault.position, _found_length(case)
    link = "from" if case.at_open else "with"
    if case.fault.cell[1] == NULL:
        source = "with no recurrent state at all" if case.at_open else "with a recurrent state of zeros"
    elif not seen:
        source = f"{link} a state that has seen no token"
    else:
        source = f"{link} a state that has only seen {count(seen, 'token')}"
    missing = f"{span('Token', seen, n)} would never enter the recurrence: {case.name}{SILENT}"
    if case.fault.cell[1] == NULL:
        named = "names no state" if case.at_open else "gives the kernel no initial state"
        return Account(f"{_resumes(case)} {source}.", missing, (f"{case.where} claims {n} and {named}",
                                                                *_whereabouts(case, n)))
    clauses, notes = _writes(case, case.fault.cell)
    return Account(f"{_resumes(case)} {source}.", missing,
                   (f"{case.where} claims {n}", *clauses, *_never_frozen(case, seen, n)), tuple(notes))


def _whereabouts(case: Case, n: int) -> tuple[str, ...]:
    """Return where the right state is, or that there is none."""
    wanted = case.fault.expected.stream.digests[n] if case.fault.expected else 0
    live = {(case.before.pools[name], part.live) for claim in case.before.claims.values()
            for name, part in claim.table.items() if isinstance(part, Slots)}
    holders = [cell for cell, content in case.before.contents.items() if content == wanted]
    claim = case.before.claims.get(case.fault.request)
    own = claim.cells if claim else frozenset()
    holders.sort(key=lambda cell: (cell not in own, cell in live, cell))
    if holders:
        return (f"the state of {n} tokens is in {case.cell(holders[0])}",)
    return (f"no cell holds the state of {n} tokens",)


def _never_frozen(case: Case, seen: int, n: int) -> tuple[str, ...]:
    """Return what was never done between the state's length and the claimed one."""
    where = _whereabouts(case, n)
    writer = _writer(case, case.fault.cell)
    if not where[0].startswith("no cell") or not writer:
        return where
    reached = case.history.longest(writer)
    name = case.short(writer)
    if reached <= seen:
        return (f"{name} never got beyond {reached}",)
    later = sorted({event.length for event in case.history.freezes(writer) if event.length > seen})
    if later:
        return (f"{name} was frozen next at {later[0]}", *where)
    return (f"{name} was never frozen between {seen} and {reached}",)


def over_advanced(case: Case) -> Account:
    """A state that has read more tokens than the reader claims."""
    n, seen = case.fault.position, _found_length(case)
    first = (f"{case.where} lets {case.name} resume at token {n} from a state that has already seen {seen} tokens."
             if case.at_open else f"{_resumes(case)} with a state that has already seen {seen} tokens.")
    found, own = case.fault.found, case.stream(case.fault.request)
    writer = case.short(_writer(case, case.fault.cell)) or "another request"
    agree = found and own and found.stream.identities[n:seen] == own.identities[n:seen]
    second = (f"{span('Token', n, seen)} would enter the recurrence twice: {case.name}{SILENT}" if agree else
              f"It has read {writer}'s {span('token', n, seen)}, which {case.name} does not contain: "
              f"{case.name}{SILENT}")
    clauses, notes = _writes(case, case.fault.cell)
    return Account(first, second, (f"{case.where} claims {n}", *clauses, *_whereabouts(case, n)), tuple(notes))


# -- law 3


def stale_kv(case: Case) -> Account:
    """A KV entry of another prefix."""
    token = case.fault.position
    verb = "offers" if case.at_open else "lets"
    reads = f"offers {case.name} {case.cell_name}" if verb == "offers" else f"lets {case.name} read {case.cell_name}"
    first = f"{case.where} {reads} for token {token}, and it holds {_entry(case)}."
    clauses, notes = _writes(case, case.fault.cell)
    return Account(first, f"Attention would read another text: {case.name}{SILENT}",
                   (_claims(case), *clauses, *_parting(case)), tuple(notes))


def _entry(case: Case) -> str:
    """Return what was found in place of one KV entry."""
    found = case.fault.found
    if found is None:
        return _unknown(case)
    owner = case.short(_writer(case, case.fault.cell) or found.request)
    own, length = case.stream(case.fault.request), found.length
    held = f"{owner}'s token {length - 1}"
    if own and own.identities[:length] == found.stream.identities[:length]:
        return f"{held}, from another place of the same text"
    if own and own.tokens[:length] == found.stream.tokens[:length]:
        return f"{held} with another content (an image, say) in its text"
    return f"{held} of another text"


def _unknown(case: Case) -> str:
    """Return what a cell holds that no prefix explains: a state among pages, pages among states, or bytes."""
    event = case.history.last_write(case.fault.cell)
    paged = case.group is not None and case.group.kind.paged
    if event is not None and event.kind == "written" and case.is_state(event) == paged:
        return f"{case.written(event)}, which {'is a state' if paged else 'are KV entries'}"
    return "bytes that no forward of this run wrote"


def stale_state(case: Case) -> Account:
    """A state of another prefix."""
    found = case.fault.found
    if not case.fault.position:
        return _warm_start(case)
    held = _unknown(case)
    if found is not None:
        owner = case.short(_writer(case, case.fault.cell) or found.request)
        held = f"{owner}'s state after {count(found.length, 'token')} of another text"
    clauses, notes = _writes(case, case.fault.cell)
    return Account(f"{_resumes(case)} {'from' if case.at_open else 'with'} {held}.",
                   f"The recurrence would go on from what {case.name} never said: {case.name}{SILENT}",
                   (_claims(case), *clauses, *_parting(case)), tuple(notes))


def _warm_start(case: Case) -> Account:
    """A cold start from a slot that holds a state."""
    found = case.fault.found
    owner = case.short(_writer(case, case.fault.cell)) or "another request"
    held = f"{owner}'s state after {count(found.length, 'token')}" if found else _unknown(case)
    clauses, notes = _writes(case, case.fault.cell)
    return Account(f"{case.where} starts {case.name} at token 0 from {held}, and not from zeros.",
                   f"The recurrence would go on from what {case.name} never said: {case.name}{SILENT}",
                   (f"{case.name} starts cold in {case.cell_name}", *clauses), tuple(notes))


def _parting(case: Case) -> tuple[str, ...]:
    """Return where the reader's text and the writer's part."""
    found, own = case.fault.found, case.stream(case.fault.request)
    if found is None or own is None:
        return ()
    shared = shared_length(found.stream.identities, own.identities)
    if shared >= found.length:
        return (f"that is {case.name}'s own text, at another place",)
    alike = found.stream.tokens[shared : shared + 1] == own.tokens[shared : shared + 1]
    image = f"; at {shared} their tokens are equal and what they stand for is not" if alike else ""
    return (f"{case.short(found.request)} and {case.name} share {count(shared, 'token')}{image}",)


def reset_survivor(case: Case) -> Account:
    """Memory from before a reset."""
    index = _reset(case)
    verb = "offers" if case.at_open else "lets"
    what = f"{verb} {case.name}" + (" " if case.at_open else " read ") + case.cell_name
    clauses, notes = _writes(case, case.fault.cell)
    resets = f"op {index} reset the cache" if index else "the cache was reset since"
    return Account(
        f"{case.where} {what}, computed before the reset{f' of op {index}' if index else ''}.",
        "A reset follows new weights or adapters: the answer would mix old and new.",
        (*clauses, f"{resets}, before {case.name} was opened"),
        (*notes, *(((index, "nothing from before may be offered after this"),) if index else ())),
    )


def _reset(case: Case) -> int:
    """Return the index of the last reset that was done, 0 where there is none."""
    done = [line.index for line in case.outcome.lines
            if isinstance(line.operation, Reset) and getattr(line.answer, "done", False)]
    return done[-1] if done else 0


def cross_namespace(case: Case) -> Account:
    """Memory of another namespace."""
    found, own = case.fault.found, case.stream(case.fault.request)
    theirs = _namespace(found.stream.namespace if found else ())
    mine = _namespace(own.namespace if own else ())
    owner = case.short(_writer(case, case.fault.cell)) or "another request"
    clauses, notes = _writes(case, case.fault.cell)
    verb = "offers" if case.at_open else "lets"
    what = f"{verb} {case.name}" + (" " if case.at_open else " read ") + case.cell_name
    return Account(
        f"{case.where} {what}, computed for {owner} in {theirs}; {case.name} is in {mine}.",
        "The tokens are equal and the memory is not: one tenant's or adapter's content would enter another's answer.",
        (*clauses, f"{owner} was opened with {theirs}, {case.name} with {mine}"),
        tuple(notes),
    )


def _namespace(pairs: tuple[tuple[str, str], ...]) -> str:
    return " and ".join(f"{kind}={value}" for kind, value in pairs) or "no namespace"


# -- law 8


def uninitialized_read(case: Case) -> Account:
    """Memory that nothing has written since its grant."""
    grant = case.history.latest(case.fault.cell, "granted")
    where = f"for token {case.fault.position}" if case.group and case.group.kind.paged else (
        f"as its state at token {case.fault.position}")
    verb = f"offers {case.name}" if case.at_open else f"lets {case.name} read"
    proof: list[str] = [_claims(case)] if case.at_open else []
    notes: list[tuple[int, str]] = []
    if grant is None:
        since = "which nothing has ever written"
        proof.append(f"no line grants or writes {case.cell_name}")
    else:
        since = "which nothing has written since it was granted"
        proof.append(f"{case.operation(grant.line)} granted {case.cell_name} to {case.short(grant.request)}, and no "
                     "line has written it since")
        notes.append((grant.line.index, f"{case.cell_name} is granted to {case.short(grant.request)}"))
    tenant = "Whatever the last tenant left there enters the answer"
    last = case.history.write_before(grant) if grant else None
    since_grant = case.history.last_write(case.fault.cell, *_entry_of(case))
    if since_grant is not None and since_grant is not last and since_grant.kind == "copied":
        source = case.cell(since_grant.source)
        proof[-1] = f"{case.operation(since_grant.line)} copied {source} into {case.cell_name}"
        proof.append(f"{source} had not been written either")
        since = f"a copy of {source}, which nothing has written"
    elif last is not None:
        proof.append(f"before that it held {case.written(last)}")
        tenant = f"What the last tenant left there, {case.written(last)}, enters the answer"
    return Account(f"{case.where} {verb} {case.cell_name} {where}, {since}.", f"{tenant}: {case.name}{SILENT}",
                   tuple(proof), tuple(notes))


def _entry_of(case: Case) -> tuple[int | None, int]:
    """Return the faulting entry of a page, and the page size."""
    group = case.group
    return (case.fault.position % group.page_size, group.page_size) if group and group.kind.paged else (None, 1)


def read_before_landing(case: Case) -> Account:
    """Memory whose writer has not taken effect yet."""
    cell = case.fault.cell
    flight = next((one for one in case.before.flights if cell in one.writes), None)
    writer = case.short(case.fault.other or (flight.writes[cell][0] if flight else _planner(case)))
    verb = f"offers {case.name}" if case.at_open else f"lets {case.name} read"
    if flight is not None:
        what = f"step {flight.step} of {writer}, which writes it, has not landed"
        proof = [f"{case.cell_name} is written by step {flight.step}", f"no line lands step {flight.step} before "
                 f"{case.where}"]
    elif case.fault.other:
        what = f"{writer} writes it in the same step"
        proof = [f"{writer}'s entries in {case.cell_name} are computed by the step that reads them",
                 "the engine does not declare same_step_reads"]
    else:
        what = f"the step of {writer or 'its owner'} that was to write it has not run"
        proof = _promised(case)
    event = case.history.last_write(cell)
    notes = [case.becomes(event)] if event and flight else []
    return Account(f"{case.where} {verb} {case.cell_name} while {what}.",
                   f"The reader sees what was there before: {case.name}{SILENT}", tuple(proof), tuple(notes))


def _planner(case: Case) -> str:
    """Return the request with a planned step that names the faulting cell."""
    planned = [claim.request for claim in case.before.planned() if case.fault.cell in claim.cells]
    granted = [event.request for event in reversed(case.history.of(case.fault.cell, "granted"))]
    return next((request for request in [*planned, *granted] if request != case.fault.request), "")


def _promised(case: Case) -> list[str]:
    """Return the proof that a cell was offered before its step ran, and what became of that step."""
    cell, name = case.fault.cell, case.cell_name
    offer = next((one for one in case.history.of(cell, "offered") if one.request == case.fault.request), None)
    grant = next((one for one in reversed(case.history.of(cell, "granted")) if one.request == _planner(case)), None)
    proof = [f"{case.operation(grant.line)} granted {name} to {case.short(grant.request)} for a step to come"
             ] if grant else []
    if offer is not None and offer.line is not case.line:
        proof.append(f"{case.operation(offer.line)} offered it to {case.name} on that promise")
    ended = [one.line for one in case.history.of(cell, "given up") if grant and one.request == grant.request]
    if ended:
        proof.append(f"{case.operation(ended[-1])} ended {case.short(grant.request if grant else '')} before that step")
    return proof or [case.last_written(cell)[0]]


READ_ACCOUNTS: dict[str, Callable[[Case], Account]] = {
    "torn-hit": torn_hit,
    "over-advanced": over_advanced,
    "kv-gap": kv_gap,
    "window-gap": window_gap,
    "stale-kv": stale_kv,
    "stale-state": stale_state,
    "reset-survivor": reset_survivor,
    "cross-namespace": cross_namespace,
    "uninitialized-read": uninitialized_read,
    "read-before-landing": read_before_landing,
}
