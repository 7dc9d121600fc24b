"""Every cell is accounted for: it is free or about to be, or its owner names it, or its entry has it.

Nothing is orphaned by a step. That it also comes back is `every_cell_finds_its_way_back`.
"""

from milepost.proofs.induction import kept
from milepost.proofs.invariants import accounted

OBLIGATIONS = kept(accounted)
