"""One move of a model that is searched."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Move:
    """One operation: of which request, and with which prompt, stop or other word, where it has one."""

    verb: str
    request: int = 0
    word: str = ""
