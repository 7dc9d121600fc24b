"""Schedules for one goal at given sizes: what `milepost prove --schedules` asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice

from milepost.proofs.schedules import GOALS, Goal, numbers_of_kinds, writing_of_kinds
from milepost.proofs.schedules.kinds import KindScope
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

TURNS = ("coprime", "dividing", "equal")

Progress = Callable[[int, int], None]

Orders = dict[str, list[Order]]
"""For each goal the shortest orders, the one that the corpus has first."""


class OutOfReach(ValueError):
    """Nothing was found, and the text says why in a sentence."""


def find_goal(name: str) -> Goal:
    """Return the goal called `name`; OutOfReach where there is none."""
    if name not in GOALS:
        near = get_close_matches(name, GOALS, n=3, cutoff=0.7)
        hint = f"did you mean {' or '.join(near)}?" if near else "--goals lists them"
        raise OutOfReach(f"there is no goal '{name}'; {hint}")
    return GOALS[name]


def search(goals: Iterable[Goal], slots: int, progress: Progress | None = None) -> Orders:
    """Return shortest orders to each goal that is within reach; `progress` gets each depth and its scenes."""
    chosen = list(goals)
    scopes = {goal.scope for goal in chosen}
    if len(scopes) > 1:
        return {name: orders for scope in scopes for name, orders in search(
            [goal for goal in chosen if goal.scope == scope], slots, progress).items()}
    one = Search(next(iter(scopes), None) or Scope(REQUESTS, slots), chosen)
    while one.wanted and one.frontier and one.depth < DEEPEST and len(one.parents) < MOST_SCENES:
        one.deepen()
        if progress is not None:
            progress(one.depth, len(one.parents))
    return one.found


def search_each(goals: Iterable[Goal], slots: int | None, progress: Progress | None = None) -> Orders:
    """Search with a number of slots, or for each goal with the fewest that reach it in a few moves."""
    found: Orders = {}
    counted = [(slots or goal.slots, goal) for goal in goals]
    for count in sorted({count for count, _ in counted}):
        found |= search([goal for one, goal in counted if one == count], count, progress)
    return found


def usual_sizes(goal: Goal) -> Sizes:
    """Return what the corpus has: page and chunk coprime, one dividing the other, or equal, goal by goal in turn."""
    turn = list(GOALS).index(goal.name)
    return Sizes(relation=TURNS[turn % len(TURNS)])


def schedules_of(goal: Goal, orders: list[Order], sizes: Sizes, count: int = 1) -> list[Schedule]:
    """Return up to `count` different schedules of a goal; OutOfReach where it has no order, or no numbers fit."""
    if not orders:
        raise OutOfReach(f"{DEEPEST} operations of {REQUESTS} requests at a time do not reach {goal.name} with so many "
                         f"slots; with {goal.slots} they do")
    real = (schedule for order in orders for schedule in real_schedules(order, sizes))
    schedules = [_numbered(schedule, number) for number, schedule in enumerate(islice(real, count), 1)]
    if not schedules:
        raise OutOfReach(f"no lengths of prompts reach {goal.name} with {_asked(sizes)}")
    return schedules


def real_schedules(order: Order, sizes: Sizes) -> Iterator[Schedule]:
    """Yield schedules of one order, with other numbers each."""
    if isinstance(order.scope, KindScope):
        yield from (writing_of_kinds.write(order, numbers) for numbers in numbers_of_kinds.find_numbers(order, sizes))
    else:
        yield from (write(order, numbers) for numbers in find_numbers(order, sizes))


def _numbered(schedule: Schedule, number: int) -> Schedule:
    name = schedule.header.id if number == 1 else f"{schedule.header.id}-{number}"
    return replace(schedule, header=replace(schedule.header, id=name))


def _asked(sizes: Sizes) -> str:
    given = {"page": sizes.page, "chunk": sizes.chunk, "a pool of pages of": sizes.pages}
    words = [f"{name} {value}" for name, value in given.items() if value]
    words += [f"page and chunk {sizes.relation}"] if sizes.relation != "any" else []
    return ", ".join(words) if words else "any sizes"
