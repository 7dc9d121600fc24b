"""The parent's side of a child process: a watchdog that tells a crash from a hang and knows where it happened."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import RawArray
from typing import Any

from milepost.conformance import worker
from milepost.conformance.errors import AdapterError, EngineCrash, EngineHang, KitBug, KitError

HANDSHAKE_SECONDS = 180.0
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
    """The child died or hung; `number` and `index` name the schedule and the operation that it was at."""

    def __init__(self, error: EngineCrash | EngineHang, number: int, index: int) -> None:
        super().__init__(str(error))
        self.error, self.number, self.index = error, number, index


class Child:
    """One child process with a target; restarted after it was lost. `hang_seconds` bound one operation."""

    def __init__(self, target: str, hang_seconds: float, hash_seed: int | None = None) -> None:
        self.target, self.hang_seconds, self.hash_seed = target, hang_seconds, hash_seed
        self._context = multiprocessing.get_context("spawn")
        self._beats = RawArray("q", 3)
        self._process: SpawnProcess | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, task: str, *arguments: Any) -> Iterator[Any]:
        """Run one task and yield its items; raise Lost where the child did not come back.

        A child that is lost before its first operation never built the cache: that is the adapter's error. A caller
        that stops listening ends the child: what it still had to say would be taken for the next answer.
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
        seen, quiet_since = self._beats[0], time.monotonic()
        self._connection.send((task, arguments))
        while True:
            limit = self.hang_seconds if self._beats[0] else max(self.hang_seconds, HANDSHAKE_SECONDS)
            if self._connection.poll(min(0.2, limit)):
                try:
                    kind, value = self._connection.recv()
                except (EOFError, ConnectionResetError):
                    self._lose(EngineCrash(f"the process died: {self._how_it_died()}"))
                quiet_since = time.monotonic()
                if kind == "item":
                    yield value
                    continue
                if kind == "end":
                    return
                if kind == "bug":
                    raise KitBug(value)
                raise value
            if self._beats[0] != seen:
                seen, quiet_since = self._beats[0], time.monotonic()
            elif time.monotonic() - quiet_since > limit:
                self._lose(EngineHang(f"no answer within {limit:g} s"))

    def one(self, task: str, *arguments: Any) -> Any:
        """Run a task that yields one item, and return it."""
        [item] = self.call(task, *arguments)
        return item

    def stop(self) -> None:
        """End the child, if there is one."""
        if self._process is not None:
            self._connection.close()
            self._process.join(0.5)
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        if self._process is not None and self._process.is_alive():
            return
        self.stop()
        self._beats[0] = 0
        self._connection, theirs = self._context.Pipe()
        with _hash_seed(self.hash_seed):
            self._process = self._context.Process(
                target=worker.main, args=(theirs, self._beats, self.target, self.hash_seed), daemon=True
            )
            self._process.start()
        theirs.close()

    def _how_it_died(self) -> str:
        assert self._process is not None
        self._process.join(2)
        code = self._process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"

    def _lose(self, error: EngineCrash | EngineHang) -> None:
        beats, number, index = self._beats
        self.stop()
        if not beats:
            raise AdapterError(f"'{self.target}' did not come up: {error}")
        raise Lost(error, number, index)
