"""Who is to blame when something other than a law breaks; each culprit has its own exit code."""

from __future__ import annotations

from typing import Any


class KitError(Exception):
    """An error with the exit code that the command line ends with; its text is one sentence for a person.

    `schedule` is what was run when it happened, where something was, and `replay` the file that it was kept in.
    """

    exit_code = 2
    schedule: Any = None
    replay = ""


class UsageError(KitError):
    """What was asked for is impossible: a bad option, a bad file, an unknown name (exit 2)."""

    exit_code = 2


class FormatError(UsageError):
    """A file that is not in its format. `line` and `column` count from 1; 0 where there is none to name."""

    def __init__(self, path: str, line: int, column: int, sentence: str) -> None:
        place = ":".join([path, *(str(number) for number in (line, column) if number)])
        super().__init__(f"{place}: {sentence}")
        self.path, self.line, self.column, self.sentence = path, line, column, sentence


class AdapterError(KitError):
    """The adapter's own fault: no handshake, a schema violation, contradicted capabilities, nonsense (exit 3)."""

    exit_code = 3


class EngineFailure(KitError):
    """After the handshake the engine failed: a fault with that code, and no error of the kit (exit 1)."""

    exit_code = 1
    code = ""


class EngineCrash(EngineFailure):
    """The engine raised, or its program died."""

    code = "crash"


class EngineHang(EngineFailure):
    """The engine did not answer in time."""

    code = "hang"


class KitBug(KitError):
    """An error inside the kit itself: neither the engine nor the adapter is to blame (exit 3)."""

    exit_code = 3
