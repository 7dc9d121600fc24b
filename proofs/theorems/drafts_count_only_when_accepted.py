"""A draft column is its request's alone until it is accepted: it becomes live at its own length, or free, and no more.

The column that becomes live is that of the accepted length, and it has read exactly the request's first tokens up to
there, neither a rejected nor a padded one. Every other column is never read, frozen or published, also where a boundary
lies inside the draft: what is published holds only tokens that stand. A slot is a whole state, of all layers, the part
of the convolution with the recurrent one: no row moves a part of it, so that they are rolled back together.
"""

from __future__ import annotations

import z3

from milepost.proofs.induction import also, true_of_each_step
from milepost.proofs.moves import Move
from milepost.proofs.scope import Term
from milepost.proofs.world import Background, World


def accepted(base: Background, before: World, move: Move) -> dict[str, Term]:
    """A column stays a draft, or is freed, or is its request's live slot at its own, accepted length."""
    old, new, every = before.slots, move.after, base.scope.every

    def leaves(slot: Term) -> Term:
        owner, length = old.owner(slot), old.endpoint(slot)
        lives = z3.And(new.slots.is_in(slot, ("live",)), new.live(owner) == slot, new.started(owner),
                       new.slots.endpoint(slot) == length, length == move.names.goal,
                       new.slots.encodes(slot) == base.text(owner, length))
        return z3.Implies(old.is_in(slot, ("draft",)), z3.Or(new.slots.is_in(slot, ("draft", "free")), lives))

    return {"a draft becomes live at its own length, or free": every("Slot", leaves)}


def unread(base: Background, before: World, move: Move) -> dict[str, Term]:
    """Nobody reads or freezes a draft, no entry has one, and what is published holds only tokens that stand."""
    every, slots = base.scope.every, move.after.slots
    alone = every("Request Slot", lambda request, slot: z3.Implies(slots.is_in(slot, ("draft",)), z3.And(
        z3.Not(slots.holds(request, slot)), z3.Implies(slots.names(request, slot), request == slots.owner(slot)))))
    had = every("Prefix", lambda entry: z3.Not(z3.And(
        slots.has(entry), slots.is_in(slots.cell_of(entry), ("draft",)))))
    frozen = every("Slot", lambda slot: z3.Implies(
        before.slots.is_in(slot, ("draft",)), z3.Not(slots.is_in(slot, ("frozen", "donated", "protected")))))
    stands = {f"a shared {cells.table.lower()} is no guess": every(cells.table, lambda page, cells=cells: z3.Implies(
        cells.is_in(page, ("shared",)), cells.encodes(page) == cells.entry(page)))
        for cells in (move.after.pages, move.after.windows)}
    return {"nobody reads a draft": alone, "no entry has a draft": had, "no draft is frozen": frozen} | stands


OBLIGATIONS = also(true_of_each_step(accepted), true_of_each_step(unread))
