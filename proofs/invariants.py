"""What is true of every world that a cache can reach: the statements that the theorems preserve, and lean on."""

from __future__ import annotations

from collections.abc import Callable

import z3

from milepost.proofs.scope import Term
from milepost.proofs.world import READABLE, Background, Cells, World

Invariant = Callable[[Background, World], dict[str, Term]]
"""Statements by their short name."""


def _each(world: World, statement: Callable[[Cells], Term], name: str) -> dict[str, Term]:
    return {f"{name}, {cells.table.lower()}s": statement(cells) for cells in world.every_kind()}


def owned_once(base: Background, world: World) -> dict[str, Term]:
    """What a request names is its own private cell, what an entry has is attached to that entry."""
    every = base.scope.every

    def named(cells: Cells) -> Term:
        return every(f"Request {cells.table}", lambda request, cell: z3.Implies(
            cells.names(request, cell), z3.And(cells.private(cell), cells.owner(cell) == request)))

    def had(cells: Cells) -> Term:
        return every("Prefix", lambda entry: z3.Implies(
            cells.has(entry), z3.And(cells.attached(cells.cell_of(entry)),
                                     cells.entry(cells.cell_of(entry)) == entry)))

    return _each(world, named, "a named cell is private") | _each(world, had, "an entry's cell is attached to it")


def accounted(base: Background, world: World) -> dict[str, Term]:
    """No cell is lost: its owner names a private one, its entry has an attached one."""
    every = base.scope.every

    def kept(cells: Cells) -> Term:
        return every(cells.table, lambda cell: z3.And(
            z3.Implies(cells.private(cell), cells.names(cells.owner(cell), cell)),
            z3.Implies(cells.attached(cell), z3.And(cells.has(cells.entry(cell)),
                                                    cells.cell_of(cells.entry(cell)) == cell))))

    return _each(world, kept, "somebody has each cell")


def endpoints(base: Background, world: World) -> dict[str, Term]:
    """What a slot holds is what it is labelled with, and, once it is at an entry, exactly the entry's prefix."""
    slots, every = world.slots, base.scope.every

    def own(slot: Term) -> Term:
        return z3.Implies(slots.is_in(slot, ("live", "frozen")), z3.And(
            slots.endpoint(slot) >= 0, slots.encodes(slot) == base.text(slots.owner(slot), slots.endpoint(slot))))

    def draft(slot: Term) -> Term:
        column = slots.encodes(slot) == base.drafted(slots.owner(slot), slots.endpoint(slot))
        in_flight = slots.writing(slots.writer(slot), slot)
        return z3.Implies(slots.is_in(slot, ("draft",)), z3.And(
            slots.endpoint(slot) >= 0, z3.Implies(slots.filled(slot) == 1, z3.Or(column, in_flight))))

    def at_entry(slot: Term) -> Term:
        return z3.Implies(slots.attached(slot), z3.And(
            slots.encodes(slot) == slots.entry(slot), slots.endpoint(slot) == base.length(slots.entry(slot))))

    return {"a live or frozen slot holds its owner's tokens": every("Slot", own),
            "a draft holds the tokens that were drafted, once it has landed": every("Slot", draft),
            "a slot at an entry holds the entry's prefix": every("Slot", at_entry)}


def page_contents(base: Background, world: World) -> dict[str, Term]:
    """A private page holds its owner's tokens as far as it is filled, a shared one all of its entry's last page.

    Of draft tokens nothing is known but that their step is in flight. A tombstone holds its entry's tokens once all
    of them were computed again.
    """
    every = base.scope.every

    def own(cells: Cells) -> Term:
        def holds(page: Term) -> Term:
            filled = cells.filled(page)
            text = cells.encodes(page) == base.text(cells.owner(page), cells.start(page) + filled)
            guessed = cells.writing(cells.writer(page), page)
            return z3.Implies(cells.private(page), z3.And(
                cells.start(page) >= 0, filled >= 0, filled <= base.size(cells.table),
                z3.If(cells.guess(page), guessed, z3.Implies(filled > 0, text))))
        return every(cells.table, holds)

    def shared(cells: Cells) -> Term:
        return every(cells.table, lambda page: z3.Implies(
            cells.is_in(page, ("shared",)), cells.encodes(page) == cells.entry(page)))

    windows = world.windows
    again = every("Window", lambda page: z3.Implies(
        z3.And(windows.is_in(page, ("tombstone",)), windows.filled(page) == base.window_page),
        windows.encodes(page) == windows.entry(page)))
    paged = (world.pages, world.windows)
    return ({f"a private {cells.table.lower()} holds what was filled in": own(cells) for cells in paged}
            | {f"a shared {cells.table.lower()} holds its entry's tokens": shared(cells) for cells in paged}
            | {"a tombstone that was computed again holds its entry's tokens": again})


def boundaries(base: Background, world: World) -> dict[str, Term]:
    """Every snapshot ends on the grid."""
    slots = world.slots
    return {"a snapshot ends at a boundary": base.scope.every("Slot", lambda slot: z3.Implies(
        slots.is_in(slot, ("frozen", "donated", "protected")), slots.endpoint(slot) % base.grid == 0))}


def running(base: Background, world: World) -> dict[str, Term]:
    """A request that runs has its live slot."""
    slots = world.slots

    def has_live(request: Term) -> Term:
        slot = world.live(request)
        return z3.Implies(world.started(request), z3.And(
            slots.is_in(slot, ("live",)), slots.owner(slot) == request))

    return {"a running request has its live slot": base.scope.every("Request", has_live)}


def counted_from_zero(base: Background, world: World) -> dict[str, Term]:
    """No count of leases is below zero."""
    every = base.scope.every
    return _each(world, lambda cells: every(cells.table, lambda cell: cells.leases(cell) >= 0), "not below zero")


