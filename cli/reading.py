"""`milepost explain` and `milepost list`: what there is, and what a code means."""

from __future__ import annotations

import click
from rich.table import Table

from milepost.cli.screen import Screen
from milepost.conformance.targets import SHIPPED, Shipped, how_to_install, missing_modules, peer_present, peer_python


@click.command("explain")
@click.argument("code")
def explain_command(code: str) -> None:
    """Explain a fault code, a promise or a law."""
    from milepost.conformance.report.explain import explain

    click.echo(explain(code))


@click.command("list")
@click.option("--mutants", is_flag=True, help="List the mutants of the reference, as mutant:NAME.")
@click.option("--liberties", is_flag=True, help="List the legal oddities, as liberty:NAME.")
def list_command(mutants: bool, liberties: bool) -> None:
    """List the targets, and why one is not ready here."""
    console = Screen()
    if not mutants and not liberties:
        console.print(_targets())
        console.print("Also: module:make, stdio:./program, mutant:NAME, liberty:NAME.")
    if mutants:
        console.print(_mutants())
    if liberties:
        console.print(_liberties())


def _mutants() -> Table:
    from milepost.reference.mutants import MUTANTS

    table = _table("mutant", "class", "expected", "what is wrong")
    for name, mutant in MUTANTS.items():
        table.add_row(f"mutant:{name}", mutant.fault_class, ", ".join(mutant.codes), mutant.sentence)
    return table


def _liberties() -> Table:
    from milepost.spec.laws import FREEDOMS

    table = _table("liberty", "what it is free to do")
    for name, sentence in FREEDOMS.items():
        table.add_row(f"liberty:{name}", sentence)
    return table


def _targets() -> Table:
    table = _table("target", "ready", "what it is")
    for shipped in SHIPPED:
        table.add_row(shipped.name, _readiness(shipped), shipped.about)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _readiness(shipped: Shipped) -> str:
    if missing_modules(shipped.extra):
        return f"no: {how_to_install(shipped.extra)}"
    if not shipped.peer or peer_present(shipped.peer):
        return "yes"
    return "yes, in .peers" if peer_python(shipped.peer) else f"no: {shipped.peer} is missing, run `make peers`"
