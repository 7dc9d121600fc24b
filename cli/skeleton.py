"""`milepost new-adapter`: a skeleton for the engine's own repository."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import click

from milepost.conformance.errors import UsageError
from milepost.conformance.lines import replacing


@click.command("new-adapter")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--engine", default="acme", show_default=True, help="The engine's name in reports.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def new_adapter_command(file: Path, engine: str, force: bool) -> None:
    """Write an adapter skeleton to FILE, such as acme_milepost.py; it runs as it is."""
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise UsageError(f"'{file}' cannot be imported: name a file such as acme_milepost.py")
    if not re.fullmatch(r"[\w.-]+", engine):
        raise UsageError(f"'{engine}' is no name for an engine: use letters, digits, '.', '_' and '-'")
    if file.exists() and not force:
        raise UsageError(f"{file} is there already; --force replaces it")
    text = resources.files("milepost.conformance").joinpath("adapter_skeleton.txt").read_text(encoding="utf-8")
    with replacing(file) as out:
        named = text.replace("ENGINE's", f"{engine}'s").replace('"ENGINE"', f'"{engine}"')
        out.write(named.replace("MODULE", file.stem))
    click.echo(f"Wrote {file}. Judge it with: milepost run {file.stem}:make")
