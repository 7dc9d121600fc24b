"""An evicted slot is not granted while a step in flight may write it, and no other cell is either.

No step in flight may touch a free cell, and only free cells are granted. A published page has no write in flight; a
tombstone may have one, of a request that computes it again where it is. This is the literal form, which binds
Milepost's own caches.
"""

from milepost.proofs.induction import kept
from milepost.proofs.invariants import landed

OBLIGATIONS = kept(landed)
