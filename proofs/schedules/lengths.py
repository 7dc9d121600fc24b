"""Z3 finds the numbers that make an order real: page and chunk, where boundaries lie, how long prompts are, the pool.

A step may ask for room only where there is room, since a search without pages has evicted none; where a goal wants
every page taken, the pool is as large as what is taken then. Arithmetic is that of `spec.geometry`, on terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import z3

from milepost.proofs.schedules.scene import PROMPTS
from milepost.proofs.schedules.search import Order
from milepost.proofs.schedules.story import Moment, Step, path, prompts, tell
from milepost.spec.geometry import boundary_grid, floor_to

RELATIONS: dict[str, Any] = {
    "any": lambda page, chunk: True,
    "coprime": lambda page, chunk: gcd(page, chunk) == 1 and page > 1 and chunk > 1,
    "dividing": lambda page, chunk: page != chunk and min(page, chunk) > 1 and not max(page, chunk) % min(page, chunk),
    "equal": lambda page, chunk: page == chunk,
}
"""How page and chunk may lie to each other."""

LARGEST = 8
"""Tokens of a page or a chunk that is chosen here."""

MOST_CELLS = 64
"""Pages of a pool that is chosen here, and boundaries up to the second one that a prompt passes."""

SHORT: tuple[int, ...] = (8, 16, 24, 36, 48, 64, 96)
"""Tokens up to the second boundary that are tried before longer ones: what a person reads should be short."""

EFFORT = 20_000_000
"""Z3's resource limit for one set of numbers; the same on every machine."""


class Undecided(Exception):
    """Z3 ran out of its resource limit."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is asked for: page, chunk and pages of the pool where they are given, and how page and chunk relate."""

    page: int | None = None
    chunk: int | None = None
    pages: int | None = None
    relation: str = "any"


@dataclass(frozen=True, slots=True)
class Numbers:
    """Sizes, the first and second boundary in tokens, and for each request how far it goes beyond its last one."""

    page: int
    chunk: int
    pages: int
    boundaries: tuple[int, int]
    tails: Mapping[str, int]

    def length(self, name: str, prompt: str) -> int:
        """Return the length of a request's prompt in tokens."""
        return self.boundaries[int(PROMPTS[prompt][0])] + self.tails.get(name, 0)

    def stop(self, name: str, prompt: str, word: str) -> int:
        """Return how many tokens a request has computed at a stop."""
        return self.length(name, prompt) if word == "end" else self.boundaries[int(word) - 1]


@dataclass(slots=True)
class _Unknowns:
    """Terms: counts of pages in the two blocks up to each boundary, and whole and begun pages of each tail.

    With `neighbours` no boundary lies between the two.
    """

    page: Any = field(default_factory=lambda: z3.Int("page"))
    chunk: Any = field(default_factory=lambda: z3.Int("chunk"))
    pages: Any = field(default_factory=lambda: z3.Int("pages"))
    boundaries: tuple[Any, Any] = field(default_factory=lambda: (z3.Int("first"), z3.Int("second")))
    blocks: tuple[Any, Any] = field(default_factory=lambda: (z3.Int("block1"), z3.Int("block2")))
    tails: dict[str, tuple[Any, Any, Any]] = field(default_factory=dict)
    neighbours: bool = False


def find_numbers(order: Order, sizes: Sizes) -> Iterator[Numbers]:
    """Yield different numbers that make an order real, other sizes first, none where there are none.

    Undecided beyond the effort.
    """
    steps = tell(order)
    unknowns = _Unknowns()
    for name, prompt in prompts(steps).items():
        if PROMPTS[prompt][2]:
            unknowns.tails[name] = (z3.Int(f"tail_{name}"), z3.Int(f"whole_{name}"), z3.Int(f"begun_{name}"))
    solver = z3.Solver()
    solver.set("rlimit", EFFORT)
    solver.set("random_seed", 0)
    if "E" in prompts(steps).values():  # it freezes at the last boundary before its end, which is to be the first
        unknowns.neighbours = True
    solver.add(_geometry(unknowns, sizes), *_room(unknowns, steps, full=order.goal.full))
    new_sizes: list[Any] = []
    while (model := _smallest(solver, unknowns, new_sizes) or _smallest(solver, unknowns, [])) is not None:
        numbers = _read(model, unknowns)
        yield numbers
        same_sizes, same_tails = _same(unknowns, numbers)
        new_sizes.append(z3.Not(same_sizes))
        solver.add(z3.Not(z3.And(same_sizes, same_tails)))


