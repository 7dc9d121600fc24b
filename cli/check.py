"""`milepost check`: judge a recorded trace, with no cache at hand."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from milepost.cli.replay import show_outcome
from milepost.conformance.checking import check_trace
from milepost.conformance.errors import UsageError


def example_names() -> list[str]:
    """Return the names of the recorded faults that come with the package."""
    folder = resources.files("milepost.conformance.examples")
    return sorted(one.name.removesuffix(".jsonl") for one in folder.iterdir() if one.name.endswith(".jsonl"))


@click.command("check")
@click.argument("trace", type=click.Path(path_type=Path), required=False)
@click.option("--example", default="", help="Judge a recorded public fault that comes with the package.")
def check_command(trace: Path | None, example: str) -> int:
    """Judge TRACE line by line; exit 1 at the first fault."""
    if bool(trace) == bool(example):
        raise UsageError(f"name a trace file or one --example of: {', '.join(example_names())}")
    if trace is not None:
        outcome = check_trace(trace)
        return show_outcome(outcome, f"milepost check {trace}")
    if example not in example_names():
        raise UsageError(f"there is no example '{example}'; there are {', '.join(example_names())}")
    with resources.as_file(resources.files("milepost.conformance.examples") / f"{example}.jsonl") as path:
        outcome = check_trace(path)
    return show_outcome(outcome, f"milepost check --example {example}")
