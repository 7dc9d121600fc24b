"""Z3 finds the numbers for windows and for speculation: pages, window, boundaries; prompt, drafts, accepted ones.

With a window, the chunk of the header is the size of its pages: nothing is written out in chunks there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import z3

from milepost.proofs.schedules.kinds import DEEPEST
from milepost.proofs.schedules.lengths import LARGEST, RELATIONS, SHORT, Sizes
from milepost.proofs.schedules.search import Order
from milepost.proofs.schedules.story import Step, prompts, tell
from milepost.spec.geometry import boundary_grid, columns_for

MOST_DRAFTS = 4
"""Draft columns of a step that is chosen here."""

WINDOWS: dict[str, Any] = {
    "window-alone-between-tombstones": lambda window, page: z3.And((window - 1) % page == 0, window > 2 * page),
    "window-begins-inside-a-page": lambda window, page: (window - 1) % page != 0,
}
"""How the window has to lie to its pages for a goal, where that matters."""

STANDING: dict[str, Any] = {
    "none": lambda prompt, taken, boundary, drafts: taken == 0,
    "below": lambda prompt, taken, boundary, drafts: z3.And(taken >= 1, prompt + taken < boundary),
    "at": lambda prompt, taken, boundary, drafts: prompt + taken == boundary,
    "beyond": lambda prompt, taken, boundary, drafts: z3.And(taken == drafts, prompt + taken > boundary),
}
"""How many drafts have to stand for each word of a landing."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Sizes in tokens: `boundaries` of the text with a window; or the length of the prompt that speculates.

    `drafts` columns of which `taken` stand; all three are 0 where there is a window.
    """

    page: int
    chunk: int
    window: int = 0
    boundaries: tuple[int, int, int] = (0, 0, 0)
    prompt: int = 0
    drafts: int = 0
    taken: int = 0

    @property
    def grid(self) -> int:
        """The distance of boundaries."""
        return boundary_grid(self.page, self.chunk)

    def length(self, prompt: str) -> int:
        """Return the length of a prompt, which ends one token behind its last boundary where it has one."""
        return self.boundaries[DEEPEST[prompt] - 1] + 1 if DEEPEST[prompt] else self.prompt

    def stop(self, prompt: str, word: str) -> int:
        """Return how many tokens are computed at a stop."""
        return self.length(prompt) if word == "end" else self.boundaries[int(word) - 1]

    def columns(self, size: int) -> int:
        """Return in how many pages of some size the longest prompt fits, with its drafts and what follows."""
        longest = max(self.boundaries[-1], self.prompt + self.drafts) + 2
        return columns_for(size, longest)


def find_numbers(order: Order, sizes: Sizes) -> Iterator[Numbers]:
    """Yield different numbers that make an order real, the shortest first."""
    steps = tell(order)
    speculates = "D" in prompts(steps).values()
    unknown = {name: z3.Int(name) for name in (
        "page", "chunk", "window", "first", "second", "third", "prompt", "drafts", "taken", "boundary")}
    solver = z3.Solver()
    solver.add(z3.Or([of_pair(unknown, page, chunk, steps, order, speculates) for page, chunk in pairs(sizes)]))
    longest = unknown["prompt"] + unknown["drafts"] if speculates else unknown["third"]
    while (model := shortest(solver, longest)) is not None:
        found = {name: model.eval(term, model_completion=True).as_long() for name, term in unknown.items()}
        yield _read(found, speculates)
        named = ("page", "chunk", "prompt", "drafts", "taken") if speculates else ("page", "chunk", "window")
        solver.add(z3.Not(z3.And(*(unknown[name] == found[name] for name in named))))


def pairs(sizes: Sizes) -> list[tuple[int, int]]:
    """Return the pages and chunks, or pages of a window, that are asked for; none of one token."""
    pages = [sizes.page] if sizes.page else range(2, LARGEST + 1)
    chunks = [sizes.chunk] if sizes.chunk else range(2, LARGEST + 1)
    return [(page, chunk) for page in pages for chunk in chunks
            if min(page, chunk) > 1 and RELATIONS[sizes.relation](page, chunk)]


def shortest(solver: Any, longest: Any) -> Any:
    """Return a model with short prompts, None where there is none."""
    for most in (*SHORT, None):
        solver.push()
        solver.add(*([longest <= most] if most else []))
        model = solver.model() if solver.check() == z3.sat else None
        solver.pop()
        if model is not None:
            return model
    return None


def of_pair(
    unknown: dict[str, Any], page: int, chunk: int, steps: list[Step], order: Order, speculates: bool
) -> Any:
    """Return what the numbers of one pair of sizes have to be."""
    sizes = [unknown["page"] == page, unknown["chunk"] == chunk]
    if speculates:
        return z3.And(*sizes, *_of_drafts(unknown, boundary_grid(page, chunk), steps))
    return z3.And(*sizes, *_of_windows(unknown, boundary_grid(page, chunk), chunk, order.goal.name))


def _of_windows(unknown: dict[str, Any], grid: int, page: int, goal: str) -> Iterator[Any]:
    """Boundaries so far apart that a page lies between the windows before them, and before the first window."""
    window, ends = unknown["window"], [unknown[name] for name in ("first", "second", "third")]
    yield from (window >= 2, WINDOWS.get(goal, lambda *_: True)(window, page))
    earlier: Any = 0
    for end in ends:
        first = (end - window + 1) / page
        yield from (end % grid == 0, end >= window - 1, first * page >= earlier + page)
        yield (end + 1 - window + 1) / page == first  # the token behind a boundary needs no page less
        earlier = end


def _of_drafts(unknown: dict[str, Any], grid: int, steps: list[Step]) -> Iterator[Any]:
    """A boundary inside the drafts, and as many of them stand as the landing says."""
    prompt, drafts, taken, boundary = (unknown[name] for name in ("prompt", "drafts", "taken", "boundary"))
    words = [step.word for step in steps if step.verb == "land" and step.word] or ["none"]
    yield from (prompt >= 1, drafts >= 3, drafts <= MOST_DRAFTS, taken >= 0, taken <= drafts)
    yield from (boundary % grid == 0, prompt < boundary, boundary <= prompt + drafts)
    yield from (STANDING[word](prompt, taken, boundary, drafts) for word in words)


def _read(found: dict[str, int], speculates: bool) -> Numbers:
    if speculates:
        return Numbers(found["page"], found["chunk"], prompt=found["prompt"], drafts=found["drafts"],
                       taken=found["taken"])
    return Numbers(found["page"], found["chunk"], found["window"], (found["first"], found["second"], found["third"]))
