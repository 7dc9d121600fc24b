"""A schedule from an order and its numbers, with what makes a wrong answer show afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from milepost.proofs.schedules.lengths import Numbers
from milepost.proofs.schedules.scene import PROMPTS
from milepost.proofs.schedules.search import Order
from milepost.proofs.schedules.story import Step, path, prompts, tell
from milepost.spec.operations import (
    Close,
    Drain,
    Evict,
    Extend,
    Freeze,
    Land,
    Launch,
    Open,
    Operation,
    Publish,
    Reset,
)
from milepost.spec.schedule import Header, Schedule

TAILS = "cdefghijklmnpqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Tokens behind the last boundary: of each request another one, so that only boundaries are shared."""


READER = ord("o")
"""The last token of those who only read."""


def write(order: Order, numbers: Numbers) -> Schedule:
    """Return the schedule: the order, and after it readers of everything that it may have left."""
    steps = tell(order)
    names = prompts(steps)
    tokens = {name: _tokens(name, prompt, numbers) for name, prompt in names.items()}
    operations = [_operation(step, names, tokens, numbers) for step in steps]
    operations += _aftermath(steps[-1], names, numbers)
    return Schedule(_header(order, numbers), tuple(operations))


def _header(order: Order, numbers: Numbers) -> Header:
    meaning = order.goal.meaning
    requests, slots = order.scope.requests, order.scope.slots
    about = (f"{meaning[0].upper()}{meaning[1:]}; of at most {requests} requests at a time over {slots} slots, "
             f"none of fewer than {len(order.moves)} operations reaches it.")
    pools = {"kv": numbers.pages, "state": slots}
    return Header(f"goal/{order.goal.name}", numbers.page, numbers.chunk, pools, ("full", "recurrent"), about=about)


def _prefix(prompt: str, numbers: Numbers) -> tuple[int, ...]:
    """Return the tokens up to a prompt's last boundary: each block repeats the letter of its prefix."""
    first, second = numbers.boundaries
    lengths = (first, second - first)
    return tuple(ord(node) for node, length in zip(path(prompt), lengths, strict=False) for _ in range(length))


def _tokens(name: str, prompt: str, numbers: Numbers) -> tuple[int, ...]:
    tail = ord(TAILS[int(name[1:]) % len(TAILS)])
    return (*_prefix(prompt, numbers), *(tail for _ in range(numbers.tails.get(name, 0))))


def _operation(
    step: Step, names: dict[str, str], tokens: dict[str, tuple[int, ...]], numbers: Numbers
) -> Operation:
    match step.verb:
        case "open":
            return Open(step.name, tokens[step.name])
        case "run" | "plan":
            return Extend(step.name, numbers.stop(step.name, names[step.name], step.word))
        case "refused":
            return Extend(step.name, len(tokens[step.name]))
        case "freeze":
            return Freeze(step.name)
        case "publish":
            return Publish(step.name)
        case "close":
            return Close(step.name, step.word == "keep")
        case "evict states":
            return Evict("state", 1)
        case "evict pages":
            return Evict("kv", numbers.pages)
        case "launch":
            return Launch()
        case "land":
            return Land()
    return Reset()


def _aftermath(last: Step, names: dict[str, str], numbers: Numbers) -> Iterator[Operation]:
    """Let everybody compute to the end and go, let each prefix be read once more, and drain."""
    requests = last.after.requests
    if last.after.shared["batch"]:
        yield Launch()
    for name, facts in requests.items():
        length = numbers.length(name, names[name])
        reached, planned = ("end", "to_end") if PROMPTS[names[name]][2] else ("len2", "to2")
        if facts["open"] and not (facts[reached] or facts[planned]):
            yield Extend(name, length)
        if facts["open"]:
            yield Close(name, keep=True)
    yield Land()
    yield Land()
    for number, way in enumerate(_ways(names.values()), 1):
        yield from _reader(f"reader{number}", way, numbers)
    yield Drain()


def _ways(kinds: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the way to each prefix of some prompts, the shortest first."""
    ways = {path(prompt)[:depth] for prompt in kinds for depth in (1, 2)}
    return sorted(ways, key=lambda way: (len(way), way))


def _reader(name: str, way: tuple[str, ...], numbers: Numbers) -> Iterator[Operation]:
    prompt = next(one for one, (_, _, tail) in PROMPTS.items() if tail and path(one) == way)
    tokens = (*_prefix(prompt, numbers), READER)
    yield Open(name, tokens)
    yield Extend(name, len(tokens))
