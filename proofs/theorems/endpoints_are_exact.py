"""A slot at an entry encodes exactly the tokens of the entry, through donation, split, restore, tombstone and refill.

Every other slot encodes exactly what its label says of its owner's tokens. A split of a path changes no entry, since
entries are prefixes; a tombstone is an entry without a slot, and a refill is another donation to it.
"""

from milepost.proofs.induction import kept
from milepost.proofs.invariants import endpoints

OBLIGATIONS = kept(endpoints)
