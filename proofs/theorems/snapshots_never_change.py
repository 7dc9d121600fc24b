"""Only the owner writes, and never a frozen, donated or protected slot, nor a page that others may read.

The content of a frozen slot and of a slot at an entry is the same after every step that leaves it there. A shared page
keeps its content too; its window cells are given up only where nobody reads them.
"""

import z3

from milepost.proofs.induction import true_of_each_step
from milepost.proofs.moves import Move
from milepost.proofs.scope import Term
from milepost.proofs.world import Background, World

SNAPSHOTS = ("frozen", "donated", "protected")


def unchanged(base: Background, before: World, move: Move) -> dict[str, Term]:
    """A snapshot and a shared page hold after the step what they held before."""
    every, after = base.scope.every, move.after
    slots = every("Slot", lambda slot: z3.Implies(
        z3.And(before.slots.is_in(slot, SNAPSHOTS), after.slots.is_in(slot, SNAPSHOTS)),
        after.slots.encodes(slot) == before.slots.encodes(slot)))
    pages = every("Page", lambda page: z3.Implies(
        z3.And(before.pages.is_in(page, ("shared",)), after.pages.is_in(page, ("shared",))),
        after.pages.encodes(page) == before.pages.encodes(page)))
    read = every("Request Page", lambda request, page: z3.Implies(
        before.pages.holds(request, page), after.pages.encodes(page) == before.pages.encodes(page)))
    return {"a snapshot is not written": slots, "a shared page is not written": pages,
            "what is read is not given up": read}


OBLIGATIONS = true_of_each_step(unchanged)
