"""Marks count what was really reached, and a profile wants only what a cache can show."""

from collections import Counter
from dataclasses import replace

import pytest

from milepost.conformance.layouts import FIRST
from milepost.conformance.marks import MARKS, PROFILES, MarkObserver, Minimum, missing
from milepost.conformance.outcome import Line
from milepost.reference.cache import ReferenceCache, make, make_explicit
from milepost.reference.liberties import LIBERTIES
from milepost.reference.mutants import MUTANTS
from milepost.spec.answers import Grant, Hit, Launched, Pages, Refused
from milepost.spec.capabilities import Configuration
from milepost.spec.operations import Open, Publish
from milepost.spec.payload import make_stream
from milepost.spec.schedule import Header, Schedule
from milepost.spec.state import Claim, initial

from .bench import Make, generated, run, write

TIGHT = Header("tight", pools={"kv": 4, "state": 4})
FINE = Header("fine", page_size=1, chunk_size=2)

NEAR = Header("near", pools=FIRST["hybrid-window"].pools, groups=FIRST["hybrid-window"].groups, speculates=3)
FAR = Header("far", pools=FIRST["hybrid-compressed"].pools, groups=FIRST["hybrid-compressed"].groups)
LOST = "evict window 4\nopen r3 b24\nextend r3 24"
DRAFTS = "open r1 a5 samples=bcdefgh\nextend r1 5 3\nland"

HIT = """
open r1 a9
extend r1 9
close r1 keep
land
open r2 a8|b4
extend r2 12
"""


def count(text: str, make: Make = make, header: Header | None = None) -> Counter[str]:
    schedule = write(text, header)
    observer = MarkObserver(make(schedule.header.configuration).capabilities)
    run(make, schedule, [observer])
    return observer.counts


REACHED: list[tuple[str, str, Make, Header | None]] = [
    ("hits", HIT, make, None),
    ("restores", HIT, make, None),
    ("frozen-inside", HIT, make, None),
    ("unaligned-ends", HIT, make, None),
    ("aborts", HIT, make, None),
    ("landings-after-aborts", HIT, make, None),
    ("closes-kept", HIT, make, None),
    ("hits-inside-longer-kv", "open r1 a17\nextend r1 8\nfreeze r1\nextend r1 15\npublish r1\nopen r2 a17", make, None),
    ("deep-hits", HIT.replace("a9", "a17").replace("r1 9", "r1 17").replace("a8|b4", "a16|b4"), make, None),
    ("cut-to-nothing", HIT.replace("open r2", "evict state 2\nopen r2"), make, None),
    ("evictions", HIT.replace("open r2", "evict state 2\nopen r2"), make, None),
    ("hits-in-flight", HIT.replace("land\n", ""), LIBERTIES["reuse-behind-queue"], None),
    ("off-grid-hits", HIT.replace("a9", "a4").replace("r1 9", "r1 4"), LIBERTIES["end-anywhere"], None),
    ("shared-reads", HIT + "open r3 a8|c4", make, None),
    ("re-granted-cells", "open r1 a4\nextend r1 4\nland\nclose r1 drop\nopen r2 b4\nextend r2 4", make, None),
    ("grants-after-abort", "open r1 a4\nextend r1 4\nclose r1 drop\nland\nopen r2 b4\nextend r2 4", make, None),
    ("hits-after-pressure", "open r0 c4\nextend r0 4\nland\nclose r0 drop\n" + HIT.strip(), make, None),
    ("dropped-plans", "open r1 a4\nopen r2 b4\nextend r1 4\nextend r2 4\nclose r2 drop\nlaunch", make, None),
    ("batched-steps", "open r1 a4\nopen r2 b4\nextend r1 4\nextend r2 4\nlaunch", make, None),
    ("overlapped-steps", "open r1 a4\nopen r2 b4\nextend r1 4\nextend r2 4", make, None),
    ("opens-in-flight", "open r1 a4\nextend r1 4\nopen r2 b4", make, None),
    ("decode-steps", "open r1 a4 samples=aa\nextend r1 4\nextend r1 6", make, None),
    ("anchors", "open r1 a4 samples=a!a\nextend r1 4\nextend r1 6", make, None),
    ("frozen-at-end", "open r1 a9\nextend r1 8", make, None),
    ("explicit-freezes", "open r1 a9\nextend r1 8\nfreeze r1", make_explicit, None),
    ("refused-freeze", "open r1 a9\nextend r1 7\nfreeze r1", make, None),
    ("publishes", "open r1 a9\nextend r1 8\npublish r1", make, None),
    ("closes-dropped", "open r1 a9\nclose r1 drop", make, None),
    ("duplicates", "open r1 a9\nopen r2 a9\nextend r1 9\nextend r2 9", make, None),
    ("namespaces-separated", HIT.replace("a8|b4", "a8|b4 salt=x"), make, None),
    ("contents-separated", HIT.replace("a8|b4", "a8|b4 2=cat"), make, None),
    ("refused-open", "open r1 a99", make, None),
    ("refused-extend", "open r1 a16\nopen r2 b16\nextend r1 16\nextend r2 16", make, TIGHT),
    (
        "refused-then-continued",
        "open r1 a16\nopen r2 b16\nextend r1 16\nextend r2 16\nclose r1 drop\nland\nextend r2 16",
        make,
        TIGHT,
    ),
    ("resets", "reset", make, None),
    ("reset-with-open-requests", "open r1 a4\nreset", make, None),
    ("resets-refused", "open r1 a4\nreset", LIBERTIES["refuses-reset"], None),
    ("preemptions", "open r1 a4\nextend r1 4\npreempt r1", make, None),
    ("reopened-after-preempt", "open r1 a4\nextend r1 4\npreempt r1\nopen r1 a4", make, None),
    ("drains-compared", "open r1 a4\ndrain", make, None),
    ("window-hits", HIT, make, NEAR),
    ("hits-beside-tombstones", HIT.replace("open r2", "evict window 1\nopen r3 b4\nextend r3 4\nopen r2"), make, NEAR),
    ("window-cuts", HIT.replace("open r2", f"{LOST}\nopen r2"), make, NEAR),
    ("slid-out-pages", "open r1 a17\nextend r1 17\nland", make, NEAR),
    ("revived-pages", HIT.replace("open r2", f"{LOST}\nland\nclose r3 drop\nopen r2"), make, NEAR),
    ("compressed-hits", HIT, make, FAR),
    ("drafts-rejected", DRAFTS, make, NEAR),
    ("drafts-accepted-in-part", f"{DRAFTS} r1=1", make, NEAR),
    ("drafts-accepted", f"{DRAFTS} r1=3", make, NEAR),
    ("boundaries-inside-drafts", DRAFTS, make, NEAR),
    ("frozen-at-start", "open r1 a9\nextend r1 4\nextend r1 9", MUTANTS["early-freeze-labelled-late"].make, None),
]
UNSEEN = {"refused-publish", "hits-on-promises", "partial-page-hits"}
"""Marks that only other engines reach: each has a test of its own below."""


