"""The schedule of a report: one row an operation, what it asked, what the answer granted, and what matters in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from milepost.conformance.outcome import Line
from milepost.conformance.report.case import Case
from milepost.conformance.report.layout import count, numbers, plain, shorten, wrap
from milepost.conformance.report.tokens import Grid, elided, forms
from milepost.spec.answers import (
    Drained,
    Evicted,
    Frozen,
    Grant,
    Hit,
    Landing,
    Launched,
    Pages,
    Refused,
    ResetDone,
    Slots,
    Table,
)
from milepost.spec.operations import (
    Close,
    Drain,
    Evict,
    Extend,
    Freeze,
    Land,
    Launch,
    Open,
    Operation,
    Preempt,
    Publish,
    Reset,
)
from milepost.spec.state import State
from milepost.spec.words import NULL

LONGEST_REQUEST = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One operation as text. `tokens` are set for an open, whose detail depends on the room that is left."""

    label: str
    verb: str
    request: str
    detail: str
    answer: tuple[str, ...]
    note: str = ""
    tokens: tuple[int, ...] = ()

    @property
    def opens(self) -> bool:
        """True for an open."""
        return bool(self.tokens)


def rows_of(case: Case, notes: Sequence[tuple[int, str]]) -> list[Row]:
    """Return a row for each operation of the schedule, in order; what was skipped says so."""
    folded: dict[int, list[int]] = {}
    for number, line in enumerate(case.outcome.lines):
        folded.setdefault(len(case.outcome.schedule.operations) + 1 if line.part == "end" else line.index, []).append(
            number
        )
    texts: dict[int, str] = {}
    for index, text in notes:
        texts[index] = f"{texts[index]}; {text}" if index in texts else text
    rows = []
    reached = case.line.index if case.line else len(case.outcome.schedule.operations)
    for index, operation in enumerate(case.outcome.schedule.operations[:reached], start=1):
        rows.append(_row(case, index, operation, folded.get(index, []), texts.get(index, "")))
    if case.line is not None and (case.line.part == "end" or (case.line.part == "drain" and case.fault.code)):
        rows.append(_last_row(case))
    return rows


def _row(case: Case, index: int, operation: Operation, lines: list[int], note: str) -> Row:
    request = shorten(plain(getattr(operation, "request", "")), LONGEST_REQUEST)
    own = [number for number in lines if case.outcome.lines[number].part != "drain"]
    answer = _answers(case, own) if lines else ("skipped",)
    tokens = operation.tokens if isinstance(operation, Open) else ()
    asked = _frozen_at(case, lines) if isinstance(operation, Freeze) else detail(operation)
    return Row(str(index), operation.verb, request, asked, answer, note, tokens)


def _frozen_at(case: Case, lines: list[int]) -> str:
    """Return `at 8` for a freeze that was answered."""
    answers = (case.outcome.lines[number].answer for number in lines)
    return next((f"at {answer.position}" for answer in answers if isinstance(answer, Frozen)), "")


def _answers(case: Case, numbers_: list[int]) -> tuple[str, ...]:
    """Return the answers of one operation; the grants of an extend in several steps become one."""
    grants = [number for number in numbers_ if isinstance(case.outcome.lines[number].answer, Grant)]
    parts: list[str] = []
    for number in numbers_:
        if number in grants[1:]:
            continue
        if number in grants:
            parts += _grant(case, [case.outcome.lines[one] for one in grants], case.history.moments[number].before)
        else:
            parts += _answer(case, number)
    return tuple(parts if any(parts) else ())


def _last_row(case: Case) -> Row:
    """Return the row of a line that no operation of the schedule stands for: at its end, or in a drain."""
    line = case.line
    assert line is not None
    request = shorten(plain(getattr(line.operation, "request", "")), LONGEST_REQUEST)
    tokens = line.operation.tokens if isinstance(line.operation, Open) else ()
    place = "at the end" if line.part == "end" else "in the drain"
    asked = ", ".join(part for part in (detail(line.operation), place) if part)
    return Row("", line.operation.verb, request, asked, _answers(case, [len(case.outcome.lines) - 1]), tokens=tokens)


def detail(operation: Operation) -> str:
    """Return what an operation asks for, without its verb and request; an open's tokens are shown apart."""
    match operation:
        case Open():
            return _open_detail(operation)
        case Extend():
            return f"to {operation.to}" + (f", draft {operation.draft}" if operation.draft else "")
        case Land():
            accepted = [f"{shorten(name, 10)} accepts {taken}" for name, taken in operation.accepted.items()]
            return ", ".join(["the oldest" if operation.step is None else f"step {operation.step}", *accepted])
        case Close():
            return "keep" if operation.keep else "drop"
        case Evict():
            return f"{operation.cells} of {shorten(operation.group, 12)}"
        case Freeze() | Publish() | Preempt() | Reset() | Drain() | Launch():
            return ""


