"""Everything that can happen to a cache, as symbolic steps: each row of the ownership tables, and what devices do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import z3

from milepost.proofs.effects import EFFECTS
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Names, Tables, facts_of, make_names
from milepost.proofs.world import Background, Cells, Function, World, any_world, background, function_names, state_term
from milepost.spec.ownership import Row, holds


@dataclass(frozen=True)
class Move:
    """One step: what the table demands of it, what its caller ensures, and the world after it."""

    table: str
    label: str
    row: Row | None
    names: Names
    facts: dict[str, Term]
    demands: tuple[Term, ...]
    conduct: tuple[Term, ...]
    after: World

    @property
    def allowed(self) -> Term:
        """That the table lets it happen and the caller does what it must."""
        return z3.And(*self.demands, *self.conduct)


@dataclass(frozen=True)
class Model:
    """A background, an unknown world, and all steps from it."""

    scope: Scope
    background: Background
    before: World
    moves: tuple[Move, ...]

    def row_moves(self) -> Iterator[tuple[Move, Row]]:
        """Yield the steps that are rows of a table."""
        for move in self.moves:
            if move.row is not None:
                yield move, move.row


def row_move(base: Background, world: World, table: str, row: Row, tables: Tables) -> Move:
    """Return the symbolic step of one row."""
    names = make_names(base.scope, table)
    cells, cell = world.cells(table), names.cell
    facts = facts_of(world, base, table, row, names)
    demands = (cells.state(cell) == state_term(table, row.before), *(holds(one, facts) for one in row.guards))
    moved = world.with_cells(cells.set(cell, state=state_term(table, row.after)))
    conduct, after = EFFECTS[table, row.name](base, world, moved, names, tables)
    counted = in_flight_counted(base.scope, cells, names)
    label = f"{table.lower()} {row.name}: {row.before} to {row.after}"
    return Move(table, label, row, names, facts, demands, (*conduct, *counted), after)


def in_flight_counted(scope: Scope, cells: Cells, names: Names) -> list[Term]:
    """The fact `in_flight` is 0 exactly where no step in flight may touch the cell."""
    return [names.in_flight >= 0,
            z3.Implies(names.in_flight == 0, scope.every("Step", lambda step: z3.Not(cells.flying(step, names.cell)))),
            z3.Implies(names.in_flight > 0, cells.flying(names.other, names.cell))]


def attempted(before: World, move: Move) -> World:
    """Return the world after an attempt: that of the move where the table lets it happen, else the one before."""
    made = z3.And(*move.demands)

    def either(new: Function, old: Function) -> Function:
        return lambda *at: z3.If(made, new(*at), old(*at))

    def cells(new: Cells, old: Cells) -> Cells:
        changed: dict[str, Any] = {name: either(getattr(new, name), getattr(old, name)) for name in function_names()}
        return replace(old, **changed)

    after = move.after
    return World(cells(after.slots, before.slots), cells(after.pages, before.pages),
                 either(after.started, before.started), either(after.live, before.live))


def _launch(base: Background, world: World, table: str, writes: bool) -> Move:
    """A step starts that will write a cell which its request has, or read one on which it has a lease."""
    names, cells = make_names(base.scope, table), world.cells(table)
    at = (names.step, names.cell)
    after = cells.put("flying", at, z3.BoolVal(True))
    after = after.put("writing", at, z3.BoolVal(True)) if writes else after
    right = cells.names(names.request, names.cell) if writes else cells.holds(names.request, names.cell)
    label = f"{table.lower()} launch: a step will {'write' if writes else 'read'} it"
    return Move(table, label, None, names, {}, (), (right,), world.with_cells(after))


def _land(base: Background, world: World) -> Move:
    """A step has landed: it touches nothing any more."""
    names = make_names(base.scope, "Slot")

    def landed(cells: Cells) -> Cells:
        def still(relation: str) -> Function:
            return lambda step, cell: z3.And(step != names.step, getattr(cells, relation)(step, cell))
        return replace(cells, flying=still("flying"), writing=still("writing"))

    after = replace(world, slots=landed(world.slots), pages=landed(world.pages))
    return Move("Slot", "land: a step touches nothing any more", None, names, {}, (), (), after)


def _fill(base: Background, world: World) -> Move:
    """A forward writes entries into a page of its own request, in order."""
    names, pages = make_names(base.scope, "Page"), world.pages
    encodes = base.text(names.request, pages.start(names.cell) + names.goal)
    after = world.with_cells(pages.set(names.cell, filled=names.goal, encodes=encodes))
    conduct = (pages.names(names.request, names.cell), pages.filled(names.cell) < names.goal,
               names.goal <= base.page_size)
    return Move("Page", "page fill: its request's forward writes entries", None, names, {}, (), conduct, after)


def model(tables: Tables, scope: Scope) -> Model:
    """Return a world of which nothing is known and every step from it; of tables with an `only`, steps by that row."""
    base, world = background(scope), any_world(scope)
    rows = [row_move(base, world, table, row, tables) for table, row in tables]
    if tables.only is not None:
        return Model(scope, base, world, tuple(rows))
    device = [_launch(base, world, table, writes) for table in ("Slot", "Page") for writes in (True, False)]
    return Model(scope, base, world, (*rows, *device, _land(base, world), _fill(base, world)))
