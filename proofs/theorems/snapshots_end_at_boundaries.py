"""Every frozen, donated and protected slot ends on the grid, counted from token 0."""

from milepost.proofs.induction import kept
from milepost.proofs.invariants import boundaries

OBLIGATIONS = kept(boundaries)