def _open_detail(operation: Open) -> str:
    parts = [f"{kind}={value}" for kind, value in operation.namespace]
    if operation.content:
        parts.append("images at " + numbers(sorted(operation.content), 20))
    if operation.samples:
        parts.append(f"then says {count(len(operation.samples), 'token')}")
    return shorten(", ".join(parts), 40)


def _answer(case: Case, number: int) -> tuple[str, ...]:
    line = case.outcome.lines[number]
    before = case.history.moments[number].before
    match line.answer:
        case None:
            return ("raised",) if case.fault.code == "crash" else ("no answer",)
        case Hit():
            return (hit_text(case, line.answer, 40),)
        case Grant():
            return _grant(case, [line], before)
        case Frozen():
            return _frozen(case, line, line.answer)
        case Refused():
            return (f"refused: {shorten(line.answer.reason, 20)}",)
        case Launched():
            asked = case.outcome.schedule.operations[line.index - 1] if line.part == "implied" else line.operation
            return _launched(line.answer, before, isinstance(asked, Launch))
        case Evicted():
            named = [case.cell(cell) for cell in line.answer.cells]
            return (", ".join(named[:8]) + (f" and {len(named) - 8} more" if len(named) > 8 else "") or "nothing",)
        case ResetDone():
            return ("done" if line.answer.done else "refused",)
        case Drained():
            return (f"{line.answer.granted} tokens granted, {line.answer.fresh} when fresh",)
        case Landing():
            return ()
    return ()


def group_label(case: Case, name: str) -> str:
    """Return how rows name a group's cells: `pages` or `state` where it is the only one of its kind."""
    group = case.capabilities.group(name)
    alike = [one for one in case.capabilities.groups if one.kind.paged == group.kind.paged]
    return ("pages" if group.kind.paged else "state") if len(alike) == 1 else shorten(name, 12)


def table_parts(
    case: Case, table: Table, kept: Table | None = None, room: int | None = None, paged: bool | None = None
) -> list[str]:
    """Return what a table names, a part for each group of one kind or both: columns that `kept` has not, and slots."""
    parts = []
    for group in case.capabilities.groups:
        if paged not in (None, group.kind.paged):
            continue
        part = table.get(group.name)
        label = group_label(case, group.name)
        if isinstance(part, Pages):
            old = (kept or {}).get(group.name)
            columns = _new_columns(part.columns, old.columns if isinstance(old, Pages) else ())
            if any(index != NULL for index in columns):
                noun = "page" if label == "pages" and len(columns) == 1 else label
                parts.append(f"{noun} {numbers(columns, room)}")
        elif isinstance(part, Slots):
            index = part.source if part.source != NULL and kept is None else part.live
            if index != NULL:
                parts.append(f"{label} {index}")
    return parts


def _new_columns(columns: tuple[int, ...], old: tuple[int, ...]) -> tuple[int, ...]:
    same = 0
    while same < min(len(columns), len(old)) and columns[same] == old[same]:
        same += 1
    return columns[same:]


def hit_text(case: Case, answer: Hit, room: int) -> str:
    """Return a hit in full, or with long lists of pages cut where that takes more than `room`."""
    for limit in (None, 24, 12):
        parts = table_parts(case, answer.table, room=limit) if answer.length else []
        text = ", ".join([f"hit {answer.length}", *parts])
        if len(text) <= room:
            break
    return text


def _grant(case: Case, lines: Sequence[Line], before: State) -> tuple[str, ...]:
    """Return what an extend was granted, in one step or in several: pages first, then slots."""
    operation = lines[0].operation
    assert isinstance(operation, Extend)
    answers = [line.answer for line in lines if isinstance(line.answer, Grant)]
    claim = before.claims.get(operation.request)
    goal = case.outcome.schedule.operations[lines[0].index - 1]
    asked = min(getattr(goal, "to", operation.to), operation.to if claim is None else len(claim.stream.tokens))
    kept = claim.table if claim else {}
    pages = table_parts(case, answers[-1].table, kept, 24, paged=True)
    slots = table_parts(case, answers[-1].table, kept, 24, paged=False)
    if answers[-1].length < asked:
        pages.insert(0, f"granted to {answers[-1].length}")
    slots += [f"freezes {slot} at {position}" for answer in answers for _, slot, position in answer.frozen]
    slots += [f"{group_label(case, name)} from zeros" for name, slot in answers[0].initial_state.items()
              if slot is None and claim and claim.length]
    return (", ".join(pages), ", ".join(slots))


