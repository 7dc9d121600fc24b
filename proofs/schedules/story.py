"""An order of moves told with names: which request did what, and the scene around each move."""

from __future__ import annotations

from dataclasses import dataclass

from milepost.proofs.schedules.move import Move
from milepost.proofs.schedules.moves import carry_out
from milepost.proofs.schedules.scene import PROMPTS, Scene, Scope
from milepost.proofs.schedules.search import Order, canonical, pack, start_row, unpack


@dataclass(frozen=True, slots=True)
class Moment:
    """What holds at one moment: the facts of prefixes, those of each request by name, and its prompt."""

    shared: dict[str, bool]
    requests: dict[str, dict[str, bool]]


@dataclass(frozen=True, slots=True)
class Step:
    """One move of a named request ('' where it is nobody's), with the moments around it."""

    verb: str
    name: str
    word: str
    before: Moment
    after: Moment


def tell(order: Order) -> list[Step]:
    """Return the steps of an order; a request that comes after another has gone gets a new name."""
    scope, row = order.scope, start_row(order.scope)
    names: list[str] = [""] * scope.requests
    steps: list[Step] = []
    count = 0
    for move in order.moves:
        before = unpack(scope, [row])
        allowed, after = carry_out(before, move)
        if not allowed & 1:
            raise ValueError(f"{move} is not possible there")
        earlier = _moment(scope, before, names)
        if move.verb == "open":
            count += 1
            names[move.request] = f"r{count}"
        name = names[move.request] if _is_of_a_request(move) else ""
        steps.append(Step(move.verb, name, move.word, earlier, _moment(scope, after, names)))
        row, names = _sort(scope, next(pack(scope, after, 1)), names)
    return steps


def _is_of_a_request(move: Move) -> bool:
    return move.verb not in ("land", "launch", "evict states", "evict pages", "reset")


def _moment(scope: Scope, scene: Scene, names: list[str]) -> Moment:
    facts = {name: bool(value & 1) for name, value in scene.facts.items()}
    shared = {name: facts[name] for name in scope.shared_facts()}
    there = [one for one in range(scope.requests) if facts[f"{one}.open"] or facts[f"{one}.closing"]]
    requests = {
        names[one]: {name.split(".")[1]: value for name, value in facts.items() if name.startswith(f"{one}.")}
        for one in there
    }
    return Moment(shared, requests)


def _sort(scope: Scope, row: str, names: list[str]) -> tuple[str, list[str]]:
    """Return the canonical row, and the names in the order of its requests."""
    block = len(scope.of_request())
    shared = len(row) - scope.requests * block
    blocks = [row[start : start + block] for start in range(shared, len(row), block)]
    order = sorted(range(scope.requests), key=lambda one: blocks[one], reverse=True)
    return canonical(scope, row), [names[one] for one in order]


def prompts(steps: list[Step]) -> dict[str, str]:
    """Return the prompt of each request, one of `PROMPTS`."""
    return {step.name: step.word for step in steps if step.verb == "open"}


def path(prompt: str) -> tuple[str, ...]:
    """Return the prefixes on the way of a prompt."""
    deep, on_b, _ = PROMPTS[prompt]
    return ("x", "b" if on_b else "a") if deep else ("x",)
