"""The ownership tables of `spec`, and what their guards are about: names and facts of one symbolic step.

A guard is read by `spec.ownership.holds`, over terms in place of numbers; nothing of a table is written again here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import z3

from milepost.proofs.scope import Scope, Term
from milepost.proofs.world import KINDS, Background, World
from milepost.spec.ownership import PAGE_ROWS, SLOT_ROWS, PageState, Row


def table_of(kind: str) -> str:
    """Return the table of a kind of cell, `Slot` or `Page`."""
    return "Page" if kind == "Window" else kind


@dataclass(frozen=True)
class Tables:
    """The two ownership tables; those of `spec`, or a copy with one edit. `only` is the one row that is looked at."""

    slots: tuple[Row, ...] = SLOT_ROWS
    pages: tuple[Row, ...] = PAGE_ROWS
    only: Row | None = None

    def rows(self, table: str) -> tuple[Row, ...]:
        """Return the rows of the `Slot` or the `Page` table."""
        return self.slots if table == "Slot" else self.pages

    def rows_of(self, kind: str) -> tuple[Row, ...]:
        """Return the rows that a kind of cell takes: only a window's pages slide out."""
        rows = self.rows(table_of(kind))
        return tuple(row for row in rows if kind != "Page" or PageState.TOMBSTONE not in (row.before, row.after))

    def uses(self) -> Iterator[tuple[str, Row]]:
        """Yield each kind of cell with each row that it takes."""
        for kind in KINDS:
            yield from ((kind, row) for row in self.rows_of(kind) if self.only is None or row == self.only)

    def __iter__(self) -> Iterator[tuple[str, Row]]:
        both = [*(("Slot", row) for row in self.slots), *(("Page", row) for row in self.pages)]
        yield from (one for one in both if self.only is None or one[1] == self.only)


@dataclass(frozen=True)
class Names:
    """Who and what a step is about, and the numbers that come with it; all free."""

    request: Term
    cell: Term
    entry: Term
    source: Term
    step: Term
    other: Term
    child: Term
    junk: Term
    closing: Term
    claimed: Term
    position: Term
    start: Term
    stop: Term
    goal: Term
    in_flight: Term
    dependents: Term


def make_names(scope: Scope, table: str) -> Names:
    """Return the free names of a step on one cell of a kind."""
    def of(sort: str, name: str) -> Term:
        return scope.constant(sort, f"the_{name}")

    return Names(
        of("Request", "request"), of(table, f"{table.lower()}"), of("Prefix", "entry"), of("Slot", "source"),
        of("Step", "step"), of("Step", "other_step"), of("Prefix", "child"), of("Prefix", "junk"),
        of("Bool", "closing"), *(of("Int", name) for name in (
            "claimed", "position", "start", "stop", "goal", "in_flight", "dependents")),
    )


def facts_of(world: World, base: Background, table: str, row: Row, names: Names) -> dict[str, Term]:
    """Return every fact that a guard may name; the endpoint of an empty slot is the one that the step claims."""
    cells, cell, entry = world.cells(table), names.cell, names.entry
    ends = base.length(entry) if table == "Slot" else cells.start(cell) + base.size(table)
    return {
        "request": names.request, "owner": cells.owner(cell), "leases": cells.leases(cell),
        "endpoint": names.claimed if row.before == "free" else cells.endpoint(cell),
        "new_endpoint": names.goal, "accepted_length": names.goal, "position": names.position,
        "step_start": names.start, "step_end": names.stop, "grid": base.grid, "closing": _bit(names.closing),
        "depth": base.length(entry), "same_prefix": _bit(entry == base.text(names.request, ends)),
        "entry_occupied": _bit(cells.has(entry)), "filled": cells.filled(cell), "page_size": base.size(table),
        "source_leases": _bit(world.slots.holds(names.request, names.source)),
        "source_endpoint": world.slots.endpoint(names.source),
        "in_flight": names.in_flight, "dependents": names.dependents,
    }


def _bit(condition: Term) -> Term:
    return z3.If(condition, z3.IntVal(1), z3.IntVal(0))
