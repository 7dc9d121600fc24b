"""A second model that is searched: a full group with a window, and requests that speculate.

One text has three boundaries, far enough apart that the windows before them share no page; `W` goes through all of it,
`V` parts from it behind the second. `D` is a prompt that ends shortly before a boundary and speculates beyond it. At
most one step is in flight, and only who speculates is closed in flight or preempted. Nothing is evicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from milepost.proofs.schedules.move import Move
from milepost.proofs.schedules.scene import Scene, Scope, Value

DEPTHS = (1, 2, 3)
"""The boundaries of the text."""

DEEPEST = {"W": 3, "V": 2, "D": 0}
"""The last boundary of each prompt."""

STOPS = ("1", "2", "3", "end")
"""Where a step can stop: at a boundary, or behind the last one of its prompt."""

ACCEPTED = ("none", "below", "at", "beyond")
"""Which drafts of a step stand: none, those up to before the boundary, up to it, or all and it lies among them."""

OF_REQUEST: tuple[str, ...] = (
    "open", "closing", "keep", "parts", "drafts", "flying", "ran",
    *(f"{fact}{depth}" for fact in ("at", "passed", "reads") for depth in DEPTHS), "end", "lands_at",
)
"""Facts of one request.

`parts` and `drafts` say which prompt it is, `ran` that it has taken a step; `at*` where it stands once landed, and
`passed*` what it has been beyond; `reads*` that it leases the window before a boundary. `lands_at` says that its drafts
stood up to a boundary.
"""


@dataclass(frozen=True, slots=True)
class KindScope(Scope):
    """How many requests may be there at a time; slots do not run short."""

    def shared_facts(self) -> list[str]:
        """Return which pages of the full group are published, and which windows."""
        return [f"{fact}{depth}" for fact in ("full", "window") for depth in DEPTHS]

    def of_request(self) -> tuple[str, ...]:
        """Return the facts of one request."""
        return OF_REQUEST


def moves_of(scope: Scope) -> list[Move]:
    """Return every move of a scope."""
    found = [Move("land"), *(Move("land", 0, word) for word in ACCEPTED)]
    for one in range(scope.requests):
        found += [Move("open", one, prompt) for prompt in DEEPEST]
        found += [Move("run", one, stop) for stop in STOPS]
        found += [Move(verb, one) for verb in ("draft", "publish", "preempt")]
        found += [Move("close", one, word) for word in ("keep", "drop")]
    return found


def carry_out(before: Scene, move: Move) -> tuple[Value, Scene]:
    """Return where a move is possible, and the scene after it."""
    scene = before.copy()
    return MOVES[move.verb](scene, move), scene


def _open(scene: Scene, move: Move) -> Value:
    one = move.request
    allowed = ~(scene.of(one, "open") | scene.of(one, "closing"))
    for other in range(one):
        allowed = allowed & (scene.of(other, "open") | scene.of(other, "closing"))
    scene.set(one, "open", scene.true, allowed)
    scene.set(one, "parts", scene.true if move.word == "V" else scene.false, allowed)
    scene.set(one, "drafts", scene.true if move.word == "D" else scene.false, allowed)
    hit = allowed
    for depth in reversed(DEPTHS[: DEEPEST[move.word]]):
        here = hit & scene.facts[f"full{depth}"] & scene.facts[f"window{depth}"]
        scene.set(one, f"at{depth}", scene.true, here)
        scene.set(one, f"reads{depth}", scene.true, here)
        for passed in range(1, depth):
            scene.set(one, f"passed{passed}", scene.true, here)
        hit = hit & ~here
    return allowed


def _nobody_flies(scene: Scene) -> Value:
    return ~scene.any_of([scene.of(one, "flying") for one in scene.requests])


def _run(scene: Scene, move: Move) -> Value:
    """A step stops at a boundary that was not reached yet, or at the end of the prompt."""
    one = move.request
    deeper = [scene.of(one, f"{fact}{depth}") for fact in ("at", "passed") for depth in DEPTHS
              if move.word != "end" and depth >= int(move.word)]
    allowed = scene.of(one, "open") & ~scene.of(one, "drafts") & ~scene.of(one, "end") & _nobody_flies(scene)
    allowed = allowed & ~scene.any_of(deeper)
    allowed = allowed & ~scene.of(one, "parts") if move.word == "3" else allowed
    for depth in DEPTHS:
        gone = scene.true if move.word == "end" or depth < int(move.word) else scene.false
        gone = gone & ~scene.of(one, "parts") if depth == 3 else gone
        scene.set(one, f"passed{depth}", gone | scene.of(one, f"passed{depth}"), allowed)
        scene.set(one, f"at{depth}", scene.true if move.word == str(depth) else scene.false, allowed)
    scene.set(one, "end", scene.true if move.word == "end" else scene.false, allowed)
    for fact in ("flying", "ran"):
        scene.set(one, fact, scene.true, allowed)
    return allowed


def _draft(scene: Scene, move: Move) -> Value:
    """A step computes a whole prompt and speculates beyond it."""
    one = move.request
    allowed = scene.of(one, "open") & scene.of(one, "drafts") & ~scene.of(one, "ran") & _nobody_flies(scene)
    for fact in ("flying", "ran"):
        scene.set(one, fact, scene.true, allowed)
    return allowed


def _land(scene: Scene, move: Move) -> Value:
    """The step in flight lands; one with drafts says how many of them stood."""
    speculates = scene.any_of([scene.of(one, "flying") & scene.of(one, "drafts") for one in scene.requests])
    allowed = ~_nobody_flies(scene) & (speculates if move.word else ~speculates)
    for one in scene.requests:
        flies = allowed & scene.of(one, "flying")
        _land_one(scene, one, flies)
        scene.set(one, "lands_at", scene.true, flies & scene.of(one, "open")) if move.word == "at" else None
    return allowed


def _land_one(scene: Scene, one: int, when: Value) -> None:
    """A window that lies behind is given up; at the end of a prompt the window before it is still there."""
    scene.set(one, "flying", scene.false, when)
    for depth in DEPTHS:
        keeps = scene.of(one, f"at{depth}") | (scene.of(one, "end") & _last(scene, one, depth))
        left = when & scene.of(one, f"reads{depth}") & ~keeps
        scene.happen(f"left {depth} {one}", left)
        scene.set(one, f"reads{depth}", scene.false, left)
    ends = when & scene.of(one, "closing")
    _finish(scene, one, ends, ends & scene.of(one, "keep"))


def _last(scene: Scene, one: int, depth: int) -> Value:
    """Tell whether a boundary is the last one of a request's prompt."""
    if depth == 1:
        return scene.false
    return scene.of(one, "parts") if depth == 2 else ~scene.of(one, "parts")


