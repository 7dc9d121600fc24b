"""What can be seen at one moment of a cache that shows its inventory, in the words of the solver's goals.

The judge knows what every cell holds and who names it; the inventory adds which of them are published and which are
free. Nothing here trusts a label: a snapshot is one of n tokens because its content is.
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.conformance.whitebox import Inventory
from milepost.spec.answers import Pages, Slots
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.payload import make_stream
from milepost.spec.state import Claim, State
from milepost.spec.words import NULL, Cell, GroupKind

PUBLISHED = ("donated", "protected")


@dataclass(frozen=True, slots=True)
class Sight:
    """The judge's state and the inventory after one line."""

    state: State
    inventory: Inventory
    paged: Group
    recurrent: Group
    grid: int
    window: Group | None = None

    @property
    def pages(self) -> str:
        """The pool of pages."""
        return self.paged.pool

    @property
    def slots(self) -> str:
        """The pool of slots."""
        return self.recurrent.pool

    def free(self, pool: str) -> int:
        """Return how many cells of a pool are free."""
        return sum(holding.state == "free" for (name, _), holding in self.inventory.items() if name == pool)

    def is_free(self, pool: str, index: int) -> bool:
        """Tell whether a cell is free."""
        return self.inventory[pool, index].state == "free"

    def snapshots(self, *states: str) -> dict[Cell, int]:
        """Return the published snapshots with the digests that they hold; all, or those in these states."""
        wanted = states or PUBLISHED
        return {
            cell: content
            for cell, holding in self.inventory.items()
            if cell[0] == self.slots and holding.state in wanted
            and isinstance(content := self.state.contents.get(cell), int)
        }

    def published_pages(self) -> dict[int, Cell]:
        """Return the whole published pages of the full group by the digest of the prefix that they end."""
        return self._published(self.pages)

    def window_pages(self) -> dict[int, Cell]:
        """Return those of the window."""
        return self._published(self.window.pool) if self.window else {}

    def _published(self, pool: str) -> dict[int, Cell]:
        return {
            content[-1]: cell
            for cell, holding in self.inventory.items()
            if cell[0] == pool and holding.state == "shared"
            and isinstance(content := self.state.contents.get(cell), tuple) and content[-1] is not None
        }

    # A request.

    def slots_of(self, claim: Claim) -> Slots:
        """Return a request's slots."""
        part = claim.table.get(self.recurrent.name)
        return part if isinstance(part, Slots) else Slots()

    def frozen(self, claim: Claim) -> tuple[int, int]:
        """Return position and slot of a request's frozen state, (0, NULL) where there is none."""
        return self.slots_of(claim).frozen[0] if self.slots_of(claim).frozen else (0, NULL)

    def column(self, claim: Claim, end: int) -> Cell:
        """Return the page in which a request's first `end` tokens end."""
        part = claim.table.get(self.paged.name)
        columns = part.columns if isinstance(part, Pages) else ()
        index = end // self.paged.page_size - 1
        return (self.pages, columns[index] if 0 <= index < len(columns) else NULL)

    def leases(self, claim: Claim, end: int) -> bool:
        """Tell whether a request reads the published page at `end`."""
        cell = self.column(claim, end)
        return cell[1] != NULL and self.inventory[cell].state == "shared"

    def ends(self, claim: Claim) -> range:
        """Return the boundaries at which a second request with this prompt could resume."""
        return range(self.grid, claim.prompt, self.grid)

    def last_boundary(self, claim: Claim) -> int:
        """Return the deepest of them, 0 where there is none."""
        return max(self.ends(claim), default=0)

    def in_flight(self, claim: Claim) -> bool:
        """Tell whether a step of a request has not landed."""
        return self.state.in_flight(claim.request)

    def stale(self, claim: Claim) -> bool:
        """Tell whether a request was opened before the last reset."""
        return claim.stream.epoch < self.state.epoch

    def digest_now(self, claim: Claim, length: int) -> int:
        """Return what the first tokens of a request are found by in the present epoch."""
        stream = claim.stream
        tokens = stream.tokens[:length]
        content = {at: str(one) for at, one in enumerate(stream.identities[:length]) if one != tokens[at]}
        return make_stream(stream.namespace, self.state.epoch, tokens, content).digests[length]

    def others(self, claim: Claim) -> list[Claim]:
        """Return the other requests, those too that are closed and in flight."""
        return [other for other in self.state.claims.values() if other.request != claim.request]


def look(state: State, inventory: Inventory, capabilities: Capabilities) -> Sight:
    """Return what is seen of a cache with one full group, and a recurrent one and a window where it has them."""
    first = {group.kind: group for group in reversed(capabilities.groups)}
    recurrent = first.get(GroupKind.RECURRENT, Group("", GroupKind.RECURRENT, ""))
    return Sight(state, inventory, first[GroupKind.FULL], recurrent, capabilities.hit_alignment,
                 first.get(GroupKind.WINDOW))
