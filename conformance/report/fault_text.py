"""The report of one failed schedule: consequence, schedule, proof, legal answers, precedent, and how to replay it."""

from __future__ import annotations

from collections.abc import Sequence

from milepost.conformance.outcome import Outcome
from milepost.conformance.report.case import Account, Case
from milepost.conformance.report.layout import both_ends, command_lines, count, plain, ranges, shorten, wrap
from milepost.conformance.report.legal import legal_evictions, legal_hits, legal_replacements, refusal_is_legal
from milepost.conformance.report.reasons import account_of
from milepost.conformance.report.rows import LONGEST_REQUEST, Row, hit_text, lay_out, rows_of
from milepost.spec.answers import Grant, Hit, Refused
from milepost.spec.faults import Fault
from milepost.spec.laws import PROMISES, law
from milepost.spec.operations import Evict, Extend, Freeze, Open, Publish

MOST_ROWS = 40
"""A schedule that could not be shrunk is shown up to here; what matters and the end are kept."""


def fault_report(
    outcome: Outcome, engine: str, profile: str, shrunk_from: int, replay: str, width: int = 80
) -> str:
    """Return the report of a fault as plain ASCII text, no line wider than `width`, with no newline at its end.

    `engine` is name and version, `shrunk_from` the operations before shrinking (0 where nothing was shrunk), `replay`
    the whole command. ValueError where the outcome has no fault.
    """
    if outcome.fault is None:
        raise ValueError("a fault report needs an outcome with a fault")
    case = Case(outcome, outcome.fault)
    account = account_of(case)
    kind = outcome.fault.kind
    broken_law = law(kind.law)
    left = f"FAULT {kind.code}   law {broken_law.number}, {broken_law.name}"
    lines = both_ends(left, f"{engine}, profile {profile}" if profile else engine, width)
    for sentence in (account.consequence, account.mechanism):
        lines += wrap(sentence, width, "  ") if sentence else []
    lines += _schedule(case, account, shrunk_from, width)
    if account.proof:
        lines += wrap("; ".join(account.proof), width, "  because  ")
    lines += _legal(case, width)
    lines += _last_lines(kind.precedent, replay, width)
    return "\n".join(line.rstrip() for line in lines)


def promise_report(
    outcome: Outcome, engine: str, profile: str, shrunk_from: int, replay: str, width: int = 80
) -> str:
    """Return the report of a broken promise in the same form; ValueError where the outcome has none."""
    if outcome.broken is None:
        raise ValueError("a promise report needs an outcome with a broken promise")
    name, sentence = outcome.broken.promise, outcome.broken.sentence
    lines = both_ends(f"BROKEN PROMISE {name}", f"{engine}, profile {profile}" if profile else engine, width)
    lines += wrap(_sentence(sentence), width, "  ")
    if name in PROMISES:
        lines += wrap(_sentence(f"the engine declares {name}: {PROMISES[name]}"), width, "  ")
    if outcome.schedule.operations:
        case = Case(outcome, Fault("", ""))
        lines += _schedule(case, Account("", ""), shrunk_from, width)
    lines += wrap("no law is broken: without this promise the same behaviour is legal", width, "  because  ")
    lines += _last_lines("", replay, width)
    return "\n".join(line.rstrip() for line in lines)


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


# -- the schedule


def _schedule(case: Case, account: Account, shrunk_from: int, width: int) -> list[str]:
    capabilities = case.capabilities
    pools = " ".join(f"{name}={size}" for name, size in capabilities.pools.items())
    sizes = f"     page {capabilities.page_size}   chunk {_chunk(case)}   pools {pools}"
    operations = len(case.outcome.schedule.operations)
    counted = f"{operations} operation{'' if operations == 1 else 's'}"
    if shrunk_from > operations:
        counted += f", shrunk from {shrunk_from}"
    lines = both_ends(sizes, counted, width, "     ")
    rows = rows_of(case, account.notes)
    if len(rows) > MOST_ROWS:
        lines += _lay_out_part(case, rows, width)
    else:
        lines += [line for row in lay_out(case, rows, width) for line in row]
    unreached = operations - (case.line.index if case.line else 0)
    if unreached > 0 and case.line:
        lines.append(f"     ... and {count(unreached, 'operation')} that the run did not reach")
    return lines


def _chunk(case: Case) -> int:
    declared = case.capabilities.chunk_size
    return declared if declared > 1 else case.outcome.schedule.header.chunk_size


