"""The production cache answers as the reference does, under the kit's generator, on the corpus, and by chance."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from milepost.cli.comparison import Difference
from milepost.cli.lockstep import Lockstep, lockstep
from milepost.cli.lockstep import make as make_shipped
from milepost.conformance.corpus import load_corpus
from milepost.conformance.generation import SeededSource
from milepost.optimized.cache import PrefixCache, make
from milepost.reference.cache import ReferenceCache
from milepost.reference.cache import make as make_reference
from milepost.reference.liberties import LIBERTIES
from milepost.spec.capabilities import Configuration, Group
from milepost.spec.policies import SupersededFirst
from milepost.spec.words import GroupKind

from .lockstep_runs import LENGTH, compare, generated

IN_CI = 100_000
SEEDS = (11, 12, 13, 14)
SOAK_SEEDS = range(1000, 1010)
IN_CI_BY_PROFILE = {"paged": 3_000, "paged-window": 8_000, "hybrid-window": 8_000, "hybrid-compressed": 10_000}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hundred_thousand_operations_without_a_difference(seed: int) -> None:
    pair = lockstep(make, remembers=False)
    compared = compare(pair, generated(pair, seed), IN_CI // len(SEEDS))
    assert compared.told == ""
    assert compared.operations >= IN_CI // len(SEEDS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", SOAK_SEEDS)
def test_a_million_operations_without_a_difference(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    pair = lockstep(make, remembers=False)
    compared = compare(pair, generated(pair, seed), 1_000_000 // len(SOAK_SEEDS))
    with capsys.disabled():
        print(f"\nseed {seed}: {compared.operations} operations of {compared.schedules} schedules compared")
    assert compared.told == ""
    assert compared.operations >= 1_000_000 // len(SOAK_SEEDS)


@pytest.mark.parametrize(("profile", "operations"), IN_CI_BY_PROFILE.items())
def test_no_difference_for_any_set_of_groups(profile: str, operations: int) -> None:
    pair = lockstep(make, remembers=False)
    compared = compare(pair, generated(pair, 15, profile), operations)
    assert compared.told == ""
    assert compared.operations >= operations


@pytest.mark.soak
@pytest.mark.parametrize("seed", SOAK_SEEDS)
@pytest.mark.parametrize("profile", IN_CI_BY_PROFILE)
def test_a_million_operations_over_all_sets_of_groups(
    profile: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    pair, share = lockstep(make, remembers=False), 1_000_000 // len(IN_CI_BY_PROFILE) // len(SOAK_SEEDS)
    compared = compare(pair, generated(pair, seed, profile), share)
    with capsys.disabled():
        print(f"\n{profile}, seed {seed}: {compared.operations} operations of {compared.schedules} schedules compared")
    assert compared.told == ""
    assert compared.operations >= share


@pytest.mark.parametrize(("profile", "operations"), {"": 5_000, "hybrid-compressed": 3_000}.items())
def test_memory_holds_what_the_answers_say(profile: str, operations: int) -> None:
    compared = compare(make_shipped, generated(make_shipped, 21, profile), operations)
    assert compared.told == ""


def test_the_corpus_without_a_difference() -> None:
    schedules = list(load_corpus())
    assert sum(bool(schedule.header.configuration.groups) for schedule in schedules) > 25
    compared = compare(make_shipped, iter(schedules), 1 << 30)
    assert compared.told == ""
    assert compared.schedules == len(schedules) > 100


def test_ratios_of_4_and_128_in_pages_of_128_without_a_difference() -> None:
    pages = ("fine", GroupKind.COMPRESSED, 4), ("coarse", GroupKind.COMPRESSED, 128), ("window", GroupKind.WINDOW, 1)
    sides = [
        Group(name, kind, name, page_size=128, ratio=ratio, window=128 if kind is GroupKind.WINDOW else 0)
        for name, kind, ratio in pages
    ]
    groups = Group("kv", GroupKind.FULL, "kv", page_size=128), *sides, Group("state", GroupKind.RECURRENT, "state")
    sizes = Configuration(
        128, 128, {"kv": 10, "fine": 10, "coarse": 10, "window": 6, "state": 5}, 4, ord("!"), groups, speculates=2
    )
    built: list[PrefixCache] = []

    def make_noted(configuration: Configuration) -> PrefixCache:
        built.append(make(configuration))
        return built[-1]

    pair = lockstep(make_noted)
    source = SeededSource(5, LENGTH, (sizes,), lambda configuration: pair(configuration).capabilities)
    compared = compare(pair, map(source.schedule, count()), 1_500)
    assert compared.told == ""
    assert sum(cache.counts.hit_tokens > 0 for cache in built) > 5


class Superseding(ReferenceCache):
    """The reference with the other policy."""

    eviction_policy = SupersededFirst()


def make_superseding(configuration: Configuration) -> PrefixCache:
    return PrefixCache(configuration, eviction=SupersededFirst(), warns=False)


def test_another_policy_without_a_difference() -> None:
    pair = lockstep(make_superseding, Superseding, remembers=False)
    assert compare(pair, generated(pair, 31), 5_000).told == ""


def test_two_policies_part() -> None:
    pair = lockstep(make_superseding, remembers=False)
    assert "Difference: operation " in compare(pair, generated(pair, 31), 20_000).told


def test_ids_may_differ_as_long_as_they_stand_for_the_same() -> None:
    pair = lockstep(LIBERTIES["id-order"], remembers=False)  # type: ignore[arg-type]
    compared = compare(pair, generated(pair, 41), 5_000)
    assert compared.told == ""


def one_request(pair: Lockstep) -> None:
    pair.open("r1", tuple(range(20)), (), {})
    pair.extend("r1", 20)
    pair.land(pair.launch().step, {}, {"r1": (7,)})
    pair.close("r1", keep=True)


def test_a_free_list_may_have_another_order() -> None:
    cache = make(Configuration())
    cache.pages.free.reverse()
    one_request(Lockstep(make_reference(Configuration()), cache))


@pytest.mark.parametrize(("spoil", "says"), [
    (lambda cache: cache.pages.take(9, "private"), "the cache holds kv 6 (Holding(state='private'"),
    (lambda cache: cache.evict("kv", 1), "the reference holds kv 7 (Holding(state='shared'"),
    (lambda cache: cache.slots.endpoints.reverse(), "inventory of state 6, the cache's state 6: the reference says "),
])
def test_a_difference_names_the_operation_the_field_and_both_values(
    spoil: Callable[[PrefixCache], object], says: str
) -> None:
    cache = make(Configuration())
    pair = Lockstep(make_reference(Configuration()), cache)
    one_request(pair)
    spoil(cache)
    with pytest.raises(Difference) as told:
        one_request(pair)
    assert says in str(told.value)
    assert str(told.value).startswith("operation 6, open r1")


def test_what_one_raises_and_the_other_does_not_is_a_difference() -> None:
    pair = Lockstep(make_reference(Configuration()), make(Configuration()))
    pair.cache.open = lambda *arguments: 1 / 0  # type: ignore[assignment, method-assign]
    with pytest.raises(Difference, match=r"operation 1, open r1: the reference says Hit.*, the cache ZeroDivision"):
        one_request(pair)


def test_what_both_refuse_to_understand_is_raised() -> None:
    pair = Lockstep(make_reference(Configuration()), make(Configuration()))
    with pytest.raises(KeyError):
        pair.close("nobody", keep=False)


def test_caches_of_other_capabilities_are_not_compared() -> None:
    with pytest.raises(Difference, match="capabilities: "):
        Lockstep(make_reference(Configuration()), make(Configuration(8, 8)))
