"""How the judge sees speculation: what stands holds the request's own text, and all other columns hold garbage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.spec.answers import Grant, Hit, Landing, Launched, Pages, Refused, Slots, Table
from milepost.spec.faults import Fault
from milepost.spec.operations import Close, Extend, Land, Launch, Open
from milepost.spec.payload import GARBAGE
from milepost.spec.step import Contradiction
from milepost.spec.words import NULL

from .world import HYBRID, World, hybrid, zero

SPECULATING = replace(HYBRID, speculates=3)
TOKENS, SAID = tuple(map(ord, "abcde")), tuple(map(ord, "fghijk"))


def table(*kv: int, live: int, drafts: tuple[int, ...] = ()) -> Table:
    return {"kv": Pages(kv), "state": Slots(live, drafts=drafts)}


def drafted(draft: int = 3) -> World:
    """A request of 5 tokens whose step has speculated on 3 more: pages 0 and 1, live slot 0, columns 1, 2, 3."""
    world = World(SPECULATING)
    world.ask(Open("r1", TOKENS, SAID), Hit(0))
    grant = Grant(5, table(0, 1, live=0, drafts=(1, 2, 3)), initial_state={"state": 0}, draft=draft)
    world.ask(Extend("r1", 5, 3), grant)
    world.ask(Launch(), Launched(1, (zero(0),)))
    return world


def land(world: World, accepted: int, then: Table) -> None:
    result = world.ask(Land(1, {"r1": accepted} if accepted else {}), Landing({"r1": then}))
    assert not isinstance(result, Fault)


def next_step(world: World, to: int, then: Table, live: int) -> object:
    world.ask(Extend("r1", to), Grant(to, then, initial_state={"state": live}))
    return world.ask(Launch(), Launched(2))


@pytest.mark.parametrize("accepted", range(4))
def test_each_accepted_prefix_stands_in_its_own_column(accepted: int) -> None:
    world = drafted()
    land(world, accepted, table(0, 1, live=accepted))
    assert world.claim("r1").length == 5 + accepted
    assert world.claim("r1").known == 6 + accepted
    result = next_step(world, 6 + accepted, table(0, 1, 2, live=accepted), accepted)
    assert not isinstance(result, Fault)


@pytest.mark.parametrize(("accepted", "column", "code"), [(0, 1, "stale-state"), (1, 3, "stale-state"),
                                                          (2, 1, "torn-hit"), (3, 0, "torn-hit")])
def test_any_other_column_is_a_fault(accepted: int, column: int, code: str) -> None:
    world = drafted()
    land(world, accepted, table(0, 1, live=column))
    result = next_step(world, 6 + accepted, table(0, 1, 2, live=column), column)
    assert isinstance(result, Fault) and result.code == code


def test_before_the_landing_a_draft_is_nobodys_token() -> None:
    world = drafted()
    assert world.content(("kv", 1))[1:] == (GARBAGE, GARBAGE, GARBAGE)  # type: ignore[index]
    assert [world.content(("state", slot)) for slot in (1, 2, 3)] == [GARBAGE] * 3


def test_a_rejected_token_that_is_offered_is_a_fault() -> None:
    world = drafted()
    land(world, 1, table(0, 1, live=1))
    offered = Hit(8, hybrid((0, 1), source=1))
    result = world.ask(Open("r2", (*TOKENS, *SAID)), offered)
    assert isinstance(result, Fault) and result.code == "stale-kv"


def test_pages_that_only_drafts_needed_may_be_missing_after_a_rejection() -> None:
    world = drafted()
    land(world, 0, table(0, 1, live=0))
    assert not isinstance(next_step(world, 6, table(0, 1, live=0), 0), Fault)


def test_accepted_drafts_without_a_page_are_a_gap() -> None:
    world = World(SPECULATING)
    world.ask(Open("r1", TOKENS[:3], SAID), Hit(0))
    world.ask(Extend("r1", 3, 2), Grant(3, table(0, live=0, drafts=(1, 2)), initial_state={"state": 0}, draft=2))
    world.ask(Launch(), Launched(1, (zero(0),)))
    land(world, 2, table(0, live=2))
    result = next_step(world, 6, table(0, 1, live=2), 2)
    assert isinstance(result, Fault) and result.code in ("kv-gap", "uninitialized-read")


def test_padding_is_never_accepted_and_never_read() -> None:
    world = drafted(draft=2)
    with pytest.raises(Contradiction, match="2 draft columns"):
        world.ask(Land(1, {"r1": 3}), Landing({"r1": table(0, 1, live=0)}))


def test_more_columns_than_declared_contradict_the_capabilities() -> None:
    world = World(HYBRID)
    world.ask(Open("r1", TOKENS, SAID), Hit(0))
    with pytest.raises(Contradiction, match="the capabilities say 0"):
        world.ask(Extend("r1", 5, 1), Grant(5, table(0, 1, live=0, drafts=(1,)), initial_state={"state": 0}, draft=1))


def test_a_refusal_that_gives_up_a_draft_column_is_torn() -> None:
    world = World(SPECULATING)
    world.ask(Open("r1", TOKENS, SAID), Hit(0))
    world.ask(Extend("r1", 5, 1), Grant(5, table(0, 1, live=0, drafts=(1,)), initial_state={"state": 0}, draft=1))
    refused = Refused("no-page", tables={"r1": table(0, 1, live=0)})
    result = world.ask(Open("r2", TOKENS), refused)
    assert isinstance(result, Fault) and result.code == "torn-refusal"


def test_a_column_that_another_holds_is_granted_twice() -> None:
    world = drafted()
    world.ask(Open("r2", TOKENS), Hit(0))
    result = world.ask(Extend("r2", 5), Grant(5, table(4, 5, live=2), initial_state={"state": 2}))
    assert isinstance(result, Fault) and result.code == "double-grant"


def test_drafts_of_a_closed_request_are_forgotten_at_its_landing() -> None:
    world = drafted()
    world.ask(Close("r1"), Landing({"r1": table(0, 1, live=0, drafts=(1, 2, 3))}))
    world.ask(Land(1, {"r1": 2}), Landing({"r1": {"kv": Pages(), "state": Slots(NULL)}}))
    assert "r1" not in world.state.claims
