"""Liberties of windows: what is kept longer or shorter than needed, and what stays when its path goes."""

from __future__ import annotations

from dataclasses import replace

from milepost.reference.cache import ReferenceCache
from milepost.reference.declaration import without_promises
from milepost.reference.requests import Entry, Request
from milepost.spec.answers import Grant, Refused
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.layout import first_column
from milepost.spec.words import NULL, Cell


class SlidesOutLate(ReferenceCache):
    """Keeps two pages more of each window than a step can read, and gives them up with a refusal."""

    def first_kept(self, claim: Request, group: Group) -> int:
        return max(0, super().first_kept(claim, group) - 2)

    def reach(self, claim: Request, to: int) -> int:
        for group in self.layout.windows:
            side = claim.sides[group.name].cells
            held = sum(cell != NULL for cell in side[: first_column(group, claim.length)])
            cells = len(self.side_cells[group.name].pool.occupants) - held
            to = min(to, max(claim.length + 1, (first_column(group, claim.length) + cells) * group.page_size))
        return to

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        answer = super().extend(request, to, draft)
        claim = self.requests[request]
        if isinstance(answer, Grant) or claim.planned or claim.in_flight:
            return answer
        for group in self.layout.windows:
            for column in range(super().first_kept(claim, group)):
                if self.is_held(claim, group, column):
                    self.give_up_column(claim, group, column)
        return replace(answer, tables={request: claim.table()})


class RetainsNoWindow(ReferenceCache):
    """Lets the window at a prompt's end slide out like any other."""

    def declare(self) -> Capabilities:
        return without_promises(super().declare(), "not-inert")

    def retained_points(self, claim: Request) -> tuple[int, ...]:
        return ()


class PinsTheWholeWindow(ReferenceCache):
    """Leases every page of a window group that is there on the path of a hit, not its trailing window alone."""

    def lease_sides(self, claim: Request) -> None:
        super().lease_sides(claim)
        for group in self.layout.windows if claim.hit else ():
            side = claim.sides[group.name]
            for column in range(first_column(group, claim.hit)):
                entry = self.pages.get(self.side_key(claim, group, (column + 1) * group.page_size))
                if entry:
                    side.cells[column] = entry.cell
                    self.lease_side(claim, group, column, entry)


class WindowOutlivesTheKv(ReferenceCache):
    """Keeps window pages when the full KV of their path is evicted: who computes it again may use them again."""

    def is_covered(self, side: Entry) -> bool:
        return side.group in {group.name for group in self.layout.windows} or super().is_covered(side)


class WindowTailFirst(ReferenceCache):
    """Evicts the page of a window that lies deepest in its prompt."""

    def choose_victim(self, victims: list[Entry]) -> Entry:
        sides = [entry for entry in victims if entry.group]
        return max(sides, key=lambda entry: (entry.depth, entry.stamp)) if sides else super().choose_victim(victims)


class StateTakesTheWindowAlong(ReferenceCache):
    """Evicts with a snapshot the unread window pages that end where it does."""

    def evict_snapshot(self, entry: Entry) -> list[Cell]:
        given_up = super().evict_snapshot(entry)
        for group in self.layout.windows:
            side = self.pages.get((group.name, entry.depth, *entry.key))
            if side and self.cells_of(side).evictable(side.cell):
                given_up += self.evict_side(side)
        return given_up
