"""The pages of the groups beside the full one: what is published of them, and what slides out of a window."""

from __future__ import annotations

from milepost.optimized.index.edge import NOWHERE
from milepost.optimized.requests import Columns, Request
from milepost.optimized.room import RoomKeeper
from milepost.spec.capabilities import Group
from milepost.spec.geometry import columns_for, floor_to
from milepost.spec.layout import first_column
from milepost.spec.words import NULL


class SideKeeper(RoomKeeper):
    """Moves the pages of windows and compressed groups between requests and the index."""

    def publish_landed(self, claim: Request) -> None:
        """Publish what a request has computed so far."""
        raise NotImplementedError

    # Publishing.

    def publish_sides(self, claim: Request) -> None:
        """Publish whole landed pages where the full group's path is; those of a compressed group in order."""
        for group in self.layout.sides:
            side = claim.sides[group.name]
            leased = self.index.leased_columns(claim.lease, group.name)
            stop = claim.lease.length // group.page_size
            cells = {
                column: side.cells[column]
                for column in range(max(side.first, leased.stop if isinstance(leased, range) else 0), stop)
                if side.cells[column] != NULL and column not in leased
            }
            if cells:
                self._publish_side(claim, group, side, cells)

    def _publish_side(self, claim: Request, group: Group, side: Columns, cells: dict[int, int]) -> None:
        pool = self.pools[group.pool]
        busy = first_column(group, min(claim.starts)) if claim.starts else NOWHERE
        published = self.index.publish_side(claim.lease, group.name, cells, busy)
        for column in published.inserted:
            pool.publish(cells[column], claim.serial, (column + 1) * group.page_size)
        for column, cell in published.repointed.items():
            pool.give_back(cells[column], claim.serial)
            side.cells[column] = cell
        self.tell()
        self.counts.published[group.name] += len(published.inserted)
        self.counts.duplicates += len(published.repointed)

    # Sliding out.

    def slide_out(self, claim: Request) -> None:
        """Give up the window pages that no later step of a request reads, at a cost of those that are given up.

        What a repeated prompt or a rewritten call would need is published first, if it was not yet: then it stays
        until the pool needs it. While that cannot be done, it is kept.
        """
        for group in self.layout.windows:
            side, kept = claim.sides[group.name], first_column(group, claim.landed)
            gone = [column for column in range(side.first, kept) if side.cells[column] != NULL]
            awaited = self._awaited(claim, group, gone)
            if awaited:
                self.publish_landed(claim)
                awaited = self._awaited(claim, group, awaited)
            still = set(awaited)
            self._give_up_columns(claim, group, [column for column in gone if column not in still])
            side.first = max(side.first, awaited[0] if awaited else kept)

    def _give_up_columns(self, claim: Request, group: Group, columns: list[int]) -> None:
        """Give up columns: a page that the request shares stays for others, its own is freed."""
        side, pool = claim.sides[group.name], self.pools[group.pool]
        leased = self.index.leased_columns(claim.lease, group.name)
        shared = [column for column in columns if column in leased]
        for column in columns:
            if column not in leased:
                pool.give_back(side.cells[column], claim.serial)
            side.cells[column] = NULL
        if shared:
            self.take_back(self.index.release_columns(claim.lease, group.name, shared))

    def _awaited(self, claim: Request, group: Group, columns: list[int]) -> list[int]:
        """Return those columns still private that a request may want which resumes at a retained point."""
        leased = self.index.leased_columns(claim.lease, group.name)
        wanted = [
            range(first_column(group, point), columns_for(group.page_size, point))
            for point in self._retained_points(claim)
        ]
        return [column for column in columns if column not in leased and any(column in one for one in wanted)]

    def _retained_points(self, claim: Request) -> tuple[int, ...]:
        """Return the boundaries before the end of the prompt and behind the opener of the first tool call.

        Only those count whose tokens others may already read.
        """
        points = floor_to(self.grid, max(0, claim.lookup.prompt - 1)), floor_to(self.grid, claim.anchor)
        return tuple(point for point in points if 0 < point <= claim.publishable)

    def return_sides(self, claim: Request, length: int) -> None:
        """Give up the private columns behind the first `length` tokens, the last one first."""
        for group in self.layout.sides:
            side, pool = claim.sides[group.name], self.pools[group.pool]
            leased = self.index.leased_columns(claim.lease, group.name)
            while len(side.cells) > columns_for(group.page_size, length):
                cell = side.cells.pop()
                if cell != NULL and len(side.cells) not in leased:
                    pool.give_back(cell, claim.serial)
