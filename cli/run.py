"""`milepost run` and `milepost smoke`: judge one target in all its configurations."""

from __future__ import annotations

import os
import re
import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from milepost.cli.complaints import complaint
from milepost.cli.folders import require_folder
from milepost.cli.screen import ProgressBar, show_report
from milepost.conformance.campaign import Options, run_campaign
from milepost.conformance.errors import AdapterError, KitBug, UsageError
from milepost.conformance.files import write_schedule
from milepost.conformance.known_faults import read_known_faults
from milepost.conformance.lines import read_lines
from milepost.conformance.report.files import write_reports
from milepost.conformance.report.json_report import build_report
from milepost.conformance.targets import (
    DEFAULT,
    LIGHT_DEFAULT,
    SHIPPED,
    how_to_install,
    missing_modules,
    names_for,
    peer_present,
    peer_python,
)
from milepost.conformance.traffic import traffic_schedules
from milepost.conformance.verdict import find_profile, judge

UNBOUNDED = 1 << 30
DEFAULT_SCHEDULES = 300
LONGEST_SECONDS = 30 * 24 * 3600
DEFAULT_REPORT = Path(".milepost/report")


class Seconds(click.ParamType[float]):
    """A duration such as 60s, 2m or 90, of at least `least` seconds."""

    name = "duration"

    def __init__(self, least: float) -> None:
        self.least = least

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(s|m|h|)", str(value))
        if not match:
            self.fail(f"'{value}' is not a duration such as 60s, 2m or 1h", parameter, context)
        seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
        if not self.least <= seconds <= LONGEST_SECONDS:
            self.fail(f"'{value}' is not between {self.least:g}s and {LONGEST_SECONDS // 3600}h", parameter, context)
        return seconds


