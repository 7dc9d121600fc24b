"""The tables refuse nothing that the lifecycle needs: for each of its acts, done as it should be, a row applies.

An act is described from outside, by who does it to which cell and when; the rows have to let it happen.
"""

from collections.abc import Callable, Iterator

import z3

from milepost.proofs.effects import EFFECTS
from milepost.proofs.invariants import reachable
from milepost.proofs.moves import in_flight_counted, model
from milepost.proofs.prover import Obligation
from milepost.proofs.scope import Scope, Term
from milepost.proofs.tables import Names, Tables, make_names
from milepost.proofs.world import READABLE, Background, World

Need = Callable[[Background, World, Names], list[Term]]


def _slot(*states: str, named: bool = False, landed: bool = False) -> Need:
    return _cell("Slot", states, named, landed)


def _page(*states: str, named: bool = False, landed: bool = False) -> Need:
    return _cell("Page", states, named, landed)


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


def _whole_page(base: Background, world: World, names: Names) -> list[Term]:
    pages, end = world.pages, world.pages.start(names.cell) + base.page_size
    return [pages.filled(names.cell) == base.page_size, names.entry == base.text(names.request, end),
            z3.Not(pages.has(names.entry))]


def _unread_page(base: Background, world: World, names: Names) -> list[Term]:
    return [base.scope.every("Request", lambda request: z3.Not(world.pages.holds(request, names.cell))),
            world.pages.leases(names.cell) == 0]


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
    ("Slot", "accept"): _with(_slot("draft"),
                              lambda base, world, names: [names.goal == world.slots.endpoint(names.cell)]),
    ("Slot", "reject"): _slot("draft", landed=True),
    ("Page", "allocate"): _page("free"),
    ("Page", "publish"): _with(_page("private", named=True, landed=True), _whole_page),
    ("Page", "return"): _page("private", named=True, landed=True),
    ("Page", "lease"): _page("shared"),
    ("Page", "release"): _page("shared"),
    ("Page", "evict"): _with(_with(_page("shared"), _unread_page),
                             lambda base, world, names: [names.dependents == 0]),
    ("Page", "reclaim"): _page("evicted", landed=True),
    ("Page", "slide out"): _with(_page("shared"), _unread_page),
    ("Page", "revive"): _page("tombstone"),
}


def obligations(tables: Tables, scope: Scope) -> Iterator[Obligation]:
    """Yield for each act that some row of its name applies."""
    whole = model(tables, scope)
    base, before = whole.background, whole.before
    known = reachable(base, before)
    for (table, name), need in ACTS.items():
        names = make_names(scope, table)
        conduct, _ = EFFECTS[table, name](base, before, before, names, tables)
        counted = in_flight_counted(scope, before.cells(table), names)
        applies = [z3.And(*move.demands) for move, row in whole.row_moves() if (move.table, row.name) == (table, name)]
        yield Obligation(f"{table.lower()} {name}", (*known, *conduct, *counted, *need(base, before, names)),
                         z3.Or(*applies), (table, name))


OBLIGATIONS = obligations
