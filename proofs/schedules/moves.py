"""What can happen to a scene, one move for each operation of a schedule, with what a driver does by itself.

The moves follow the rows of `spec.ownership` and the default policies of `spec.policies`: freeze at the branch point
and at a prompt's last boundary, evict what was used least recently. Room for pages is never short here: how many
there are is settled with the lengths.
"""

from __future__ import annotations

from milepost.proofs.schedules import kinds
from milepost.proofs.schedules.move import Move
from milepost.proofs.schedules.scene import NODES, OF_REQUEST, PAIRS, PROMPTS, Scene, Scope, Value

STOPS: dict[str, tuple[str, ...]] = {"1": ("1",), "2": ("1", "2"), "end": ("1", "2", "end")}
"""Where a step can stop: at the first boundary, the second, or behind the last one; and what is reached by then."""

BETWEEN_PLANS = frozenset({"open", "plan", "close", "evict states", "evict pages", "launch"})
"""Moves that leave a planned step planned; before any other a driver launches it, even if all plans are dropped."""


def moves_of(scope: Scope) -> list[Move]:
    """Return every move of a scope."""
    if isinstance(scope, kinds.KindScope):
        return kinds.moves_of(scope)
    found = [Move(verb) for verb in ("land", "launch", "evict states", "evict pages", "reset")]
    for one in range(scope.requests):
        found += [Move("open", one, prompt) for prompt in PROMPTS]
        found += [Move(verb, one, stop) for verb in ("run", "plan") for stop in STOPS]
        found += [Move("refused", one), Move("freeze", one), Move("publish", one)]
        found += [Move("close", one, word) for word in ("keep", "drop")]
    return found


def carry_out(before: Scene, move: Move) -> tuple[Value, Scene]:
    """Return where a move is possible, and the scene after it."""
    if isinstance(before.scope, kinds.KindScope):
        return kinds.carry_out(before, move)
    scene = before.copy()
    allowed = MOVES[move.verb](scene, move)
    if move.verb not in BETWEEN_PLANS:
        allowed = allowed & ~before.facts["batch"]
        if move.verb != "refused":
            scene.put("alone", scene.true if move.verb == "run" else scene.false, allowed)
    for first, second in PAIRS:  # what is not there has no age: equal states look equal
        both = scene.facts[f"{first}.snap"] & scene.facts[f"{second}.snap"]
        scene.put(f"older.{first}{second}", scene.false, ~both)
    return allowed, scene


def _open(scene: Scene, move: Move) -> Value:
    one = move.request
    taken = [scene.of(other, "open") | scene.of(other, "closing") for other in range(one)]
    allowed = ~(scene.of(one, "open") | scene.of(one, "closing"))
    for other in taken:  # requests are alike: the first that is free comes
        allowed = allowed & other
    scene.set(one, "open", scene.true, allowed)
    for fact, holds in zip(("deep", "on_b", "tail"), PROMPTS[move.word], strict=True):
        scene.set(one, fact, scene.true if holds else scene.false, allowed)
    goes_beyond = move.word in ("A", "B")
    deep = scene.at(one, 2, "page") & scene.at(one, 2, "snap") if goes_beyond else scene.false
    shallow = scene.facts["x.page"] & scene.facts["x.snap"] & ~deep
    if goes_beyond:
        first, second = (scene.at(one, depth, "page") | scene.at(one, depth, "ghost") for depth in (1, 2))
        scene.set(one, "branch", first & ~second & ~shallow & ~deep, allowed)
    for fact in ("len", "landed", "lease"):
        scene.set(one, f"{fact}1", shallow | deep, allowed)
        scene.set(one, f"{fact}2", deep, allowed)
    scene.set(one, "source1", shallow, allowed)
    scene.set(one, "source2", deep, allowed)
    for node in NODES:
        scene.touch(node, allowed & scene.reads(one, node))
    return allowed


