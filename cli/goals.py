"""`milepost prove --schedules GOAL`: schedules that a solver finds, each replayed on the reference as it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from milepost.cli.folders import require_folder
from milepost.cli.screen import ProgressBar
from milepost.conformance.driver import Driver
from milepost.conformance.errors import UsageError
from milepost.conformance.files import write_schedule
from milepost.conformance.goal_marks_kinds import GoalObserver
from milepost.reference.cache import make
from milepost.spec.schedule import Schedule

if TYPE_CHECKING:
    from milepost.proofs.schedules import Goal
    from milepost.proofs.schedules.lengths import Sizes
    from milepost.proofs.schedules.search import Order

EVERY = "all"
"""The word that stands for every goal."""

LARGEST = 64
"""Tokens of a page or a chunk, cells of a pool: boundaries far apart make prompts that nobody reads."""

LEAST_SLOTS = 3
"""A restored request has its source, its live and its frozen slot."""


def list_goals() -> int:
    """Print each goal with its meaning."""
    from milepost.proofs.schedules import GOALS

    for goal in GOALS.values():
        click.echo(f"{goal.name}\n    {goal.meaning}")
    return 0


def find_schedules(name: str, page: int | None, chunk: int | None, pools: str, count: int, folder: Path) -> int:
    """Find schedules for one goal or all, replay each on the reference, and write them into a folder."""
    from milepost.proofs.schedules import GOALS
    from milepost.proofs.schedules.finding import DEEPEST, OutOfReach, find_goal, search_each, usual_sizes
    from milepost.proofs.schedules.lengths import Sizes, Undecided

    cells = read_pools(pools)
    require_folder(folder)
    try:
        goals = list(GOALS.values()) if name == EVERY else [find_goal(name)]
        with ProgressBar("search") as progress:
            orders = search_each(
                goals, cells.get("state"), lambda depth, scenes: progress(f"{scenes} scenes", depth, DEEPEST)
            )
        reached = True
        for goal in goals:
            asked = Sizes(page, chunk, cells.get("kv")) if page or chunk else usual_sizes(goal)
            sizes = replace(asked, pages=cells.get("kv"))
            reached &= _write(goal, orders.get(goal.name, []), sizes, count, folder)
    except (OutOfReach, Undecided) as error:
        raise UsageError(str(error)) from None
    return 0 if reached else 1


def read_pools(text: str) -> dict[str, int]:
    """Read `kv=12,state=4`; UsageError where it is something else."""
    pools: dict[str, int] = {}
    for part in text.split(",") if text else []:
        pool, _, cells = part.partition("=")
        if pool not in ("kv", "state") or pool in pools or not cells.isdecimal() or not 0 < int(cells) <= LARGEST:
            raise UsageError(f"--pools {text}: write the cells of a pool, 1 to {LARGEST}, as in kv=12,state=4")
        pools[pool] = int(cells)
    if pools.get("state", LEAST_SLOTS) < LEAST_SLOTS:
        raise UsageError(f"--pools {text}: a restored request needs {LEAST_SLOTS} cells of state")
    return pools


def _write(goal: Goal, orders: list[Order], sizes: Sizes, count: int, folder: Path) -> bool:
    """Write a goal's schedules; return whether the reference reaches it in each."""
    from milepost.proofs.schedules.finding import schedules_of

    reached = True
    for schedule in schedules_of(goal, orders, sizes, count):
        at = replay(schedule).get(goal.name, 0)
        file = folder / f"{schedule.header.id.replace('/', '.')}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        write_schedule(file, schedule)
        seen = f"reached by operation {at}" if at else "NOT REACHED on the reference"
        header = schedule.header
        pools = ",".join(f"{pool}={cells}" for pool, cells in header.pools.items())
        click.echo(f"{file}: {seen} of {len(schedule.operations)}, page {header.page_size}, chunk {header.chunk_size}, "
                   f"{pools}")
        reached &= bool(at)
    return reached


def replay(schedule: Schedule) -> dict[str, int]:
    """Run a schedule on the reference; return the operation, counted from 1, that reached each goal first."""
    adapter = make(schedule.header.configuration)
    observer = GoalObserver(adapter, adapter.capabilities)
    Driver(adapter, [observer]).run(schedule)
    return observer.first
