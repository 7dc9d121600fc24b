"""The audit of published slots: digested when donated, digested again before a restore and when they are given back.

Between the two nobody may write them. Who does, the digests show; when, they bracket. No wall clock is read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch

from milepost.kernels.fingerprint import changed_slots, fingerprint_slots
from milepost.optimized.errors import CacheError
from milepost.optimized.explaining import Counts
from milepost.spec.words import Namespace


@dataclass(frozen=True, slots=True)
class Moment:
    """A logical time: the number of a call of one of the seam's verbs, from 1, and the index's clock of uses."""

    operation: int
    clock: int

    def __str__(self) -> str:
        return f"operation {self.operation} (clock {self.clock})"


@dataclass(eq=False)
class StrayWrite(CacheError):
    """A published slot that somebody has written. Raised only by a hook that wants the call to end there."""

    slot: int
    depth: int
    """How many tokens its entry has: the state after them is what the slot should hold."""
    namespace: Namespace
    donated: Moment
    intact: Moment
    """When it was last found as it was donated."""
    found: Moment
    request: str
    """The request that was about to restore from it, '' where the slot was given back."""

    def __str__(self) -> str:
        space = ", ".join(f"{kind} {value}" for kind, value in self.namespace) or "no namespace"
        at = f"the restore of {self.request}" if self.request else "giving it back"
        return (
            f"slot {self.slot}, donated in operation {self.donated.operation} as the state after {self.depth} tokens "
            f"of {space}, was written between {self.intact} and {self.found}: seen at {at}"
        )


@dataclass(slots=True)
class Donation:
    """What a slot held when it was donated. The digest lies on the slot's device."""

    digest: torch.Tensor
    depth: int
    namespace: Namespace
    donated: Moment
    intact: Moment


class Audit:
    """Knows every published slot of one cache, and reports those that were written; each check waits for the device."""

    def __init__(
        self,
        parts: Sequence[torch.Tensor],
        now: Callable[[], Moment],
        counts: Counts,
        report: Callable[[StrayWrite], None],
    ) -> None:
        self.parts, self.now, self.counts, self.report = parts, now, counts, report
        self.donations: dict[int, Donation] = {}

    def digests(self, states: Mapping[int, int]) -> dict[int, torch.Tensor]:
        """Digest the slots that are about to be offered, by position; nothing waits for it."""
        return dict(zip(states, fingerprint_slots(self.parts, states.values()), strict=True)) if states else {}

    def donate(self, slot: int, digest: torch.Tensor, depth: int, namespace: Hashable) -> None:
        """Remember what was donated."""
        assert isinstance(namespace, tuple)
        now = self.now()
        self.donations[slot] = Donation(digest, depth, namespace, now, now)

    def restore(self, readers: Sequence[tuple[int, str]]) -> None:
        """Check slots that requests are about to restore from, given with the requests' names."""
        donations = {slot: self.donations[slot] for slot, _ in readers}
        changed, now = self._changed(donations), self.now()
        for slot in donations.keys() - changed:
            donations[slot].intact = now
        self._tell([self._stray(slot, donations[slot], request) for slot, request in readers if slot in changed])

    def give_back(self, slots: Sequence[int]) -> None:
        """Check slots that are no longer published, and forget them."""
        donations = {slot: self.donations.pop(slot) for slot in slots}
        changed = self._changed(donations)
        self._tell([self._stray(slot, donation, "") for slot, donation in donations.items() if slot in changed])

    def _changed(self, donations: Mapping[int, Donation]) -> set[int]:
        if not donations:
            return set()
        digests = torch.stack([donation.digest for donation in donations.values()])
        return set(changed_slots(self.parts, donations, digests))

    def _stray(self, slot: int, one: Donation, request: str) -> StrayWrite:
        return StrayWrite(slot, one.depth, one.namespace, one.donated, one.intact, self.now(), request)

    def _tell(self, strays: list[StrayWrite]) -> None:
        self.counts.stray_writes += len(strays)
        for stray in strays:
            self.report(stray)
