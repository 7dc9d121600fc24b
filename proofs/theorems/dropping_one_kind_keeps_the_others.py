"""Dropping a window's page or a state never drops full KV, and dropping full KV drops exactly what cannot live without.

A page of the full group leaves its entry in one way, its own eviction, which is refused while anybody reads it or a
published page continues it. With it go the snapshot at its end and the window's pages that end in it, and nobody reads
those. A window's page that goes or slides out takes nothing along, neither a state nor another page; nor does a state.
"""

from __future__ import annotations

import z3

from milepost.proofs.induction import true_of_each_step
from milepost.proofs.moves import Move
from milepost.proofs.scope import Term
from milepost.proofs.world import Background, Cells, World


def only_what_must(base: Background, before: World, move: Move) -> dict[str, Term]:
    """An entry loses a cell only with a step that is about that cell, or about the page that it ends in."""
    page = before.pages.entry(move.names.cell) if (move.table, _name(move)) == ("Page", "evict") else None
    claims = {}
    for old, new in zip(before.every_kind(), move.after.every_kind(), strict=True):
        about = move.table == old.table and _name(move) == "evict"
        kept = base.scope.every("Prefix", lambda entry, old=old, new=new, about=about: z3.Implies(
            z3.And(old.has(entry), z3.Not(new.has(entry))),
            z3.Or(old.cell_of(entry) == move.names.cell if about else False, _goes_along(base, old, entry, page))))
        claims[f"{old.table.lower()}s go for nothing else"] = kept
    if page is not None:
        slots, windows = move.after.slots, move.after.windows
        gone = base.scope.every("Prefix", lambda entry: z3.Not(z3.And(windows.has(entry), base.cover(entry) == page)))
        unread = base.scope.every("Request Window", lambda request, cell: z3.Not(z3.And(
            before.windows.holds(request, cell), base.cover(before.windows.entry(cell)) == page)))
        claims["what cannot live without it goes"] = z3.And(z3.Not(slots.has(page)), gone)
        claims["nobody reads what goes"] = unread
    return claims


def _name(move: Move) -> str:
    return move.row.name if move.row else ""


def _goes_along(base: Background, cells: Cells, entry: Term, page: Term | None) -> Term:
    """Return that an entry's cell goes with the full group's page at `page`."""
    if page is None or cells.table == "Page":
        return z3.BoolVal(False)
    return (entry if cells.table == "Slot" else base.cover(entry)) == page


OBLIGATIONS = true_of_each_step(only_what_must)
