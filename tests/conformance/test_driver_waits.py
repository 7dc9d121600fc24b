"""An engine that schedules only with an earlier step's results: it refuses, gets them, and is asked again."""

from __future__ import annotations

from collections.abc import Mapping

from milepost.spec.answers import Grant, Landing, Refused
from milepost.spec.operations import Extend, Open

from .endless import MORE, TEXT, Endless, drive


class Waiting(Endless):
    """Plans nothing while two steps are in flight."""

    unlanded = 0

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        if self.unlanded > 1:
            self.note("wait", request)
            return Refused("in-flight")
        self.unlanded += 1
        return super().extend(request, to, draft)

    def land(self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]) -> Landing:
        self.unlanded -= 1
        return super().land(step, accepted, sampled)


class Stubborn(Waiting):
    """Waits whatever has landed."""

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        self.note("wait", request)
        return Refused("in-flight")


def test_a_refusal_for_results_in_flight_lands_them_and_asks_again() -> None:
    cache = Waiting()
    drive(cache, [Open("r1", TEXT, MORE), *(Extend("r1", to) for to in (2, 4, 6, 8))])
    assert cache.calls == ["open r1 8", "extend r1 2", "launch r1", "extend r1 4", "launch r1", "wait r1", "land 1",
                           "extend r1 6", "launch r1", "land 2", "extend r1 8", "launch r1", "land 3", "land 4"]


def test_a_refusal_with_nothing_to_wait_for_is_a_refusal() -> None:
    cache = Stubborn()
    drive(cache, [Open("r1", TEXT, MORE), Extend("r1", 2)])
    assert cache.calls == ["open r1 8", "wait r1"]