@pytest.mark.parametrize(("mark", "text", "cache", "header"), REACHED)
def test_a_mark_is_reached(mark: str, text: str, cache: Make, header: Header | None) -> None:
    assert count(text, cache, header)[mark] >= 1


@pytest.mark.parametrize(("mark", "text", "cache", "header"), [one for one in REACHED if "\n" in one[1].strip()])
def test_a_mark_needs_its_last_operation(mark: str, text: str, cache: Make, header: Header | None) -> None:
    shorter = "\n".join(text.strip().splitlines()[:1])
    assert not count(shorter, cache, header)[mark]


def test_every_mark_has_a_story_or_a_reason() -> None:
    assert {mark for mark, *_ in REACHED} | UNSEEN == set(MARKS)


def test_an_anchor_is_the_configured_token() -> None:
    schedule = write("open r1 a4 samples=a?a\nextend r1 4\nextend r1 6")
    observer = MarkObserver(make(Configuration()).capabilities, anchor=ord("?"))
    run(make, schedule, [observer])
    assert observer.counts["anchors"] == 1


def test_a_hit_on_what_a_planned_step_will_write_is_counted() -> None:
    capabilities = make(Configuration()).capabilities
    observer, before = MarkObserver(capabilities), initial(capabilities)
    operation = Open("r2", tuple(range(9)))
    claim = Claim("r2", make_stream((), 0, operation.tokens), 9, 9, 8, 8, promised=frozenset({("kv", 1)}))
    observer(before, Line(1, operation, Hit(8)), replace(before, claims={"r2": claim}))
    assert observer.counts["hits-on-promises"] == 1


def test_a_hit_that_ends_inside_a_page_is_counted() -> None:
    capabilities = make(Configuration()).capabilities
    kv, state = capabilities.groups
    observer = MarkObserver(replace(capabilities, groups=(replace(kv, page_size=16), state)))
    run(make, write(HIT), [observer])
    assert observer.counts["partial-page-hits"] == 1


