"""Schedules come from choices alone, lean to where bugs are, run anywhere, and never blame a correct cache."""

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.conformance.choosers import Chooser, DrawChooser, SeededChooser, every
from milepost.conformance.generation import SeededSource
from milepost.conformance.generator import choose_configuration, generate, generate_small
from milepost.conformance.generator_prompts import measure
from milepost.conformance.layouts import FIRST, LAYOUTS
from milepost.conformance.profiles import PROFILES
from milepost.reference.cache import make, make_explicit
from milepost.spec.capabilities import Configuration
from milepost.spec.operations import Close, Drain, Extend, Land, Open
from milepost.spec.schedule import Schedule

from .bench import Make, generated, run

SMALL = Configuration(page_size=1, chunk_size=2, pools={"kv": 8, "state": 4}, max_live=2)


def seeded(seed: object, length: int = 40) -> Schedule:
    chooser = SeededChooser(Random(repr(seed)))
    configuration = choose_configuration(chooser)
    return generate(chooser, make(configuration).capabilities, configuration, length)


def test_the_same_choices_give_the_same_schedule() -> None:
    assert [seeded(number) for number in range(20)] == [seeded(number) for number in range(20)]


def test_other_seeds_give_other_schedules() -> None:
    assert len({repr(seeded(number).operations) for number in range(50)}) == 50


def test_a_schedule_has_about_as_many_operations_as_asked_for() -> None:
    for length in (10, 40, 100):
        lengths = [len(seeded(number, length).operations) for number in range(100)]
        assert 0.8 * length <= sum(lengths) / len(lengths) <= 1.4 * length


@pytest.mark.parametrize("cache", [make, make_explicit])
@pytest.mark.parametrize("block", range(4))
def test_the_reference_passes_random_schedules(cache: Make, block: int) -> None:
    for number in range(75 * block, 75 * (block + 1)):
        outcome = run(cache, generated(cache, number))
        assert not outcome.failed, (number, outcome.fault, outcome.broken)


@pytest.mark.parametrize("profile", LAYOUTS)
def test_the_reference_passes_random_schedules_with_the_groups_of_every_profile(profile: str) -> None:
    source = SeededSource(1, 40, (), lambda sizes: make(sizes).capabilities, profile)
    for number in range(60):
        outcome = run(make, source.schedule(number))
        assert not outcome.failed, (number, outcome.fault, outcome.broken)


@pytest.mark.parametrize("profile", LAYOUTS)
def test_a_profile_chooses_the_kinds_of_group_that_it_names(profile: str) -> None:
    for number in range(30):
        configuration = choose_configuration(SeededChooser(Random(number)), (), profile)
        assert {group.kind for group in make(configuration).capabilities.groups} == PROFILES[profile].kinds
        assert {group.kind for group in make(FIRST[profile]).capabilities.groups} == PROFILES[profile].kinds


def test_drafts_of_every_length_stand() -> None:
    source = SeededSource(1, 40, (), lambda sizes: make(sizes).capabilities, "hybrid-window")
    met: Counter[tuple[int, int]] = Counter()
    for number in range(120):
        for line in (outcome := run(make, source.schedule(number))).lines:
            if isinstance(line.operation, Land):
                met.update((outcome.schedule.header.speculates, taken) for taken in line.operation.accepted.values())
    assert {(most, taken) for most in (2, 3) for taken in range(1, most + 1)} <= set(met)


def test_every_subsequence_of_a_schedule_is_a_schedule() -> None:
    for number in range(60):
        schedule, random = generated(make, number), Random(number)
        kept = tuple(one for one in schedule.operations if random.random() < 0.6)
        outcome = run(make, replace(schedule, operations=kept))
        assert not outcome.failed, (number, outcome.fault, outcome.broken)


@st.composite
def drawn(draw: Callable[[st.SearchStrategy[int]], int]) -> Schedule:
    chooser = DrawChooser(draw)
    configuration = choose_configuration(chooser)
    return generate(chooser, make(configuration).capabilities, configuration, 12)


@given(drawn())
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_hypothesis_can_choose(schedule: Schedule) -> None:
    assert not run(make, schedule).failed


def test_every_sequence_of_choices_comes_once() -> None:
    def pair(chooser: Chooser) -> tuple[int, str]:
        return chooser.integer(0, 2), chooser.choose("ab")

    assert list(every(pair, bound=9)) == list(itertools.product(range(3), "ab"))


def test_choices_that_depend_on_others_are_followed() -> None:
    def depth(chooser: Chooser) -> int:
        return chooser.integer(1, 3) if chooser.chance(1, 2) else 0

    assert list(every(depth, bound=9)) == [0, 1, 2, 3]


