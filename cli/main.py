"""The `milepost` command. Each command imports what it needs when it runs.

Exit codes: 0 conformant, or partial as allowed; 1 a fault, a broken promise or an unexpected pass; 2 usage;
3 adapter or protocol error; 4 inconclusive.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback

import click

from milepost import __version__
from milepost.conformance.errors import AdapterError, KitBug, KitError

COMMANDS = {
    "run": "run",
    "smoke": "run",
    "replay": "replay",
    "check": "check",
    "explain": "reading",
    "list": "reading",
    "selftest": "selftest",
    "new-adapter": "skeleton",
}


class Commands(click.Group):
    """Finds a command in its module when it is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"milepost.cli.{COMMANDS[name]}")
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        return command


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, message="milepost %(version)s")
def commands() -> None:
    """Judge a hybrid prefix cache: attention KV and recurrent-state snapshots."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code; a person's mistake never ends in a traceback."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        result = commands.main(arguments, prog_name="milepost", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("milepost: stopped", err=True)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KitError as error:
        word = "ADAPTER ERROR" if isinstance(error, AdapterError) else "KIT BUG" if isinstance(error, KitBug) else ""
        click.echo(f"{word or 'milepost'}: {error}", err=True)
        return error.exit_code
    except OSError as error:
        click.echo(f"milepost: {error.filename or 'the system'}: {error.strerror or error}", err=True)
        return 2
    except Exception as error:  # whatever is left is the kit's own fault, and says so
        from milepost.conformance.calls import describe

        if os.environ.get("MILEPOST_DEBUG"):
            traceback.print_exc()
        click.echo(f"KIT BUG: {describe(error)}\nMILEPOST_DEBUG=1 shows the whole traceback.", err=True)
        return 3


if __name__ == "__main__":
    main()
