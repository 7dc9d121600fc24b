"""What the production cache raises: one root, so that an engine can tell its own mistakes from ours."""

from __future__ import annotations


class CacheError(Exception):
    """Something that the cache was asked or found; what open requests hold is as it was before the call."""


class BadInput(CacheError, ValueError):
    """An argument that makes no sense: told before anything changes."""


class UnknownRequest(CacheError, KeyError):
    """A request that is not open, or a step that is not in flight."""

    def __str__(self) -> str:
        return str(self.args[0])


class BadPolicy(CacheError, ValueError):
    """A freeze policy named a position where no step can leave a snapshot."""
