"""What a mutant is, where they are listed, and the cache without safeguards that most of them start from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from milepost.reference.cache import ReferenceCache
from milepost.reference.pools import Cells, Occupant, PageCells, SlotCells
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.ownership import Violation
from milepost.spec.seam import Adapter


@dataclass(frozen=True, slots=True)
class Mutant:
    """One illegal edit: its class of public fault, the codes that may name it, a precedent, what it does.

    `profile` names the kit's profile whose groups it needs, '' where one full and one recurrent group do.
    """

    name: str
    fault_class: str
    codes: tuple[str, ...]
    precedent: str
    sentence: str
    make: Callable[[Configuration], Adapter]
    profile: str = ""


MUTANTS: dict[str, Mutant] = {}
"""All mutants by name."""

Cache = TypeVar("Cache", bound=ReferenceCache)


def mutant(fault_class: str, *codes: str, precedent: str, profile: str = "") -> Callable[[type[Cache]], type[Cache]]:
    """List a cache as a mutant; its name is the class's in kebab case, its sentence the docstring's first line."""

    def register(cache: type[Cache]) -> type[Cache]:
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", cache.__name__).lower()
        sentence = (cache.__doc__ or "").strip().split("\n")[0]
        MUTANTS[name] = Mutant(name, fault_class, codes, precedent, sentence, cache, profile)
        return cache

    return register


class UnguardedCells(Cells):
    """A table that is only kept up to date: where it forbids a transition, the transition happens all the same."""

    def move(self, row: str, index: int, **facts: int) -> Occupant:
        try:
            return super().move(row, index, **facts)
        except (Violation, KeyError):
            occupant = self[index]
            occupant.state = next(one.after for one in self.rows if one.name == row)
            return occupant


class UnguardedPages(UnguardedCells, PageCells):
    """Pages without guards."""


class UnguardedSlots(UnguardedCells, SlotCells):
    """Slots without guards."""


class Unguarded(ReferenceCache):
    """The reference as most engines are: no ownership table stops a mistake, none is shown, nothing is promised."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.page_cells = UnguardedPages(self.page_cells.pool)
        self.side_cells = {name: UnguardedPages(cells.pool) for name, cells in self.side_cells.items()}
        self.slot_cells = UnguardedSlots(self.slot_cells.pool)

    def declare(self) -> Capabilities:
        return replace(super().declare(), accounts=False, inventories=False, promises=())