LEASED = {"Slot": ("protected",), "Page": ("shared",), "Window": ("shared",)}


def lease_states(base: Background, world: World) -> dict[str, Term]:
    """Leases are never below zero, and only cells in a state for readers have any; a protected slot has one."""
    every = base.scope.every

    def counted(cells: Cells) -> Term:
        return every(cells.table, lambda cell: z3.And(
            cells.leases(cell) >= 0,
            z3.Implies(cells.leases(cell) > 0, cells.is_in(cell, LEASED[cells.table]))))

    slots = world.slots
    protected = every("Slot", lambda slot: z3.Implies(slots.is_in(slot, ("protected",)), slots.leases(slot) > 0))
    return _each(world, counted, "leases are counted from zero") | {"a protected slot has a lease": protected}


def readers(base: Background, world: World) -> dict[str, Term]:
    """The count of leases is the number of readers: numbered from 0, one number each, none left over."""
    every = base.scope.every

    def numbered(cells: Cells) -> Term:
        return every(f"Request {cells.table}", lambda request, cell: z3.Implies(cells.holds(request, cell), z3.And(
            cells.place(request, cell) >= 0, cells.place(request, cell) < cells.leases(cell),
            cells.holder(cell, cells.place(request, cell)) == request)))

    def no_gap(cells: Cells) -> Term:
        return every(f"{cells.table} Int", lambda cell, n: z3.Implies(
            z3.And(n >= 0, n < cells.leases(cell)),
            z3.And(cells.holds(cells.holder(cell, n), cell), cells.place(cells.holder(cell, n), cell) == n)))

    return _each(world, numbered, "each reader has a number") | _each(world, no_gap, "each number has a reader")


def leased_cells_stay(base: Background, world: World) -> dict[str, Term]:
    """A cell on which somebody holds a lease is published."""
    every = base.scope.every
    return _each(world, lambda cells: every(f"Request {cells.table}", lambda request, cell: z3.Implies(
        cells.holds(request, cell), cells.is_in(cell, READABLE[cells.table]))), "a leased cell is published")


def own_prefixes(base: Background, world: World) -> dict[str, Term]:
    """What a request leases is at an entry of its own prefix."""
    every = base.scope.every
    return _each(world, lambda cells: every(f"Request {cells.table}", lambda request, cell: z3.Implies(
        cells.holds(request, cell), cells.entry(cell) == base.text(request, base.length(cells.entry(cell))))),
        "a lease is on a prefix of one's own")


def paths(base: Background, world: World) -> dict[str, Term]:
    """A published page has the page before it, a snapshot and a window's page have theirs, and who reads leases it.

    Of a window no page needs another.
    """
    slots, pages, windows, every = world.slots, world.pages, world.windows, base.scope.every
    before = every("Prefix", lambda entry: z3.Implies(
        z3.And(pages.has(entry), base.length(entry) > base.page_size), pages.has(base.parent(entry))))
    ends = every("Prefix", lambda entry: z3.Implies(slots.has(entry), pages.has(entry)))
    leased = every("Request Slot", lambda request, slot: z3.Implies(
        slots.holds(request, slot), pages.holds(request, pages.cell_of(slots.entry(slot)))))
    covered = every("Prefix", lambda entry: z3.Implies(windows.has(entry), pages.has(base.cover(entry))))
    both = every("Request Window", lambda request, page: z3.Implies(
        windows.holds(request, page), pages.holds(request, pages.cell_of(base.cover(windows.entry(page))))))
    return {"the page before a published one is published": before, "a snapshot's page is published": ends,
            "who restores from a snapshot leases its page": leased, "a window's page has the full page": covered,
            "who reads a window's page leases the full page": both}


def landed(base: Background, world: World) -> dict[str, Term]:
    """No step in flight may touch a free cell, and none may write a published page.

    A tombstone may be computed again where it is, and may go before that has landed; it is not free before.
    """
    every = base.scope.every
    free = _each(world, lambda cells: every(f"Step {cells.table}", lambda step, cell: z3.Implies(
        cells.is_in(cell, ("free",)), z3.Not(cells.flying(step, cell)))), "no step in flight touches a free cell")
    written = {f"no step in flight writes a published {cells.table.lower()}": every(
        f"Step {cells.table}", lambda step, page, cells=cells, states=states: z3.Implies(
            cells.is_in(page, states), z3.Not(cells.writing(step, page))))
        for cells, states in ((world.pages, ("shared", "evicted")), (world.windows, ("shared",)))}
    return free | written | _each(world, lambda cells: every(f"Step {cells.table}", lambda step, cell: z3.Implies(
        cells.writing(step, cell), cells.flying(step, cell))), "what is written is touched")


def occupied(base: Background, world: World) -> dict[str, Term]:
    """A free or evicted cell has no owner and no entry, and nobody reads it."""
    every = base.scope.every

    def empty(cells: Cells) -> Term:
        def nobodys(request: Term, cell: Term) -> Term:
            vacant = cells.is_in(cell, ("free", "evicted"))
            return z3.Implies(vacant, z3.Not(z3.Or(cells.names(request, cell), cells.holds(request, cell))))
        return every(f"Request {cells.table}", nobodys)

    return _each(world, empty, "an empty cell is nobody's")


INVARIANTS: tuple[Invariant, ...] = (
    owned_once, accounted, endpoints, page_contents, boundaries, running, lease_states, readers, leased_cells_stay,
    own_prefixes, paths, landed, occupied,
)
"""One simultaneous induction: before a step all are assumed, after it each is proved by the theorem that has it."""


def reachable(base: Background, world: World) -> list[Term]:
    """Return everything that is assumed of a world before a step."""
    return base.axioms() + [one for invariant in INVARIANTS for one in invariant(base, world).values()]
