"""The parent's side of a child process: a watchdog that tells a crash from a hang and knows where it happened."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from typing import Any, NoReturn

from milepost.conformance import worker
from milepost.conformance.child_process import Beat, interrupts_wait, kill_group
from milepost.conformance.errors import AdapterError, EngineCrash, EngineHang, KitBug, KitError
from milepost.spec.schedule import Schedule

HANDSHAKE_SECONDS = 180.0
"""The longest that a cache may take to be built, an engine's start included."""

PROGRAM_SECONDS = 3.0
"""A program behind `stdio:` has a watchdog of its own, nearer to it: this much later, the child is what hangs."""

_ENVIRONMENT = threading.Lock()


@contextmanager
def _hash_seed(seed: int | None) -> Iterator[None]:
    """Set PYTHONHASHSEED while a child starts: an interpreter reads it only then, and the environment is shared."""
    with _ENVIRONMENT:
        kept = os.environ.get("PYTHONHASHSEED")
        if seed is not None:
            os.environ["PYTHONHASHSEED"] = str(seed)
        try:
            yield
        finally:
            if kept is not None:
                os.environ["PYTHONHASHSEED"] = kept
            elif seed is not None:
                del os.environ["PYTHONHASHSEED"]


class Lost(Exception):
    """The child died or hung at operation `index` of a schedule, counted from 1."""

    def __init__(self, error: EngineCrash | EngineHang, index: int) -> None:
        super().__init__(str(error))
        self.error, self.index = error, index


class Child:
    """One child process with a target; restarted after it was lost. `hang_seconds` bound one operation."""

    def __init__(self, target: str, hang_seconds: float, hash_seed: int | None = None) -> None:
        self.target, self.hang_seconds, self.hash_seed = target, hang_seconds, hash_seed
        self._context = multiprocessing.get_context("spawn")
        self._beat = Beat()
        self._patience = PROGRAM_SECONDS if target.startswith("stdio:") else 0.0
        self._process: SpawnProcess | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, task: str, *arguments: Any) -> Iterator[Any]:
        """Run one task and yield its items; raise Lost where the child did not come back.

        A child that is lost while it builds a cache is the adapter's error. A caller that stops listening ends the
        child: what it still had to say would be taken for the next answer.
        """
        finished = False
        try:
            yield from self._listen(task, arguments)
            finished = True
        except (KitError, Lost):
            finished = True
            raise
        finally:
            if not finished:
                self.stop()

    def _listen(self, task: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
        self._start()
        try:
            self._connection.send((task, arguments))
            while True:
                kind, value, schedule = self._next()
                if kind == "item":
                    yield value
                    continue
                if kind == "end":
                    return
                raise _raised(kind, value, schedule)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._lose(EngineCrash(f"the process died: {self._how_it_died()}"))

    def _next(self) -> tuple[str, Any, Schedule | None]:
        """Wait for the next message as long as the child gives signs of life."""
        seen, quiet_since = self._beat.count, time.monotonic()
        while not self._connection.poll(min(0.2, self._limit())):
            if self._beat.count != seen:
                seen, quiet_since = self._beat.count, time.monotonic()
            elif time.monotonic() - quiet_since > self._limit():
                self._lose(EngineHang(f"no answer within {self._limit() - self._patience:g} s"))
        message: tuple[str, Any, Schedule | None] = self._connection.recv()
        return message

    def _limit(self) -> float:
        seconds = max(self.hang_seconds, HANDSHAKE_SECONDS) if self._beat.builds else self.hang_seconds
        return seconds + self._patience

    def one(self, task: str, *arguments: Any) -> Any:
        """Run a task that yields one item, and return it."""
        [item] = self.call(task, *arguments)
        return item

    def stop(self, idle: bool = True) -> None:
        """End the child, if there is one, and what it has started. An `idle` one ends by itself."""
        if self._process is None:
            return
        try:
            self._connection.close()
            self._process.join(0.5 if idle else 0.0)
            self._process.terminate()
            self._process.join(0.5 + self._patience)
        finally:
            kill_group(self._process.pid)  # an engine may have processes of its own
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        if self._process is not None and self._process.is_alive():
            return
        self.stop()
        self._beat.start()
        self._connection, theirs = self._context.Pipe()
        seconds = self.hang_seconds, HANDSHAKE_SECONDS
        with _hash_seed(self.hash_seed), interrupts_wait():
            self._process = self._context.Process(
                target=worker.main,
                args=(theirs, self._beat.numbers, self.target, self.hash_seed, seconds),
            )  # no daemon: those may not start processes, and engines do
            self._process.start()
        theirs.close()

    def _how_it_died(self) -> str:
        assert self._process is not None
        self._process.join(2)
        code = self._process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"

    def _lose(self, error: EngineCrash | EngineHang) -> NoReturn:
        builds, (_, index) = self._beat.builds, self._beat.place
        self.stop(idle=False)
        if builds or not index:
            raise AdapterError(f"'{self.target}' did not come up: {error}")
        raise Lost(error, index)


def _raised(kind: str, value: Any, schedule: Schedule | None) -> KitError:
    """Return the error of a message, with the schedule that shows it."""
    error = KitBug(value) if kind == "bug" else value
    assert isinstance(error, KitError)
    error.schedule = schedule
    return error
