"""A cell is free, private to one request, or published; never two at once.

What a request names is its own private cell and nobody else's; what an entry has is attached to that entry alone; an
empty cell is named, had and read by nobody.
"""

from milepost.proofs.induction import kept
from milepost.proofs.invariants import occupied, owned_once

OBLIGATIONS = kept(owned_once, occupied)
