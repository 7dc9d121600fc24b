"""The `milepost` command. Each command imports what it needs when it runs.

Exit codes: 0 conformant, or partial as allowed; 1 a fault, a broken promise or an unexpected pass; 2 usage;
3 adapter or protocol error; 4 inconclusive.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import traceback
from contextlib import suppress

import click

from milepost import __version__
from milepost.conformance.errors import KitError

COMMANDS = {
    "run": "run",
    "smoke": "run",
    "replay": "replay",
    "check": "check",
    "explain": "reading",
    "list": "reading",
    "selftest": "selftest",
    "prove": "prove",
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


class Terminated(BaseException):
    """The process was asked to end: whatever it started has to end with it."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code; a person's mistake never ends in a traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an engine's name may have what a terminal has not
    code = run(arguments)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _forget_output()
    sys.exit(code)


def _terminate(number: int, frame: object) -> None:
    raise Terminated


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
        return _say("milepost: stopped", 130)
    except Terminated:
        return _say("milepost: stopped", 143)
    except BrokenPipeError:
        _forget_output()
        return 141
    except KitError as error:
        return _complain(error, error.exit_code)
    except OSError as error:
        if error.filename is None:  # no file of ours: the output itself, a full disk perhaps
            _forget_output()
        return _say(f"milepost: {error.filename2 or error.filename or 'the output'}: {error.strerror or error}", 2)
    except Exception as error:  # whatever is left is the kit's own fault, and says so
        if os.environ.get("MILEPOST_DEBUG"):
            traceback.print_exc()
        return _complain(error, 3)


def _complain(error: Exception, code: int) -> int:
    from milepost.cli.complaints import complaint

    return _say(complaint(error), code)


def _say(text: str, code: int) -> int:
    with suppress(OSError):
        click.echo(text, err=True)
    return code


def _forget_output() -> None:
    """Let what is still to be written go nowhere: the other end is gone, or full."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
