"""Mutants that end the groups of one hit at different tokens (F3, F1), or look for them while they go (F22)."""

from __future__ import annotations

from collections.abc import Mapping

from milepost.reference.cache import ReferenceCache
from milepost.reference.mutants.leases import LOCK_CODES
from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.mutants.windows import COMPRESSED, WINDOW
from milepost.reference.requests import Request
from milepost.spec.answers import Hit, Refused
from milepost.spec.capabilities import Group
from milepost.spec.geometry import columns_for, lies_on
from milepost.spec.layout import first_column
from milepost.spec.resume import deepest
from milepost.spec.words import NULL, GroupKind, Namespace


class TakesWhatIsThere(Unguarded):
    """Leases the pages of a hit that are there, and names none in the columns where they are not."""

    def lease_sides(self, claim: Request) -> None:
        for group in self.layout.sides if claim.hit else ():
            side = claim.sides[group.name]
            first = first_column(group, claim.hit)
            for column in range(columns_for(group.page_size, claim.hit)):
                entry = self.pages.get(self.side_key(claim, group, (column + 1) * group.page_size))
                side.cells.append(entry.cell if entry and column >= first else NULL)
                if entry and column >= first:
                    self.lease_side(claim, group, column, entry)


@mutant("F3", "window-gap", precedent="vllm#46453", profile=WINDOW)
class HitIgnoresTheWindow(TakesWhatIsThere):
    """Hits as deep as full KV and state reach, whether the window is there or not."""

    def has_entries(self, claim: Request, group: Group, length: int) -> bool:
        return group.kind is GroupKind.WINDOW or super().has_entries(claim, group, length)


@mutant("F3", "window-gap", precedent="vllm#50359", profile=WINDOW)
class CutsAreNotReconciled(TakesWhatIsThere):
    """Asks the window before the state, and not again after the state has cut the hit."""

    def hit_length(self, claim: Request, shared: int) -> int:
        def reached(length: int) -> bool:
            return all(self.has_entries(claim, group, length) for group in self.layout.sides)

        limit = deepest(self.longest_hit(claim, shared), (self.on_grid, reached))
        return deepest(limit, (self.on_grid, lambda n: not claim.recurrent or self.has_state(claim, n)))


@mutant("F3", "window-gap", precedent="vllm#53505", profile=WINDOW)
class WindowMayHaveAHole(TakesWhatIsThere):
    """Takes a window for whole if the page in which it ends is there."""

    def has_entries(self, claim: Request, group: Group, length: int) -> bool:
        if group.kind is not GroupKind.WINDOW or group.window == 1:
            return super().has_entries(claim, group, length)
        return lies_on(group.page_size, length) and self.side_key(claim, group, length) in self.pages


@mutant("F3", "kv-gap", precedent="mlxcel#1346", profile=COMPRESSED)
class CompressedIsTakenForGranted(TakesWhatIsThere):
    """Never asks the compressed groups, since they are so small that they will be there."""

    def has_entries(self, claim: Request, group: Group, length: int) -> bool:
        return group.kind is GroupKind.COMPRESSED or super().has_entries(claim, group, length)


@mutant("F3", "kv-gap", precedent="LMCache#4247", profile=COMPRESSED)
class GroupsEndAtTheirOwnPages(TakesWhatIsThere):
    """Takes of each compressed group one page fewer than the hit is long, as if it ended where that group likes."""

    def lease_sides(self, claim: Request) -> None:
        super().lease_sides(claim)
        for group in self.layout.sides if claim.hit else ():
            if group.kind is GroupKind.COMPRESSED:
                self.give_up_column(claim, group, len(claim.sides[group.name].cells) - 1)


@mutant("F1", "over-advanced", precedent="sglang#38815", profile=WINDOW)
class StateIsFiledWhereTheWindowIs(Unguarded):
    """Files a state one boundary before its end where that boundary has none: what the window reached is the key."""

    def donate(self, row: str, claim: Request, cell: int, position: int) -> bool:
        shorter = position - self.grid
        if shorter > 0 and row == "donate" and not self.snapshot_at(claim, shorter):
            return super().donate(row, claim, cell, shorter)
        return super().donate(row, claim, cell, position)


@mutant("F22", *LOCK_CODES, "uninitialized-read", "crash", precedent="vllm#42948", profile=WINDOW)
class RoomIsMadeBeforeTheLease(Unguarded):
    """Evicts for the first step of a request before it leases what its lookup has found."""

    def hit_length(self, claim: Request, shared: int) -> int:
        hit = super().hit_length(claim, shared)
        found = dict(self.pages)
        for group in self.layout.windows if hit else ():
            self.make_room(self.side_cells[group.name].pool, columns_for(group.page_size, claim.prompt - hit))
        self.pages |= {key: entry for key, entry in found.items() if entry.group}
        return hit


@mutant("F22", "promise:not-inert", precedent="vllm#48435", profile=WINDOW)
class WindowTailIsFreedFirst(ReferenceCache):
    """Gives up the deepest page of a window whenever a prompt comes, as is right for full attention."""

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        for entry in sorted(self.pages.values(), key=lambda entry: -entry.depth):
            if entry.group and self.cells_of(entry).evictable(entry.cell) and not self.dependents(entry):
                self.evict_side(entry)
                break
        return super().open(request, tokens, namespace, content)
