"""A program that is asked over its standard input and answers on its standard output, one JSON line each.

Both pipes are used without blocking: a program that hangs may also have stopped to read, and a native loop hears no
signal but the last one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from select import select
from time import monotonic
from typing import IO, Any

from milepost.conformance.errors import AdapterError, EngineCrash, EngineHang, UsageError

LONGEST_LINE = 1 << 24
"""Bytes of one answer; more is taken for a program that writes without end."""

_LAST_WORDS = 20
_PIPE_BYTES = 1 << 16
_PATIENCE_SECONDS = 1.0
_POSIX = os.name == "posix"


class Program:
    """A running program; `environment` is added to the one of this process. One call at a time."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = command[0] if command else ""
        if not command:
            raise UsageError("expected a program to start, found nothing after 'stdio:'")
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **(environment or {})},
                bufsize=0,
                start_new_session=_POSIX,  # so that its own children can be killed with it
            )
        except OSError as error:
            raise UsageError(f"'{self.name}' cannot be started: {error.strerror or error}") from None
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._input, self._output = self._process.stdin, self._process.stdout
        for stream in (self._input, self._output):
            os.set_blocking(stream.fileno(), False)
        self._unread = bytearray()
        self._last_words: deque[str] = deque(maxlen=_LAST_WORDS)
        self._listener = threading.Thread(
            target=_collect, args=(self._process.stderr, self._last_words), daemon=True
        )
        self._listener.start()
        self._calls = 0
        self.healthy = True
        self._finalizer = weakref.finalize(self, _end, self._process)  # also when the interpreter ends

    def ask(self, call: str, fields: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Send one call and return what it got.

        EngineHang where no answer came in time, EngineCrash where the program ended, AdapterError where it answered
        with something that is not an answer. After any of them the program is not healthy.
        """
        self._calls += 1
        line = json.dumps({"id": self._calls, "call": call, **fields}).encode() + b"\n"
        healthy, self.healthy = self.healthy, False
        if not healthy:
            raise AdapterError(f"'{self.name}' was asked to {call} after it had failed")
        answer = self._parse(call, self._exchange(call, line, seconds))
        self.healthy = True
        return answer

    @property
    def alive(self) -> bool:
        """Whether the program still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the program and wait for it; one that does not go when its input ends is killed."""
        self.healthy = False
        for stream in (self._input, self._output):
            with suppress(OSError):
                stream.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_PATIENCE_SECONDS)
        self._finalizer()

    def _exchange(self, call: str, line: bytes, seconds: float) -> bytes:
        """Write the line and read one, both until the same deadline."""
        deadline = monotonic() + seconds
        while line:
            if not _wait([], [self._input], deadline):
                raise self._hung(call, seconds)
            try:
                line = line[os.write(self._input.fileno(), line[:_PIPE_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError:
                break  # the reading end is closed: what is left to read tells why
        while b"\n" not in self._unread:
            if not _wait([self._output], [], deadline):
                raise self._hung(call, seconds)
            chunk = os.read(self._output.fileno(), _PIPE_BYTES)
            self._unread += chunk
            if not chunk:
                raise self._ended(call)
            if len(self._unread) > LONGEST_LINE:
                raise AdapterError(f"'{self.name}' answered {call} with a line of more than {LONGEST_LINE} bytes")
        answer, _, rest = bytes(self._unread).partition(b"\n")
        self._unread = bytearray(rest)
        return answer

    def _hung(self, call: str, seconds: float) -> EngineHang:
        _kill(self._process)
        return EngineHang(f"no answer to {call} within {seconds:g} seconds")

    def _ended(self, call: str) -> EngineCrash:
        try:
            status = self._process.wait(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            return EngineCrash(f"the program closed its output during {call}")
        self._listener.join(timeout=_PATIENCE_SECONDS)
        return EngineCrash(f"the program ended during {call} {_describe_status(status)}{self.last_words()}")

    def last_words(self) -> str:
        """Return the last line that the program wrote on its standard error, as the end of a sentence."""
        words = next((line.strip() for line in reversed(self._last_words) if line.strip()), "")
        return f"; its last words: {words}" if words else ""

    def _parse(self, call: str, line: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            text = line[:60].decode(errors="replace").rstrip()
            raise AdapterError(
                f"'{self.name}' answered {call} with a line that is not JSON: {text!r}; its standard output is for "
                f"answers alone, all else goes to standard error"
            ) from None
        if not isinstance(answer, dict) or answer.get("id") != self._calls:
            raise AdapterError(f"'{self.name}' answered {call} without its id {self._calls}: {line[:60]!r}")
        return answer


def _wait(readable: list[IO[bytes]], writable: list[IO[bytes]], deadline: float) -> bool:
    """Wait until one of the streams is ready; False at the deadline."""
    ready = select(readable, writable, [], max(0.0, deadline - monotonic()))
    return any(ready)


def _collect(stream: IO[bytes], last_words: deque[str]) -> None:
    with suppress(OSError, ValueError), stream:
        for line in stream:
            last_words.append(line[:400].decode(errors="replace"))


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return  # its number may be another's by now
    with suppress(OSError):
        if _POSIX:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _end(process: subprocess.Popen[bytes]) -> None:
    _kill(process)
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):
            if stream:
                stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_PATIENCE_SECONDS)


def _describe_status(status: int) -> str:
    if status >= 0:
        return f"with status {status}"
    try:
        return f"by signal {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"
