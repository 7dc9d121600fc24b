"""One state of a whole cache as functions of cells, requests and prefixes; a step gives another one.

Slots, pages of the full group and pages of a window have the same functions, and an entry has a cell of each at most:
a group of another kind that keeps pages beside the full one is like a window whose pages never slide out. `names` says
which request has a cell in its table, `holds` which request has a lease on it; `place` and `holder` number the lease
holders from 0, so that the count of leases is exact for any number of them. `encodes` is what a cell really holds,
whatever `endpoint` says of it. `filled` counts the entries of a page, and is 1 for a slot that some step was launched
to write; `writer` is the last step that was. `guess` says of a page that its last entries are of draft tokens, of which
nobody knows yet how many stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import z3

from milepost.proofs.scope import Scope, Term, enumeration
from milepost.spec.ownership import PageState, SlotState

Function = Callable[..., Term]

KINDS = ("Slot", "Page", "Window")
"""Slots, pages of the full group, and pages of a window; the last two are both of the page table."""

STATES = {"Slot": tuple(one.value for one in SlotState), "Window": tuple(one.value for one in PageState),
          "Page": tuple(one.value for one in PageState if one is not PageState.TOMBSTONE)}
PRIVATE = {"Slot": ("live", "frozen", "draft"), "Page": ("private",), "Window": ("private",)}
"""States in which a cell belongs to one request."""
ATTACHED = {"Slot": ("donated", "protected"), "Page": ("shared",), "Window": ("shared", "tombstone")}
"""States in which a cell belongs to one entry of the cache."""
READABLE = {"Slot": ("donated", "protected"), "Page": ("shared",), "Window": ("shared",)}
"""States in which others may read it, once they hold a lease."""


def state_term(table: str, state: str) -> Term:
    """Return the element that stands for a state of a kind of cell."""
    return enumeration(f"{table}State", STATES[table])[1][state]


def put(function: Function, at: tuple[Term, ...], value: Term) -> Function:
    """Return the function that gives `value` there and is the same elsewhere."""
    return lambda *where: z3.If(z3.And(*(one == key for one, key in zip(where, at, strict=True))), value,
                                function(*where))


@dataclass(frozen=True)
class Cells:
    """All slots, all pages of the full group, or all pages of the window."""

    table: str
    state: Function
    owner: Function
    endpoint: Function
    encodes: Function
    entry: Function
    leases: Function
    holds: Function
    place: Function
    holder: Function
    flying: Function
    writing: Function
    names: Function
    start: Function
    filled: Function
    writer: Function
    guess: Function
    has: Function
    cell_of: Function

    def put(self, name: str, at: tuple[Term, ...], value: Term) -> Cells:
        """Return cells in which one function has another value at one place."""
        changed: dict[str, Any] = {name: put(getattr(self, name), at, value)}
        return replace(self, **changed)

    def set(self, cell: Term, **values: Term) -> Cells:
        """Return cells in which functions of one cell have other values there."""
        cells = self
        for name, value in values.items():
            cells = cells.put(name, (cell,), value)
        return cells

    def is_in(self, cell: Term, states: Iterable[str]) -> Term:
        """Return that a cell is in one of some states."""
        return z3.Or(*(self.state(cell) == state_term(self.table, state) for state in states))

    def private(self, cell: Term) -> Term:
        """Return that a cell belongs to a request."""
        return self.is_in(cell, PRIVATE[self.table])

    def attached(self, cell: Term) -> Term:
        """Return that a cell belongs to an entry."""
        return self.is_in(cell, ATTACHED[self.table])


@dataclass(frozen=True)
class World:
    """Slots, pages, window pages, and for each request whether it runs and its live slot."""

    slots: Cells
    pages: Cells
    windows: Cells
    started: Function
    live: Function

    def cells(self, table: str) -> Cells:
        """Return the cells of a kind."""
        return {"Slot": self.slots, "Page": self.pages, "Window": self.windows}[table]

    def with_cells(self, cells: Cells) -> World:
        """Return a world with other cells of a kind."""
        changed: dict[str, Any] = {{"Slot": "slots", "Page": "pages", "Window": "windows"}[cells.table]: cells}
        return replace(self, **changed)

    def every_kind(self) -> tuple[Cells, ...]:
        """Return the cells of all kinds."""
        return self.slots, self.pages, self.windows


@dataclass(frozen=True)
class Background:
    """What no step changes: texts, their prefixes, and the sizes of the configuration, all in tokens.

    `text(r, n)` is the prefix of a request's first n tokens in its namespace, `drafted(r, n)` the one that its draft
    tokens would give; `parent(e)` is an entry's prefix without its last page, `cover(e)` that of the full group's page
    in which it ends. The window's pages may have another size.
    """

    scope: Scope
    text: Function
    drafted: Function
    length: Function
    parent: Function
    cover: Function
    grid: Term
    page_size: Term
    window_page: Term

    def size(self, table: str) -> Term:
        """Return the page size of a kind of cell."""
        return self.window_page if table == "Window" else self.page_size

    def axioms(self) -> list[Term]:
        """Return what is true of prefixes."""
        def lengths(request: Term, n: Term) -> Term:
            text, drafted = self.text(request, n), self.drafted(request, n)
            return z3.Implies(n >= 0, z3.And(self.length(text) == n, self.length(drafted) == n))

        def pages(request: Term, n: Term) -> Term:
            return z3.Implies(n >= self.page_size,
                              self.parent(self.text(request, n)) == self.text(request, n - self.page_size))

        every = self.scope.every
        bounds = [] if self.scope.unbounded else [
            z3.And(*(size < self.scope.numbers for size in (self.page_size, self.window_page, self.grid)))]
        return [every("Request Int", lengths), every("Request Int", pages),
                every("Prefix", lambda entry: z3.And(
                    self.length(entry) >= 0, self.length(self.cover(entry)) >= self.length(entry))),
                self.page_size >= 1, self.window_page >= 1, self.grid >= 1, *bounds]


def background(scope: Scope) -> Background:
    """Return the background of a scope."""
    make = scope.function
    return Background(
        scope, make("text", "Request", "Int", "Prefix"), make("drafted", "Request", "Int", "Prefix"),
        make("length", "Prefix", "Int"), make("parent", "Prefix", "Prefix"), make("cover", "Prefix", "Prefix"),
        *(scope.constant("Int", name) for name in ("grid", "page_size", "window_page")),
    )


def _cells(scope: Scope, table: str) -> Cells:
    def make(name: str, *sorts: str) -> Function:
        return scope.function(f"{table.lower()}_{name}", *sorts)

    state = z3.Function(f"{table.lower()}_state", scope.sort(table), enumeration(f"{table}State", STATES[table])[0])
    return Cells(
        table, state, make("owner", table, "Request"), make("endpoint", table, "Int"),
        make("encodes", table, "Prefix"), make("entry", table, "Prefix"), make("leases", table, "Int"),
        make("holds", "Request", table, "Bool"), make("place", "Request", table, "Int"),
        make("holder", table, "Int", "Request"), make("flying", "Step", table, "Bool"),
        make("writing", "Step", table, "Bool"), make("names", "Request", table, "Bool"),
        make("start", table, "Int"), make("filled", table, "Int"), make("writer", table, "Step"),
        make("guess", table, "Bool"),
        make("has", "Prefix", "Bool"), make("cell_of", "Prefix", table),
    )


def any_world(scope: Scope) -> World:
    """Return a world of which nothing is known."""
    slots, pages, windows = (_cells(scope, kind) for kind in KINDS)
    return World(slots, pages, windows, scope.function("started", "Request", "Bool"),
                 scope.function("live", "Request", "Slot"))


def fresh_world(scope: Scope) -> World:
    """Return the world of a fresh cache: all cells free, nobody there."""
    def fresh(cells: Cells) -> Cells:
        nobody: dict[str, Any] = dict.fromkeys(("holds", "flying", "writing", "names", "has", "guess"),
                                               lambda *where: z3.BoolVal(False))
        return replace(cells, state=lambda cell: state_term(cells.table, "free"),
                       leases=lambda cell: z3.IntVal(0), endpoint=lambda cell: z3.IntVal(0), **nobody)

    world = any_world(scope)
    return replace(world, slots=fresh(world.slots), pages=fresh(world.pages), windows=fresh(world.windows),
                   started=lambda request: z3.BoolVal(False))


def function_names() -> list[str]:
    """Return the names of the functions of cells."""
    return [one.name for one in fields(Cells) if one.name != "table"]
