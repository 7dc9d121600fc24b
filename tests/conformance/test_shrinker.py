"""Shrinking keeps the failure, ends with what nothing can be taken from, and names it the same every time."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from milepost.conformance.shrinker import fingerprint, shrink
from milepost.conformance.shrinker_tokens import plainer, renamed
from milepost.reference.mutants import MUTANTS
from milepost.spec.operations import Extend, Open
from milepost.spec.schedule import Header, Schedule

from .bench import generated, run, without, write

LARGEST = 15
TRIES = 40
SECONDS = 20.0
HANGS = {name for name, mutant in MUTANTS.items() if "hang" in mutant.codes}


def first_failure(mutant: str) -> tuple[Schedule, str] | None:
    cache = MUTANTS[mutant].make
    for number in range(TRIES):
        schedule = generated(cache, number)
        code = run(cache, schedule).code
        if code:
            return schedule, code
    return None


def shrunk(mutant: str, schedule: Schedule, code: str) -> Schedule:
    return shrink(schedule, lambda one: run(MUTANTS[mutant].make, one).code == code, SECONDS)


ONE_OF_A_CLASS = sorted({mutant.fault_class: name for name, mutant in MUTANTS.items() if name not in HANGS}.values())


def failures_that_stay_large(mutants: Iterable[str]) -> Iterator[str]:
    for mutant in mutants:
        if failure := first_failure(mutant):
            schedule, code = failure
            small = shrunk(mutant, schedule, code)
            assert run(MUTANTS[mutant].make, small).code == code
            if len(small.operations) > LARGEST:
                yield f"{mutant}: {len(small.operations)} operations"


def test_a_mutant_of_each_class_is_shrunk_to_a_screen() -> None:
    assert len(ONE_OF_A_CLASS) >= 12
    assert list(failures_that_stay_large(ONE_OF_A_CLASS)) == []


@pytest.mark.soak
def test_every_mutant_is_shrunk_to_a_screen() -> None:
    assert list(failures_that_stay_large(name for name in MUTANTS if name not in HANGS)) == []


LEAST = "hit-counts-attention-only", "freed-while-in-flight", "aborted-hit-keeps-its-lease", "namespace-is-left-out"


@pytest.mark.parametrize("mutant", LEAST)
def test_nothing_can_be_taken_from_what_is_left(mutant: str) -> None:
    failure = first_failure(mutant)
    assert failure
    small = shrunk(mutant, *failure)
    for position in range(len(small.operations)):
        assert run(MUTANTS[mutant].make, without(small, position)).code != failure[1]


@pytest.mark.parametrize("mutant", LEAST)
def test_shrinking_twice_gives_the_same(mutant: str) -> None:
    failure = first_failure(mutant)
    assert failure
    once, twice = (shrunk(mutant, *failure) for _ in range(2))
    assert once == twice
    assert fingerprint(once, failure[1]) == fingerprint(twice, failure[1])
    assert shrunk(mutant, once, failure[1]) == once


def test_what_the_failure_needs_is_all_that_is_left() -> None:
    schedule = write("open r7 xyzxyzxyz samples=pq\nopen r3 k20\nextend r3 5\nextend r7 9\nland\nclose r3 keep\ndrain")

    def fails(candidate: Schedule) -> bool:
        opened = {one.request: one for one in candidate.operations if isinstance(one, Open)}
        extends = [one for one in candidate.operations if isinstance(one, Extend)]
        return any(one.request in opened and one.to >= 3 and len(opened[one.request].tokens) >= 3 for one in extends)

    small = shrink(schedule, fails, SECONDS)
    assert small.operations == write("open r1 aaa\nextend r1 3").operations


def test_shared_prefixes_survive_plainer_tokens() -> None:
    schedule = write("open r1 xxyyzz\nopen r2 xxyq\nopen r3 pp samples=p")
    (plain,) = plainer(schedule.operations)
    assert plain == write("open r1 aaaaaa\nopen r2 aaab\nopen r3 ba samples=a").operations


def test_positions_are_cut_out_of_all_prompts_at_once() -> None:
    schedule = write("open r1 a8|b4\nopen r2 a8|c4\nextend r2 12")

    def fails(candidate: Schedule) -> bool:
        prompts = [one.tokens for one in candidate.operations if isinstance(one, Open)]
        alike = len(prompts) == 2 and prompts[0][:4] == prompts[1][:4] and prompts[0] != prompts[1]
        return alike and min(map(len, prompts)) > 4 and any(isinstance(one, Extend) for one in candidate.operations)

    small = shrink(schedule, fails, SECONDS)
    assert [len(one.tokens) for one in small.operations if isinstance(one, Open)] in ([5, 5], [5, 6], [6, 5])


def test_requests_are_renamed_in_the_order_in_which_they_come() -> None:
    schedule = write("open z aa\nopen k bb\nclose z keep\nclose nobody drop")
    assert renamed(schedule.operations) == write("open r1 aa\nopen r2 bb\nclose r1 keep\nclose r3 drop").operations


def test_without_time_nothing_is_lost() -> None:
    schedule = write("open r1 aa\nextend r1 2\nland")
    assert shrink(schedule, lambda one: True, 0.0) == schedule


def test_nothing_may_be_left() -> None:
    assert shrink(write("open r1 aa\nextend r1 2"), lambda one: True, SECONDS).operations == ()


def test_a_fingerprint_forgets_names_and_letters() -> None:
    one = write("open r1 aab\nopen r2 aac\nextend r2 3")
    other = write("open left ssx\nopen right ssy\nextend right 3", Header("other", pools={"kv": 99, "state": 9}))
    assert fingerprint(one, "leak") == fingerprint(other, "leak")


def test_a_fingerprint_tells_stories_apart() -> None:
    one = write("open r1 aab\nopen r2 aac\nextend r2 3")
    others = [
        write("open r1 aab\nopen r2 abc\nextend r2 3"),
        write("open r1 aab\nopen r2 aac\nextend r2 2"),
        replace(one, header=Header("coarse", page_size=8)),
    ]
    marks = {fingerprint(one, "leak"), fingerprint(one, "crash"), *(fingerprint(other, "leak") for other in others)}
    assert len(marks) == 5


def test_a_fingerprint_never_changes() -> None:
    assert fingerprint(write("open r1 aab\nopen r2 aac\nextend r2 3\nclose r2 keep\ndrain"), "leak") == "bbd3e6"
