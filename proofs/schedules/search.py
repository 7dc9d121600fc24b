"""The shortest order of moves to each goal, by breadth-first search over canonical scenes.

Whole levels are carried out at once: a fact is one whole number with a bit for each scene of the level. What a level
reaches first, nothing shorter reaches in the same scope, since a level holds every scene that its depth can reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress, islice

from milepost.proofs.schedules.goals import Goal, Passage
from milepost.proofs.schedules.move import Move
from milepost.proofs.schedules.moves import carry_out, moves_of
from milepost.proofs.schedules.scene import Scene, Scope

Row = str
"""A canonical scene: a character for each fact, shared ones first, then those of requests, sorted."""

MOST_ORDERS = 16
"""Orders that are kept for one goal, all of the least length: what one cannot do with given sizes another may."""

MOST_ROWS = 1 << 13
"""Scenes that are carried out together: more do not fit into a processor's cache."""


@dataclass(frozen=True, slots=True)
class Order:
    """The moves to a goal, with requests numbered by their first open, and how many scenes were seen for it."""

    goal: Goal
    scope: Scope
    moves: tuple[Move, ...]
    scenes: int


def start_row(scope: Scope) -> Row:
    """Return the scene in which nothing has happened yet."""
    return "0" * len(scope.facts())


def unpack(scope: Scope, rows: list[Row]) -> Scene:
    """Return the scene of many rows at once."""
    columns = (int("".join(column), 2) for column in zip(*rows, strict=True))
    return Scene(scope, dict(zip(scope.facts(), columns, strict=True)), -1)


def pack(scope: Scope, scene: Scene, count: int) -> Iterator[Row]:
    """Return the rows of a scene of `count`, as they are."""
    mask = (1 << count) - 1
    columns = (format(scene.facts[fact] & mask, f"0{count}b") for fact in scope.facts())
    return map("".join, zip(*columns, strict=True))


def canonical(scope: Scope, row: Row) -> Row:
    """Return a row with its requests sorted, those that are there first."""
    block = len(scope.of_request())
    shared = len(row) - scope.requests * block
    blocks = [row[start : start + block] for start in range(shared, len(row), block)]
    return row[:shared] + "".join(sorted(blocks, reverse=True))


def carry_out_all(scope: Scope, rows: list[Row], move: Move) -> tuple[list[Row], Scene, Scene]:
    """Return the rows where a move is possible, and the scenes of all of these before and after it."""
    before = unpack(scope, rows)
    allowed, after = carry_out(before, move)
    chosen = list(compress(rows, _bits(allowed, len(rows))))
    if len(chosen) < len(rows) and chosen:
        before = unpack(scope, chosen)
        _, after = carry_out(before, move)
    return chosen, before, after


def _bits(value: int, count: int) -> Iterable[bool]:
    return (bit == "1" for bit in format(value & ((1 << count) - 1), f"0{count}b"))


class Search:
    """One breadth-first search of a scope, which finds shortest orders to each of several goals."""

    def __init__(self, scope: Scope, goals: Iterable[Goal]) -> None:
        self.scope = scope
        self.wanted = {goal.name: goal for goal in goals}
        self.found: dict[str, list[Order]] = {}
        self.depth = 0
        self.moves = moves_of(scope)
        start = start_row(scope)
        self.parents: dict[Row, tuple[Row, Move] | None] = {start: None}
        self.frontier = [start]

    def run(self, deepest: int, most_scenes: int) -> Mapping[str, list[Order]]:
        """Search until every goal is found, or to a depth or number of scenes; return shortest orders by goal."""
        while self.wanted and self.frontier and self.depth < deepest and len(self.parents) < most_scenes:
            self.deepen()
        return self.found

    def deepen(self) -> None:
        """Carry out every move on every scene of the last level."""
        self.depth += 1
        level: list[Row] = []
        for start in range(0, len(self.frontier), MOST_ROWS):
            rows = self.frontier[start : start + MOST_ROWS]
            for move in self.moves:
                self._carry_out(rows, move, level)
        self.frontier = level
        self.wanted = {name: goal for name, goal in self.wanted.items() if name not in self.found}

    def _carry_out(self, rows: list[Row], move: Move, level: list[Row]) -> None:
        chosen, before, after = carry_out_all(self.scope, rows, move)
        if not chosen:
            return
        self._look_for_goals(chosen, Passage(move, before, after))
        for parent, row in zip(chosen, pack(self.scope, after, len(chosen)), strict=True):
            key = canonical(self.scope, row)
            if key not in self.parents:
                self.parents[key] = (parent, move)
                level.append(key)

    def _look_for_goals(self, rows: list[Row], passage: Passage) -> None:
        for goal in self.wanted.values():
            if goal.reached(passage) & ((1 << len(rows)) - 1):
                orders = self.found.setdefault(goal.name, [])
                there = compress(rows, _bits(goal.reached(passage), len(rows)))
                orders += [self._order(goal, row, passage.move) for row in islice(there, MOST_ORDERS - len(orders))]

    def _order(self, goal: Goal, row: Row, last: Move) -> Order:
        moves = [last]
        step = self.parents[row]
        while step is not None:
            row, move = step
            moves.append(move)
            step = self.parents[row]
        return Order(goal, self.scope, tuple(reversed(moves)), len(self.parents))