def _can_go(scene: Scene, one: int, stop: str) -> Value:
    """Tell where a request can be asked to go to a stop: at rest, and not there yet."""
    at_rest = scene.of(one, "open") & ~scene.of(one, "planned") & ~scene.in_flight(one)
    deep, tail = scene.of(one, "deep"), scene.of(one, "tail")
    if stop == "1":
        return at_rest & ~scene.of(one, "len1")
    if stop == "2":
        return at_rest & deep & ~scene.of(one, "len2")
    return at_rest & tail & ~scene.of(one, "end")


def _plan(scene: Scene, move: Move) -> Value:
    allowed = _grant(scene, move) & ~scene.facts["alone"]
    scene.put("batch", scene.true, allowed)
    return allowed


def _grant(scene: Scene, move: Move) -> Value:
    one = move.request
    allowed = _can_go(scene, one, move.word) & (scene.of(one, "live") | scene.obtainable())
    granted = scene.take_slot(allowed & ~scene.of(one, "live"))
    scene.set(one, "live", scene.true, granted)
    scene.set(one, "planned", scene.true, allowed)
    for reached in STOPS[move.word]:
        # A short prompt has no second boundary to reach.
        value = scene.of(one, "deep") if reached == "2" else scene.true
        scene.set(one, f"to_{reached}" if reached == "end" else f"to{reached}", value, allowed)
    _plan_freeze(scene, one, allowed)
    return allowed


def _plan_freeze(scene: Scene, one: int, when: Value) -> None:
    """Let a planned step freeze at the deepest wanted boundary that it passes, if a slot can be had for that."""
    deep_last = scene.of(one, "deep") & scene.of(one, "tail")
    second = when & deep_last & scene.of(one, "to2") & ~scene.of(one, "len2")
    first = when & ~second & scene.of(one, "to1") & ~scene.of(one, "len1") & (~deep_last | scene.of(one, "branch"))
    for depth, wanted in (("2", second), ("1", first)):
        taken = scene.at(one, int(depth), "snap")
        scene.happen("freeze finds the entry taken", wanted & taken)
        wanted = wanted & ~taken
        scene.happen("superseded", wanted & (scene.of(one, "frozen1") | scene.of(one, "frozen2")))
        scene.set(one, "frozen1", scene.false, wanted)
        scene.set(one, "frozen2", scene.false, wanted)
        granted = scene.take_slot(wanted)
        scene.happen("freeze finds no slot", wanted & ~granted)
        scene.set(one, f"frozen{depth}", scene.true, granted)
        scene.set(one, "freezes", scene.true, granted)


def _refused(scene: Scene, move: Move) -> Value:
    one = move.request
    goes = scene.any_of([_can_go(scene, one, stop) for stop in STOPS])
    return goes & ~scene.of(one, "live") & ~scene.obtainable()


def _run(scene: Scene, move: Move) -> Value:
    allowed = _grant(scene, move)
    _start(scene, allowed)
    return allowed


def _launch(scene: Scene, move: Move) -> Value:
    allowed = scene.facts["batch"]
    _start(scene, scene.any_of([scene.of(one, "planned") for one in scene.requests]))
    scene.put("batch", scene.false, allowed)
    return allowed


def _start(scene: Scene, when: Value) -> None:
    """Launch what is planned; of two steps in flight the older lands first."""
    older, newer = (scene.any_of([scene.of(one, f"{age}_flight") for one in scene.requests])
                    for age in ("older", "newer"))
    _land_oldest(scene, when & older & newer)
    busy = scene.any_of([scene.of(one, "older_flight") for one in scene.requests])
    for one in scene.requests:
        starts = when & scene.of(one, "planned")
        scene.set(one, "older_flight", scene.true, starts & ~busy)
        scene.set(one, "newer_flight", scene.true, starts & busy)
        for reached, goal in (("len1", "to1"), ("len2", "to2"), ("end", "to_end")):
            scene.set(one, reached, scene.of(one, goal) | scene.of(one, reached), starts)
            scene.set(one, goal, scene.false, starts)
        scene.set(one, "planned", scene.false, starts)
        scene.set(one, "freezes", scene.false, starts)


