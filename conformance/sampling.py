"""What the harness lets its model say: the tokens that a landing makes known, and how many drafts were right."""

from __future__ import annotations

from collections.abc import Mapping

from milepost.spec.operations import Land
from milepost.spec.state import Flight, State


def flight_of(state: State, step_id: int | None) -> Flight:
    """Return the step in flight that has this id."""
    return next(one for one in state.flights if one.step == step_id)


def accepted_drafts(state: State, operation: Land, asked: Mapping[str, int]) -> dict[str, int]:
    """Clamp how many draft tokens are accepted: only of those that were `asked` for, and no more than the model says.

    Requests of which none stands are left out.
    """
    flight = flight_of(state, operation.step)
    taken: dict[str, int] = {}
    for request, count in operation.accepted.items():
        claim = state.claims.get(request)
        if claim is not None and request in flight.drafts:
            left = len(claim.stream.tokens) - flight.spans[request][1]
            taken[request] = min(count, asked[request], flight.drafts[request], left)
    return {request: count for request, count in taken.items() if count}


def sampled_tokens(state: State, operation: Land) -> dict[str, tuple[int, ...]]:
    """Return by request the token ids that a landing makes known: one more than what stands."""
    sampled: dict[str, tuple[int, ...]] = {}
    for request, (_, stop) in flight_of(state, operation.step).spans.items():
        claim = state.claims.get(request)
        reached = stop + operation.accepted.get(request, 0)
        if claim is not None and reached >= claim.known:
            sampled[request] = claim.stream.tokens[claim.known : reached + 1]
    return sampled
