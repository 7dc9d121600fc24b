"""The judge takes exactly those hits that a naive reading of the resume rule takes, for any set of groups."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.spec.answers import Pages, Slots, Table
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.state import State
from milepost.spec.words import NULL, GroupKind

from .world import World, legal

LENGTH = 16
DONOR = "abcdefghijklmnop"


@dataclass(frozen=True)
class Case:
    """A set of groups, what is left of a donor of 16 tokens in each, and a hit that is offered for it."""

    groups: tuple[Group, ...]
    kept: dict[str, tuple[bool, ...]]
    snapshots: tuple[int, ...]
    shared: int
    prompt: int
    hit: int
    state: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = draw(st.lists(st.sampled_from(list(GroupKind)), min_size=1, max_size=4))
    groups = tuple(draw(group(f"g{number}", kind)) for number, kind in enumerate(kinds))
    kept = {
        one.name: tuple(draw(st.booleans()) or draw(st.booleans()) for _ in range(LENGTH // one.page_size))
        for one in groups
    }
    snapshots = draw(st.lists(st.integers(1, LENGTH), unique=True, max_size=5).map(sorted))
    shared = draw(st.integers(0, LENGTH))
    prompt = draw(st.integers(max(1, shared), LENGTH + 3))
    hit = draw(st.integers(1, LENGTH))
    state = draw(st.sampled_from([0, hit, *snapshots]))
    return Case(groups, kept, tuple(snapshots), shared, prompt, hit, state)


@st.composite
def group(draw: st.DrawFn, name: str, kind: GroupKind) -> Group:
    page = draw(st.sampled_from([1, 2, 4, 8]))
    ratio = draw(st.sampled_from([1, 2, 4])) if kind is GroupKind.COMPRESSED else 1
    # A window of one token reads nothing of the past: there is no content that could contradict a hit.
    return Group(name, kind, name, page_size=max(page, ratio), window=draw(st.integers(2, 10)), ratio=ratio)


def resumes(case: Case) -> bool:
    """The resume rule, word for word: what every group has at n, token by token."""
    n = case.hit
    return n <= min(case.shared, case.prompt - 1) and all(has(one, case) for one in case.groups)


def has(one: Group, case: Case) -> bool:
    n = case.hit
    if one.kind is GroupKind.RECURRENT:
        return case.state == n and n in case.snapshots
    if one.kind is GroupKind.COMPRESSED and n % one.ratio != 0:
        return False
    needed = range(max(0, n - one.window + 1) if one.kind is GroupKind.WINDOW else 0, n)
    return all(case.kept[one.name][token // one.page_size] for token in needed)


def world_of(case: Case) -> World:
    """A donor has computed all 16 tokens in one step that froze at every snapshot, and is closed."""
    pools = {one.name: 64 for one in case.groups}
    world = World(Capabilities("acme", "1", case.groups, pools, mid_prefill_freeze=True))
    legal(world.open("donor", DONOR + "."))
    recurrent = [one.name for one in case.groups if one.kind is GroupKind.RECURRENT]
    frozen = tuple((position, position) for position in case.snapshots)
    table: Table = {
        one.name: Slots(0, frozen) if one.name in recurrent else Pages(tuple(range(LENGTH // one.page_size)))
        for one in case.groups
    }
    rows = tuple((name, position, position) for name in recurrent for position in case.snapshots)
    legal(world.plan("donor", LENGTH, table, rows, dict.fromkeys(recurrent)))
    legal(world.launch())
    legal(world.land())
    legal(world.close("donor"))
    return world


@settings(max_examples=400, deadline=None)
@given(cases())
def test_exactly_the_hits_of_the_resume_rule_are_legal(case: Case) -> None:
    world = world_of(case)
    text = DONOR[: case.shared] + "." * (case.prompt - case.shared)
    table: Table = {}
    for one in case.groups:
        columns = -(-case.hit // one.page_size)
        named = (column if case.kept[one.name][column] else NULL for column in range(columns))
        slot = case.state if case.state in case.snapshots else NULL
        table[one.name] = Slots(source=slot) if one.kind is GroupKind.RECURRENT else Pages(tuple(named))
    result = world.open("reader", text, case.hit, table)
    assert isinstance(result, State) == resumes(case), result
