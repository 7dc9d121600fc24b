"""Everything that can happen to a cache, as symbolic steps: each row of the ownership tables, and what devices do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import z3

from milepost.proofs.effects import EFFECTS
from milepost.proofs.invariants import reachable
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Names, Tables, facts_of, make_names
from milepost.proofs.world import (
    KINDS,
    Background,
    Cells,
    Function,
    World,
    any_world,
    background,
    function_names,
    state_term,
)
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

    @cached_property
    def known(self) -> tuple[Term, ...]:
        """What is assumed of the world before a step."""
        return tuple(reachable(self.background, self.before))

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
    kinds = zip(after.every_kind(), before.every_kind(), strict=True)
    slots, pages, windows = (cells(new, old) for new, old in kinds)
    return World(slots, pages, windows, either(after.started, before.started), either(after.live, before.live))


def _launch(base: Background, world: World, table: str, writes: bool) -> Move:
    """A step starts that will write a cell which its request has, or read one on which it has a lease."""
    names, cells = make_names(base.scope, table), world.cells(table)
    at = (names.step, names.cell)
    after = cells.put("flying", at, z3.BoolVal(True))
    if writes:
        after = after.put("writing", at, z3.BoolVal(True)).set(names.cell, writer=names.step)
        after = after.set(names.cell, filled=z3.IntVal(1)) if table == "Slot" else after
    right = cells.names(names.request, names.cell) if writes else cells.holds(names.request, names.cell)
    label = f"{table.lower()} launch: a step will {'write' if writes else 'read'} it"
    return Move(table, label, None, names, {}, (), (right,), world.with_cells(after))


def _launch_again(base: Background, world: World) -> Move:
    """A step starts that will compute a tombstone of its request's own prefix again, where it is."""
    names, windows = make_names(base.scope, "Window"), world.windows
    at = (names.step, names.cell)
    after = windows.put("flying", at, z3.BoolVal(True)).put("writing", at, z3.BoolVal(True))
    return Move("Window", "window launch: a step will compute a tombstone again", None, names, {}, (),
                _is_own_tombstone(base, windows, names), world.with_cells(after))


def _is_own_tombstone(base: Background, windows: Cells, names: Names) -> tuple[Term, ...]:
    entry = windows.entry(names.cell)
    return (windows.is_in(names.cell, ("tombstone",)), entry == base.text(names.request, base.length(entry)))


def _land(base: Background, world: World) -> Move:
    """A step has landed: it touches nothing any more, its columns are written, and its draft tokens are known."""
    names = make_names(base.scope, "Slot")

    def landed(cells: Cells) -> Cells:
        def still(relation: str) -> Function:
            return lambda step, cell: z3.And(step != names.step, getattr(cells, relation)(step, cell))
        return replace(cells, flying=still("flying"), writing=still("writing"))

    slots = world.slots

    def written(slot: Term) -> Term:
        column = z3.And(slots.is_in(slot, ("draft",)), slots.writing(names.step, slot))
        return z3.If(column, base.drafted(slots.owner(slot), slots.endpoint(slot)), slots.encodes(slot))

    settled = [_settled(base, cells, names.step) for cells in (world.pages, world.windows)]
    after = replace(world, slots=landed(replace(slots, encodes=written)), pages=landed(settled[0][1]),
                    windows=landed(settled[1][1]))
    conduct = (settled[0][0], settled[1][0])
    return Move("Slot", "land: a step touches nothing any more", None, names, {}, (), conduct, after)


def _settled(base: Background, cells: Cells, step: Term) -> tuple[Term, Cells]:
    """Of the draft tokens in a page as many are kept as were accepted; of those before it all."""
    kept = base.scope.function(f"{cells.table.lower()}_kept", cells.table, "Int")

    def known(page: Term) -> Term:
        return z3.And(cells.private(page), cells.guess(page), cells.writer(page) == step)

    within = base.scope.every(cells.table, lambda page: z3.And(kept(page) >= 0, kept(page) <= cells.filled(page)))
    text = {
        "filled": lambda page: z3.If(known(page), kept(page), cells.filled(page)),
        "encodes": lambda page: z3.If(known(page), base.text(
            cells.owner(page), cells.start(page) + kept(page)), cells.encodes(page)),
        "guess": lambda page: z3.And(cells.guess(page), z3.Not(known(page))),
    }
    return within, replace(cells, **text)  # type: ignore[arg-type]


def _fill(base: Background, world: World, table: str) -> Move:
    """A forward writes entries into a page of its own request, in order."""
    return _written(base, world, table, "its request's forward writes entries", base.text, z3.BoolVal(False))


def _fill_with_drafts(base: Background, world: World, table: str) -> Move:
    """A forward writes entries of draft tokens behind the others: nobody knows yet which of them stand."""
    return _written(base, world, table, "its request's forward writes draft tokens", base.drafted, z3.BoolVal(True))


def _written(base: Background, world: World, table: str, what: str, text: Function, guess: Term) -> Move:
    names, cells = make_names(base.scope, table), world.cells(table)
    encodes = text(names.request, cells.start(names.cell) + names.goal)
    after = cells.set(names.cell, filled=names.goal, encodes=encodes, guess=guess)
    after = after.set(names.cell, writer=names.step) if z3.is_true(guess) else after
    conduct = [cells.names(names.request, names.cell), cells.filled(names.cell) < names.goal,
               names.goal <= base.size(table), z3.Not(cells.guess(names.cell))]
    conduct += [cells.writing(names.step, names.cell)] if z3.is_true(guess) else []
    return Move(table, f"{table.lower()} fill: {what}", None, names, {}, (), tuple(conduct), world.with_cells(after))


def _fill_again(base: Background, world: World) -> Move:
    """A forward writes entries of its request's own prefix into a tombstone, in order."""
    names, windows = make_names(base.scope, "Window"), world.windows
    start = base.length(windows.entry(names.cell)) - base.window_page
    after = windows.set(names.cell, filled=names.goal, encodes=base.text(names.request, start + names.goal))
    conduct = (*_is_own_tombstone(base, windows, names), windows.filled(names.cell) < names.goal,
               names.goal <= base.window_page)
    return Move("Window", "window fill: a forward computes a tombstone again", None, names, {}, (), conduct,
                world.with_cells(after))


@lru_cache(maxsize=8)
def model(tables: Tables, scope: Scope) -> Model:
    """Return a world of which nothing is known and every step from it; of tables with an `only`, steps by that row."""
    base, world = background(scope), any_world(scope)
    rows = [row_move(base, world, kind, row, tables) for kind, row in tables.uses()]
    if tables.only is not None:
        return Model(scope, base, world, tuple(rows))
    device = [_launch(base, world, kind, writes) for kind in KINDS for writes in (True, False)]
    device += [fill(base, world, kind) for kind in ("Page", "Window") for fill in (_fill, _fill_with_drafts)]
    again = (_launch_again(base, world), _fill_again(base, world))
    return Model(scope, base, world, (*rows, *device, *again, _land(base, world)))
