"""Adapters that fail in every way in which a stranger's may; a child process builds them by name."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace

from milepost.reference.cache import ReferenceCache
from milepost.spec.answers import Evicted, Frozen, Hit, Landing, Launched, Refused, ResetDone
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.words import Namespace


class Quiet(ReferenceCache):
    """Promises nothing, so that a campaign is short."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), promises=())


class Hanging(Quiet):
    """Never comes back from a publish."""

    def publish(self, request: str) -> Landing | Refused:
        while True:
            time.sleep(60)


class Dying(Quiet):
    """Takes its process down at the first publish."""

    def publish(self, request: str) -> Landing | Refused:
        os._exit(3)


class Raising(Quiet):
    """Raises at each publish."""

    def publish(self, request: str) -> Landing | Refused:
        raise IndexError("pop from an empty list")


class Babbling(Quiet):
    """Answers an open with something that is no hit."""

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        return Hit("eight")  # type: ignore[arg-type]


class Mislanding(Quiet):
    """Answers a landing for a request that nobody opened."""

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        return Landing({"nobody": {}})


class Refusing(Quiet):
    """Declares that it always resets, and refuses while a request is open."""

    def reset(self) -> ResetDone:
        return ResetDone(not self.requests) if self.requests else super().reset()


class Overlapping(Quiet):
    """Declares what no cache can be."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), overlap=7)


class Forgetful(Quiet):
    """Restores nothing: its live slot is read as it was granted."""

    def launch(self) -> Launched:
        answer = super().launch()
        return replace(answer, phases=tuple(replace(phase, copies=()) for phase in answer.phases))


class Unstable(Quiet):
    """Fails in the first process that runs it and never again."""

    def evict(self, group: str, cells: int) -> Evicted:
        marker = os.environ["MILEPOST_TEST_MARKER"]
        if not os.path.exists(marker):
            open(marker, "w").close()
            raise RuntimeError("only once")
        return super().evict(group, cells)


class Chatty(Quiet):
    """Prints while it works, as engines do."""

    def freeze(self, request: str) -> Frozen | Refused:
        print("freezing", request)
        return super().freeze(request)


def failing(configuration: Configuration) -> ReferenceCache:
    """Fail to build."""
    raise RuntimeError("no such device")


def dying(configuration: Configuration) -> ReferenceCache:
    """Die while building."""
    os._exit(5)


def sleeping(configuration: Configuration) -> ReferenceCache:
    """Never get built."""
    time.sleep(600)
    raise AssertionError


def wrong(configuration: Configuration) -> int:
    """Build something that is no adapter."""
    return 7
