"""Liberties of speculation: more columns than asked for, fewer, and how an accepted state gets where it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from milepost.reference.cache import ReferenceCache
from milepost.reference.requests import Plan, Request
from milepost.spec.answers import Landing, Phase


class PadsDrafts(ReferenceCache):
    """Pads every step that reaches behind the prompt to the most draft columns there are; none of them is accepted."""

    def plan_drafts(self, claim: Request, plan: Plan, draft: int) -> None:
        super().plan_drafts(claim, plan, self.configuration.speculates)


class FewerDrafts(ReferenceCache):
    """Grants half of the draft columns that are asked for."""

    def plan_drafts(self, claim: Request, plan: Plan, draft: int) -> None:
        super().plan_drafts(claim, plan, draft // 2)


class CopiesTheAcceptedState(ReferenceCache):
    """Copies the accepted column into the live slot at the landing, instead of going on in the column."""

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        self.copies: list[tuple[str, int, int]] = []
        landing = super().land(step, accepted, sampled)
        return replace(landing, phases=(Phase(tuple(self.copies)),)) if self.copies else landing

    def settle_drafts(self, claim: Request) -> None:
        taken = claim.accepted
        if taken and claim.drafts and not claim.closing:
            self.copies.append((self.slot_cells.pool.name, claim.drafts[taken - 1], claim.live))
            live, column = claim.live, claim.drafts[taken - 1]
            self.slot_cells[live].endpoint = claim.landed + taken
            self.slot_cells[column].endpoint = claim.landed
            claim.live, claim.drafts[taken - 1] = column, live
            self.swap(live, column)
        super().settle_drafts(claim)

    def swap(self, live: int, column: int) -> None:
        """Let the live slot take the place of the column that is accepted, and the column that of what it replaces."""
        occupants = self.slot_cells.pool.occupants
        occupants[live].state, occupants[column].state = occupants[column].state, occupants[live].state
