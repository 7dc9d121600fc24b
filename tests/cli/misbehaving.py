"""A cache that does something wrong in one verb: `misbehaving:extend=raise`, from its Nth call on `extend@3=raise`."""

import ctypes
import multiprocessing
import os
import pathlib
import sys
import time
from dataclasses import replace
from typing import Any

from milepost.reference.cache import ReferenceCache
from milepost.reference.requests import Request
from milepost.spec.answers import Launched, Pages, Slots
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.seam import Holding
from milepost.spec.words import Cell


def spin(answer: Any) -> Any:
    """Never come back, and let nothing else in this process run."""
    return sum(range(10**15))


def marked_spin(answer: Any) -> Any:
    """Tell that it begins, and then never come back."""
    pathlib.Path(os.environ["MILEPOST_TEST_MARKER"]).touch()
    return spin(answer)


def fork(answer: Any) -> Any:
    """Start a process that outlives whoever does not look after it, and then never come back."""
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(1000,))
    process.start()
    return marked_spin(answer)


def interrupt(answer: Any) -> Any:
    """Raise what no `except Exception` catches."""
    raise KeyboardInterrupt


def chatter(answer: Any) -> Any:
    """Print past Python's own streams, as native code does."""
    os.write(1, b"loading weights\n")
    return answer


MANNERS: dict[str, Any] = {
    "raise": lambda answer: [][7],
    "sleep": lambda answer: time.sleep(1000),
    "spin": spin,
    "marked-spin": marked_spin,
    "fork": fork,
    "exit": lambda answer: os._exit(3),
    "quit": lambda answer: sys.exit("out of memory"),
    "interrupt": interrupt,
    "segfault": lambda answer: ctypes.string_at(0),
    "chatter": chatter,
    "none": lambda answer: None,
    "integer-table": lambda answer: replace(answer, table={"kv": 5, "state": Slots()}),
    "text-cell": lambda answer: replace(answer, table={"kv": Pages(("3",)), "state": Slots()}),  # type: ignore[arg-type]
    "unknown-group": lambda answer: replace(answer, table={"conv": Pages()}),
    "negative-length": lambda answer: replace(answer, length=-3),
    "too-long": lambda answer: replace(answer, length=10**30),
    "stranger": lambda answer: replace(answer, tables={"nobody": {}}),
}


class Quiet(ReferenceCache):
    """The reference without promises, so that a run is short."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), promises=())


class Misbehaving:
    """Passes everything on, and does wrong in one verb from its Nth call on."""

    def __init__(self, inner: Quiet, verb: str, manner: str) -> None:
        self.inner, self.manner, self.calls = inner, manner, 0
        self.verb, _, first = verb.partition("@")
        self.first = int(first or 1)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name != self.verb:
            return found

        def call(*arguments: Any) -> Any:
            self.calls += 1
            answer = found(*arguments)
            return MANNERS[self.manner](answer) if self.calls >= self.first else answer

        return call


class Uninspectable(Quiet):
    """Offers an inventory, and fails to give it once something is planned."""

    def inventory(self) -> dict[Cell, Holding]:
        if any(request.planned for request in self.requests.values()):
            raise RuntimeError("the tree was walked while it was split")
        return super().inventory()


class Undersized(Quiet):
    """Needs more state slots for one request than a small configuration has, and does not round it up."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), cells_per_request={"state": 8})


class Forgetful(ReferenceCache):
    """Promises to cache, and publishes nothing."""

    def declare(self) -> Capabilities:
        promises = ("not-inert", "strict-boundaries", "admits-when-idle", "maximal-hit")
        return replace(super().declare(), promises=promises, explicit_publish=False)

    def publishable(self, claim: Request) -> int:
        return 0


class Unjudged(ReferenceCache):
    """Makes one promise, which this version of the kit has no check for."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), promises=("maximal-hit",))


class Odd(Quiet):
    """Has a name that no terminal and no file can show, and raises a text of that kind."""

    def declare(self) -> Capabilities:
        return replace(super().declare(), engine="ac\ud800me\ufffe\x07<b>\n::error::[red]")

    def launch(self) -> Launched:
        raise RuntimeError("bad \ud800 \ufffe \x00 <script> ]]>")


def __getattr__(name: str) -> Any:
    if "=" not in name:
        raise AttributeError(name)
    verb, _, manner = name.partition("=")

    def make(configuration: Configuration) -> Any:
        return MANNERS[manner](None) if verb == "make" else Misbehaving(Quiet(configuration), verb, manner)

    return make
