"""`milepost selftest`: the kit's own test, as a table."""

from __future__ import annotations

import difflib

import click
from rich.table import Table

from milepost.cli.screen import ProgressBar, Screen
from milepost.conformance.errors import UsageError
from milepost.conformance.selftest import SEED, LibertyRow, MutantRow, all_liberties, all_mutants, run_selftest


@click.command("selftest")
@click.option("--schedules", type=click.IntRange(1), default=200, show_default=True, help="Schedules for each.")
@click.option("--seed", type=click.IntRange(0), default=SEED, show_default=True)
@click.option("--only", multiple=True, help="Only this mutant or liberty; may be given several times.")
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Children at a time.")
def selftest_command(schedules: int, seed: int, only: tuple[str, ...], jobs: int) -> int:
    """Kill every mutant of the reference, let every liberty pass; exit 1 where one does not."""
    mutants, liberties = _chosen(all_mutants(), only), _chosen(all_liberties(), only)
    unknown = sorted(set(only) - {*mutants, *liberties})
    if unknown:
        near = difflib.get_close_matches(unknown[0], all_mutants() + all_liberties(), n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"there is no mutant or liberty '{unknown[0]}'{hint}")
    rows: list[MutantRow | LibertyRow] = []
    with ProgressBar("selftest") as progress:
        for row in run_selftest(mutants, liberties, schedules, seed, jobs):
            rows.append(row)
            progress(row.name, len(rows), len(mutants) + len(liberties))
    died = [row for row in rows if isinstance(row, MutantRow)]
    lived = [row for row in rows if isinstance(row, LibertyRow)]
    console = Screen()
    if died:
        console.print(_mutant_table(died))
    if lived:
        console.print(_liberty_table(lived))
    wrong = [row.name for row in died if not row.killed or row.oversized]
    wrong += [row.name for row in lived if not row.silent]
    if died:
        console.print("corpus, random: schedules that killed it; median: operations from kill to kill;")
        console.print("short: operations of the smallest killing schedule.")
    console.print(
        f"{sum(row.killed for row in died)} of {len(died)} mutants killed, "
        f"{sum(row.silent for row in lived)} of {len(lived)} liberties silent, seed {seed}"
    )
    for name in wrong:
        console.print(f"NOT AS IT SHOULD BE: {name}")
    return 1 if wrong else 0


def _chosen(names: list[str], only: tuple[str, ...]) -> list[str]:
    return [name for name in names if not only or name in only]


def _mutant_table(rows: list[MutantRow]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("mutant", overflow="fold", min_width=31)
    table.add_column("class")
    table.add_column("corpus", justify="right")
    table.add_column("random", justify="right", no_wrap=True)
    table.add_column("median", justify="right")
    table.add_column("short", justify="right")
    table.add_column("code", overflow="fold", min_width=20)
    for row in rows:
        code = next((code for code, _ in row.codes if code in row.wanted), "SURVIVES")
        table.add_row(row.name, row.fault_class, str(row.by_corpus), f"{row.by_generator}/{row.schedules}",
                      str(row.median_operations), str(row.shortest), code)
    return table


def _liberty_table(rows: list[LibertyRow]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("liberty", "schedules", "operations", "accused of"):
        table.add_column(column, justify="right" if column in ("schedules", "operations") else "left")
    for row in rows:
        accused = ", ".join(f"{code} x{count}" for code, count in row.codes)
        table.add_row(row.name, str(row.schedules), str(row.operations), accused or "nothing")
    return table
