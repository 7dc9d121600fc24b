"""Runs schedules in this process, with the observers that a campaign uses, and writes short ones from text."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from milepost.conformance.drain import Capacity, filler, fresh_capacity
from milepost.conformance.driver import Driver, Observer
from milepost.conformance.generation import SeededSource
from milepost.conformance.outcome import Outcome
from milepost.conformance.whitebox import accounting_observer, inventory_observer
from milepost.spec.capabilities import Configuration
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
    Preempt,
    Publish,
    Reset,
)
from milepost.spec.schedule import Header, Schedule, parse_tokens
from milepost.spec.seam import Adapter

Make = Callable[[Configuration], Adapter]

SEED = 1
LENGTH = 40

OF_A_REQUEST: dict[str, Callable[[str], Operation]] = {"freeze": Freeze, "publish": Publish, "preempt": Preempt}
OF_NOBODY: dict[str, Callable[[], Operation]] = {"launch": Launch, "reset": Reset, "drain": Drain}

_capacities: dict[tuple[object, str], Capacity] = {}


def generated(make: Make, number: int) -> Schedule:
    """Return a random schedule for what this cache offers."""
    return SeededSource(SEED, LENGTH, (), lambda configuration: make(configuration).capabilities).schedule(number)


def run(make: Make, schedule: Schedule, observers: Iterable[Observer] = (), checked: bool = True) -> Outcome:
    """Run a schedule on a fresh cache, unless told otherwise with all white-box checks that it offers."""
    configuration = schedule.header.configuration
    adapter = make(configuration)
    checks = white_box(adapter) if checked else []
    return Driver(adapter, [*checks, *observers]).run(schedule, filler(lambda: _capacity(make, configuration)))


def white_box(adapter: Adapter) -> list[Observer]:
    """Return the checks for what a cache offers and promises."""
    capabilities = adapter.capabilities
    checks: list[Observer] = [inventory_observer(adapter, capabilities)] if capabilities.inventories else []
    if capabilities.accounts and "exact-accounting" in capabilities.promises:
        checks.append(accounting_observer(adapter, capabilities))
    return checks


def _capacity(make: Make, configuration: Configuration) -> Capacity:
    key = make, repr(configuration)
    if key not in _capacities:
        _capacities[key] = fresh_capacity(lambda: make(configuration))
    return _capacities[key]


def write(text: str, header: Header | None = None) -> Schedule:
    """Return the schedule of lines such as `open r1 a8|b1 samples=aaa salt=x 2=cat`, `extend r1 8 3`, `land r1=2`.

    The second number of an extend counts drafts, and a landing says how many of them stand.
    """
    return Schedule(header or Header("written"), tuple(_operation(line.split()) for line in text.strip().splitlines()))


def _operation(words: list[str]) -> Operation:
    match words:
        case ["open", request, tokens, *rest]:
            return _open(request, tokens, dict(word.split("=") for word in rest))
        case ["extend", request, to, *draft]:
            return Extend(request, int(to), *map(int, draft))
        case ["land", *accepted]:
            return Land(None, {request: int(count) for request, count in (one.split("=") for one in accepted)})
        case ["close", request, keep]:
            return Close(request, keep == "keep")
        case ["evict", group, cells]:
            return Evict(group, int(cells))
        case ["freeze" | "publish" | "preempt" as verb, request]:
            return OF_A_REQUEST[verb](request)
        case [verb]:
            return OF_NOBODY[verb]()
    raise ValueError(" ".join(words))


def _open(request: str, tokens: str, rest: dict[str, str]) -> Open:
    samples = parse_tokens(rest.pop("samples", ""))
    content = {int(key): one for key, one in rest.items() if key.isdigit()}
    namespace = tuple((key, value) for key, value in rest.items() if not key.isdigit())
    return Open(request, parse_tokens(tokens), samples, namespace, content)


def without(schedule: Schedule, *positions: int) -> Schedule:
    """Return the schedule without the operations at these positions, counted from 0."""
    kept = (one for position, one in enumerate(schedule.operations) if position not in positions)
    return replace(schedule, operations=tuple(kept))