@click.command("run")
@click.argument("target", default="")
@click.option("--schedules", type=click.IntRange(0), help="Generated schedules for each configuration.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the generated schedules (default 1).")
@click.option("--budget", type=Seconds(0.001), help="Stop generating after this time, such as 60s or 2m.")
@click.option("--length", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Operations a schedule.")
@click.option("--tier", type=click.Choice(["deterministic", "nightly"]), default="deterministic", show_default=True,
              help="deterministic: corpus and fixed seed. nightly: a random seed, printed.")
@click.option("--profile", default="", help="What evidence is asked for (default: from the cache's groups).")
@click.option("--trace", "traffic", type=click.Path(path_type=Path), help="Also run recorded agent traffic.")
@click.option("--known", type=click.Path(path_type=Path), help="A known-faults.toml; strict.")
@click.option("--require", type=click.Choice(["partial", "conformant"]), default="partial", show_default=True,
              help="The least result that exits 0.")
@click.option("--report", "folder", type=click.Path(path_type=Path), default=DEFAULT_REPORT, show_default=True,
              help="Where report.json, junit.xml, report.html and a folder of faults go.")
@click.option("--format", "form", type=click.Choice(["text", "json", "github"]), default="text", show_default=True)
@click.option("--hang", type=Seconds(0.1), default="10s", show_default=True, help="The longest one operation may take.")
def run_command(target: str, schedules: int | None, seed: int | None, budget: float | None, traffic: Path | None,
                known: Path | None, require: str, folder: Path, form: str, **rest: Any) -> int:
    """Judge TARGET: a shipped name, `module:make`, or `stdio:./program`.

    With no target it judges Milepost's own cache; where that cannot run, the reference.
    """
    if rest["tier"] == "nightly" and seed is None:
        seed = secrets.randbelow(1 << 31) + 1000
    if rest["profile"]:
        find_profile(rest["profile"])
    count = schedules if schedules is not None else (UNBOUNDED if budget else DEFAULT_SCHEDULES)
    options = Options(
        schedules=count,
        seed=1 if seed is None else seed,
        tier=rest["tier"],
        budget_seconds=budget,
        length=rest["length"],
        hang_seconds=rest["hang"],
        profile=rest["profile"],
        known=read_known_faults(known) if known else (),
    )
    if traffic is not None:
        next(read_lines(traffic), None)  # a file that cannot be read is told before the run
        options = replace(options, traffic=lambda capabilities: traffic_schedules(traffic, capabilities))
    return judge_all(target, options, folder, form, strict=require == "conformant")


@click.command("smoke")
@click.argument("target", default="")
@click.option("--report", "folder", type=click.Path(path_type=Path), default=DEFAULT_REPORT, show_default=True)
def smoke_command(target: str, folder: Path) -> int:
    """Look at TARGET for a few seconds: the corpus and 30 schedules. Too short to be evidence."""
    options = Options(schedules=30, promises=False)
    return judge_all(target, options, folder, "text", strict=False)


def judge_all(target: str, options: Options, folder: Path, form: str, strict: bool) -> int:
    """Judge every configuration that the name stands for; return the worst exit code."""
    if not target:
        target, said = default_target()
        click.echo(said, err=True)
    names = names_for(target)
    enter_peer(names[0])
    require_folder(folder)
    codes = []
    for name in names:
        try:
            codes.append(_judge_one(name, options, Places(folder, name if len(names) > 1 else ""), form, strict))
        except (AdapterError, KitBug) as error:
            if len(names) == 1:
                raise
            click.echo(complaint(error), err=True)  # the other configurations are still to be judged
            codes.append(error.exit_code)
    return max(codes, key=lambda code: (0, 4, 1, 3).index(code))


def default_target() -> tuple[str, str]:
    """Return what is judged where nobody names a target, and the sentence that says so."""
    lacking = missing_modules(next(one.extra for one in SHIPPED if one.name == DEFAULT))
    if not lacking:
        return DEFAULT, "No target was named: judging milepost, the production cache."
    install = how_to_install("cache")
    why = f"the production cache needs {' and '.join(lacking)}, {install}"
    return LIGHT_DEFAULT, f"No target was named: judging the reference, since {why}."


class Places:
    """Where the files of one target go: reports to `folder`, faults beside the default folder or into another."""

    def __init__(self, folder: Path, part: str) -> None:
        faults = folder.parent / "faults" if folder == DEFAULT_REPORT else folder / "faults"
        self.reports = folder / part.replace(":", "-")
        self.faults = faults / part.replace(":", "-")


def _judge_one(name: str, options: Options, places: Places, form: str, strict: bool) -> int:
    try:
        with ProgressBar(name) as progress:
            campaign = run_campaign(name, options, progress)
    except (AdapterError, KitBug) as error:
        if error.schedule is not None:
            error.replay = str(_keep(error, name, places.faults))
        raise
    verdict = judge(campaign)
    try:
        report = write_reports(campaign, verdict, places.reports, places.faults)
    except OSError as error:  # a full disk must not hide what was found
        show_report(build_report(campaign, verdict, {}), form)
        raise UsageError(f"{places.reports}: the reports could not be written: {error.strerror or error}") from error
    show_report(report, form)
    return verdict.exit_code(strict)


def _keep(error: AdapterError | KitBug, target: str, folder: Path) -> Path:
    """Write the schedule in which an error happened, for a replay, and return its path."""
    path = folder / ("kit-bug.jsonl" if isinstance(error, KitBug) else "adapter-error.jsonl")
    write_schedule(path, replace(error.schedule, header=replace(error.schedule.header, target=target)))
    return path


def enter_peer(name: str) -> None:
    """Run the same command again with the interpreter of the engine's own environment, where that is needed."""
    peer = next((one.peer for one in SHIPPED if one.name == name), "")
    if not peer or peer_present(peer):
        return
    python = peer_python(peer)
    if python is None or os.environ.get("MILEPOST_PEER") == peer:
        raise UsageError(f"target '{name}' needs {peer}, which is not installed here: run `make peers`")
    sys.stdout.flush()
    # -P: the folders of a checkout must not stand in for packages that the engine looks for (`kernels` is one).
    command = [str(python), "-P", "-m", "milepost.cli.main", *sys.argv[1:]]
    os.execve(str(python), command, {**os.environ, "MILEPOST_PEER": peer})
