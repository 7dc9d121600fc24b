"""What `milepost check` prints of a trace: the fault in its file, and what a recording cannot show."""

from __future__ import annotations

from collections.abc import Iterator

from milepost.conformance.checking import Checked
from milepost.conformance.recorded import PARTIAL
from milepost.conformance.report.layout import both_ends, count, wrap
from milepost.spec.faults import Fault
from milepost.spec.laws import law
from milepost.spec.payload import Provenance
from milepost.spec.words import NULL


def trace_fault(checked: Checked, path: str, command: str, width: int = 80) -> str:
    """Return the report of a fault in a recording, or in a trace that is too long to tell whole.

    ValueError where the trace has no fault.
    """
    fault = checked.outcome.fault
    if fault is None:
        raise ValueError("a fault report needs a trace with a fault")
    declared, broken = checked.header.capabilities, law(fault.kind.law)
    left = f"FAULT {fault.code}   law {broken.number}, {broken.name}"
    lines = both_ends(left, f"{declared.engine} {declared.version}", width)
    verb = checked.outcome.lines[-1].operation.verb
    lines += wrap(f"{fault.kind.happened}: {fault.kind.consequence}.", width, "  ")
    lines += wrap(f"{path}:{checked.place}: {verb}, operation {checked.counted}", width, "  at       ")
    for label, text in _details(fault):
        lines += wrap(text, width, f"  {label:<9}")
    if fault.kind.precedent:
        lines += wrap(fault.kind.precedent, width, "  seen before  ")
    lines += wrap(command, width, "  again    ")
    return "\n".join(line.rstrip() for line in lines)


def _details(fault: Fault) -> Iterator[tuple[str, str]]:
    if fault.request:
        yield "request", fault.request + (f", against {fault.other}" if fault.other else "")
    if fault.cell[1] != NULL:
        group = f" of group {fault.group}" if fault.group else ""
        yield "cell", f"{fault.cell[0]} {fault.cell[1]}{group}"
    if fault.expected is not None:
        yield "needed", _prefix(fault.expected)
        yield "found", _prefix(fault.found) if fault.found else "nothing that the trace has a name for"
    if fault.detail:
        yield "detail", fault.detail


def _prefix(provenance: Provenance) -> str:
    return f"the first {provenance.length} tokens of {provenance.request}"


def trace_passed(checked: Checked) -> str:
    """Return the sentence on a trace without a fault."""
    declared = checked.header.capabilities
    return f"no fault in {count(checked.counted, 'operation')} ({declared.engine} {declared.version})"


def trace_limits(checked: Checked, width: int = 80) -> list[str]:
    """Return what a recording cannot show, a line for each reason; empty for a trace that shows everything."""
    lines = [f"the recorder switched itself off here: {checked.stopped}"] if checked.stopped else []
    if checked.header.partial:
        believed = count(checked.assumed, "cell")
        lines.append(f"This trace is partial ({believed} of unknown content believed). It cannot show")
    for reason in dict.fromkeys(checked.header.partial):
        lines += wrap(PARTIAL[reason], width, "  - ")
    return lines