def _land(scene: Scene, move: Move) -> Value:
    allowed = scene.any_of([scene.of(one, "older_flight") for one in scene.requests])
    _land_oldest(scene, allowed)
    return allowed


def _land_oldest(scene: Scene, when: Value) -> None:
    for one in scene.requests:
        lands = when & scene.of(one, "older_flight")
        for landed, reached in (("landed1", "len1"), ("landed2", "len2"), ("landed_end", "end")):
            scene.set(one, landed, scene.of(one, reached), lands)
        _release_source(scene, one, lands)
        scene.set(one, "older_flight", scene.false, lands)
        ends = lands & scene.of(one, "closing")
        _finish(scene, one, ends, ends & scene.of(one, "keep"))
        scene.put("aborted", scene.true, ends & scene.happened(f"returned live {one}"))
    for one in scene.requests:
        moves_up = when & scene.of(one, "newer_flight")
        scene.set(one, "older_flight", scene.true, moves_up)
        scene.set(one, "newer_flight", scene.false, moves_up)


def _release_source(scene: Scene, one: int, when: Value) -> None:
    """End a request's claim on the snapshot that it restores from; the last reader frees a forgotten one."""
    for depth in ("1", "2"):
        for node in ("x",) if depth == "1" else ("a", "b"):
            ends = when & scene.of(one, f"source{depth}") & scene.on(one, node)
            others = [scene.of(other, "stale") & scene.of(other, f"source{depth}") & scene.on(other, node)
                      for other in scene.requests if other != one]
            scene.put(f"{node}.orphan", scene.false, ends & scene.of(one, "stale") & ~scene.any_of(others))
        scene.set(one, f"source{depth}", scene.false, when)


def _settle(scene: Scene, one: int) -> None:
    """Land steps until none of a request is in flight, as a driver does before it freezes or publishes."""
    _land_oldest(scene, scene.of(one, "newer_flight"))
    _land_oldest(scene, scene.of(one, "older_flight"))


def _freeze(scene: Scene, move: Move) -> Value:
    one = move.request
    allowed = scene.of(one, "open") & scene.of(one, "live")
    _settle(scene, one)
    at_second = scene.of(one, "len2") & ~scene.of(one, "end")
    at_first = scene.of(one, "len1") & ~scene.of(one, "len2") & ~scene.of(one, "end")
    has = scene.of(one, "frozen1") | scene.of(one, "frozen2")
    again = (at_second & scene.of(one, "frozen2")) | (at_first & scene.of(one, "frozen1"))
    allowed = allowed & (at_first | at_second) & ~again & (has | scene.obtainable())
    scene.happen("superseded", allowed & has)
    for depth in ("1", "2"):
        scene.set(one, f"frozen{depth}", scene.false, allowed)
    scene.take_slot(allowed)
    scene.set(one, "frozen1", at_first, allowed)
    scene.set(one, "frozen2", at_second, allowed)
    return allowed


def _publish(scene: Scene, move: Move) -> Value:
    one = move.request
    allowed = scene.of(one, "open") & (scene.of(one, "len1") | scene.of(one, "end")) & ~scene.of(one, "stale")
    _settle(scene, one)
    _publish_landed(scene, one, allowed)
    return allowed


def _publish_landed(scene: Scene, one: int, when: Value) -> None:
    """Publish the pages of a request up to where it has landed, and donate its frozen slot."""
    when = when & ~scene.of(one, "stale")
    for depth in (1, 2):
        landed = when & scene.of(one, f"landed{depth}")
        computed = landed & ~scene.of(one, f"lease{depth}")
        scene.happen(f"duplicate {one}", computed & scene.at(one, depth, "page"))
        scene.put_at(one, depth, "page", scene.true, landed)
        scene.put_at(one, depth, "ghost", scene.false, landed)
        scene.set(one, f"lease{depth}", scene.true, landed)
    for depth in (1, 2):
        frozen = when & scene.of(one, f"frozen{depth}") & scene.of(one, f"landed{depth}")
        _donate(scene, one, depth, frozen)
        scene.set(one, f"frozen{depth}", scene.false, frozen)


