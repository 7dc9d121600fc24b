"""How the process that holds an engine lives and ends: what it tells its parent, and which signals it minds."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.sharedctypes import RawArray
from typing import Any

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux."""


class Ended(BaseException):
    """The parent asked this process to end; no engine is meant to catch it."""


class Beat:
    """Numbers that the parent can read at any time: a count of signs of life, where it is, and whether it builds."""

    def __init__(self, numbers: Any = None) -> None:
        self.numbers = RawArray("q", 4) if numbers is None else numbers

    def __call__(self, number: int, index: int) -> None:
        """Tell that operation `index` of schedule `number` begins."""
        self.numbers[1], self.numbers[2] = number, index
        self.again()

    def again(self) -> None:
        """Give a sign of life, at the same place."""
        self.numbers[0] += 1

    @contextmanager
    def building(self) -> Iterator[None]:
        """Mark the time in which a cache is built: it may take long, and its failures are the adapter's."""
        self.numbers[3] = 1
        try:
            yield
        except Exception:
            self.numbers[3] = 0
            raise
        self.numbers[3] = 0
        self.again()

    def start(self) -> None:
        """Begin anew for a new process, which first has to build something."""
        self.numbers[:] = [0, 0, 0, 1]

    @property
    def count(self) -> int:
        """Signs of life so far."""
        return int(self.numbers[0])

    @property
    def place(self) -> tuple[int, int]:
        """The number of the schedule and the index of the operation."""
        return int(self.numbers[1]), int(self.numbers[2])

    @property
    def builds(self) -> bool:
        """Whether no operation is under way."""
        return bool(self.numbers[3])


def settle(end_at_once: bool) -> None:
    """Make this process one that only its parent ends, and whose output cannot mix with the parent's.

    It ends with its parent, `end_at_once` even in native code; else it gets a chance to end what it has started. It
    leads a group of its own, so that what an engine starts can be ended with it.
    """
    if hasattr(os, "setpgid"):
        with suppress(OSError):
            os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts both: the parent decides
    signal.signal(signal.SIGTERM, _end)
    if sys.platform == "linux":
        last = signal.SIGKILL if end_at_once else signal.SIGTERM
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, last)
    with suppress(OSError):
        os.dup2(2, 1)  # native code that prints must not disturb what the parent prints
    sys.stdout = sys.stderr


def kill_group(leader: int | None) -> None:
    """End all processes of a child's group, also where the child itself is gone."""
    if leader and hasattr(os, "killpg"):
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL)


def ignore_end() -> None:
    """Be asked to end no more: this process is about to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _end(number: int, frame: object) -> None:
    raise Ended


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Keep back an interrupt of this thread; a process that is started meanwhile begins deaf to it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
