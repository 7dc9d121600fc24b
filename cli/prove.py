"""`milepost prove`: the theorems about the rules, as a table; or schedules that a solver finds."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from milepost.cli.screen import ProgressBar, Screen
from milepost.conformance.errors import UsageError
from milepost.conformance.targets import how_to_install, missing_modules

if TYPE_CHECKING:
    from milepost.proofs.prover import Result, Theorem


@click.command("prove")
@click.option("--theorem", "names", multiple=True, help="Only this theorem; may be given several times.")
@click.option("--rlimit", type=click.IntRange(1), help="The solver's resources for each obligation.")
@click.option("--seed", type=click.IntRange(0), help="The solver's seed.")
@click.option("--teeth", is_flag=True, help="Take each row and guard out of the tables, and name what fails then.")
@click.option("--goals", is_flag=True, help="List the corners that --schedules aims at.")
@click.option("--schedules", metavar="GOAL", default="", help="Find schedules that reach a goal, or 'all' goals.")
@click.option("--page", type=click.IntRange(1, 64), help="With --schedules: tokens of a page.")
@click.option("--chunk", type=click.IntRange(1, 64), help="With --schedules: tokens of a chunk.")
@click.option("--pools", metavar="kv=N,state=N", default="", help="With --schedules: cells of each pool.")
@click.option("--count", type=click.IntRange(1, 1000), default=1, help="With --schedules: how many different ones.")
@click.option("--write", "folder", type=click.Path(path_type=Path), default=Path(".milepost/schedules"),
              help="With --schedules: the folder to write to.")
def prove_command(
    names: tuple[str, ...], rlimit: int | None, seed: int | None, teeth: bool, goals: bool, schedules: str,
    page: int | None, chunk: int | None, pools: str, count: int, folder: Path,
) -> int:
    """Prove the theorems about the rules; exit 1 on anything but proved."""
    require_solver()
    if goals or schedules:
        if teeth or names or rlimit or seed is not None:
            raise UsageError("--goals and --schedules prove nothing: leave the options of theorems out")
        from milepost.cli.goals import find_schedules, list_goals

        return list_goals() if goals else find_schedules(schedules, page, chunk, pools, count, folder)
    if page or chunk or pools:
        raise UsageError("--page, --chunk and --pools belong to --schedules")
    if teeth and (names or rlimit or seed is not None):
        raise UsageError("--teeth looks at every theorem with its own effort: leave the other options out")
    from milepost.proofs.prover import RESOURCES, SEED

    resources, chosen = rlimit or RESOURCES, SEED if seed is None else seed
    return _teeth() if teeth else _theorems(names, resources, chosen)


def require_solver() -> None:
    """Complain where the solver is not installed."""
    if missing_modules("proofs"):
        raise UsageError(f"the proofs need z3: {how_to_install('proofs')}")


def _theorems(names: tuple[str, ...], resources: int, seed: int) -> int:
    from milepost.proofs.prover import RESOURCES, prove
    from milepost.proofs.theorems import all_theorems

    theorems = _chosen(all_theorems(), names)
    results: list[Result] = []
    with ProgressBar("prove") as progress:
        for theorem in theorems:
            progress(theorem.name, len(results), len(theorems))
            results.append(prove(theorem, resources=resources, seed=seed))
    console = Screen()
    console.print(_table(results))
    for result in results:
        if result.verdict != "proved" and result.failed:
            console.print(f"{result.theorem.name}: {result.verdict} at '{result.failed.label}'{_reason(result)}")
    if resources < RESOURCES and any(result.verdict == "unknown" for result in results):
        console.print(f"--rlimit {resources} is less than the {RESOURCES} that the theorems are proved with: unknown "
                      "may mean no more than that.")
    proved = sum(result.verdict == "proved" for result in results)
    seconds = sum(result.seconds for result in results)
    console.print(f"{proved} of {len(results)} proved, {seconds:.0f} s, seed {seed}, rlimit {resources}")
    return 0 if proved == len(results) else 1


def _reason(result: Result) -> str:
    return f" ({result.reason})" if result.reason else ""


def _chosen(theorems: list[Theorem], names: tuple[str, ...]) -> list[Theorem]:
    known = [theorem.name for theorem in theorems]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UsageError(f"there is no theorem '{name}'{hint}")
    return [theorem for theorem in theorems if not names or theorem.name in names]


def _table(results: list[Result]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("theorem", overflow="fold", min_width=35)
    table.add_column("scope", overflow="fold")
    table.add_column("result", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for result in results:
        table.add_row(result.theorem.name, result.theorem.scope, result.verdict, f"{result.seconds:.1f}")
    return table


def _teeth() -> int:
    from milepost.proofs.teeth import Bite, all_edits, bite

    edits = all_edits()
    bites: list[Bite] = []
    with ProgressBar("teeth") as progress:
        for edit in edits:
            progress(edit.name, len(bites), len(edits))
            bites.append(bite(edit))
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("taken out", "what fails then"):
        table.add_column(column, overflow="fold")
    for one in bites:
        table.add_row(one.edit.name, one.theorem or ("nothing: it follows" if one.follows else "NOTHING"))
    console = Screen()
    console.print(table)
    unnoticed = [one for one in bites if not one.theorem and not one.follows]
    console.print(f"{sum(bool(one.theorem) for one in bites)} of {len(bites)} break a theorem, "
                  f"{sum(one.follows for one in bites)} guards follow from the other theorems")
    return 1 if unnoticed else 0
