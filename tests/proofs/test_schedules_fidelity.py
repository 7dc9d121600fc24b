"""The model that is searched does what the reference does: fact for fact, after every operation."""

from collections.abc import Iterator
from random import Random

import pytest

from milepost.conformance.driver import Driver
from milepost.proofs.schedules.goals import Goal
from milepost.proofs.schedules.lengths import Numbers, Sizes, find_numbers
from milepost.proofs.schedules.move import Move
from milepost.proofs.schedules.moves import carry_out, moves_of
from milepost.proofs.schedules.scene import NODES, Scope
from milepost.proofs.schedules.search import Order, canonical, pack, start_row, unpack
from milepost.proofs.schedules.story import Moment, path, prompts, tell
from milepost.proofs.schedules.writing import write
from milepost.reference.cache import ReferenceCache
from milepost.reference.requests import Entry, Request
from milepost.spec.words import NULL

NOWHERE = Goal("walk", "anything", lambda passage: passage.before.false)
WEIGHTS = {
    "open": 5, "run": 6, "plan": 3, "launch": 3, "land": 4, "freeze": 2, "publish": 4, "close": 3, "refused": 2,
    "evict states": 2, "evict pages": 1, "reset": 0.3,
}
LENGTH = 40


def walk(seed: int, scope: Scope, length: int) -> Order:
    """Return moves by chance, each of which is possible where it comes."""
    random = Random(seed)
    row = start_row(scope)
    moves: list[Move] = []
    while len(moves) < length:
        (verb,) = random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        move = random.choice([move for move in moves_of(scope) if move.verb == verb])
        allowed, after = carry_out(unpack(scope, [row]), move)
        if allowed & 1:
            moves.append(move)
            row = canonical(scope, next(pack(scope, after, 1)))
    return Order(NOWHERE, scope, tuple(moves), 0)


def keys(cache: ReferenceCache, numbers: Numbers) -> Iterator[tuple[str, tuple[object, ...]]]:
    first, second = numbers.boundaries
    yield "x", ((), (ord("x"),) * first)
    for node in ("a", "b"):
        yield node, ((), (ord("x"),) * first + (ord(node),) * (second - first))


def seen(cache: ReferenceCache, numbers: Numbers) -> dict[str, bool]:
    """Return what the reference holds of each prefix."""
    facts: dict[str, bool] = {}
    for node, key in keys(cache, numbers):
        facts[f"{node}.page"] = key in cache.pages
        facts[f"{node}.snap"] = key in cache.snapshots
        facts[f"{node}.ghost"] = key in cache.ghosts
    return facts


def request_facts(claim: Request, numbers: Numbers, prompt: str) -> dict[str, bool]:
    first, second = numbers.boundaries
    length = len(claim.tokens)
    deep = len(path(prompt)) == 2
    end = length > numbers.boundaries[deep]
    pages = len(claim.leases) * numbers.page
    return {
        "open": not claim.closing,
        "closing": claim.closing,
        "len1": claim.length >= first,
        "len2": deep and claim.length >= second,
        "end": end and claim.length == length,
        "landed1": claim.landed >= first,
        "landed2": deep and claim.landed >= second,
        "planned": claim.planned is not None,
        "live": claim.live != NULL,
        "frozen1": claim.frozen is not None and claim.frozen.position == first,
        "frozen2": claim.frozen is not None and claim.frozen.position == second,
        "freezes": claim.planned is not None and claim.planned.frozen is not None,
        "source1": claim.source is not None and claim.source.depth == first,
        "source2": claim.source is not None and claim.source.depth == second,
        "lease1": pages >= first,
        "lease2": deep and pages >= second,
    }


def everybody(cache: ReferenceCache) -> dict[str, Request]:
    closing = (claim for flight in cache.flights for claim, _, _ in flight.spans if claim.closing)
    return cache.requests | {claim.name: claim for claim in closing}


def compare(cache: ReferenceCache, numbers: Numbers, names: dict[str, str], moment: Moment) -> list[str]:
    """Return where the reference and the model differ."""
    claims = everybody(cache)
    if claims.keys() != moment.requests.keys():
        return [f"there are {sorted(claims)} and not {sorted(moment.requests)}"]
    pairs = [(name, value, moment.shared[name]) for name, value in seen(cache, numbers).items()]
    for request, claim in claims.items():
        for name, value in request_facts(claim, numbers, names[request]).items():
            pairs.append((f"{request}.{name}", value, moment.requests[request][name]))
    slots = cache.slot_cells.pool
    taken = sum(moment.shared[f"{node}.{fact}"] for node in NODES for fact in ("snap", "orphan"))
    taken += sum(one["live"] + (one["frozen1"] or one["frozen2"]) for one in moment.requests.values())
    pairs.append(("slots", len(slots.occupants) - len(slots.free) == taken, True))
    return [f"{name}: {value}" for name, value, wanted in pairs if value != wanted]


def disagreements(order: Order, numbers: Numbers, make: type[ReferenceCache] = ReferenceCache) -> list[str]:
    """Play an order on the reference and return every difference, with the operation before which it shows."""
    schedule, steps = write(order, numbers), tell(order)
    adapter = make(schedule.header.configuration)
    names = prompts(steps)
    found: list[str] = []
    last = 0

    def beat(index: int) -> None:
        nonlocal last
        if last < index <= len(steps):
            last = index
            found.extend(f"before {index}, {one}" for one in compare(adapter, numbers, names, steps[index - 1].before))

    outcome = Driver(adapter, beat=beat).run(schedule)
    assert not outcome.failed
    assert set(outcome.skipped) <= {"nothing is in flight"}
    return found


def played(slots: int, walks: int, make: type[ReferenceCache] = ReferenceCache) -> Iterator[list[str]]:
    """Yield the differences of each walk."""
    for seed in range(walks):
        order = walk(seed, Scope(3, slots), LENGTH)
        numbers = next(find_numbers(order, Sizes(relation=("coprime", "dividing", "equal")[seed % 3])))
        yield disagreements(order, numbers, make)


@pytest.mark.parametrize("slots", [3, 4])
def test_random_walks_of_the_model_are_walks_of_the_reference(slots: int) -> None:
    assert [found for found in played(slots, 9) if found] == []


class NewestFirst(ReferenceCache):
    """Evicts what was used last."""

    def choose_victim(self, victims: list[Entry]) -> Entry:
        return max(victims, key=lambda entry: entry.stamp)


class LongLease(ReferenceCache):
    """Keeps a snapshot protected when the step that restored from it has landed."""

    def end_restore(self, claim: Request) -> None:
        return None


@pytest.mark.parametrize("other", [NewestFirst, LongLease])
def test_a_cache_with_another_policy_is_told_apart(other: type[ReferenceCache]) -> None:
    assert any(played(3, 25, other))


def test_an_order_that_cannot_be_is_refused() -> None:
    impossible = Order(NOWHERE, Scope(2, 4), (Move("open", 0, "X"), Move("land")), 0)
    with pytest.raises(ValueError, match="not possible"):
        tell(impossible)