class PagesAtLaunch(ReferenceCache):
    """The reference, except that a plan has no page before its step is launched."""

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        answer = super().extend(request, to, draft)
        if isinstance(answer, Grant):
            return replace(answer, table={**answer.table, "kv": Pages()})
        return answer

    def launch(self) -> Launched:
        launched = super().launch()
        tables = {name: claim.table() for name, claim in self.requests.items()}
        return replace(launched, tables={**tables, **launched.tables})


def test_pages_that_are_granted_at_a_launch_count_as_granted_again() -> None:
    story = "open r1 a8\nextend r1 8\nland\nclose r1 drop\nopen r2 b8\nextend r2 8"
    early, late = count(story), count(story, PagesAtLaunch)
    assert late["re-granted-cells"] == early["re-granted-cells"] == 3


def test_a_refused_publish_is_counted() -> None:
    capabilities = make(Configuration()).capabilities
    observer = MarkObserver(capabilities)
    state = initial(capabilities)
    observer(state, Line(1, Publish("r1"), Refused("busy")), state)
    assert observer.counts == {"refused-publish": 1}


def test_what_a_drain_expands_to_is_no_evidence() -> None:
    assert set(count("drain")) == {"drains-compared"}


def campaign(cache: Make, schedules: int) -> tuple[Counter[str], int]:
    marks: Counter[str] = Counter()
    operations = 0
    for number in range(schedules):
        schedule = generated(cache, number)
        observer = MarkObserver(cache(schedule.header.configuration).capabilities)
        operations += len(run(cache, schedule, [observer], checked=False).lines)
        marks += observer.counts
    return marks, operations


@pytest.mark.parametrize("cache", [make, make_explicit])
def test_the_reference_gives_the_evidence_that_profiles_want(cache: Make) -> None:
    marks, operations = campaign(cache, 120)
    capabilities = cache(Configuration()).capabilities
    assert missing(PROFILES["hybrid"], capabilities, marks, operations) == []
    assert missing(PROFILES["paged"], capabilities, marks, operations) == []


def test_a_cache_that_publishes_nothing_gives_too_little_evidence() -> None:
    cache = LIBERTIES["publishes-nothing"]
    marks, operations = campaign(cache, 60)
    capabilities = cache(Configuration()).capabilities
    lacking = {mark for mark, _, _ in missing(PROFILES["hybrid"], capabilities, marks, operations)}
    assert {"hits", "restores"} <= lacking


def test_what_is_wanted_grows_with_a_run_until_it_is_enough() -> None:
    minimum = Minimum("refused-then-continued", 1500, 1)
    assert [minimum.wanted(operations) for operations in (10, 1_500, 30_000, 75_000, 10**7)] == [1, 1, 20, 50, 50]


def test_what_is_not_offered_is_not_wanted() -> None:
    offered = make(Configuration()).capabilities
    plain = replace(
        offered, evicts=False, preempts=False, namespaces=(), resets="never", overlap=0, explicit_freeze=False,
        mid_prefill_freeze=False,
    )
    gone = set(PROFILES["hybrid"].wanted(offered, 10**6)) - set(PROFILES["hybrid"].wanted(plain, 10**6))
    assert {"evictions", "preemptions", "namespaces-separated", "drains-compared", "overlapped-steps"} <= gone


def test_where_every_length_is_a_boundary_no_request_has_to_end_off_one() -> None:
    page, single = (make(replace(FIRST["paged-window"], groups=tuple(
        replace(group, page_size=size) for group in FIRST["paged-window"].groups
    ))).capabilities for size in (4, 1))
    coarse, fine = (PROFILES["paged-window"].wanted(replace(one, chunk_size=1), 10**6) for one in (page, single))
    assert coarse.keys() - fine.keys() == {"unaligned-ends"}


def test_more_operations_want_more_evidence() -> None:
    capabilities = make(Configuration()).capabilities
    short, long = (PROFILES["hybrid"].wanted(capabilities, operations) for operations in (100, 100_000))
    assert short["hits"] == 1 < long["hits"]


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_wants_marks_that_exist(name: str) -> None:
    assert {one.mark for one in PROFILES[name].minimums} <= set(MARKS)
    assert len({one.mark for one in PROFILES[name].minimums}) == len(PROFILES[name].minimums)


def test_an_empty_schedule_reaches_nothing() -> None:
    observer = MarkObserver(make(Configuration()).capabilities)
    run(make, Schedule(Header("empty"), ()), [observer])
    assert not observer.counts
