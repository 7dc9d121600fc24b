"""The files of one recording: lines behind a buffer, a new file when one is full, the oldest deleted."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable
from typing import IO, Any

BUFFER_CHARACTERS = 1 << 16
BUFFER_SECONDS = 1.0
"""How long a line waits at most while the engine runs: a process that is killed loses no more than that."""

Header = dict[str, Any]


class Files:
    """Writes lines to `<folder>/<name>-<number>.jsonl`; every file is a whole trace of its own.

    `header` is called with the number of a file when it begins. OSError where the disk refuses.
    """

    def __init__(self, folder: str, name: str, header: Callable[[int], Header], file_bytes: int, files: int) -> None:
        os.makedirs(folder, exist_ok=True)
        self._path = os.path.join(folder, name)
        self._header, self._file_bytes, self._files = header, file_bytes, files
        self._written: deque[str] = deque()
        self._buffer: list[str] = []
        self._buffered = self._size = self._lines = self._number = 0
        self._file: IO[str] | None = None
        self._due = time.monotonic() + BUFFER_SECONDS

    @property
    def full(self) -> bool:
        """True where the file has reached its size."""
        return self._size + self._buffered >= self._file_bytes

    def add(self, line: str) -> None:
        """Write one operation."""
        if self._file is None:
            self._begin()
        self._lines += 1
        self._put(line)

    def flush_if_due(self) -> None:
        """Hand what has waited for a second to the operating system."""
        if self._buffer and time.monotonic() >= self._due:
            self._flush()

    def finish(self, stopped: str = "") -> None:
        """End the file; `stopped` says why nothing follows, in a file of its own where there is none."""
        if self._file is None and stopped:
            self._begin()
        if self._file is None:
            return
        self._put(json.dumps({"end": self._lines, **({"stopped": stopped} if stopped else {})}))
        self._flush()
        self._file.close()
        self._file = None

    def _begin(self) -> None:
        path = f"{self._path}-{self._number}.jsonl"
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed by `finish`
        self._size = self._lines = 0
        self._put(json.dumps(self._header(self._number)))
        self._number += 1
        self._written.append(path)
        if len(self._written) > self._files:
            os.unlink(self._written.popleft())

    def _put(self, line: str) -> None:
        self._buffer.append(line)
        self._buffered += len(line) + 1
        if self._buffered >= BUFFER_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        assert self._file is not None
        self._buffer.append("")
        self._file.write("\n".join(self._buffer))
        self._file.flush()
        self._size += self._buffered
        self._buffer, self._buffered = [], 0
        self._due = time.monotonic() + BUFFER_SECONDS
