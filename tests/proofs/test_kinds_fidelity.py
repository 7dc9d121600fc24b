"""The model of windows and of speculation that is searched does what the reference does, after every operation."""

from collections.abc import Iterator
from random import Random

import pytest

from milepost.conformance.driver import Driver
from milepost.proofs.schedules.goals import Goal
from milepost.proofs.schedules.kinds import ACCEPTED, DEEPEST, DEPTHS, KindScope
from milepost.proofs.schedules.lengths import Sizes
from milepost.proofs.schedules.move import Move
from milepost.proofs.schedules.moves import carry_out, moves_of
from milepost.proofs.schedules.numbers_of_kinds import Numbers, find_numbers
from milepost.proofs.schedules.search import Order, canonical, pack, start_row, unpack
from milepost.proofs.schedules.story import Moment, prompts, tell
from milepost.proofs.schedules.writing_of_kinds import write
from milepost.reference.cache import ReferenceCache
from milepost.reference.requests import Request
from milepost.spec.capabilities import Group
from milepost.spec.layout import first_column
from milepost.spec.words import NULL

SCOPE = KindScope(3)
NOWHERE = Goal("walk", "anything", lambda passage: passage.before.false, scope=SCOPE)
LENGTH = 24


def walk(seed: int, drafts: bool) -> Order:
    """Return moves by chance, each possible where it comes; all drafts of a walk stand alike."""
    random = Random(seed)
    word = random.choice(ACCEPTED)
    row, moves = start_row(SCOPE), list[Move]()
    able = [move for move in moves_of(SCOPE) if (move.word not in ACCEPTED or move.word == word) and (
        move.verb != "open" or (move.word == "D") == drafts)]
    while len(moves) < LENGTH:
        move = random.choice(able)
        allowed, after = carry_out(unpack(SCOPE, [row]), move)
        if allowed & 1:
            moves.append(move)
            row = canonical(SCOPE, next(pack(SCOPE, after, 1)))
    return Order(NOWHERE, SCOPE, tuple(moves), 0)


def is_whole(cache: ReferenceCache, group: Group, text: tuple[int, ...], length: int) -> bool:
    """Tell whether every page of a window that is needed at a length is published."""
    probe = Request("probe", 0, 0, (), list(text), {}, len(text))
    return cache.has_entries(probe, group, length)


def compare(cache: ReferenceCache, numbers: Numbers, names: dict[str, str], moment: Moment) -> list[str]:
    """Return where the reference and the model differ."""
    pairs: list[tuple[str, object, object]] = []
    text = tuple(ord("xac"[at]) for at in range(3) for _ in range((0, *numbers.boundaries)[at], numbers.boundaries[at]))
    for depth, end in zip(DEPTHS, numbers.boundaries, strict=True) if numbers.window else ():
        full = ((), text[:end]) in cache.pages
        window = full and is_whole(cache, cache.layout.windows[0], text, end)
        pairs += [(f"full{depth}", full, moment.shared[f"full{depth}"]),
                  (f"window{depth}", window, moment.shared[f"window{depth}"])]
    closing = (claim for flight in cache.flights for claim, _, _ in flight.spans if claim.closing)
    claims = cache.requests | {claim.name: claim for claim in closing}
    pairs.append(("requests", sorted(claims), sorted(moment.requests)))
    for name, claim in claims.items() if sorted(claims) == sorted(moment.requests) else ():
        facts = moment.requests[name]
        seen = request_facts(cache, numbers, names[name], claim)
        pairs += [(f"{name}.{fact}", value, facts[fact]) for fact, value in seen.items()]
    return [f"{name}: {value}" for name, value, wanted in pairs if value != wanted]


def request_facts(cache: ReferenceCache, numbers: Numbers, prompt: str, claim: Request) -> dict[str, bool]:
    if prompt == "D":
        stands = not claim.in_flight and claim.landed == numbers.prompt + numbers.taken and numbers.taken > 0
        return {"flying": claim.in_flight > 0, "ran": claim.length > 0, "lands_at": stands and (
            claim.landed % cache.grid == 0 and cache.slot_cells[claim.live].endpoint == claim.landed)}
    group = cache.layout.windows[0]
    side = claim.sides[group.name]
    facts = {"flying": claim.in_flight > 0, "end": claim.length == claim.prompt}
    for depth, end in zip(DEPTHS, numbers.boundaries, strict=True):
        if depth <= DEEPEST[prompt]:
            last = end // group.page_size - 1
            facts[f"at{depth}"] = claim.length == end
            facts[f"reads{depth}"] = last in side.leases
            held = len(side.cells) > last and all(
                side.cells[at] != NULL for at in range(first_column(group, end), last + 1))
            assert held or not facts[f"at{depth}"] or claim.in_flight
    return facts


def disagreements(order: Order, numbers: Numbers, make: type[ReferenceCache] = ReferenceCache) -> list[str]:
    """Play an order on the reference and return every difference, with the operation before which it shows."""
    schedule, steps = write(order, numbers), tell(order)
    adapter, names = make(schedule.header.configuration), prompts(steps)
    found: list[str] = []
    last = 0

    def beat(index: int) -> None:
        nonlocal last
        if last < index <= len(steps):
            last = index
            found.extend(f"before {index}, {one}" for one in compare(adapter, numbers, names, steps[index - 1].before))

    outcome = Driver(adapter, beat=beat).run(schedule)
    assert not outcome.failed, outcome.fault
    return found


def played(drafts: bool, walks: int, make: type[ReferenceCache] = ReferenceCache) -> Iterator[list[str]]:
    """Yield the differences of each walk."""
    for seed in range(walks):
        order = walk(seed, drafts)
        sizes = Sizes(relation=("coprime", "dividing", "equal")[seed % 3])
        yield disagreements(order, next(find_numbers(order, sizes)), make)


@pytest.mark.parametrize("drafts", [False, True])
def test_random_walks_of_the_model_are_walks_of_the_reference(drafts: bool) -> None:
    assert [found for found in played(drafts, 12) if found] == []


class KeepsTheLastWindow(ReferenceCache):
    """Lets nothing slide out."""

    def first_kept(self, claim: Request, group: Group) -> int:
        return 0


def test_a_cache_whose_windows_do_not_slide_is_told_apart() -> None:
    assert any(played(False, 12, KeepsTheLastWindow))
