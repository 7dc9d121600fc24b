"""The programs that a `stdio:` target starts, so that all of them can be ended: one that hangs hears no closed pipe."""

from __future__ import annotations

from weakref import WeakSet

from milepost.conformance.wire import StdioAdapter, StdioTarget
from milepost.spec.capabilities import Configuration


class Programs:
    """`make(configuration)` for one command, whose programs can all be ended."""

    def __init__(self, command: str, call_seconds: float, start_seconds: float) -> None:
        self._target = StdioTarget(command, call_seconds=call_seconds, start_seconds=start_seconds)
        self._adapters: WeakSet[StdioAdapter] = WeakSet()

    def __call__(self, configuration: Configuration) -> StdioAdapter:
        """Build one cache in a program that is idle, or in a new one; AdapterError where the handshake fails."""
        adapter = self._target(configuration)
        self._adapters.add(adapter)
        return adapter

    def stop(self) -> None:
        """End every program, at work or idle."""
        for adapter in list(self._adapters):
            adapter.shutdown()
        for program in self._target.idle:
            program.stop()