def _smallest(solver: Any, unknowns: _Unknowns, assumed: list[Any]) -> Any:
    """Return a model with short prompts and, for those, the smallest pool; None where there is none."""
    model = None
    for most in (*SHORT, None):
        if model is None:
            model = _model(solver, *assumed, *([unknowns.boundaries[1] <= most] if most else []))
    if model is None:
        return None
    numbers = _read(model, unknowns)
    fixed = _same(unknowns, numbers)
    low, high = 1, numbers.pages
    while low < high:
        middle = (low + high) // 2
        smaller = _model(solver, *fixed, unknowns.pages <= middle)
        if smaller is None:
            low = middle + 1
        else:
            model, high = smaller, _read(smaller, unknowns).pages
    return model


def _model(solver: Any, *assumed: Any) -> Any:
    """Return a model under assumptions, None where there is none."""
    solver.push()
    solver.add(*assumed)
    result = solver.check()
    model = solver.model() if result == z3.sat else None
    solver.pop()
    if result == z3.unknown:
        raise Undecided(f"Z3's resource limit of {EFFORT} does not suffice for these sizes")
    return model


def _geometry(unknowns: _Unknowns, sizes: Sizes) -> Any:
    """Page and chunk are one of the pairs that are asked for, and everything else lies on their grid."""
    pages = [sizes.page] if sizes.page else range(1, LARGEST + 1)
    chunks = [sizes.chunk] if sizes.chunk else range(1, LARGEST + 1)
    pairs = [(page, chunk) for page in pages for chunk in chunks if RELATIONS[sizes.relation](page, chunk)]
    most = sizes.pages or MOST_CELLS
    limits = [unknowns.pages >= 1, unknowns.pages == sizes.pages if sizes.pages else unknowns.pages <= most]
    return z3.And(*limits, z3.Or([_of_pair(unknowns, page, chunk, most) for page, chunk in pairs]))


def _of_pair(unknowns: _Unknowns, page: int, chunk: int, most: int) -> Any:
    grid = boundary_grid(page, chunk)
    (first, second), (block1, block2) = unknowns.boundaries, unknowns.blocks
    clauses = [
        unknowns.page == page, unknowns.chunk == chunk, first >= grid, second > first, second <= most * page,
        first == floor_to(grid, first), second == floor_to(grid, second),
        block1 * page == first, block2 * page == second - first,
    ]
    if unknowns.neighbours:
        clauses.append(second == first + grid)
    for tail, whole, begun in unknowns.tails.values():
        clauses += [tail >= 1, tail < grid, whole * page == floor_to(page, tail),
                    begun * page == floor_to(page, tail + page - 1)]
    return z3.And(clauses)


def _room(unknowns: _Unknowns, steps: list[Step], full: bool) -> Iterator[Any]:
    """Each step finds the pages that it asks for free, and at the last one none is left where that is wanted."""
    kept: dict[str, Any] = {}
    published: set[str] = set()
    names = prompts(steps)
    for name, prompt in names.items():
        depth = len(path(prompt))
        yield _columns(unknowns, name, prompt, depth, True) <= unknowns.pages
        yield _columns(unknowns, name, prompt, depth, False) < unknowns.pages  # a reader comes when all is over
    taken: Any = z3.IntVal(0)
    for step in steps:
        asked: Any = z3.IntVal(0)
        if step.verb in ("run", "plan"):
            asked = _held(unknowns, names, step.name, step.after) - _held(unknowns, names, step.name, step.before)
        if step.verb == "refused":
            asked = _columns(unknowns, step.name, names[step.name], len(path(names[step.name])), True)
        yield taken + asked <= unknowns.pages
        if full and step is steps[-1]:
            yield taken + asked == unknowns.pages
        _keep_tails(unknowns, step, published, kept)
        taken = _taken(unknowns, names, step.after, kept)


