"""What can be verified of an adapter before it is asked anything: what it declares, and that it can be called."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from milepost.conformance.codec import read_capabilities, write_capabilities
from milepost.conformance.shapes import ShapeError
from milepost.spec.capabilities import Capabilities, complaints
from milepost.spec.seam import Accounted, Adapter, Inventoried, Remembered

ALWAYS = ("open", "extend", "launch", "land", "close")
PROTOCOLS: tuple[type, ...] = (Adapter, Accounted, Inventoried, Remembered)


def objections(adapter: Any, declared: Any) -> list[str]:
    """Return what keeps an adapter that declares this from being judged, one sentence each."""
    if not isinstance(declared, Capabilities):
        return [f"its 'capabilities' are no Capabilities: {declared!r:.80}"]
    try:
        read_capabilities(write_capabilities(declared))
    except ShapeError as error:
        return [str(error)]
    except (TypeError, ValueError, AttributeError) as error:
        return [f"its capabilities have a value of a wrong type: {error}"]
    return [*complaints(declared), *_unbacked(declared), *_uncallable(adapter, declared)]


def _unbacked(declared: Capabilities) -> Iterator[str]:
    if "exact-accounting" in declared.promises and not declared.accounts:
        yield "it promises exact-accounting, and 'accounts' is not declared"


def _uncallable(adapter: Any, declared: Capabilities) -> Iterator[str]:
    """Yield each method that the capabilities offer and that is missing or takes other arguments."""
    for verb, reason in _offered(declared):
        wanted = _arguments(verb)
        method = getattr(adapter, verb, None)
        if not callable(method):
            yield f"it has no method {verb}({', '.join(wanted)}), which {reason}"
        elif not _takes(method, len(wanted)):
            yield f"its method {verb} cannot be called as {verb}({', '.join(wanted)})"


def _offered(declared: Capabilities) -> Iterator[tuple[str, str]]:
    """Yield each verb that may be called, and why."""
    yield from ((verb, "every adapter needs") for verb in ALWAYS)
    if declared.resets != "never":
        yield "reset", f"resets={declared.resets!r} offers"
    for verb, flag in (
        ("publish", "explicit_publish"), ("freeze", "explicit_freeze"), ("preempt", "preempts"), ("evict", "evicts"),
        ("account", "accounts"), ("inventory", "inventories"),
    ):
        if getattr(declared, flag):
            yield verb, f"{flag}=True offers"
    if any(group.executes == "engine" for group in declared.groups):
        yield "read", "executes='engine' offers"
        yield "write", "executes='engine' offers"


@cache
def _arguments(verb: str) -> list[str]:
    """Return the names that the seam's own method has."""
    method = next(getattr(protocol, verb) for protocol in PROTOCOLS if hasattr(protocol, verb))
    return [name for name in inspect.signature(method).parameters if name != "self"]


def _takes(method: Any, count: int) -> bool:
    function = getattr(method, "__func__", None)
    return _function_takes(method, count) if function is None else _function_takes(function, count + 1)


@lru_cache(maxsize=256)
def _function_takes(function: Any, count: int) -> bool:
    """Looked up once for a class and not for each of its caches: a run builds thousands."""
    try:
        inspect.signature(function).bind(*range(count))
    except ValueError:
        return True  # native code may have no signature to look at
    except TypeError:
        return False
    return True
