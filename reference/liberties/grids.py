"""Liberties of alignment: other grids than the boundaries, each declared."""

from __future__ import annotations

from dataclasses import replace

from milepost.reference.cache import ReferenceCache
from milepost.reference.declaration import without_promises
from milepost.reference.requests import Request
from milepost.spec.capabilities import Capabilities, Configuration, FreezeGrid
from milepost.spec.geometry import lies_on


class CoarseGrid(ReferenceCache):
    """Freezes and hits at every second boundary."""

    def make_grid(self) -> int:
        return 2 * super().make_grid()


class EndAnywhere(ReferenceCache):
    """Donates a state at any page end, and resumes there: at any token, with pages of one token."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.hit_grid = self.end_grid = self.page_size

    def declare(self) -> Capabilities:
        declared = without_promises(super().declare(), "strict-boundaries")
        return replace(declared, hit_alignment=self.page_size, end_donation="page")


class StepRelativeGrid(ReferenceCache):
    """Counts chunks from where a step starts, as kernels do that know nothing of earlier steps."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.hit_grid = self.end_grid = self.step_grid = self.page_size

    def declare(self) -> Capabilities:
        declared = without_promises(super().declare(), "strict-boundaries")
        grid = FreezeGrid(self.configuration.chunk_size, "step")
        return replace(declared, hit_alignment=self.page_size, freeze_grid=grid, end_donation="page")

    def freeze_points(self, claim: Request, start: int, stop: int) -> tuple[int, ...]:
        chunk = self.configuration.chunk_size
        last = min(stop, claim.prompt - 1)
        return tuple(point for point in range(start + chunk, last + 1, chunk) if lies_on(self.page_size, point))
