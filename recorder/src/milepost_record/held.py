"""What an engine's tensors hold at a moment, read later: copied at once, behind the work that is queued already.

Nothing waits for a device when a tensor is held. `values` may, and is asked for a step later.
"""

from __future__ import annotations

from typing import Any


class Held:
    """A copy of an integer tensor of any shape, on its way to the host's memory."""

    __slots__ = ("_copy", "_ready")

    def __init__(self, tensor: Any) -> None:
        self._ready: Any = None
        if tensor.device.type == "cpu":
            self._copy = tensor.clone()
            return
        import torch

        self._copy = tensor.to("cpu", non_blocking=True)
        self._ready = torch.get_device_module(tensor.device).Event()
        self._ready.record()

    def values(self) -> list[int]:
        """Return the numbers in order."""
        if self._ready is not None:
            self._ready.synchronize()
            self._ready = None
        found: list[int] = self._copy.reshape(-1).tolist()
        return found


class Picked(Held):
    """One number of what is held."""

    __slots__ = ("_held", "_place")

    def __init__(self, held: Held, place: int) -> None:
        self._held, self._place = held, place

    def values(self) -> list[int]:
        """Return the number alone."""
        return [self._held.values()[self._place]]


def values(source: Any) -> list[int]:
    """Return the numbers of something held, or of a list."""
    return source.values() if isinstance(source, Held) else list(source)
