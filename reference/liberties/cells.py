"""Liberties of cells: their order, one pool for all, and re-use while a step is in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from milepost.reference.cache import ReferenceCache
from milepost.reference.pools import Pool
from milepost.reference.requests import Request
from milepost.spec.answers import Landing, Launched
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.words import Cell


class MiddleFirstPool(Pool):
    """Grants whatever lies in the middle of its free list."""

    def next_free(self) -> int:
        return self.free[len(self.free) // 2]


class IdOrder(ReferenceCache):
    """Grants cells in an order that no reader would guess."""

    def make_pool(self, name: str, size: int) -> Pool:
        return MiddleFirstPool(name, size)


class OnePool(ReferenceCache):
    """Takes pages and slots from one pool; what is least recent gives way, be it a page or a snapshot."""

    def pool_of(self, group: Group) -> str:
        return "cells"

    def pool_sizes(self) -> dict[str, int]:
        return {"cells": sum(self.configuration.pools.values())}


class ReuseBehindQueue(ReferenceCache):
    """Counts a step as done when it is launched: one ordered queue keeps later steps behind it.

    Closing frees and publishes at once, with the step in flight; only token ids are learnt at its landing.
    """

    def declare(self) -> Capabilities:
        return replace(super().declare(), ordered_steps=True, speculates=0)

    def touched_cells(self, claim: Request) -> list[Cell]:
        return []

    def launch(self) -> Launched:
        launched = super().launch()
        for claim, _, stop in self.flights[-1].spans:
            claim.in_flight -= 1
            super().land_request(claim, stop)
        tables = {claim.name: claim.table() for claim, _, _ in self.flights[-1].spans}
        return replace(launched, tables=tables)

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        for claim, _, _ in next(flight for flight in self.flights if flight.step == step).spans:
            claim.in_flight += 1
        return super().land(step, accepted, sampled)

    def land_request(self, claim: Request, stop: int) -> None:
        pass