def _lay_out_part(case: Case, rows: Sequence[Row], width: int) -> list[str]:
    """Show the rows of the requests that matter and the last ones, and count what is left out."""
    names = {name for row in (*rows[-1:], *(row for row in rows if row.note)) if (name := row.request)}
    names |= {shorten(plain(name), LONGEST_REQUEST) for name in (case.fault.request, case.fault.other) if name}
    wanted = [number for number, row in enumerate(rows)
              if row.note or (row.request in names and row.answer != ("skipped",))]
    kept = {number for number, row in enumerate(rows) if row.note}
    kept |= set(range(len(rows) - MOST_ROWS // 4, len(rows))) | set(wanted[: MOST_ROWS // 4])
    kept |= set(wanted[-MOST_ROWS // 2 :])
    shown = [row for number, row in enumerate(rows) if number in kept]
    texts = iter(lay_out(case, shown, width))
    lines: list[str] = []
    skipped = 0
    for number in range(len(rows)):
        if number not in kept:
            skipped += 1
            continue
        lines += _left_out(skipped) + next(texts)
        skipped = 0
    return lines + _left_out(skipped)


def _left_out(skipped: int) -> list[str]:
    return [f"     ... {skipped} more operation{'' if skipped == 1 else 's'} ..."] if skipped else []


# -- legal answers


def _legal(case: Case, width: int) -> list[str]:
    line = case.line
    if line is None or line.answer is None or case.white_box:
        return []
    first = f"  legal answers to {case.where}   "
    match line.operation, line.answer:
        case Open() | Extend() | Freeze() | Publish(), Refused() if refusal_is_legal(case, line.operation, line.answer):
            start = ["hit 0"] if isinstance(line.operation, Open) else []
            return _joined([*start, f"refused: {plain(line.answer.reason)}, with every table as it was"], width, first)
        case Open(), _:
            found = legal_hits(case, line.operation, line.answer if isinstance(line.answer, Hit) else None)
            return _options(case, found, width, first)
        case Extend(), Grant() if case.fault.cell[0]:
            others = legal_replacements(case, line.operation, line.answer)
            return _instead(case, others, width, first)
        case Evict(), _:
            cells = legal_evictions(case, line.operation)
            names = "any of " + ", ".join(case.cell(cell) for cell in cells[:12]) if cells else "nothing"
            return wrap(f"nothing  |  {names}" if cells else names, width, first)
    return []


def _options(case: Case, hits: Sequence[Hit], width: int, first: str) -> list[str]:
    """Return all legal hits in full where that takes three lines, else their lengths and the deepest in full."""
    step = case.capabilities.hit_alignment
    lines = _joined(_alike(case, hits, step), width, first)
    if len(lines) <= 3:
        return lines
    lengths = ranges([hit.length for hit in hits], step)
    deepest = hit_text(case, hits[-1], width - len(first) - 13)
    return _joined([f"hit {lengths}", f"the deepest: {deepest}"], width, first)


def _alike(case: Case, hits: Sequence[Hit], step: int) -> list[str]:
    """Return hits as text, those that name the same cells together."""
    groups: dict[str, list[int]] = {}
    for hit in hits:
        groups.setdefault(hit_text(case, hit, 10**6).partition(", ")[2], []).append(hit.length)
    return [f"hit {ranges(lengths, step)}" + (f", {cells}" if cells else "") for cells, lengths in groups.items()]


def _joined(options: Sequence[str], width: int, first: str) -> list[str]:
    """Join options with `|`, breaking lines between them where one does not fit."""
    lines = [first]
    for number, option in enumerate(options):
        last = "" if number == len(options) - 1 else "  |"
        start = "" if len(lines[-1]) == len(first) else "  "
        if len(lines[-1]) + len(start) + len(option) + len(last) > width and start:
            lines.append(" " * len(first))
            start = ""
        lines[-1] += start + option + last
    return [part for line in lines for part in (wrap(line[len(first):], width, line[: len(first)]) if
                                                len(line) > width else [line])]


def _instead(case: Case, others: Sequence[int], width: int, first: str) -> list[str]:
    noun = case.noun(case.fault.cell[0])
    if not others:
        return wrap(f"a refusal: no other {noun} may be granted", width, first)
    return wrap(f"a refusal  |  in place of {case.cell_name}, {noun}{'s' if len(others) > 1 else ''} {ranges(others)}",
                width, first)


# -- the end


def _last_lines(precedent: str, replay: str, width: int) -> list[str]:
    seen = f"  seen before  {plain(precedent)}" if precedent else ""
    command = f"replay  {plain(replay)}"
    if seen and len(seen) + 6 + len(command) <= width:
        return [f"{seen}      {command}"]
    return ([seen] if seen else []) + (command_lines(replay, width, "  replay  ") if replay else [])