def _publish(scene: Scene, move: Move) -> Value:
    one = move.request
    allowed = scene.of(one, "open") & scene.of(one, "ran") & ~scene.of(one, "drafts")
    _land_one(scene, one, scene.of(one, "flying"))
    _publish_landed(scene, one, allowed)
    return allowed


def _publish_landed(scene: Scene, one: int, when: Value) -> None:
    """Publish full pages up to where a request has landed, and the window that it has there."""
    for depth in DEPTHS:
        reached = when & (scene.of(one, f"at{depth}") | scene.of(one, f"passed{depth}"))
        scene.put(f"full{depth}", scene.true, reached)
        has = reached & (scene.of(one, f"at{depth}") | (scene.of(one, "end") & _last(scene, one, depth)))
        scene.put(f"window{depth}", scene.true, has)
        scene.set(one, f"reads{depth}", scene.true, has)


def _finish(scene: Scene, one: int, when: Value, keep: Value) -> None:
    _publish_landed(scene, one, keep & ~scene.of(one, "drafts"))
    scene.happen(f"final donated {one}", keep & scene.of(one, "lands_at"))
    for fact in OF_REQUEST:
        scene.set(one, fact, scene.false, when)


def _close(scene: Scene, move: Move) -> Value:
    return _depart(scene, move.request, scene.true if move.word == "keep" else scene.false)


def _preempt(scene: Scene, move: Move) -> Value:
    """A request that is preempted has landed: before it has, a driver lets it."""
    at_rest = scene.of(move.request, "drafts") & scene.of(move.request, "ran") & ~scene.of(move.request, "flying")
    return _depart(scene, move.request, scene.false) & at_rest


def _depart(scene: Scene, one: int, keep: Value) -> Value:
    drafts, flies = scene.of(one, "drafts"), scene.of(one, "flying")
    allowed = scene.of(one, "open") & (drafts | ~flies)
    waits, ends = allowed & flies, allowed & ~flies
    scene.set(one, "keep", keep, waits)
    scene.set(one, "closing", scene.true, waits)
    scene.set(one, "open", scene.false, waits)
    _finish(scene, one, ends, ends & keep)
    return allowed


MOVES: dict[str, Callable[[Scene, Move], Value]] = {
    "open": _open, "run": _run, "draft": _draft, "land": _land, "publish": _publish, "close": _close,
    "preempt": _preempt,
}
