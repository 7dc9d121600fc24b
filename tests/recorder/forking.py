"""Runs in an engine's environment: a process that has imported the engine forks for each drive that it is asked for.

Usage: forking.py NAME, the module that drives the engine. An import of an engine takes as long as several drives. Each
drive is a process of its own, with its own edits of the engine, its own environment and a recorder that ends with it.
"""

import atexit
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

LONGEST_SECONDS = 240


def main(name: str) -> None:
    """Answer each line of standard input with the exit code of the drive that it asks for."""
    drives = import_module(name)
    drives.prepare()
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(LONGEST_SECONDS)
            os.environ.update(asked["environment"])
            with open(asked["printed"], "w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            _drive_and_end(drives.drive, asked)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _drive_and_end(drive: Callable[[int, str, str], None], asked: dict[str, Any]) -> NoReturn:
    """Drive, and end as a program ends, but for taking an imported engine apart: that takes longer than the drive."""
    code = 1
    try:
        drive(asked["seed"], asked["folder"], asked["edit"])
        code = 0
    except Exception:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
