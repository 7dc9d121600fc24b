"""Leases are never below zero, whoever releases: the table alone keeps that, without anybody's good conduct.

Only a protected slot and a shared page have leases, and a protected slot has one: this is kept as long as callers
release what they hold.
"""

from milepost.proofs.induction import also, kept, kept_alone
from milepost.proofs.invariants import counted_from_zero, lease_states

OBLIGATIONS = also(kept_alone(counted_from_zero), kept(lease_states))
