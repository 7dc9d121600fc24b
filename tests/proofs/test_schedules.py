"""Each goal of the solver has a schedule in the corpus that reaches it, after as few operations as can be."""

import re
from functools import cache

import pytest

from milepost.cli.goals import replay
from milepost.conformance.corpus import load_corpus
from milepost.conformance.driver import Driver
from milepost.conformance.goal_marks_kinds import GOAL_MARKS
from milepost.proofs.schedules import GOALS, Goal
from milepost.proofs.schedules.bounded import confirm
from milepost.proofs.schedules.finding import REQUESTS, Orders, OutOfReach, schedules_of, search, search_each
from milepost.proofs.schedules.goals import Passage
from milepost.proofs.schedules.lengths import RELATIONS, Sizes
from milepost.proofs.schedules.scene import NODES, Scope, Value
from milepost.proofs.schedules.search import Search
from milepost.reference.cache import make
from milepost.spec.operations import Extend, Land, Open
from milepost.spec.schedule import Schedule

CORPUS = {one.header.id.removeprefix("goal/"): one for one in load_corpus() if one.header.id.startswith("goal/")}
QUICK = 6
"""Operations up to which every scene is searched in a few seconds."""


def least(schedule: Schedule) -> int:
    """Return how many operations the header claims to be the fewest."""
    claimed = re.search(r"none of fewer than (\d+) operations", schedule.header.about)
    assert claimed
    return int(claimed[1])


@cache
def quick_orders() -> Orders:
    return search((goal for goal in GOALS.values() if goal.slots == 3 and least(CORPUS[goal.name]) <= QUICK), 3)


QUICK_GOALS = [name for name, goal in GOALS.items()
               if goal.slots == 3 and name in CORPUS and least(CORPUS[name]) <= QUICK]


def test_there_are_at_least_twenty_four_goals_and_a_schedule_and_a_mark_for_each() -> None:
    assert len(GOALS) >= 24
    assert set(GOALS) == set(CORPUS) == set(GOAL_MARKS)


@pytest.mark.parametrize("name", GOALS)
def test_a_goal_says_what_it_is(name: str) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", name)
    assert len(GOALS[name].meaning.split()) >= 6
    assert not GOALS[name].meaning.endswith(".")


@pytest.mark.parametrize("name", CORPUS)
def test_a_schedule_reaches_its_goal_on_the_reference_with_the_operation_that_it_claims(name: str) -> None:
    assert replay(CORPUS[name])[name] == least(CORPUS[name])


@pytest.mark.parametrize("name", CORPUS)
def test_a_schedule_asks_for_nothing_in_vain(name: str) -> None:
    schedule = CORPUS[name]
    outcome = Driver(make(schedule.header.configuration)).run(schedule)
    assert not outcome.failed
    assert set(outcome.skipped) <= {"nothing is in flight"}


def test_pages_and_chunks_lie_to_each_other_in_every_way() -> None:
    sizes = [(one.header.page_size, one.header.chunk_size) for one in CORPUS.values()]
    for relation in ("coprime", "dividing", "equal"):
        assert sum(RELATIONS[relation](page, chunk) for page, chunk in sizes) >= 8, relation


@pytest.mark.parametrize("name", QUICK_GOALS)
def test_nothing_shorter_is_found(name: str) -> None:
    assert {len(order.moves) for order in quick_orders()[name]} == {least(CORPUS[name])}


@pytest.mark.parametrize("name", ["freeze-at-both-ends-of-a-step", "start-of-a-dropped-plan-is-donated"])
@pytest.mark.parametrize("relation", ["coprime", "dividing", "equal"])
def test_new_schedules_of_other_sizes_reach_the_goal_too(name: str, relation: str) -> None:
    found = schedules_of(GOALS[name], quick_orders()[name], Sizes(relation=relation), count=3)
    assert len({(one.header.page_size, one.header.chunk_size, str(one.operations)) for one in found}) == 3
    for schedule in found:
        assert RELATIONS[relation](schedule.header.page_size, schedule.header.chunk_size)
        assert replay(schedule)[name] == least(CORPUS[name])


def test_every_page_of_a_given_pool_is_taken() -> None:
    goal = GOALS["all-pools-at-their-last-cell"]
    for pages in (7, 12, 30):
        (schedule,) = schedules_of(goal, quick_orders()[goal.name], Sizes(4, 8, pages))
        assert schedule.header.pools["kv"] == pages
        assert replay(schedule)[goal.name] == 4


def test_a_pool_that_is_too_small_has_no_schedule() -> None:
    goal = GOALS["all-pools-at-their-last-cell"]
    with pytest.raises(OutOfReach, match=r"no lengths of prompts reach .* with page 4, chunk 8, a pool of pages of 2"):
        schedules_of(goal, quick_orders()[goal.name], Sizes(4, 8, 2))


# What only fails where something is wrong.


def test_a_mark_is_not_reached_without_the_operation_that_reaches_it() -> None:
    for name in QUICK_GOALS:
        schedule = CORPUS[name]
        if isinstance(schedule.operations[least(schedule) - 1], Land):
            continue  # whatever is in flight lands at the end anyway
        before = Schedule(schedule.header, schedule.operations[: least(schedule) - 1])
        assert name not in replay(before), name


def test_an_unrelated_schedule_reaches_no_mark() -> None:
    header = CORPUS["freeze-at-both-ends-of-a-step"].header
    assert replay(Schedule(header, (Open("r1", (1, 2, 3)), Extend("r1", 3)))) == {}


def never(passage: Passage) -> Value:
    """Tell where a snapshot stands though its pages are gone."""
    return passage.after.any_of([passage.after.facts[f"{node}.snap"] & ~passage.after.facts[f"{node}.page"]
                                 for node in NODES])


def test_neither_search_nor_solver_reaches_what_cannot_be() -> None:
    goal = Goal("snapshot-without-pages", "a snapshot stands though its pages are gone", never)
    assert Search(Scope(3, 3), [goal]).run(QUICK - 1, 10**6) == {}
    assert confirm(goal, Scope(2, 3), 4).within is False


def test_the_solver_confirms_how_short_an_order_can_be() -> None:
    goal = GOALS["freeze-at-both-ends-of-a-step"]
    assert confirm(goal, Scope(2, 3), 4).confirmed
    assert confirm(goal, Scope(2, 3), 3).within is False
    assert confirm(goal, Scope(2, 3), 5).sooner is True


@pytest.mark.parametrize("name", [name for name, goal in GOALS.items() if goal.scope])
def test_the_solver_confirms_how_short_an_order_of_windows_or_drafts_can_be(name: str) -> None:
    goal = GOALS[name]
    assert goal.scope and confirm(goal, goal.scope, least(CORPUS[name])).confirmed


@pytest.mark.soak
def test_the_solver_confirms_every_depth() -> None:
    for name, goal in GOALS.items():
        assert confirm(goal, goal.scope or Scope(REQUESTS, goal.slots), least(CORPUS[name])).confirmed, name


@pytest.mark.soak
def test_nothing_shorter_is_found_for_any_goal() -> None:
    orders = search_each(GOALS.values(), None)
    assert {name: len(found[0].moves) for name, found in orders.items()} == {
        name: least(schedule) for name, schedule in CORPUS.items()
    }
