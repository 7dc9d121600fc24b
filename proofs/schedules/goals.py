"""What a schedule should reach: each goal a sentence, and a predicate over a move and the scenes around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

from milepost.proofs.schedules.move import Move
from milepost.proofs.schedules.scene import NODES, Scene, Scope, Value


@dataclass(frozen=True, slots=True)
class Passage:
    """One move, the scene before it, and the scene after it with what happened on the way."""

    move: Move
    before: Scene
    after: Scene


@dataclass(frozen=True, slots=True)
class Goal:
    """A name, its meaning, and where a move reaches it.

    `full` where every page is to be taken at that moment, `slots` the fewest with which it is reached in a few moves.
    `scope` where it is searched in another one than requests over so many slots.
    """

    name: str
    meaning: str
    reached: Callable[[Passage], Value]
    full: bool = False
    slots: int = 3
    scope: Scope | None = None


GOALS: dict[str, Goal] = {}
"""All goals by name."""


def goal(
    meaning: str, *verbs: str, full: bool = False, slots: int = 3
) -> Callable[[Callable[[Passage], Value]], Goal]:
    """List a goal that one of these verbs can reach; its name is that of the predicate, in kebab case."""

    def register(reached: Callable[[Passage], Value]) -> Goal:
        def of_verb(passage: Passage) -> Value:
            return reached(passage) if passage.move.verb in verbs else passage.before.false

        one = Goal(reached.__name__.replace("_", "-"), meaning, of_verb, full, slots)
        GOALS[one.name] = one
        return one

    return register


# Donations.


def _some(passage: Passage, event: str) -> Value:
    """Tell where an event happened to some request; events carry its number at their end."""
    return passage.before.any_of([passage.after.happened(f"{event} {one}") for one in passage.before.requests])


@goal("a frozen slot is to be donated, and the entry has a snapshot already",
      "publish", "close", "land")
def donation_finds_the_entry_taken(passage: Passage) -> Value:
    return _some(passage, "frozen finds the entry taken")


@goal("the last live state of a request that ends at a boundary finds the entry taken by another", "close", "land")
def final_state_finds_the_entry_taken(passage: Passage) -> Value:
    after = passage.after
    return after.any_of([after.happened(f"final finds the entry taken {one}")
                         & ~after.happened(f"frozen donated {one}") for one in after.requests])


@goal("a request that ends where it froze donates the copy, and its live state finds the entry taken by that",
      "close", "land")
def own_copy_takes_the_entry(passage: Passage) -> Value:
    after = passage.after
    return after.any_of([after.happened(f"final finds the entry taken {one}")
                         & after.happened(f"frozen donated {one}") for one in after.requests])


@goal("two requests that were closed in flight end with one landing, each with a state for the same entry", "land",
      slots=4)
def closed_twins_donate_at_one_landing(passage: Passage) -> Value:
    after = passage.after
    return after.any_of([after.happened(f"frozen donated {one}") & after.happened(f"frozen finds the entry taken {two}")
                         for one, two in permutations(after.requests, 2)])


@goal("a step of two requests freezes the same boundary of the same prefix twice", "launch", slots=4)
def one_boundary_frozen_twice_in_a_step(passage: Passage) -> Value:
    before = passage.before
    return before.any_of([
        before.of(one, "freezes") & before.of(two, "freezes") & same
        for one, two in permutations(before.requests, 2)
        for same in _same_frozen(before, one, two)
    ])


def _same_frozen(scene: Scene, one: int, two: int) -> list[Value]:
    shallow = scene.of(one, "frozen1") & scene.of(two, "frozen1")
    deep = scene.of(one, "frozen2") & scene.of(two, "frozen2") & ~(scene.of(one, "on_b") ^ scene.of(two, "on_b"))
    return [shallow, deep]


@goal("a step would freeze at a boundary whose entry another request has given a snapshot since the prompt came",
      "run", "plan")
def wanted_freeze_finds_the_entry_taken(passage: Passage) -> Value:
    return passage.after.happened("freeze finds the entry taken")


@goal("a tombstone gets a snapshot again while another request leases its pages", "publish", "close", "land")
def tombstone_refilled_under_a_lease(passage: Passage) -> Value:
    before, after = passage.before, passage.after
    return before.any_of([
        before.facts[f"{node}.tombstone"] & after.facts[f"{node}.snap"]
        & before.leases(one, node) & after.leases(one, node) & ~_donated_by(passage, one)
        for node in NODES for one in before.requests
    ])


def _donated_by(passage: Passage, one: int) -> Value:
    after = passage.after
    return after.happened(f"frozen donated {one}") | after.happened(f"final donated {one}")


@goal("a request that has read through a tombstone from a shallower hit refills it", "publish", "close", "land")
def tombstone_refilled_by_its_reader(passage: Passage) -> Value:
    before = passage.before
    return before.any_of([
        before.at(one, 2, "tombstone") & before.of(one, "lease1") & ~before.of(one, "lease2")
        & _donated_by(passage, one) & passage.after.happened(f"duplicate {one}")
        for one in before.requests
    ])


# Aborts and dropped plans.


@goal("a slot that a request wrote when it was closed in flight is granted to another after the landing",
      "run", "plan", "freeze")
def aborted_slot_is_granted_again(passage: Passage) -> Value:
    return passage.after.happened("granted aborted")


@goal("one of two requests that restore from one snapshot in one step is closed before it lands", "close", slots=4)
def one_of_two_restores_is_aborted(passage: Passage) -> Value:
    before, one = passage.before, passage.move.request
    return before.in_flight(one) & before.any_of([
        before.of(two, "older_flight") & before.of(one, "older_flight") & before.of(two, "open") & both
        for two in before.requests if two != one
        for both in same_source(before, one, two)
    ])


def same_source(scene: Scene, one: int, two: int) -> list[Value]:
    return [scene.reads(one, node) & scene.reads(two, node) for node in NODES]


@goal("a planned step is dropped with its freeze, and the state that it would have started from is donated", "close")
def start_of_a_dropped_plan_is_donated(passage: Passage) -> Value:
    one = passage.move.request
    return passage.before.of(one, "freezes") & passage.after.happened(f"final donated {one}")


@goal("a plan is dropped whose reader protects a snapshot, while another plan of the same step protects it too",
      "close")
def one_of_two_planned_restores_is_dropped(passage: Passage) -> Value:
    before, one = passage.before, passage.move.request
    return before.of(one, "planned") & before.any_of([
        before.of(two, "planned") & both
        for two in before.requests if two != one
        for both in same_source(before, one, two)
    ])


@goal("cells are asked back while a request that was closed in flight still restores from the oldest snapshot",
      "evict states")
def eviction_meets_an_aborted_reader(passage: Passage) -> Value:
    before = passage.before
    return before.any_of([before.of(one, "closing") & before.reads(one, node)
                          for one in before.requests for node in NODES])


@goal("a prompt comes while a request that would donate its deepest state is closed and not yet landed", "open")
def prompt_meets_a_donor_in_flight(passage: Passage) -> Value:
    before, after, one = passage.before, passage.after, passage.move.request
    return before.any_of([
        before.of(two, "closing") & before.of(two, "keep") & before.of(two, "frozen2") & after.of(one, "tail")
        & after.of(one, "deep") & ~(before.of(two, "on_b") ^ after.of(one, "on_b"))
        for two in before.requests if two != one
    ])
