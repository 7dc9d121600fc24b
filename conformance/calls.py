"""From an operation of the seam to the adapter's method, and from what it raised to one line for a person."""

from __future__ import annotations

from collections.abc import Mapping

from milepost.conformance.errors import KitError
from milepost.spec.answers import Answer
from milepost.spec.operations import (
    Close,
    Evict,
    Extend,
    Freeze,
    Land,
    Launch,
    Open,
    Operation,
    Preempt,
    Publish,
    Reset,
)
from milepost.spec.seam import Adapter


def call(adapter: Adapter, operation: Operation, sampled: Mapping[str, tuple[int, ...]]) -> Answer:
    """Ask the adapter; `sampled` are the token ids that a landing makes known."""
    match operation:
        case Open():
            return adapter.open(operation.request, operation.tokens, operation.namespace, operation.content)
        case Extend():
            return adapter.extend(operation.request, operation.to, operation.draft)
        case Launch():
            return adapter.launch()
        case Land():
            return adapter.land(operation.step or 0, operation.accepted, sampled)
        case Freeze():
            return adapter.freeze(operation.request)
        case Publish():
            return adapter.publish(operation.request)
        case Preempt():
            return adapter.preempt(operation.request)
        case Close():
            return adapter.close(operation.request, operation.keep)
        case Reset():
            return adapter.reset()
        case Evict():
            return adapter.evict(operation.group, operation.cells)
    raise AssertionError(f"a driver never asks for {operation.verb}")


def describe(error: BaseException) -> str:
    """Say what was raised and where, in one line."""
    text = str(error).strip().split("\n")[0] or "no text"
    if isinstance(error, KitError):
        return text
    place = ""
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        place = f" at {'/'.join(code.co_filename.split('/')[-2:])}:{traceback.tb_lineno} in {code.co_name}"
        traceback = traceback.tb_next
    return f"{type(error).__name__}: {text}{place}"
