"""The tables refuse nothing that the lifecycle needs: for each of its acts, done as it should be, a row applies.

An act is described from outside, by who does it to which cell and when; the rows have to let it happen.
"""

from collections.abc import Callable, Iterator

import z3

from milepost.proofs.effects import EFFECTS
from milepost.proofs.moves import in_flight_counted, model
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Names, Tables, make_names, table_of
from milepost.proofs.world import READABLE, Background, World

Need = Callable[[Background, World, Names], list[Term]]


def _slot(*states: str, named: bool = False, landed: bool = False) -> Need:
    return _cell("Slot", states, named, landed)



def _cell(table: str, states: tuple[str, ...], named: bool, landed: bool) -> Need:
    def need(base: Background, world: World, names: Names) -> list[Term]:
        cells = world.cells(table)
        terms = [cells.is_in(names.cell, states)]
        terms += [cells.names(names.request, names.cell)] if named else []
        return terms + ([names.in_flight == 0] if landed else [])
    return need


def _with(need: Need, more: Need) -> Need:
    return lambda base, world, names: need(base, world, names) + more(base, world, names)


def _restored(base: Background, world: World, names: Names) -> list[Term]:
    slots = world.slots
    return [slots.holds(names.request, names.source), names.claimed == slots.endpoint(names.source)]


def _in_step(base: Background, world: World, names: Names) -> list[Term]:
    return [names.position % base.grid == 0, names.start <= names.position, names.position <= names.stop,
            names.claimed == names.position]


def _to_own_entry(base: Background, world: World, names: Names) -> list[Term]:
    slots = world.slots
    return [names.entry == base.text(names.request, slots.endpoint(names.cell)), z3.Not(slots.has(names.entry))]


def _at_the_end(base: Background, world: World, names: Names) -> list[Term]:
    return [names.closing, world.slots.endpoint(names.cell) % base.grid == 0]


def _whole_page(kind: str) -> Need:
    def need(base: Background, world: World, names: Names) -> list[Term]:
        cells, size = world.cells(kind), base.size(kind)
        return [cells.filled(names.cell) == size, z3.Not(cells.has(names.entry)),
                names.entry == base.text(names.request, cells.start(names.cell) + size)]
    return need


def _unread_page(kind: str) -> Need:
    def need(base: Background, world: World, names: Names) -> list[Term]:
        cells = world.cells(kind)
        return [base.scope.every("Request", lambda request: z3.Not(cells.holds(request, names.cell))),
                cells.leases(names.cell) == 0]
    return need


def _undepended(base: Background, world: World, names: Names) -> list[Term]:
    return [names.dependents == 0]


def _of_pages(kind: str) -> dict[tuple[str, str], Need]:
    """Return the acts on pages of the full group or of a window."""
    def page(*states: str, named: bool = False, landed: bool = False) -> Need:
        return _cell(kind, states, named, landed)

    return {
        (kind, "allocate"): page("free"),
        (kind, "publish"): _with(page("private", named=True, landed=True), _whole_page(kind)),
        (kind, "return"): page("private", named=True, landed=True),
        (kind, "lease"): page("shared"), (kind, "release"): page("shared"),
        (kind, "evict"): _with(_with(page("shared"), _unread_page(kind)), _undepended),
        (kind, "reclaim"): page("evicted", landed=True),
    }


ACTS: dict[tuple[str, str], Need] = {
    ("Slot", "admit"): _with(_slot("free"), lambda base, world, names: [names.claimed == 0]),
    ("Slot", "restore"): _with(_slot("free"), _restored),
    ("Slot", "advance"): _with(_slot("live", named=True),
                               lambda base, world, names: [names.goal > world.slots.endpoint(names.cell)]),
    ("Slot", "freeze"): _with(_slot("free"), _in_step),
    ("Slot", "supersede"): _slot("frozen", named=True, landed=True),
    ("Slot", "donate"): _with(_slot("frozen", named=True), _to_own_entry),
    ("Slot", "donate final"): _with(_with(_slot("live", named=True), _to_own_entry), _at_the_end),
    ("Slot", "return"): _slot("live", "frozen", named=True, landed=True),
    ("Slot", "protect"): _slot(*READABLE["Slot"]),
    ("Slot", "release"): _slot(*READABLE["Slot"]),
    ("Slot", "evict"): _slot("donated"),
    ("Slot", "reclaim"): _slot("evicted", landed=True),
    ("Slot", "speculate"): _slot("free"),
    ("Slot", "accept"): _with(_slot("draft", named=True, landed=True),
                              lambda base, world, names: [names.goal == world.slots.endpoint(names.cell)]),
    ("Slot", "reject"): _slot("draft", named=True, landed=True),
    **_of_pages("Page"),
    **_of_pages("Window"),
    ("Window", "slide out"): _with(_cell("Window", ("shared",), False, False), _unread_page("Window")),
    ("Window", "revive"): _with(_cell("Window", ("tombstone",), False, True), lambda base, world, names: [
        world.windows.filled(names.cell) == base.window_page]),
    ("Window", "evict tombstone"): _cell("Window", ("tombstone",), False, False),
}


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield for each act that some row of its name applies."""
    whole = model(tables, scope)
    base, before = whole.background, whole.before
    known = whole.known
    for (kind, act), need in ACTS.items():
        names, name = make_names(scope, kind), act.removesuffix(" tombstone")
        conduct, _ = EFFECTS[kind, name](base, before, before, names, tables)
        counted = in_flight_counted(scope, before.cells(kind), names)
        applies = [z3.And(*move.demands) for move, row in whole.row_moves() if (move.table, row.name) == (kind, name)]
        yield Obligation(f"{kind.lower()} {act}", (*known, *conduct, *counted, *need(base, before, names)),
                         z3.Or(*applies), (table_of(kind), name))


OBLIGATIONS = obligations
