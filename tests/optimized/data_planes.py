"""A production cache whose pools are moved in two ways, and all of its memory compared after every operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from milepost.kernels.backend import running
from milepost.optimized.cache import PrefixCache
from milepost.optimized.memory import Shapes
from milepost.spec.capabilities import Configuration
from milepost.spec.payload import Content
from milepost.spec.words import Cell

SHAPES = (
    Shapes(),
    # Windows of 9 inputs in 4 channels, wider than the states; rows that only words of 8 bytes divide.
    Shapes(state_layers=3, heads=3, key_dim=1, value_dim=2, conv_channels=4, conv_kernel=10),
    # States of two tiles, and of other types.
    Shapes(key_dim=36, value_dim=32, state_dtype=torch.float64, conv_dtype=torch.float32),
)  # fmt: skip
"""What lies behind the slots, by turns."""

VERBS = ("open", "extend", "launch", "land", "freeze", "publish", "preempt", "close", "reset", "evict")


class MovedDifferently(AssertionError):
    """The same operation left other bits behind where kernels moved the cells."""


class TwoPlanes(PrefixCache):
    """The cache that interpreted kernels move; it asks another one, which plain torch moves, the same."""

    def __init__(self, configuration: Configuration, shapes: Shapes) -> None:
        super().__init__(configuration, shapes, warns=False)
        self.twin = PrefixCache(configuration, shapes, warns=False)
        self.compared = 0

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write what a forward would write into the memory of both."""
        super().write(cell, group, content)
        self.twin.write(cell, group, content)

    def must_be_alike(self, verb: str) -> None:
        """Raise MovedDifferently unless every bit of both memories is the same, of cells in use and of free ones."""
        self.compared += 1
        for part in ("recurrent", "convolution", "kv"):
            ours, theirs = (words(getattr(one.memory, part)) for one in (self, self.twin))
            if not torch.equal(ours, theirs):
                raise MovedDifferently(f"operation {self.compared}, {verb}: {part} at {places(ours != theirs)}")


def words(part: torch.Tensor) -> torch.Tensor:
    """Return a tensor's bits, as words of 64 for each layer and cell."""
    return part.flatten(2).view(torch.int64)


def places(differ: torch.Tensor) -> list[list[int]]:
    """Return the layers and cells where bits differ."""
    return torch.unique(differ.nonzero()[:, :2], dim=0).tolist()  # type: ignore[no-any-return]


def _asked_of_both(verb: str) -> Callable[..., Any]:
    original = getattr(PrefixCache, verb)

    def both(cache: TwoPlanes, *arguments: Any) -> Any:
        with running("interpret"):
            ours = original(cache, *arguments)
        with running("torch"):
            theirs = original(cache.twin, *arguments)
        assert ours == theirs, f"two equal caches answer {verb} differently"
        cache.must_be_alike(verb)
        return ours

    return both


for _verb in VERBS:
    setattr(TwoPlanes, _verb, _asked_of_both(_verb))


class Builder:
    """Builds caches of every shape by turns, and counts what they compared."""

    def __init__(self) -> None:
        self.built: list[TwoPlanes] = []

    def __call__(self, configuration: Configuration) -> TwoPlanes:
        """Build the next one."""
        self.built.append(TwoPlanes(configuration, SHAPES[len(self.built) % len(SHAPES)]))
        return self.built[-1]

    @property
    def compared(self) -> int:
        """How often all memory was compared."""
        return sum(cache.compared for cache in self.built)
