"""Mutants of windows and compressed groups: what slides out, what a hit needs, and how it is locked (F11)."""

from __future__ import annotations

from milepost.reference.cache import ReferenceCache
from milepost.reference.mutants.leases import LOCK_CODES
from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.requests import Entry, Request
from milepost.spec.answers import Grant, Landing, Launched, Refused
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.geometry import columns_for, lies_on
from milepost.spec.layout import first_column
from milepost.spec.resume import first_needed
from milepost.spec.words import NULL, GroupKind

WINDOW, COMPRESSED = "hybrid-window", "hybrid-compressed"


@mutant("F11", "stale-kv", "uninitialized-read", "double-grant", "evicted-while-leased", precedent="sglang#30845",
        profile=WINDOW)
class SlidOutPagesArePublished(Unguarded):
    """Frees the pages that slide out, and still publishes them with the rest."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.gone: dict[tuple[int, str, int], int] = {}

    def give_up_column(self, claim: Request, group: Group, column: int) -> None:
        side = claim.sides[group.name]
        if not claim.closing and column not in side.leases:
            self.gone[claim.serial, group.name, column] = side.cells[column]
        super().give_up_column(claim, group, column)

    def publish_sides(self, claim: Request) -> None:
        super().publish_sides(claim)
        reach = min(self.publishable(claim), len(claim.leases) * self.page_size)
        for group in self.layout.windows:
            for column in range(reach // group.page_size):
                key = self.side_key(claim, group, (column + 1) * group.page_size)
                cell = self.gone.get((claim.serial, group.name, column), NULL)
                if cell != NULL and key not in self.pages:
                    self.pages[key] = Entry(key, (), cell, (column + 1) * group.page_size, self.tick(), group.name)


@mutant("F11", "window-gap", precedent="vllm#47728", profile=WINDOW)
class WindowSlidesOnTheOptimisticLength(Unguarded):
    """Frees what lies outside the window of a step whose drafts are all accepted."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.hoped: dict[int, int] = {}

    def launch(self) -> Launched:
        for claim in self.planned:
            self.hoped[claim.serial] = claim.planned.stop + claim.drafted if claim.planned else 0
        return super().launch()

    def first_kept(self, claim: Request, group: Group) -> int:
        held = len(claim.sides[group.name].cells)
        return min(held, first_column(group, max(claim.landed, self.hoped.get(claim.serial, 0))))


@mutant("F11", "late-write", "double-grant", "uninitialized-read", "stale-kv", "window-gap",
        precedent="vllm-ascend#13501", profile=WINDOW)
class WindowSlidesAtLaunch(Unguarded):
    """Frees what slides out of a window when the step is launched, though the step still writes and reads it."""

    def launch(self) -> Launched:
        launched = super().launch()
        for claim, _, stop in self.flights[-1].spans:
            for group in self.layout.windows:
                side = claim.sides[group.name]
                for column in range(min(first_column(group, stop), len(side.cells))):
                    if side.cells[column] != NULL and column not in side.leases:
                        self.side_cells[group.name].pool.in_flight[side.cells[column]] = 0
                        self.give_up_column(claim, group, column)
        return launched


@mutant("F11", "window-gap", precedent="sglang#29860", profile=WINDOW)
class LastWindowPageIsEmptied(Unguarded):
    """Takes the last page end for the edge of the window, and frees every page before it."""

    def first_kept(self, claim: Request, group: Group) -> int:
        return claim.landed // group.page_size