def _donate(scene: Scene, one: int, depth: int, when: Value, final: bool = False) -> Value:
    """Give a slot to the entry at a depth; return where that was possible."""
    taken = scene.at(one, depth, "snap")
    kind = "final" if final else "frozen"
    scene.happen(f"{kind} finds the entry taken {one}", when & taken)
    given = when & ~taken
    scene.happen(f"{kind} donated {one}", given)
    scene.put_at(one, depth, "snap", scene.true, given)
    scene.put_at(one, depth, "tombstone", scene.false, given)
    for node in NODES if depth == 2 else ("x",):
        if node != "x" or depth == 1:
            scene.touch(node, given & scene.on(one, node))
    return given


def _finish(scene: Scene, one: int, when: Value, keep: Value) -> None:
    """End a request: publish what is left where it is to be kept, and give up the rest."""
    _publish_landed(scene, one, keep)
    restored = ~(scene.of(one, "source1") | scene.of(one, "source2"))
    ended = keep & scene.of(one, "live") & restored & ~scene.of(one, "stale") & ~scene.of(one, "landed_end")
    donated = _donate(scene, one, 2, ended & scene.of(one, "landed2"), final=True)
    donated = donated | _donate(scene, one, 1, ended & scene.of(one, "landed1") & ~scene.of(one, "landed2"), final=True)
    scene.happen(f"returned live {one}", when & scene.of(one, "live") & ~donated)
    _release_source(scene, one, when)
    for fact in OF_REQUEST:
        scene.set(one, fact, scene.false, when)


def _close(scene: Scene, move: Move) -> Value:
    one, keep = move.request, move.word == "keep"
    allowed = scene.of(one, "open")
    dropped = allowed & scene.of(one, "planned")
    for depth in ("1", "2"):
        scene.set(one, f"frozen{depth}", scene.false, dropped & scene.of(one, "freezes"))
    for fact in ("planned", "to1", "to2", "to_end", "freezes"):
        scene.set(one, fact, scene.false, dropped)
    waits = allowed & scene.in_flight(one)
    scene.set(one, "open", scene.false, waits)
    scene.set(one, "closing", scene.true, waits)
    scene.set(one, "keep", scene.true if keep else scene.false, waits)
    ends = allowed & ~waits
    _finish(scene, one, ends, ends if keep else scene.false)
    return allowed


def _evict_states(scene: Scene, move: Move) -> Value:
    allowed = scene.any_of([scene.facts[f"{node}.snap"] for node in NODES])
    victims = {node: scene.victim(node) for node in NODES}
    for node, victim in victims.items():
        scene.evict_snapshot(node, victim)
    return allowed


def _evict_pages(scene: Scene, move: Move) -> Value:
    allowed = scene.any_of([scene.facts[f"{node}.page"] for node in NODES])
    for node in NODES:
        goes = scene.facts[f"{node}.page"] & ~scene.leased(node)
        scene.put(f"{node}.page", scene.false, goes)
        scene.put(f"{node}.ghost", scene.true, goes)
        scene.evict_snapshot(node, goes & scene.facts[f"{node}.snap"])
        scene.put(f"{node}.tombstone", scene.false, goes)
    return allowed


def _reset(scene: Scene, move: Move) -> Value:
    """Forget everything published; not while a request of before an earlier reset is there."""
    allowed = ~scene.any_of([scene.of(one, "stale") for one in scene.requests])
    for node in NODES:
        scene.put(f"{node}.orphan", scene.facts[f"{node}.snap"] & scene.protected(node), allowed)
        for fact in ("page", "snap", "tombstone", "ghost"):
            scene.put(f"{node}.{fact}", scene.false, allowed)
    for one in scene.requests:
        scene.set(one, "stale", scene.of(one, "open") | scene.of(one, "closing"), allowed)
    return allowed


MOVES = {
    "open": _open, "run": _run, "plan": _plan, "refused": _refused, "launch": _launch, "land": _land,
    "freeze": _freeze, "publish": _publish, "close": _close, "evict states": _evict_states,
    "evict pages": _evict_pages, "reset": _reset,
}