def _columns(unknowns: _Unknowns, name: str, prompt: str, depth: int, end: bool) -> Any:
    """Return how many pages a request has up to a boundary, or behind the last one."""
    blocks = sum(unknowns.blocks[:depth], z3.IntVal(0))
    return blocks + unknowns.tails[name][2] if end and PROMPTS[prompt][2] else blocks


def _held(unknowns: _Unknowns, names: Mapping[str, str], name: str, moment: Moment) -> Any:
    """Return how many pages a request names, planned ones too."""
    facts = moment.requests[name]
    depth = 2 if facts["len2"] or facts["to2"] else int(facts["len1"] or facts["to1"])
    return _columns(unknowns, name, names[name], depth, facts["end"] or facts["to_end"])


def _taken(unknowns: _Unknowns, names: Mapping[str, str], moment: Moment, kept: Mapping[str, Any]) -> Any:
    """Return how many pages are not free: published ones, forgotten ones with readers, private ones, kept tails."""
    size = {"x": unknowns.blocks[0], "a": unknowns.blocks[1], "b": unknowns.blocks[1]}
    total = sum((size[node] for node in size if moment.shared[f"{node}.page"]), z3.IntVal(0))
    forgotten = set()
    for name, facts in moment.requests.items():
        leased = [node for depth, node in enumerate(path(names[name]), 1) if facts[f"lease{depth}"]]
        total += _held(unknowns, names, name, moment) - sum((size[node] for node in leased), z3.IntVal(0))
        forgotten |= {node for node in leased if facts["stale"]}
    total += sum((size[node] for node in forgotten), z3.IntVal(0))
    return total + sum(kept.values(), z3.IntVal(0))


def _keep_tails(unknowns: _Unknowns, step: Step, published: set[str], kept: dict[str, Any]) -> None:
    """Keep the whole pages behind the last boundary of a request that has published them and gone."""
    if step.verb in ("evict pages", "reset"):
        kept.clear()
    if step.verb == "reset":
        published.clear()
    if step.verb == "publish" and step.after.requests[step.name]["landed_end"]:
        published.add(step.name)
    for name in step.before.requests.keys() - step.after.requests.keys():
        facts = step.before.requests[name]
        keeps = step.word == "keep" if step.verb == "close" and step.name == name else facts["keep"]
        if name in published or (facts["end"] and keeps and not facts["stale"]):
            kept[name] = unknowns.tails[name][1]


def _read(model: Any, unknowns: _Unknowns) -> Numbers:
    def value(term: Any) -> int:
        return int(model.eval(term, model_completion=True).as_long())

    return Numbers(
        value(unknowns.page), value(unknowns.chunk), value(unknowns.pages),
        (value(unknowns.boundaries[0]), value(unknowns.boundaries[1])),
        {name: value(tail) for name, (tail, _, _) in unknowns.tails.items()},
    )


def _same(unknowns: _Unknowns, numbers: Numbers) -> tuple[Any, Any]:
    """Return what fixes page, chunk and boundaries, and what fixes the tails."""
    first, second = unknowns.boundaries
    sizes = z3.And(unknowns.page == numbers.page, unknowns.chunk == numbers.chunk,
                   first == numbers.boundaries[0], second == numbers.boundaries[1])
    return sizes, z3.And([term == numbers.tails[name] for name, (term, _, _) in unknowns.tails.items()])