@mutant("F11", "kv-gap", precedent="vllm#51756", profile=WINDOW)
class EveryGroupSlides(Unguarded):
    """Applies the window of one group to the full one as well."""

    def land_request(self, claim: Request, stop: int) -> None:
        super().land_request(claim, stop)
        for group in self.layout.windows if not claim.closing else ():
            for column in range(first_needed(group.kind, claim.landed, group.window) // self.page_size):
                if column not in claim.leases and claim.columns[column] != NULL:
                    self.page_cells.vacate("return", claim.columns[column], request=claim.serial)
                    claim.columns[column] = NULL

    def return_columns(self, claim: Request, kept: int) -> None:
        while len(claim.columns) > kept and claim.columns[-1] == NULL:
            claim.columns.pop()
        super().return_columns(claim, max(kept, claim.columns.count(NULL)))
        del claim.columns[kept:]

    def publish_page(self, claim: Request, column: int) -> bool:
        return claim.columns[column] != NULL and super().publish_page(claim, column)


@mutant("F11", "uninitialized-read", "stale-kv", "cross-namespace", "window-gap", precedent="ATOM#1769",
        profile=COMPRESSED)
class FreshRingAfterAHit(Unguarded):
    """Resumes with fresh pages in place of what the compressor carries from before the hit."""

    def has_entries(self, claim: Request, group: Group, length: int) -> bool:
        window = group.kind is GroupKind.WINDOW
        return lies_on(group.page_size, length) if window else super().has_entries(claim, group, length)

    def lease_sides(self, claim: Request) -> None:
        for group in self.layout.windows if claim.hit else ():
            first, last = first_column(group, claim.hit), claim.hit // group.page_size
            cells = self.side_cells[group.name]
            room = self.make_room(cells.pool, last - first)
            fresh = [cells.allocate(claim.serial) if room else NULL for _ in range(first, last)]
            claim.sides[group.name].cells += [NULL] * first + fresh
        if claim.hit:
            self.lease_compressed(claim)

    def lease_compressed(self, claim: Request) -> None:
        """Lease what a hit needs of the compressed groups."""
        for group in self.layout.sides:
            for column in range(claim.hit // group.page_size if group.kind is GroupKind.COMPRESSED else 0):
                entry = self.pages[self.side_key(claim, group, (column + 1) * group.page_size)]
                claim.sides[group.name].cells.append(entry.cell)
                self.lease_side(claim, group, column, entry)


@mutant("F11", "illegal-boundary", "kv-gap", precedent="atlas#401", profile=COMPRESSED)
class HitEndsInsideACompressedPage(Unguarded):
    """Resumes at any boundary of the full group, and floors what it takes of the compressed ones."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.hit_grid = self.end_grid = self.page_size

    def freeze_points(self, claim: Request, start: int, stop: int) -> tuple[int, ...]:
        last = (claim.prompt - 1) // self.page_size * self.page_size
        return (last,) if start < last <= stop else ()

    def has_entries(self, claim: Request, group: Group, length: int) -> bool:
        return super().has_entries(claim, group, length // group.page_size * group.page_size)

    def lease_sides(self, claim: Request) -> None:
        hit = claim.hit
        claim.hit = hit // self.grid * self.grid
        super().lease_sides(claim)
        claim.hit = hit
        for group in self.layout.sides if hit else ():
            side = claim.sides[group.name]
            side.cells += [NULL] * (columns_for(group.page_size, hit) - len(side.cells))


@mutant("F11", "promise:not-inert", precedent="sglang#29351", profile=WINDOW)
class WindowVetoesTheKv(ReferenceCache):
    """Publishes nothing of the full group before the window that a request has left behind."""

    def retained_points(self, claim: Request) -> tuple[int, ...]:
        return ()

    def publish_page(self, claim: Request, column: int) -> bool:
        windows = ((group, claim.sides[group.name].cells) for group in self.layout.windows)
        held = all(cells[column * self.page_size // group.page_size] != NULL for group, cells in windows)
        return held and super().publish_page(claim, column)


@mutant("F11", "leak", precedent="sglang#29860", profile=WINDOW)
class SlidOutPageIsLost(Unguarded):
    """Takes a page that slides out from the request, and gives it to nobody."""

    def give_up_column(self, claim: Request, group: Group, column: int) -> None:
        side = claim.sides[group.name]
        if column < first_column(group, claim.landed) and column not in side.leases:
            side.cells[column] = NULL
        super().give_up_column(claim, group, column)


@mutant("F8", *LOCK_CODES, "window-gap", "uninitialized-read", precedent="sglang#21379", profile=WINDOW)
class OnlyTheLastWindowPageIsLocked(Unguarded):
    """Locks the page in which a window ends, and leaves the others of it evictable."""

    def lease_side(self, claim: Request, group: Group, column: int, entry: Entry) -> None:
        if self.counts(claim, group, column):
            super().lease_side(claim, group, column, entry)
        else:
            claim.sides[group.name].leases[column] = entry

    def release_side(self, claim: Request, group: Group, column: int) -> None:
        if self.counts(claim, group, column):
            super().release_side(claim, group, column)
        else:
            del claim.sides[group.name].leases[column]

    def counts(self, claim: Request, group: Group, column: int) -> bool:
        """Tell whether this lease is counted."""
        return group.kind is not GroupKind.WINDOW or column >= claim.hit // group.page_size - 1


@mutant("F11", *LOCK_CODES, "kv-gap", "uninitialized-read", precedent="sglang#29351", profile=WINDOW)
class WindowTakesTheKvAlong(Unguarded):
    """Evicts with a window's page the full KV of the same tokens, whoever reads it."""

    def evict_side(self, entry: Entry) -> list[tuple[str, int]]:
        given_up = super().evict_side(entry)
        full = self.pages.get(entry.key[2:])
        if full is None:
            return given_up
        del self.pages[full.key]
        self.discard_page(full, dependents=0)
        return [*given_up, (self.page_cells.pool.name, full.cell)]


@mutant("F19", "window-gap", precedent="llama.cpp#21681", profile=WINDOW)
class WindowIsCountedInEntries(Unguarded):
    """Keeps as many pages as the window has tokens in pages of the full group, whatever a page of its own holds."""

    def first_kept(self, claim: Request, group: Group) -> int:
        last = columns_for(group.page_size, claim.landed)
        return max(0, last - columns_for(max(self.page_size, group.page_size), group.window - 1))


@mutant("F12", *LOCK_CODES, "uninitialized-read", precedent="sglang#35957", profile=WINDOW)
class PreemptedRequestKeepsItsWindow(Unguarded):
    """Lets a preempted request go on with the window pages that it had, though they were given up."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.had: dict[tuple[str, str], list[int]] = {}

    def preempt(self, request: str) -> Landing:
        claim = self.requests[request]
        self.had.update({(request, group.name): list(claim.sides[group.name].cells) for group in self.layout.windows})
        return super().preempt(request)

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        claim = self.requests[request]
        for group in self.layout.windows:
            cells = claim.sides[group.name].cells
            old = self.had.pop((request, group.name), [])
            if not cells and not claim.planned:
                cells += old[: columns_for(group.page_size, to)]
        return super().extend(request, to, draft)
