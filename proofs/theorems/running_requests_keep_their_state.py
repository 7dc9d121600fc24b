"""A request that runs on has its live slot: only its own close, abort or preemption takes it away."""

from milepost.proofs.induction import kept
from milepost.proofs.invariants import running

OBLIGATIONS = kept(running)
