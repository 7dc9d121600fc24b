"""A schedule of windows or of speculation from an order and its numbers, with readers of what it may have left."""

from __future__ import annotations

from collections.abc import Iterator

from milepost.proofs.schedules.kinds import DEEPEST
from milepost.proofs.schedules.numbers_of_kinds import Numbers
from milepost.proofs.schedules.search import Order
from milepost.proofs.schedules.story import Step, prompts, tell
from milepost.proofs.schedules.writing import READER, TAILS
from milepost.spec.capabilities import Group
from milepost.spec.operations import Close, Drain, Extend, Land, Open, Operation, Preempt, Publish
from milepost.spec.schedule import Header, Schedule
from milepost.spec.words import GroupKind

BLOCKS = "xac"
"""The letters of the text up to each boundary."""


def write(order: Order, numbers: Numbers) -> Schedule:
    """Return the schedule: the order, and after it readers of everything that it may have left."""
    steps = tell(order)
    names = prompts(steps)
    operations = [_operation(step, names, numbers) for step in steps]
    operations += _aftermath(steps[-1], names, numbers)
    return Schedule(_header(order, numbers), tuple(operations))


def _header(order: Order, numbers: Numbers) -> Header:
    meaning = order.goal.meaning
    about = (f"{meaning[0].upper()}{meaning[1:]}; of at most {order.scope.requests} requests at a time, each step "
             f"landed before the next, none of fewer than {len(order.moves)} operations reaches it.")
    name, kv = f"goal/{order.goal.name}", 4 * numbers.columns(numbers.page)
    if numbers.drafts:
        return Header(name, numbers.page, numbers.chunk, {"kv": kv, "state": 6 + numbers.drafts}, ("full", "recurrent"),
                      about=about, speculates=numbers.drafts)
    groups = (Group("kv", GroupKind.FULL, "kv", page_size=numbers.page),
              Group("window", GroupKind.WINDOW, "window", page_size=numbers.chunk, window=numbers.window))
    pools = {"kv": kv, "window": 4 * numbers.columns(numbers.chunk)}
    return Header(name, numbers.page, numbers.chunk, pools, ("full", "window"), about=about, groups=groups)


def _prefix(depth: int, numbers: Numbers) -> tuple[int, ...]:
    """Return the tokens of the text up to a boundary."""
    starts = (0, *numbers.boundaries)
    return tuple(ord(BLOCKS[at]) for at in range(depth) for _ in range(starts[at], starts[at + 1]))


def _told(numbers: Numbers) -> tuple[int, ...]:
    """Return the tokens of a prompt that speculates, and what the model says after it."""
    said = (ord(TAILS[at]) for at in range(numbers.drafts + 2))
    return (*(ord("x") for _ in range(numbers.prompt)), *said)


def _operation(step: Step, names: dict[str, str], numbers: Numbers) -> Operation:
    prompt = names.get(step.name, "")
    match step.verb:
        case "open" if prompt == "D":
            told = _told(numbers)
            return Open(step.name, told[: numbers.prompt], samples=told[numbers.prompt :])
        case "open":
            tail = ord(TAILS[int(step.name[1:]) % len(TAILS)])
            return Open(step.name, (*_prefix(DEEPEST[prompt], numbers), tail))
        case "run":
            return Extend(step.name, numbers.stop(prompt, step.word))
        case "draft":
            return Extend(step.name, numbers.prompt, numbers.drafts)
        case "publish":
            return Publish(step.name)
        case "close":
            return Close(step.name, step.word == "keep")
        case "preempt":
            return Preempt(step.name)
    drafting = [name for name, facts in step.before.requests.items() if facts["flying"] and facts["drafts"]]
    return Land(accepted=dict.fromkeys(drafting, numbers.taken) if step.word else {})


def _aftermath(last: Step, names: dict[str, str], numbers: Numbers) -> Iterator[Operation]:
    """Let everybody go on to the end and go, let each prefix be read once more, and drain."""
    for name, facts in last.after.requests.items():
        if facts["open"] and facts["drafts"] and facts["ran"] and not facts["lands_at"]:
            yield Extend(name, numbers.prompt + numbers.taken + 1)
        elif facts["open"] and not facts["end"] and not facts["lands_at"]:
            yield Extend(name, numbers.length(names[name]))
        if facts["open"]:
            yield Close(name, keep=True)
    if last.verb == "preempt":
        again = _told(numbers)[: numbers.prompt + numbers.taken + 1]
        yield from (Open(last.name, again), Extend(last.name, len(again)), Close(last.name, keep=True))
    yield Land()
    ways = [_prefix(depth, numbers) for depth in (1, 2, 3)]
    if numbers.drafts:
        told = _told(numbers)
        ways = [told[: numbers.prompt], told[: numbers.prompt + numbers.taken + 1], told]
    for number, way in enumerate(ways, 1):
        yield Open(f"reader{number}", (*way, READER))
        yield Extend(f"reader{number}", len(way) + 1)
        yield Close(f"reader{number}", keep=True)
    yield Drain()
