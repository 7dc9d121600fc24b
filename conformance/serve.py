"""Exposes a cache written in Python as a program for `stdio:`.

`serve(make)` at the end of a script is all that it takes; `python -m milepost.conformance.serve module:make` serves
any in-process target in a process of its own, where a watchdog can end it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import IO, Any

from milepost.conformance import calls
from milepost.conformance.codec import (
    CELL,
    CONFIGURATION,
    CONTENT,
    COUNTS,
    INVENTORY,
    read_operation,
    write_answer,
    write_capabilities,
)
from milepost.conformance.errors import AdapterError
from milepost.conformance.shapes import TEXT, TOKENS, ShapeError, mapping
from milepost.spec.answers import Answer
from milepost.spec.capabilities import Configuration
from milepost.spec.operations import OPERATIONS, Drain, Operation
from milepost.spec.seam import Adapter

Message = dict[str, Any]
SAMPLED = mapping(TOKENS)


def serve(
    make: Callable[[Configuration], Adapter], incoming: IO[str] | None = None, outgoing: IO[str] | None = None
) -> None:
    """Answer calls until the input ends.

    What the engine raises is answered as its crash, an `AdapterError` as the adapter's. Where no streams are given,
    everything that is printed goes to the standard error: the standard output is for answers alone.
    """
    source = incoming or sys.stdin
    sink = outgoing or _take_standard_output()
    adapter: Adapter | None = None
    for line in source:
        message = json.loads(line)
        call, answer = message["call"], {"id": message["id"]}
        try:
            if call == "hello":
                adapter = None  # the earlier cache goes before the next one needs its memory
                adapter = make(CONFIGURATION.read(message.get("config", {}), "config"))
                answer |= {"protocol": 1, "capabilities": write_capabilities(adapter.capabilities), "again": True}
            elif adapter is None:
                raise AdapterError("the first call has to be hello")
            else:
                answer |= _answer(adapter, call, message)
        except (AdapterError, ShapeError) as error:
            answer["adapter_error"] = str(error)
        except Exception as error:  # whatever the engine raises is the engine's fault
            answer |= {"error": _describe(error), "traceback": traceback.format_exc()}
        sink.write(json.dumps(answer) + "\n")
        sink.flush()


def _take_standard_output() -> IO[str]:
    """Return the standard output, and let whatever else writes there, native code too, write to standard error."""
    sys.stdout.flush()
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return kept


def _answer(adapter: Adapter, call: str, message: Message) -> Message:
    if not hasattr(adapter, call) or call not in (*OPERATIONS, *EXTRAS):
        return {"unsupported": True}
    if call in EXTRAS:
        return {call: EXTRAS[call](adapter, message)}
    return write_answer(_carry_out(adapter, read_operation({**message, "op": call}), message))


def _carry_out(adapter: Adapter, operation: Operation, message: Message) -> Answer:
    if isinstance(operation, Drain):
        raise AdapterError(f"'{operation.verb}' is no call")
    return calls.call(adapter, operation, SAMPLED.read(message.get("sampled", {}), "sampled"))


def _read(adapter: Any, message: Message) -> Any:
    cell = CELL.read(message.get("cell"), "cell")
    return CONTENT.write(adapter.read(cell, TEXT.read(message.get("group"), "group")))


def _write(adapter: Any, message: Message) -> bool:
    cell = CELL.read(message.get("cell"), "cell")
    content = CONTENT.read(message.get("content"), "content")
    adapter.write(cell, TEXT.read(message.get("group"), "group"), content)
    return True


EXTRAS: dict[str, Callable[[Any, Message], Any]] = {
    "account": lambda adapter, message: COUNTS.write(adapter.account()),
    "inventory": lambda adapter, message: INVENTORY.write(adapter.inventory()),
    "read": _read,
    "write": _write,
}


def _describe(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    text = str(error).strip().split("\n")[0] or "no text"
    return f"{type(error).__name__}: {text}{place}"


def main() -> None:
    """Serve the target that the one argument names as `module:make`."""
    if len(sys.argv) != 2 or ":" not in sys.argv[1]:
        sys.exit("usage: python -m milepost.conformance.serve module:make")
    module, _, name = sys.argv[1].partition(":")
    serve(getattr(importlib.import_module(module), name))


if __name__ == "__main__":
    main()
