"""Where the generator's choices come from: a seed, all of a small scope in turn, or Hypothesis' `draw`.

The first value of every choice is its simplest one: the exhaustive chooser starts there and Hypothesis shrinks to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Protocol, TypeVar

Value = TypeVar("Value")


class Chooser(Protocol):
    """Makes choices; the same choices give the same schedule."""

    def integer(self, low: int, high: int) -> int:
        """Choose an integer from low to high, both included."""

    def choose(self, sequence: Sequence[Value]) -> Value:
        """Choose one of a sequence that is not empty."""

    def chance(self, numerator: int, denominator: int) -> bool:
        """Choose True in `numerator` of `denominator` cases."""


class SeededChooser:
    """Choices of a pseudo-random generator."""

    def __init__(self, random: Random) -> None:
        self._uniform = random.random

    def integer(self, low: int, high: int) -> int:
        """Choose uniformly."""
        return low + int(self._uniform() * (high - low + 1))

    def choose(self, sequence: Sequence[Value]) -> Value:
        """Choose uniformly."""
        return sequence[int(self._uniform() * len(sequence))]

    def chance(self, numerator: int, denominator: int) -> bool:
        """Choose True with that probability."""
        return self._uniform() * denominator < numerator


class ExhaustiveChooser:
    """One path through a tree of choices: `path` first, then the simplest value of each choice.

    Only the first `bound` choices branch; later ones always take their simplest value.
    """

    def __init__(self, path: Sequence[int], bound: int) -> None:
        self._path = path
        self._bound = bound
        self._taken: list[tuple[int, int]] = []

    def integer(self, low: int, high: int) -> int:
        """Take each value in turn."""
        return low + self._take(high - low + 1)

    def choose(self, sequence: Sequence[Value]) -> Value:
        """Take each member in turn."""
        return sequence[self._take(len(sequence))]

    def chance(self, numerator: int, denominator: int) -> bool:
        """Take False, then True, where both can happen."""
        if numerator <= 0 or numerator >= denominator:
            return numerator > 0
        return bool(self._take(2))

    def _take(self, options: int) -> int:
        depth = len(self._taken)
        if options == 1 or depth == self._bound:
            return 0
        index = self._path[depth] if depth < len(self._path) else 0
        self._taken.append((index, options))
        return index

    def next_path(self) -> list[int] | None:
        """Return the path that comes next in lexical order, None after the last one."""
        taken = list(self._taken)
        while taken:
            index, options = taken.pop()
            if index + 1 < options:
                return [*(before for before, _ in taken), index + 1]
        return None


def every(build: Callable[[Chooser], Value], bound: int) -> Iterator[Value]:
    """Yield what `build` makes of every sequence of choices, the first `bound` of which branch."""
    path: list[int] | None = []
    while path is not None:
        chooser = ExhaustiveChooser(path, bound)
        yield build(chooser)
        path = chooser.next_path()


class DrawChooser:
    """Choices that Hypothesis draws, and shrinks; `draw` is what a composite strategy is given."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        from hypothesis import strategies  # only tests have it installed

        self._draw = draw
        self._integers = strategies.integers

    def integer(self, low: int, high: int) -> int:
        """Draw an integer."""
        return int(self._draw(self._integers(low, high)))

    def choose(self, sequence: Sequence[Value]) -> Value:
        """Draw an index."""
        return sequence[self.integer(0, len(sequence) - 1)]

    def chance(self, numerator: int, denominator: int) -> bool:
        """Draw an integer whose highest values mean True."""
        return self.integer(1, denominator) > denominator - numerator
