"""What a person sees: a progress bar on a terminal and none in a log, and one screen at the end."""

from __future__ import annotations

import json
import os
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from milepost.conformance.report import github
from milepost.conformance.report.layout import shorten
from milepost.conformance.report.summary import summary_text

WIDE = 160
"""Columns of a table that goes to a file or into a pipe, where a line is what other programs look at."""


class Screen(Console):
    """Standard output; a pipe that nobody reads any more is for `main` to handle."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = WIDE

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class ProgressBar:
    """A bar on standard error while it is a terminal; silent otherwise. Called as a campaign's progress."""

    def __init__(self, title: str) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.fields[title]}", markup=False),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None, title=shorten(title, 30))

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, phase: str, done: int, total: int) -> None:
        self._bar.update(self._task, description=phase, completed=done, total=total or None)


def show_report(report: dict[str, Any], form: str) -> None:
    """Print a finished report: one screen of text with each fault, the JSON, or a workflow's annotations."""
    if form == "json":
        click.echo(json.dumps(report, indent=2))
        return
    for fault in report["faults"]:
        show_fault(fault["text"])
        click.echo()
    click.echo(summary_text(report))
    if form == "github":
        for line in github.annotations(report):
            click.echo(line)


def show_fault(text: str) -> None:
    """Print a fault's report, its headline in red on a terminal."""
    headline, _, rest = text.partition("\n")
    coloured = False if os.environ.get("NO_COLOR") else None  # None: on a terminal
    click.secho(headline, fg="red", bold=True, color=coloured)
    click.echo(rest)
