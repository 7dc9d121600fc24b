"""The promises that need more than one look at a law: strict boundaries, inertness, determinism."""

from __future__ import annotations

from collections.abc import Callable

from milepost.conformance.driver import Driver, Observer
from milepost.conformance.outcome import Broken, Line
from milepost.spec.answers import Hit
from milepost.spec.capabilities import Capabilities
from milepost.spec.geometry import boundary_grid, lies_on
from milepost.spec.operations import Close, Extend, Land, Open, Operation, Publish
from milepost.spec.schedule import Header, Schedule
from milepost.spec.seam import Adapter
from milepost.spec.state import State

JUDGED = ("deterministic", "not-inert", "admits-when-idle", "exact-accounting", "strict-boundaries")
"""The promises that this version of the kit checks; the others are reported as not judged."""


def boundary_observer(capabilities: Capabilities) -> Observer:
    """Return an observer for `strict-boundaries`: every hit on a multiple of lcm(page, chunk) from token 0."""
    grid = boundary_grid(capabilities.page_size, capabilities.chunk_size)

    def observe(before: State, line: Line, after: State) -> Broken | None:
        if isinstance(line.answer, Hit) and not lies_on(grid, line.answer.length):
            sentence = f"operation {line.index} hits at {line.answer.length}, which is no multiple of {grid}"
            return Broken("strict-boundaries", sentence)
        return None

    return observe


def inert_complaint(adapter: Adapter, beat: Callable[[int], None] | None = None) -> str | None:
    """Run the smallest cacheable prompt twice on a fresh cache; say so if the second does not hit."""
    size = adapter.capabilities.smallest_cacheable
    if size < 2:
        return f"the smallest cacheable prefix is declared as {size}; it needs a token to cache and one to compute"
    tokens = tuple(range(1000, 1000 + size))
    operations: list[Operation] = []
    for request in ("first", "second"):
        operations += [Open(request, tokens), *[Extend(request, size)] * size, Land(), Publish(request)]
        operations += [Close(request, keep=True), Land()]
    outcome = Driver(adapter, beat=beat).run(Schedule(Header(id="not-inert"), tuple(operations)))
    hits = [line.answer.length for line in outcome.lines if isinstance(line.answer, Hit)]
    if len(hits) == 2 and hits[1] > 0:
        return None
    if len(hits) < 2:
        return f"a prompt of {size} tokens, declared as the smallest cacheable one, was not taken twice"
    return f"a prompt of {size} tokens, declared as the smallest cacheable one, was run twice and the second hit 0"


def first_difference(ours: list[str], theirs: list[str]) -> tuple[int, str, str] | None:
    """Return the first line, counted from 1, in which two runs of a schedule differ; None where they agree."""
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), 1):
        if one != other:
            return number, one, other
    if len(ours) != len(theirs):
        return min(len(ours), len(theirs)) + 1, "", ""
    return None