def _frozen(case: Case, line: Line, answer: Frozen) -> tuple[str, ...]:
    return (", ".join(f"{group_label(case, name)} {slot}" for name, slot in answer.cells),)


def _launched(answer: Launched, before: State, explicit: bool) -> tuple[str, ...]:
    copies = [f"copies {source} to {target}" for phase in answer.phases for _, source, target in phase.copies]
    shown = [", ".join(copies[:3]) + (f" and {len(copies) - 3} more" if len(copies) > 3 else "")] if copies else []
    if not explicit:
        return tuple(shown)
    batch = [f"{shorten(claim.request, LONGEST_REQUEST)} to {claim.planned.length}"
             for claim in before.planned() if claim.planned]
    return (f"step {answer.step}: {', '.join(batch[:4])}" + (", ..." if len(batch) > 4 else ""), *shown)


# -- laying rows out


def lay_out(case: Case, rows: Sequence[Row], width: int) -> list[list[str]]:
    """Return each row as lines of at most `width`, in columns where they fit."""
    head = max((len(row.request) for row in rows), default=0)
    margin = 13 + head + 2
    earlier: list[tuple[str, tuple[int, ...]]] = []
    details: list[str] = []
    for row in rows:
        details.append(_open_text(case, row, earlier, width - margin) if row.opens else row.detail)
        if row.opens:
            earlier.append((row.request, row.tokens))
    tokens = max((len(text) for row, text in zip(rows, details, strict=True) if row.opens), default=0)
    asked = max((len(text) for row, text in zip(rows, details, strict=True) if not row.opens), default=0)
    texts = list(zip(rows, details, strict=True))
    beside = [row for row in rows if not row.opens and row.answer and (row.answer[1:] or row.note)]
    second = max((len(row.answer[0]) for row in beside), default=0)
    tries = []
    aligned = [(tokens + 6, max(tokens + 6, asked + 2), 9)] if tokens <= 32 else []
    for wide, start, gap in (*aligned, (tokens + 6, asked + 5, 5), (tokens + 6, asked + 2, 2),
                             (tokens + 2, asked + 2, 2)):
        laid = [_lines(row, text, head, (wide, start, start + second + gap), width) for row, text in texts]
        tries.append((sum(len(lines) for lines, _ in laid), sum(broken for _, broken in laid), laid))
    return [lines for lines, _ in min(tries, key=lambda one: one[:2])[2]]


def _open_text(case: Case, row: Row, earlier: Sequence[tuple[str, tuple[int, ...]]], room: int) -> str:
    """Return an open's tokens in the first form that leaves room for its answer, or in the shortest."""
    grid = Grid(case.capabilities.page_size, case.capabilities.chunk_size)
    extra = f"  {row.detail}" if row.detail else ""
    spare = room - len(extra) - sum(map(len, row.answer)) - 2
    if spare < 24:
        spare = room - len(extra)
    for form in forms(row.tokens, grid, earlier):
        if len(form) <= spare:
            return form + extra
    return elided(row.tokens, max(spare, 24)) + extra


def _lines(row: Row, text: str, head: int, columns: tuple[int, int, int], width: int) -> tuple[list[str], bool]:
    """Return a row's lines, and whether its columns had to be given up."""
    wide, start, second = columns
    prefix = f"{row.label:>3}  {row.verb:<7} {row.request:<{head}}  "
    line = prefix + text
    if row.answer:
        line = _pad(line, len(prefix) + (wide if row.opens else start)) + row.answer[0]
    for number, part in enumerate(row.answer[1:]):
        line = _pad(line, len(prefix) + second if not number else 0) + part
    if len(line) > width:
        return _broken(prefix + text, row, width), True
    note = f"<- {row.note}" if row.note else ""
    for whole in (_pad(line, len(prefix) + second - 3) + note, f"{line}  {note}"):
        if len(whole.rstrip()) <= width:
            return [whole.rstrip()], False
    return [line.rstrip(), *_note_below(note, width)], False


def _note_below(note: str, width: int) -> list[str]:
    indent = " " * max(min(width - len(note), width // 2), 17)
    return wrap(note, width, indent, indent + "   ")


def _pad(line: str, column: int) -> str:
    return line.ljust(column) if len(line) + 2 <= column else line + "  "


def _broken(first: str, row: Row, width: int) -> list[str]:
    """Return a row that does not fit into one line: the answer and the note each start below."""
    indent = " " * 17
    lines = [shorten(first.rstrip(), width)] if len(first.rstrip()) > width else [first.rstrip()]
    answer = ", ".join(part for part in row.answer if part)
    if answer and len(lines[0]) + 2 + len(answer) <= width:
        lines[0] += "  " + answer
    elif answer:
        lines += wrap(answer, width, indent)
    return lines + (_note_below(f"<- {row.note}", width) if row.note else [])
