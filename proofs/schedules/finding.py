"""Schedules for one goal at given sizes: what `milepost prove --schedules` asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from milepost.proofs.schedules import GOALS, Goal
from milepost.proofs.schedules.lengths import Sizes, find_numbers
from milepost.proofs.schedules.scene import Scope
from milepost.proofs.schedules.search import Order, Search
from milepost.proofs.schedules.writing import write
from milepost.spec.schedule import Schedule

DEEPEST = 9
"""Operations up to which every goal is reached with the slots that it asks for."""

MOST_SCENES = 4_000_000
"""Scenes that are kept in memory, at about 300 bytes each."""

REQUESTS = 3
"""Requests at a time."""


class OutOfReach(ValueError):
    """Nothing was found, and the text says why in a sentence."""


@dataclass(frozen=True, slots=True)
class Found:
    """The schedules of a goal, and after how many of their operations it is reached."""

    goal: Goal
    order: Order
    schedules: tuple[Schedule, ...]


def find_goal(name: str) -> Goal:
    """Return the goal called `name`; OutOfReach where there is none."""
    if name not in GOALS:
        raise OutOfReach(f"there is no goal '{name}'; there are {', '.join(GOALS)}")
    return GOALS[name]


def search(goals: list[Goal], slots: int, progress: Callable[[int, int], None] | None = None) -> dict[str, Order]:
    """Return the shortest order to each goal that is within reach; `progress` gets each depth and its scenes."""
    one = Search(Scope(REQUESTS, slots), goals)
    while one.wanted and one.frontier and one.depth < DEEPEST and len(one.parents) < MOST_SCENES:
        one.deepen()
        if progress is not None:
            progress(one.depth, len(one.parents))
    return one.found


def find(
    name: str, sizes: Sizes, slots: int | None = None, count: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """Return up to `count` different schedules of a goal; OutOfReach where there is none."""
    goal = find_goal(name)
    slots = slots or goal.slots
    order = search([goal], slots, progress).get(name)
    if order is None:
        raise OutOfReach(
            f"no {DEEPEST} operations of {REQUESTS} requests at a time over {slots} slots reach {name}; "
            f"{goal.slots} slots do"
        )
    schedules = tuple(islice(write_all(order, sizes), count))
    if not schedules:
        raise OutOfReach(f"no lengths of prompts reach {name} with {_asked(sizes)}")
    return Found(goal, order, schedules)


def write_all(order: Order, sizes: Sizes) -> Iterator[Schedule]:
    """Yield a schedule for each set of numbers that makes an order real."""
    return (write(order, numbers) for numbers in find_numbers(order, sizes))


def _asked(sizes: Sizes) -> str:
    given = {"page": sizes.page, "chunk": sizes.chunk, "a pool of pages of": sizes.pages}
    words = [f"{name} {value}" for name, value in given.items() if value]
    words += [f"page and chunk {sizes.relation}"] if sizes.relation != "any" else []
    return ", ".join(words) if words else "any sizes"
