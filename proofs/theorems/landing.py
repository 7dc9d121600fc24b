"""An evicted slot is not granted while a step in flight may write it, and no other cell is either.

No step in flight may touch a free cell, and only free cells are granted. A page that is or was published has no write
in flight. This is the literal form, which binds Milepost's own caches.
"""

from milepost.proofs.induction import kept
from milepost.proofs.invariants import landed

OBLIGATIONS = kept(landed)
