"""`milepost replay`: run one schedule file on a target and show what happens."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from milepost.cli.folders import require_file
from milepost.cli.run import enter_peer
from milepost.cli.screen import show_fault
from milepost.conformance.campaign import replay_schedule
from milepost.conformance.errors import UsageError
from milepost.conformance.files import TraceHeader, TraceLine, read_schedule, write_trace
from milepost.conformance.outcome import Outcome
from milepost.conformance.report.fault_text import fault_report, promise_report
from milepost.conformance.targets import names_for
from milepost.spec.schedule import Schedule


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--target", default="", help="The target (default: the one that the file names).")
@click.option("--record", type=click.Path(path_type=Path), help="Also write what was answered, as a trace.")
def replay_command(file: Path, target: str, record: Path | None) -> int:
    """Run the schedule in FILE, or the schedule inside a trace; exit 1 where it faults."""
    schedule = read_schedule(file)
    if record is not None:
        require_file(record)
    wanted = target or schedule.header.target or "reference"
    names = names_for(wanted)
    if len(names) > 1:
        raise UsageError(f"'{wanted}' stands for {', '.join(names)}: name one with --target")
    enter_peer(names[0])
    outcome = replay_schedule(names[0], schedule)
    if record is not None:
        _record(record, names[0], outcome)
    on = f" --target {shlex.quote(target)}" if target else ""
    return show_outcome(outcome, f"milepost replay {shlex.quote(str(file))}{on}")


def show_outcome(outcome: Outcome, command: str) -> int:
    """Print the verdict on one schedule; return its exit code."""
    capabilities = outcome.state.capabilities
    if not outcome.failed:
        counted = len([line for line in outcome.lines if not line.part])
        click.echo(f"no fault in {counted} operations ({capabilities.engine} {capabilities.version})")
        for reason, count in sorted(outcome.skipped.items()):
            click.echo(f"  skipped {count}: {reason}")
        return 0
    write = fault_report if outcome.fault else promise_report
    kinds = {group.kind.value for group in capabilities.groups}
    profile = "hybrid" if "recurrent" in kinds else "paged"
    show_fault(write(outcome, f"{capabilities.engine} {capabilities.version}", profile, 0, command))
    return 1


def _record(path: Path, target: str, outcome: Outcome) -> None:
    schedule: Schedule = outcome.schedule
    header = TraceHeader(schedule.header, outcome.state.capabilities, target)
    fault = outcome.fault
    failure, text = (fault.code, fault.detail) if fault else ("", "")
    lines = [
        TraceLine(line.operation, line.answer, line.part, *(("", "") if line.answer else (failure, text)))
        for line in outcome.lines
    ]
    write_trace(path, header, lines)
