"""Text files read line by line, plain or compressed, and written whole or not at all.

Every failure is a `FormatError` with the line, so that a file of any size can be repaired where it is wrong.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from milepost.conformance.errors import FormatError

_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    with open(path, "rb") as file:
        if file.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.open(file) as unpacked:
                yield unpacked  # type: ignore[misc]
        else:
            yield file


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) for each line that is not blank, one at a time, unpacking gzip where it is used."""
    name, number = str(path), 0
    try:
        with _opened(name) as file:
            for number, line in enumerate(file, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if text.strip():
                    yield number, text.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise FormatError(name, number, error.start + 1, f"is not UTF-8 text: {error.reason}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(name, number, 0, f"is damaged after this line: {error}") from None
    except OSError as error:
        raise FormatError(name, 0, 0, f"cannot be read: {error.strerror or error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def parse_json(text: str, path: str, line: int) -> Any:
    """Parse the JSON that starts in column 1 of `line`; FormatError with line and column where it is malformed."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = line + error.lineno - 1, error.colno
        raise FormatError(path, *place, f"is not JSON: {error.msg}") from None
    except RecursionError:
        raise FormatError(path, line, 0, "is not JSON that can be read: nested too deeply") from None
    except ValueError as error:
        raise FormatError(path, line, 0, f"is not JSON: {error}") from None


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[str]]:
    """Open a text file for writing that appears under `path` only when the block ends well.

    Until then the old file stays. The new one is made in the same folder, which is created where it is missing.
    OSError where the disk or the permissions refuse.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        # What an engine says may hold half a surrogate pair, which has no encoding: it is written as an escape.
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())  # a temporary file is private, the finished one is like any other
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
