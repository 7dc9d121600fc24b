"""Only the owner writes, and never a frozen, donated or protected slot, nor a page that others may read.

The content of a frozen slot and of a slot at an entry is the same after every step that leaves it there. A shared page
keeps its content too, and a page that anybody reads is neither evicted nor slides out.
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
    claims = {"a snapshot is not written": slots}
    for old, new in ((before.pages, after.pages), (before.windows, after.windows)):
        kind = old.table
        claims[f"a shared {kind.lower()} is not written"] = every(kind, lambda page, old=old, new=new: z3.Implies(
            z3.And(old.is_in(page, ("shared",)), new.is_in(page, ("shared",))),
            new.encodes(page) == old.encodes(page)))
        claims[f"a {kind.lower()} that is read stays"] = every(
            f"Request {kind}", lambda request, page, old=old, new=new: z3.Implies(old.holds(request, page), z3.And(
                new.is_in(page, ("shared",)), new.encodes(page) == old.encodes(page))))
    return claims


OBLIGATIONS = true_of_each_step(unchanged)
