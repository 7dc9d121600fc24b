"""A cell stays published while any open request reads it: the count of leases is exactly the number of its readers.

The readers are numbered from 0 without a gap, so that the count is exact for any number of them.
"""

from milepost.proofs.induction import kept
from milepost.proofs.invariants import leased_cells_stay, readers

OBLIGATIONS = kept(readers, leased_cells_stay)
