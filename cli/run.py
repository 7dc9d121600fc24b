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

from milepost.cli.screen import ProgressBar, show_report
from milepost.conformance.campaign import Campaign, Options, run_campaign
from milepost.conformance.errors import UsageError
from milepost.conformance.known_faults import read_known_faults
from milepost.conformance.report.files import write_reports
from milepost.conformance.targets import SHIPPED, names_for, peer_present, peer_python
from milepost.conformance.traffic import traffic_schedules
from milepost.conformance.verdict import judge

UNBOUNDED = 1 << 30
DEFAULT_SCHEDULES = 300


class Seconds(click.ParamType[float]):
    """A duration such as 60s, 2m or 90."""

    name = "duration"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", str(value))
        if not match or not float(match[1]):
            self.fail(f"'{value}' is not a duration such as 60s, 2m or 1h", parameter, context)
        return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


@click.command("run")
@click.argument("target", default="")
@click.option("--schedules", type=click.IntRange(0), help="Generated schedules for each configuration.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the generated schedules (default 1).")
@click.option("--budget", type=Seconds(), help="Stop generating after this time, such as 60s or 2m.")
@click.option("--length", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Operations a schedule.")
@click.option("--tier", type=click.Choice(["deterministic", "nightly"]), default="deterministic", show_default=True,
              help="deterministic: corpus and fixed seed. nightly: a random seed, printed.")
@click.option("--profile", default="", help="What evidence is asked for (default: from the cache's groups).")
@click.option("--trace", "traffic", type=click.Path(path_type=Path), help="Also run recorded agent traffic.")
@click.option("--known", type=click.Path(path_type=Path), help="A known-faults.toml; strict.")
@click.option("--require", type=click.Choice(["partial", "conformant"]), default="partial", show_default=True,
              help="The least result that exits 0.")
@click.option("--report", "folder", type=click.Path(path_type=Path), default=Path(".milepost/report"),
              show_default=True, help="Where report.json, junit.xml and report.html go.")
@click.option("--format", "form", type=click.Choice(["text", "json", "github"]), default="text", show_default=True)
@click.option("--hang", type=Seconds(), default="10s", show_default=True, help="The longest one operation may take.")
def run_command(target: str, schedules: int | None, seed: int | None, budget: float | None, traffic: Path | None,
                known: Path | None, require: str, folder: Path, form: str, **rest: Any) -> int:
    """Judge TARGET: a shipped name, `module:make`, or `stdio:./program`.

    With no target it judges the reference cache.
    """
    if rest["tier"] == "nightly" and seed is None:
        seed = secrets.randbelow(1 << 31) + 1000
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
        if not traffic.exists():
            raise UsageError(f"{traffic}: there is no such file")
        options = replace(options, traffic=lambda capabilities: traffic_schedules(traffic, capabilities))
    return judge_all(target, options, folder, form, strict=require == "conformant")


@click.command("smoke")
@click.argument("target", default="")
@click.option("--report", "folder", type=click.Path(path_type=Path), default=Path(".milepost/report"))
def smoke_command(target: str, folder: Path) -> int:
    """Look at TARGET for a few seconds: the corpus and 30 schedules. Too short to be evidence."""
    options = Options(schedules=30, promises=False)
    return judge_all(target, options, folder, "text", strict=False)


def judge_all(target: str, options: Options, folder: Path, form: str, strict: bool) -> int:
    """Judge every configuration that the name stands for; return the worst exit code."""
    if not target:
        target = "reference"
        click.echo("No target was named: judging the reference, the specification's own cache.", err=True)
    names = names_for(target)
    enter_peer(names[0])
    codes = []
    for name in names:
        with ProgressBar(name) as progress:
            campaign = run_campaign(name, options, progress)
        codes.append(_finish(campaign, folder / name.replace(":", "-") if len(names) > 1 else folder, form, strict))
    return max(codes, key=lambda code: (0, 4, 1, 3).index(code))


def _finish(campaign: Campaign, folder: Path, form: str, strict: bool) -> int:
    verdict = judge(campaign)
    report = write_reports(campaign, verdict, folder)
    show_report(report, form)
    return verdict.exit_code(strict)


def enter_peer(name: str) -> None:
    """Run the same command again with the interpreter of the engine's own environment, where that is needed."""
    peer = next((one.peer for one in SHIPPED if one.name == name), "")
    if not peer or peer_present(peer):
        return
    python = peer_python(peer)
    if python is None or os.environ.get("MILEPOST_PEER") == peer:
        raise UsageError(f"target '{name}' needs {peer}, which is not installed here: run `make peers`")
    sys.stdout.flush()
    command = [str(python), "-m", "milepost.cli.main", *sys.argv[1:]]
    os.execve(str(python), command, {**os.environ, "MILEPOST_PEER": peer})
