"""Liberties of refusing: opens, part of a step, and resets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from milepost.reference.cache import ReferenceCache
from milepost.spec.answers import Grant, Hit, Refused, ResetDone
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.words import Namespace


class RefusesOften(ReferenceCache):
    """Refuses each second prompt the first time that it comes, and grants no more than two chunks a step."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.refused: set[tuple[int, ...]] = set()

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        if sum(tokens) % 2 and tokens not in self.refused:
            self.refused.add(tokens)
            return Refused("busy", "come again")
        return super().open(request, tokens, namespace, content)

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        start = self.requests[request].length
        return super().extend(request, min(to, start + 2 * self.configuration.chunk_size), draft)

    def reset(self) -> ResetDone:
        self.refused.clear()
        return super().reset()


class RefusesReset(ReferenceCache):
    """Forgets nothing while a request is open or a step is in flight."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), resets="idle")

    def reset(self) -> ResetDone:
        if self.requests or self.flights:
            return ResetDone(False)
        return super().reset()
