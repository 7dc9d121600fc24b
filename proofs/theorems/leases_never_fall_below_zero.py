"""Leases are never below zero, whoever releases: the table alone keeps the count, without the caller's good conduct.

Only a protected slot and a shared page have leases, and a protected slot has one.
"""

from milepost.proofs.induction import kept
from milepost.proofs.invariants import lease_states

OBLIGATIONS = kept(lease_states, whoever=("release",))
