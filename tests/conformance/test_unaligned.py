"""The section on unaligned state says where requests end and what is seen of their state, and adds up."""

import json
import pickle

from milepost.conformance.unaligned import FATES, UnalignedObserver, UnalignedState
from milepost.reference.cache import make
from milepost.reference.liberties import LIBERTIES
from milepost.reference.mutants import MUTANTS

from .bench import Make, generated, run, write

ENDS_AT_SIX = "open r1 a6\nextend r1 6\nland\nclose r1 keep\n"
ENDS_AT_TWELVE = "open r1 a12\nextend r1 12\nland\nclose r1 keep\n"


def observe(text: str, cache: Make = make) -> UnalignedState:
    schedule = write(text)
    observer = UnalignedObserver(cache(schedule.header.configuration).capabilities)
    run(cache, schedule, [observer])
    return observer.result()


def test_an_end_is_measured_from_zero_and_from_the_resume_point() -> None:
    state = observe(ENDS_AT_TWELVE + "open r2 a8|b3\nextend r2 11\nland\nclose r2 keep")
    assert state.requests == 2
    assert state.ends == {
        ("page", 4, 0): 1, ("page", 4, 3): 1,
        ("chunk", 8, 4): 1, ("chunk", 8, 3): 1,
        ("resumed chunk", 8, 4): 1, ("resumed chunk", 8, 3): 1,
        ("boundary", 8, 4): 1, ("boundary", 8, 3): 1,
    }


def test_a_state_that_no_prompt_asks_for_has_an_unknown_fate() -> None:
    assert observe(ENDS_AT_SIX).fates == {"unknown": 1}


def test_a_state_that_is_passed_over_was_returned() -> None:
    assert observe(ENDS_AT_SIX + "open r2 a9").fates == {"returned": 1}


def test_a_hit_at_the_boundary_below_is_told_from_one_at_the_end() -> None:
    assert observe(ENDS_AT_TWELVE + "open r2 a17").fates == {"floored": 1}
    anywhere = observe(ENDS_AT_TWELVE + "open r2 a17", LIBERTIES["end-anywhere"])
    assert anywhere.fates == {"donated": 1}
    assert anywhere.off_grid_hits == {(8, 4): 1}


def test_the_best_evidence_wins() -> None:
    text = ENDS_AT_TWELVE + "open r2 a17\nevict state 9\nopen r3 a17"
    assert observe(text).fates == {"floored": 1}


def test_a_request_that_computed_nothing_did_not_end_anywhere() -> None:
    assert observe("open r1 a6\nclose r1 keep").requests == 0


def test_an_end_on_a_boundary_has_no_fate_to_tell() -> None:
    assert observe("open r1 a8\nextend r1 8\nland\nclose r1 keep").fates == {}


def test_an_end_that_asks_for_nothing_to_be_kept_has_no_fate_to_tell() -> None:
    assert observe(ENDS_AT_SIX.replace("keep", "drop")).fates == {}


def test_a_step_in_flight_at_the_end_ran_ahead() -> None:
    assert observe(ENDS_AT_SIX.replace("land\n", "")).ran_ahead == 1
    assert observe(ENDS_AT_SIX).ran_ahead == 0


def test_a_drain_ends_nobody() -> None:
    assert observe("open r1 a6\nextend r1 6\ndrain").requests == 0


def test_two_schedules_add_up() -> None:
    one, two = observe(ENDS_AT_SIX), observe(ENDS_AT_TWELVE + "open r2 a17")
    both = one + two
    assert both.requests == 2
    assert both.hits == 1
    assert both.fates == {"unknown": 1, "floored": 1}
    assert UnalignedState() + both == both


def test_it_travels_between_processes_and_into_a_report() -> None:
    state = observe(ENDS_AT_TWELVE + "open r2 a17", LIBERTIES["end-anywhere"])
    assert pickle.loads(pickle.dumps(state)) == state
    section = json.loads(json.dumps(state.to_json()))
    assert all(isinstance(row["what"], str) and isinstance(row["count"], int) for row in section["rows"])
    rows = {row["what"]: row["count"] for row in section["rows"]}
    assert rows["hits off the boundaries"] == rows["hits 4 past a multiple of 8"] == 1
    assert sum(FATES["donated"] in what for what in rows) == 1
    assert len(section["notes"]) == 2


def test_an_engine_that_floors_final_states_shows() -> None:
    cache = MUTANTS["final-state-is-floored"].make
    total = UnalignedState()
    for number in range(40):
        schedule = generated(cache, number)
        observer = UnalignedObserver(cache(schedule.header.configuration).capabilities)
        run(cache, schedule, [observer])
        total = total + observer.result()
    assert total.fates["floored"] > 0
    assert total.fates["donated"] == 0
