"""The one screen that a run ends with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from milepost.conformance.report.layout import both_ends, command_lines, count, plain, shorten, wrap

WORDS: dict[str, str] = {
    "conformant": "CONFORMANT",
    "partial": "PARTIAL",
    "nonconformant": "NONCONFORMANT",
    "inconclusive": "INCONCLUSIVE",
}
"""How a result is shouted."""


def summary_text(report: dict[str, Any], width: int = 80) -> str:
    """Return the summary of a report dictionary as plain text, no line wider than `width`, no newline at its end.

    Faults are named with their replay commands; their own texts are not repeated.
    """
    sections = [
        _header(report, width),
        _verdict(report, width),
        _evidence(report, width),
        _promises(report, width),
        _unaligned(report, width),
        _faults(report, width),
        _notes(report, width),
    ]
    return "\n\n".join("\n".join(line.rstrip() for line in lines) for lines in sections if lines)


def _header(report: dict[str, Any], width: int) -> list[str]:
    header = report["header"]
    fidelity = header["fidelity"]
    faked = f"; faked: {', '.join(fidelity['faked'])}" if fidelity["faked"] else "; nothing faked"
    settings = [f"suite {header['suite']}", f"profile {header['profile']}"]
    settings += [f"{name} {header[name]}" for name in ("tier", "seed") if name in header]
    return [
        *both_ends(f"{header['engine']} {header['version']}", f"milepost {report['milepost']}", width),
        *wrap(str(header["target"]), width, "  target    "),
        *wrap(f"{fidelity['level']}{faked}", width, "  fidelity  "),
        *wrap(", ".join(settings), width, "  settings  "),
    ]


def _verdict(report: dict[str, Any], width: int) -> list[str]:
    counts = report["counts"]
    ratio = counts.get("judge_ratio")
    ran = f"{count_of(counts['schedules'], 'schedule')}, {count_of(counts['operations'], 'operation')}"
    cost = f"; judging took {ratio:g} times the engine's own time" if ratio is not None else ""
    lines = both_ends(WORDS.get(report["result"], plain(report["result"])), f"{counts['seconds']:g} s", width)
    for reason in report.get("reasons", []):
        lines += wrap(reason, width, "  ", "    ")
    lines += wrap(ran + cost, width, "  ")
    if counts["skipped"]:
        skipped = sorted(counts["skipped"].items(), key=lambda pair: -pair[1])
        reasons = "; ".join(f"{number:,} because {reason}" for reason, number in skipped)
        lines += wrap(reasons, width, "  skipped: ", "    ")
    return lines


def count_of(number: int, noun: str) -> str:
    """Return `1,234 operations`."""
    return count(number, noun).replace(str(number), f"{number:,}", 1)


def _evidence(report: dict[str, Any], width: int) -> list[str]:
    wanted = [mark for mark in report["marks"] if mark["wanted"] is not None]
    met = [mark for mark in report["marks"] if mark["wanted"] is None and mark["count"]]
    if not wanted and not met:
        return []
    longest = min(30, max(width - 40, 8))
    room = max((len(shorten(mark["name"], longest)) for mark in wanted), default=0) + 1
    lines = ["Evidence: what was met, of what the profile wants" if wanted else "Evidence"]
    lacking = [mark for mark in wanted if mark["count"] < mark["wanted"]]
    for mark in lacking:
        lines += _lacking_mark(mark, room, width)
    lines += _enough(wanted, room, width)
    if met:
        also = ", ".join(f"{mark['name']} {mark['count']:,}" for mark in met)
        lines += wrap(also, width, "  also met: " if wanted else "  ", "    ")
    return lines


def _lacking_mark(mark: dict[str, Any], room: int, width: int) -> list[str]:
    """Return a mark that was met too rarely, and what it would have been."""
    return [f"{_mark(mark, room)}  TOO LITTLE", *wrap(mark["meaning"], width, "    ")]


def _mark(mark: dict[str, Any], room: int) -> str:
    return f"  {shorten(mark['name'], room - 1):<{room}}{mark['count']:>5,} of {mark['wanted']:,}"


def _enough(wanted: Sequence[dict[str, Any]], room: int, width: int) -> list[str]:
    """Return the marks that were met often enough, in as many columns as fit, read downwards."""
    cells = [_mark(mark, room) for mark in wanted if mark["count"] >= mark["wanted"]]
    widest = max(map(len, cells), default=width)
    height = -(-len(cells) // max(1, width // widest))
    return ["".join(cell.ljust(widest) for cell in cells[row::height]) for row in range(height)]


def _promises(report: dict[str, Any], width: int) -> list[str]:
    promises = report["promises"]
    if not promises:
        return ["Promises: none declared"]
    order = {"broken": 0, "not judged": 1, "kept": 2}
    room = max(len(plain(one["name"])) for one in promises) + 2
    lines = ["Promises"]
    for one in sorted(promises, key=lambda one: order.get(one["result"], 3)):
        first = f"  {one['result'].upper() if one['result'] == 'broken' else one['result']:<12}"
        first += f"{plain(one['name']):<{room}}"
        lines += wrap(one["sentence"], width, first) if len(first) < width - 20 else wrap(
            f"{first.strip()} {one['sentence']}", width, "  ", "    ")
    return lines


def _unaligned(report: dict[str, Any], width: int) -> list[str]:
    unaligned = report["unaligned"]
    lines = ["Unaligned state"]
    for row in filter(lambda row: row["count"], unaligned["rows"]):
        lines += _figure(row["what"], row["count"], width)
    for note in unaligned["notes"]:
        lines += wrap(note, width, "  ")
    return lines if len(lines) > 1 else ["Unaligned state: nothing seen"]


def _figure(what: str, number: int, width: int) -> list[str]:
    """Return a row with its number at the right end, dots between, and more lines where `what` is long."""
    shown = f"{number:,}"
    lines = wrap(what, width - len(shown) - 4, "  ", "    ")
    return [*lines[:-1], f"{lines[-1]} {'.' * (width - len(lines[-1]) - len(shown) - 2)} {shown}"]


def _faults(report: dict[str, Any], width: int) -> list[str]:
    faults = report["faults"]
    if not faults:
        return ["Faults: none"]
    lines = [f"Faults: {len(faults)} distinct"]
    for fault in faults:
        lines += _fault(fault, width)
    return lines


def _fault(fault: dict[str, Any], width: int) -> list[str]:
    met = count_of(fault["count"], "schedule")
    left = f"  {fault['code']}  {fault['fingerprint']}"
    lines = both_ends(left, f"known, {met}" if fault["known"] else met, width)
    lines += wrap(fault["sentence"], width, "    ")
    lines += wrap(fault["known"], width, "    ") if fault["known"] else []
    return lines + (command_lines(fault["command"], width, "    ") if fault["command"] else [])


def _notes(report: dict[str, Any], width: int) -> Sequence[str]:
    notes = [line for note in report["notes"] for line in wrap(note, width, "  ", "    ")]
    return ["Notes", *notes] if notes else []
