"""What a statement ranges over: any number of things, or a few named ones.

Theorems are proved over uninterpreted sorts. Counterexamples are looked for among a few named elements, where
quantifiers are written out: a solver decides that, and the answer can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import z3

Term = Any
"""A term of the solver, which comes without types."""

SORTS = ("Request", "Slot", "Page", "Window", "Prefix", "Step")


@cache
def enumeration(name: str, values: tuple[str, ...]) -> tuple[Term, dict[str, Term]]:
    """Return a sort of named elements, and the elements by name; the solver wants each name declared once."""
    sort, elements = z3.EnumSort(name, list(values))
    return sort, dict(zip(values, elements, strict=True))


@dataclass(frozen=True)
class Scope:
    """Sorts and quantifiers. `sizes` is empty where there are any number of each; `numbers` is for numbers then."""

    sizes: dict[str, int] = field(default_factory=dict)
    numbers: int = 0

    def __hash__(self) -> int:
        return hash((tuple(self.sizes.items()), self.numbers))

    @property
    def unbounded(self) -> bool:
        """Tell whether nothing is bounded."""
        return not self.sizes

    def sort(self, name: str) -> Term:
        """Return the sort of that name, or the integers for `Int` and truth for `Bool`."""
        if name in ("Int", "Bool"):
            return z3.IntSort() if name == "Int" else z3.BoolSort()
        if self.unbounded:
            return z3.DeclareSort(name)
        return enumeration(f"{name}{self.sizes[name]}", self._names(name))[0]

    def _names(self, name: str) -> tuple[str, ...]:
        return tuple(f"{name.lower()}{self.sizes[name]}.{index}" for index in range(self.sizes[name]))

    def elements(self, name: str) -> list[Term]:
        """Return all elements of a bounded sort; numbers from 0."""
        if name == "Int":
            return [z3.IntVal(number) for number in range(self.numbers)]
        return list(enumeration(f"{name}{self.sizes[name]}", self._names(name))[1].values())

    def constant(self, sort: str, name: str) -> Term:
        """Return a constant of a sort."""
        return z3.Const(name, self.sort(sort))

    def function(self, name: str, *sorts: str) -> Callable[..., Term]:
        """Return an uninterpreted function; the last sort is its result's."""
        function: Callable[..., Term] = z3.Function(name, *map(self.sort, sorts))
        return function

    def every(self, sorts: str, body: Callable[..., Term]) -> Term:
        """Return that `body` is true of all elements of the sorts, named in one string."""
        names = sorts.split()
        if self.unbounded:
            bound = [z3.Const(f"{name.lower()}?{index}", self.sort(name)) for index, name in enumerate(names)]
            return z3.ForAll(bound, body(*bound))
        return z3.And(*(body(*chosen) for chosen in self._choices(names)))

    def _choices(self, names: list[str]) -> Iterator[tuple[Term, ...]]:
        return product(*map(self.elements, names))


UNBOUNDED = Scope()

SMALL = Scope({"Request": 2, "Slot": 3, "Page": 2, "Window": 1, "Prefix": 5, "Step": 1}, numbers=4)
"""Enough for every edit of a table to show, and small enough to be solved at once."""
