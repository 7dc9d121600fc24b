"""A protected snapshot is never evicted, and its KV path with it.

After every step a protected slot is protected or, its last lease gone, donated, and the page at its end is still
published. Of every published page the page before it is published too, and so on up to the first.
"""

import z3

from milepost.proofs.induction import also, kept, true_of_each_step
from milepost.proofs.invariants import paths
from milepost.proofs.moves import Move
from milepost.proofs.scope import Term
from milepost.proofs.world import Background, World


def stays(base: Background, before: World, move: Move) -> dict[str, Term]:
    """What was protected is still at its entry, and so is the page there."""
    old, new = before.slots, move.after

    def kept_with_page(slot: Term) -> Term:
        return z3.Implies(old.is_in(slot, ("protected",)), z3.And(
            new.slots.is_in(slot, ("protected", "donated")), new.slots.entry(slot) == old.entry(slot),
            new.slots.has(old.entry(slot)), new.pages.has(old.entry(slot))))

    return {"a protected snapshot stays, with its page": base.scope.every("Slot", kept_with_page)}


OBLIGATIONS = also(kept(paths), true_of_each_step(stays))
