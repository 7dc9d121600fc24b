"""`milepost new-adapter`: a skeleton for the engine's own repository."""

from __future__ import annotations

import keyword
import os
import re
import sys
from importlib import resources
from pathlib import Path

import click

from milepost.cli.folders import require_file
from milepost.conformance.errors import UsageError
from milepost.conformance.lines import replacing


@click.command("new-adapter")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--engine", default="acme", show_default=True, help="The engine's name in reports.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def new_adapter_command(file: Path, engine: str, force: bool) -> None:
    """Write an adapter skeleton to FILE, such as acme_milepost.py; it runs as it is."""
    if file.suffix != ".py" or not file.stem.isidentifier() or keyword.iskeyword(file.stem):
        raise UsageError(f"'{file}' cannot be imported: name a file such as acme_milepost.py")
    if file.stem in (*sys.stdlib_module_names, "milepost"):
        raise UsageError(f"'{file}' would hide the module '{file.stem}': name a file such as acme_milepost.py")
    if not re.fullmatch(r"[\w.-]+", engine):
        raise UsageError(f"'{engine}' is no name for an engine: use letters, digits, '.', '_' and '-'")
    require_file(file)
    if file.exists() and not force:
        raise UsageError(f"{file} is there already; --force replaces it")
    module = _module(file)
    text = resources.files("milepost.conformance").joinpath("adapter_skeleton.txt").read_text(encoding="utf-8")
    with replacing(file) as out:
        named = text.replace("ENGINE's", f"{engine}'s").replace('"ENGINE"', f'"{engine}"')
        out.write(named.replace("MODULE", module))
    click.echo(f"Wrote {file}. Judge it with: milepost run {module}:make")


def _module(file: Path) -> str:
    """Return the name that the file is imported by from the current folder, or from its own where it is elsewhere."""
    folders = Path(os.path.relpath(file.parent)).parts
    return ".".join([*folders, file.stem]) if all(folder.isidentifier() for folder in folders) else file.stem
