"""What a row means for owners, entries, leases and contents; the rows only say from where to where, and when.

Each effect also gives the conduct that its caller owes: an assumption of the theorems, listed in the README.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import z3

from milepost.proofs.scope import Term
from milepost.proofs.tables import Names, Tables
from milepost.proofs.world import Background, Cells, World, put, state_term

Effect = Callable[[Background, World, World, Names, Tables], tuple[list[Term], World]]
"""(background, before, before but for the cell's state, names, tables) -> (conduct, after)."""


def _granted(moved: World, table: str, names: Names, encodes: Term, **values: Term) -> World:
    """A cell is given to a request, for nobody to read yet."""
    cells = moved.cells(table).put("names", (names.request, names.cell), z3.BoolVal(True))
    values |= {"owner": names.request, "encodes": encodes, "leases": z3.IntVal(0), "guess": z3.BoolVal(False)}
    return moved.with_cells(cells.set(names.cell, **values))


def _runs_on(world: World, request: Term, slot: Term) -> World:
    return replace(world, started=put(world.started, (request,), z3.BoolVal(True)),
                   live=put(world.live, (request,), slot))


def _stops(world: World, request: Term, when: Term) -> World:
    goes_on = z3.And(world.started(request), z3.Not(when))
    return replace(world, started=put(world.started, (request,), goes_on))


def _admit(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    after = _granted(moved, "Slot", names, base.text(names.request, z3.IntVal(0)), endpoint=names.claimed)
    return [z3.Not(world.started(names.request))], _runs_on(after, names.request, names.cell)


def _restore(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    after = _granted(moved, "Slot", names, world.slots.encodes(names.source), endpoint=names.claimed)
    return [z3.Not(world.started(names.request))], _runs_on(after, names.request, names.cell)


def _advance(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    """A forward takes the owner's state on, cannot take it back, and makes anybody else's state worthless."""
    slots, cell = world.slots, names.cell
    ran = z3.If(slots.endpoint(cell) <= names.goal, base.text(names.request, names.goal), slots.encodes(cell))
    encodes = z3.If(names.request == slots.owner(cell), ran, names.junk)
    return [names.goal >= 0], moved.with_cells(moved.slots.set(cell, endpoint=names.goal, encodes=encodes))


def _freeze(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    """A step can only write the states that it passes."""
    passed = z3.And(names.start <= names.position, names.position <= names.stop)
    encodes = z3.If(passed, base.text(names.request, names.position), names.junk)
    conduct = [names.start >= 0, names.start <= names.stop, names.claimed >= 0]
    return conduct, _granted(moved, "Slot", names, encodes, endpoint=names.claimed)


def _returned(table: str) -> Effect:
    def effect(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
        cells = moved.cells(table).put("names", (names.request, names.cell), z3.BoolVal(False))
        after = moved.with_cells(cells)
        if table == "Slot":
            after = _stops(after, names.request, world.slots.is_in(names.cell, ("live",)))
        return [], after
    return effect


def _given_to_entry(table: str, names: Names, moved: World, base: Background) -> World:
    cells = moved.cells(table).put("names", (names.request, names.cell), z3.BoolVal(False))
    cells = cells.set(names.cell, entry=names.entry, endpoint=base.length(names.entry))
    cells = cells.put("has", (names.entry,), z3.BoolVal(True)).put("cell_of", (names.entry,), names.cell)
    return moved.with_cells(cells)


def _donate(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    return [world.pages.has(names.entry)], _given_to_entry("Slot", names, moved, base)


def _donate_final(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    after = _stops(_given_to_entry("Slot", names, moved, base), names.request, names.closing)
    return [world.pages.has(names.entry)], after


def _lease(table: str) -> Effect:
    def effect(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
        cells, cell, request = world.cells(table), names.cell, names.request
        entry, count = cells.entry(cell), cells.leases(cell)
        conduct = [z3.Not(cells.holds(request, cell)), cells.has(entry), cells.cell_of(entry) == cell,
                   entry == base.text(request, base.length(entry))]
        if table != "Page":
            path = entry if table == "Slot" else base.cover(entry)
            conduct.append(world.pages.holds(request, world.pages.cell_of(path)))
        after = moved.cells(table).put("holds", (request, cell), z3.BoolVal(True)).set(cell, leases=count + 1)
        after = after.put("place", (request, cell), count).put("holder", (cell, count), request)
        return conduct, moved.with_cells(after)
    return effect


def _release(table: str) -> Effect:
    """Whoever has the last number takes over the number of the one who goes."""
    def effect(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
        cells, cell, request = world.cells(table), names.cell, names.request
        last = cells.holder(cell, cells.leases(cell) - 1)
        place = cells.place(request, cell)
        after = moved.cells(table).put("holds", (request, cell), z3.BoolVal(False))
        after = after.put("place", (last, cell), place).put("holder", (cell, place), last)
        after = after.set(cell, leases=cells.leases(cell) - 1)
        conduct = [cells.holds(request, cell)]
        if table == "Page":
            slots, windows, entry = world.slots, world.windows, cells.entry(cell)
            conduct.append(base.scope.every("Slot", lambda slot: z3.Not(z3.And(
                slots.holds(request, slot), slots.entry(slot) == entry))))
            conduct.append(base.scope.every("Window", lambda page: z3.Not(z3.And(
                windows.holds(request, page), base.cover(windows.entry(page)) == entry))))
        return conduct, moved.with_cells(after)
    return effect


def _withdrawn(cells: Cells, cell: Term) -> Cells:
    entry = cells.entry(cell)
    return cells.put("has", (entry,), z3.And(cells.has(entry), cells.cell_of(entry) != cell))


def _evict_alone(table: str) -> Effect:
    """A state or a window's page goes, and nothing with it."""
    def effect(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
        return [], moved.with_cells(_withdrawn(moved.cells(table), names.cell))
    return effect


def _evict_page(
    base: Background, world: World, moved: World, names: Names, tables: Tables
) -> tuple[list[Term], World]:
    """A page goes with what only it covers; `dependents` counts the published pages that continue it."""
    pages, slots, entry = world.pages, moved.slots, world.pages.entry(names.cell)

    def continues(child: Term) -> Term:
        return z3.And(pages.has(child), base.length(child) > base.page_size, base.parent(child) == entry)

    slot = slots.cell_of(entry)
    evicted = state_term("Slot", next((row.after for row in tables.slots if row.name == "evict"), "evicted"))
    falls = slots.put("state", (slot,), z3.If(slots.has(entry), evicted, slots.state(slot)))
    falls = falls.put("has", (entry,), z3.BoolVal(False))
    counted = [
        names.dependents >= 0,
        z3.Implies(names.dependents == 0, base.scope.every("Prefix", lambda child: z3.Not(continues(child)))),
        z3.Implies(names.dependents > 0, continues(names.child)),
    ]
    return counted, replace(moved, slots=falls, pages=_withdrawn(moved.pages, names.cell),
                            windows=_uncovered(base, world.windows, entry, tables))


def _uncovered(base: Background, windows: Cells, entry: Term, tables: Tables) -> Cells:
    """Return the window's pages when those go that end in a page of the full group, tombstones among them."""
    evicted = state_term("Window", next((row.after for row in tables.pages if row.name == "evict"), "evicted"))

    def state(page: Term) -> Term:
        goes = z3.And(windows.attached(page), base.cover(windows.entry(page)) == entry)
        return z3.If(goes, evicted, windows.state(page))

    return replace(windows, state=state, has=lambda prefix: z3.And(windows.has(prefix), base.cover(prefix) != entry))


def _nothing_more(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    return [], moved


def _speculate(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    """A column has no content before its step has landed."""
    after = _granted(moved, "Slot", names, names.junk, endpoint=names.claimed, filled=z3.IntVal(0))
    return [names.claimed >= 0], after


def _accept(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    """The accepted draft tokens are the request's own, a step wrote the column, the earlier live slot is returned."""
    request, n = names.request, names.goal
    conduct = [z3.Not(world.started(request)), world.slots.filled(names.cell) == 1,
               n >= 0, base.drafted(request, n) == base.text(request, n)]
    return conduct, _runs_on(moved.with_cells(moved.slots.set(names.cell, endpoint=n)), request, names.cell)


def _reject(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    return [], moved.with_cells(moved.slots.put("names", (names.request, names.cell), z3.BoolVal(False)))


def _allocate(table: str) -> Effect:
    def effect(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
        values = {"start": names.start, "filled": z3.IntVal(0)}
        return [names.start >= 0], _granted(moved, table, names, names.junk, **values)
    return effect


def _publish(table: str) -> Effect:
    """Pages are published in order: the one before is there, and under a window's page the full group's."""
    def effect(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
        pages, entry = world.pages, names.entry
        before = z3.Or(base.length(entry) <= base.page_size, pages.has(base.parent(entry)))
        path = before if table == "Page" else pages.has(base.cover(entry))
        return [path], _given_to_entry(table, names, moved, base)
    return effect


def _slide_out(base: Background, world: World, moved: World, names: Names, _: Tables) -> tuple[list[Term], World]:
    """Whatever is in a tombstone then, it counts for nothing."""
    return [], moved.with_cells(moved.windows.set(names.cell, encodes=names.junk, filled=z3.IntVal(0)))


def _of_pages(table: str) -> dict[tuple[str, str], Effect]:
    return {(table, "allocate"): _allocate(table), (table, "publish"): _publish(table),
            (table, "return"): _returned(table), (table, "lease"): _lease(table), (table, "release"): _release(table),
            (table, "reclaim"): _nothing_more}


EFFECTS: dict[tuple[str, str], Effect] = {
    ("Slot", "admit"): _admit, ("Slot", "restore"): _restore, ("Slot", "advance"): _advance,
    ("Slot", "freeze"): _freeze, ("Slot", "supersede"): _returned("Slot"), ("Slot", "donate"): _donate,
    ("Slot", "donate final"): _donate_final, ("Slot", "return"): _returned("Slot"), ("Slot", "protect"): _lease("Slot"),
    ("Slot", "release"): _release("Slot"), ("Slot", "evict"): _evict_alone("Slot"), ("Slot", "reclaim"): _nothing_more,
    ("Slot", "speculate"): _speculate, ("Slot", "accept"): _accept, ("Slot", "reject"): _reject,
    **_of_pages("Page"), ("Page", "evict"): _evict_page, **_of_pages("Window"),
    ("Window", "evict"): _evict_alone("Window"), ("Window", "slide out"): _slide_out,
    ("Window", "revive"): _nothing_more,
}
