"""`milepost check`: judge a recorded trace or a log of cache events, with no cache at hand."""

from __future__ import annotations

import shlex
from importlib import resources
from pathlib import Path

import click

from milepost.cli.replay import show_outcome
from milepost.cli.screen import show_fault
from milepost.conformance.checking import check_trace
from milepost.conformance.errors import UsageError


def example_names() -> list[str]:
    """Return the names of the recorded faults that come with the package."""
    folder = resources.files("milepost.conformance.examples")
    return sorted(one.name.removesuffix(".jsonl") for one in folder.iterdir() if one.name.endswith(".jsonl"))


@click.command("check")
@click.argument("trace", type=click.Path(path_type=Path), required=False)
@click.option("--example", default="", help="Judge a recorded public fault that comes with the package.")
@click.option(
    "--events", type=click.Path(path_type=Path),
    help="Judge KV events of vLLM or SGLang instead, JSON lines: BlockStored, BlockRemoved, AllBlocksCleared.",
)
def check_command(trace: Path | None, example: str, events: Path | None) -> int:
    """Judge TRACE line by line; exit 1 at the first fault."""
    if sum(map(bool, (trace, example, events))) != 1:
        raise UsageError(f"name a trace file, --events FILE or one --example of: {', '.join(example_names())}")
    if events is not None:
        return _check_events(events)
    if trace is not None:
        return _check(trace, f"milepost check {shlex.quote(str(trace))}")
    if example not in example_names():
        raise UsageError(f"there is no example '{example}'; there are {', '.join(example_names())}")
    with resources.as_file(resources.files("milepost.conformance.examples") / f"{example}.jsonl") as path:
        return _check(path, f"milepost check --example {example}")


def _check(path: Path, command: str) -> int:
    from milepost.conformance.report.trace_text import trace_fault, trace_limits, trace_passed

    checked = check_trace(path)
    if checked.whole and not checked.header.recorded:
        return show_outcome(checked.outcome, command)
    if checked.outcome.failed:
        show_fault(trace_fault(checked, str(path), command))
    else:
        click.echo(trace_passed(checked))
    for line in trace_limits(checked):
        click.echo(line)
    return 1 if checked.outcome.failed else 0


def _check_events(path: Path) -> int:
    from milepost.conformance.events import check_events

    report = check_events(path)
    if report.fault:
        show_fault(report.fault)
    for line in report.lines():
        click.echo(line)
    return 1 if report.fault else 0
