"""Puts watchers around an engine's methods. Whatever a watcher raises stays here and switches its recording off."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any, Protocol

MARK = "_milepost_record_watch"


class Unknown(Exception):
    """The engine is set up, or goes on, in a way that the recorder cannot describe."""


class Recording(Protocol):
    """What a watcher writes to, and where its failures go."""

    @property
    def on(self) -> bool:
        """True while something is recorded."""

    def fail(self, error: BaseException) -> None:
        """Switch the recording off."""


def watch(
    owner: Any,
    name: str,
    find: Callable[[Any], Recording | None],
    before: Callable[..., Any] | None = None,
    after: Callable[..., Any] | None = None,
) -> bool:
    """Call `before(recording, *arguments)` and `after(recording, noted, result, *arguments)` around a method.

    `noted` is what `before` returned. `find` gives the recording of the object whose method is called. Watching a
    method twice changes nothing, and is answered with False.
    """
    original = getattr(owner, name)
    if MARK in vars(original):
        return False

    @functools.wraps(original)
    def watched(*arguments: Any, **named: Any) -> Any:
        recording = noted = None
        try:
            recording = find(arguments[0])
            if before is not None and recording is not None and recording.on:
                noted = before(recording, *arguments, **named)
        except Exception as error:
            fail(recording, error)
        result = original(*arguments, **named)
        if after is not None and recording is not None and recording.on:
            try:
                after(recording, noted, result, *arguments, **named)
            except Exception as error:
                fail(recording, error)
        return result

    setattr(watched, MARK, True)
    setattr(owner, name, watched)
    return True


def fail(recording: Recording | None, error: Exception) -> None:
    """Switch a recording off, where there is one."""
    if recording is not None:
        recording.fail(error)


class Building:
    """What a failure to begin is told to."""

    on = True

    def fail(self, error: BaseException) -> None:
        """Say that there is no recording."""
        print(f"milepost-record: nothing is recorded: {type(error).__name__}: {error}", file=sys.stderr)


def version_of(package: str) -> str:
    """Return the version of an installed engine."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown version"
