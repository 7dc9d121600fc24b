"""Goals of windows and of speculation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

from milepost.proofs.schedules.goals import GOALS, Goal, Passage, goal
from milepost.proofs.schedules.kinds import DEPTHS, KindScope
from milepost.proofs.schedules.scene import Value

SCOPE = KindScope(requests=3)

Predicate = Callable[[Passage], Value]


def of_kinds(meaning: str, *verbs: str) -> Callable[[Predicate], Goal]:
    """List a goal of windows or of speculation."""
    def register(reached: Predicate) -> Goal:
        one = replace(goal(meaning, *verbs)(reached), scope=SCOPE)
        GOALS[one.name] = one
        return one
    return register


# Windows.


def _cut_to_the_first(passage: Passage) -> Value:
    """Tell where a hit ends at the first boundary since the window before the second is gone."""
    before, after, one = passage.before, passage.after, passage.move.request
    return after.of(one, "reads1") & before.facts["full2"] & ~before.facts["window2"]


@of_kinds("a hit takes the last W - 1 tokens of a window, whole pages of it, and the pages before and after are gone",
          "open")
def window_alone_between_tombstones(passage: Passage) -> Value:
    return _cut_to_the_first(passage)


@of_kinds("a hit needs a window from inside a page on, the page before it is gone, and so is the one behind the hit",
          "open")
def window_begins_inside_a_page(passage: Passage) -> Value:
    return _cut_to_the_first(passage)


@of_kinds("a prompt finds full KV beyond two boundaries and at none of them a window", "open")
def nothing_but_the_window_is_missing(passage: Passage) -> Value:
    before, after, one = passage.before, passage.after, passage.move.request
    return before.facts["full2"] & after.of(one, "parts") & ~before.facts["window1"] & ~before.facts["window2"]


@of_kinds("a window is published again where it was gone, between two that are there", "publish", "close")
def tombstone_computed_again_between_windows(passage: Passage) -> Value:
    before, after = passage.before, passage.after
    both = before.facts["window1"] & before.facts["window3"] & ~before.of(passage.move.request, "parts")
    return both & before.facts["full2"] & ~before.facts["window2"] & after.facts["window2"]


@of_kinds("a request leaves a window behind that another one still reads", "land", "publish")
def window_left_behind_under_a_reader(passage: Passage) -> Value:
    before, after = passage.before, passage.after
    return before.any_of([
        after.happened(f"left {depth} {one}") & after.of(two, f"reads{depth}")
        for one, two in permutations(before.requests, 2) for depth in DEPTHS
    ])


# Speculation.


def _settled(passage: Passage, word: str) -> Value:
    """Tell where drafts land of a request that is open."""
    before = passage.before
    here = before.any_of([before.of(one, "flying") & before.of(one, "drafts") & before.of(one, "open")
                          for one in before.requests])
    return here if passage.move.word == word else before.false


@of_kinds("a boundary lies inside the drafts of a step, and none of them stands", "land")
def no_draft_before_a_boundary_stands(passage: Passage) -> Value:
    return _settled(passage, "none")


@of_kinds("a boundary lies inside the drafts of a step, and some stand that end before it", "land")
def drafts_stand_up_to_before_a_boundary(passage: Passage) -> Value:
    return _settled(passage, "below")


@of_kinds("a boundary lies inside the drafts of a step, and those stand that end at it", "land")
def drafts_stand_up_to_a_boundary(passage: Passage) -> Value:
    return _settled(passage, "at")


@of_kinds("a boundary lies inside the drafts of a step, and all of them stand", "land")
def drafts_stand_beyond_a_boundary(passage: Passage) -> Value:
    return _settled(passage, "beyond")


@of_kinds("a request ends with its accepted drafts at a boundary, and the accepted column is donated", "close")
def accepted_column_is_donated(passage: Passage) -> Value:
    return passage.after.happened(f"final donated {passage.move.request}")


@of_kinds("a request is closed while its drafts are in flight, and a boundary lies inside them", "close")
def drafts_in_flight_are_aborted(passage: Passage) -> Value:
    return passage.before.of(passage.move.request, "flying")


@of_kinds("a request is preempted where its accepted drafts end at a boundary, and comes again", "preempt")
def preempted_where_drafts_stood(passage: Passage) -> Value:
    return passage.before.of(passage.move.request, "lands_at")