def test_only_so_many_choices_branch() -> None:
    def bits(chooser: Chooser) -> tuple[int, ...]:
        return tuple(chooser.integer(0, 1) for _ in range(5))

    found = list(every(bits, bound=2))
    assert found == [(0, 0, 0, 0, 0), (0, 1, 0, 0, 0), (1, 0, 0, 0, 0), (1, 1, 0, 0, 0)]


def test_what_has_one_outcome_is_no_choice() -> None:
    def certain(chooser: Chooser) -> tuple[bool, bool, int]:
        return chooser.chance(0, 5), chooser.chance(5, 5), chooser.integer(3, 3)

    assert list(every(certain, bound=9)) == [(False, True, 3)]


def small_schedules(length: int) -> list[Schedule]:
    capabilities = make(SMALL).capabilities
    return list(every(lambda chooser: generate_small(chooser, capabilities, SMALL, length), bound=length))


def test_a_small_scope_is_exhausted() -> None:
    schedules = small_schedules(5)
    assert len({repr(one.operations) for one in schedules}) == len(schedules) > 500
    prompt = (*[ord("a")] * 2, *[ord("b")] * 3)
    verbs = (Open("r1", prompt), Extend("r1", 2), Close("r1", keep=True), Open("r2", prompt), Extend("r2", 2))
    assert sum(one.operations == verbs for one in schedules) == 1


def test_the_reference_passes_a_small_scope() -> None:
    for schedule in small_schedules(5):
        outcome = run(make, schedule)
        assert not outcome.failed, (schedule.operations, outcome.fault, outcome.broken)


def test_what_a_cache_does_not_offer_is_not_asked_for() -> None:
    chooser = SeededChooser(Random(3))
    configuration = choose_configuration(chooser)
    plain = replace(
        make(configuration).capabilities, explicit_freeze=False, explicit_publish=False, evicts=False, resets="never",
        preempts=False, namespaces=(), contents=False, aborts=True, batched_steps=False, drops_planned=(),
    )
    for _ in range(50):
        operations = generate(chooser, plain, configuration, 40).operations
        assert {one.verb for one in operations} <= {"open", "extend", "close", "land", "launch", "drain"}
        opens = [one for one in operations if isinstance(one, Open)]
        assert not any(one.namespace or one.content for one in opens)


def test_prompt_lengths_lean_to_boundaries_and_their_neighbours() -> None:
    near = every_prompt = 0
    for number in range(100):
        schedule = seeded(number)
        sizes = measure(make(schedule.header.configuration).capabilities, schedule.header.configuration)
        for one in schedule.operations:
            if isinstance(one, Open) and sizes.boundary >= 8:
                every_prompt += 1
                near += (len(one.tokens) + 1) % sizes.boundary <= 2
    assert near / every_prompt > 0.5  # three of eight lengths would be 0.375


def test_prompts_come_back_in_whole_and_in_part() -> None:
    same = sharing = count = 0
    for number in range(100):
        seen: list[tuple[int, ...]] = []
        for one in seeded(number).operations:
            if isinstance(one, Open):
                count += 1
                same += one.tokens in seen
                sharing += any(one.tokens[:4] == other[:4] for other in seen)
                seen.append(one.tokens)
    assert same / count > 0.2
    assert sharing / count > 0.5


def test_about_half_of_the_schedules_end_with_a_drain() -> None:
    ends = Counter(isinstance(seeded(number).operations[-1], Drain) for number in range(200))
    assert 70 <= ends[True] <= 130


def test_every_verb_comes_and_every_verb_is_sometimes_left_out() -> None:
    verbs = Counter(verb for number in range(200) for verb in {one.verb for one in seeded(number).operations})
    assert set(verbs) == {
        "open", "extend", "launch", "land", "freeze", "publish", "preempt", "close", "reset", "evict", "drain",
    }
    assert verbs["freeze"] < 195
    assert verbs["open"] == 200


def test_offered_sizes_are_kept_to() -> None:
    offered = (Configuration(16, 64, {"kv": 20, "state": 4}), Configuration(32, 64, {"kv": 20, "state": 4}))
    chosen = [choose_configuration(SeededChooser(Random(number)), offered) for number in range(30)]
    assert {one.page_size for one in chosen} == {16, 32}
    assert all(one in offered for one in chosen)


@pytest.mark.soak
def test_the_reference_passes_ten_thousand_random_schedules() -> None:
    for number in range(10_000):
        outcome = run(make, generated(make, number))
        assert not outcome.failed, (number, outcome.fault, outcome.broken)
