"""Schedules from choices: one generator for seeds, for all of a small scope, and for Hypothesis.

It is blind: what a cache answers changes nothing, so a schedule is a pure function of the choices and runs anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from milepost.conformance.choosers import Chooser, DrawChooser, ExhaustiveChooser, SeededChooser, every
from milepost.conformance.generator_actions import ACTIONS
from milepost.conformance.generator_author import FEATURES, Author
from milepost.conformance.generator_modes import MODES
from milepost.conformance.generator_prompts import Sketch, measure
from milepost.conformance.layouts import ANCHOR, LAYOUTS
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.geometry import boundary_grid
from milepost.spec.operations import Operation
from milepost.spec.schedule import Header, Schedule

__all__ = [
    "ANCHOR", "USUAL_LENGTH", "Chooser", "DrawChooser", "ExhaustiveChooser", "SeededChooser", "choose_configuration",
    "every", "generate", "generate_small",
]

USUAL_LENGTH = 40

SPECULATIONS = ("speculate",) * 8
"""What comes to the actions of every mode where a cache speculates."""


def choose_configuration(
    chooser: Chooser, offered: Sequence[Configuration] = (), profile: str = ""
) -> Configuration:
    """Choose one of the offered configurations, or small sizes where a cache takes any.

    The groups that a profile asks for go with them; without a profile, a cache has what it has by itself.
    """
    if offered:
        return chooser.choose(offered)
    if profile in LAYOUTS:
        return LAYOUTS[profile](chooser)
    page, chunk = chooser.choose((4, 4, 2, 1)), chooser.choose((8, 4))
    boundary_pages = boundary_grid(page, chunk) // page
    pages = max(6, boundary_pages * chooser.integer(3, 8) + chooser.integer(-1, 1))
    slots = chooser.integer(3, 8)
    max_live = chooser.integer(2, 6) if chooser.chance(1, 2) else slots  # as many as slots: one that leaked is missed
    return Configuration(page, chunk, {"kv": pages, "state": slots}, max_live, ANCHOR)


def generate(
    chooser: Chooser,
    capabilities: Capabilities,
    configuration: Configuration,
    length: int = USUAL_LENGTH,
    name: str = "generated",
) -> Schedule:
    """Choose a schedule of about `length` operations for a cache with these capabilities."""
    mode_name = chooser.choose(tuple(MODES))
    off = frozenset(feature for feature in FEATURES if chooser.chance(1, 5)) if chooser.chance(1, 2) else frozenset()
    author = Author(chooser, capabilities, configuration, off)
    wanted = chooser.integer(max(1, length // 2), max(1, length * 5 // 4))
    mode = MODES[mode_name]
    while len(author.operations) < wanted:
        if chooser.chance(1, 12):
            mode = MODES[chooser.choose(tuple(MODES))]
        drafts = SPECULATIONS if capabilities.speculates else ()
        ACTIONS[chooser.choose(mode.actions + drafts)](author, mode.prompts)
    if chooser.chance(1, 2):
        author.drain()
    about = f"mode {mode_name}" + (f", without {', '.join(sorted(off))}" if off else "")
    return _schedule(name, about, configuration, author.operations)


def _schedule(name: str, about: str, configuration: Configuration, operations: Sequence[Operation]) -> Schedule:
    header = Header(
        name,
        configuration.page_size,
        configuration.chunk_size,
        dict(configuration.pools),
        about=about,
        anchor=configuration.anchor,
        max_live=configuration.max_live,
        groups=configuration.groups,
        speculates=configuration.speculates,
    )
    return Schedule(header, tuple(operations))


def generate_small(
    chooser: Chooser, capabilities: Capabilities, configuration: Configuration, length: int, name: str = "small"
) -> Schedule:
    """Choose `length` single operations over two prompts that part after the first boundary: a scope to exhaust."""
    boundary = measure(capabilities, configuration).boundary
    simplest = ExhaustiveChooser((), bound=0)
    author = Author(simplest, capabilities, configuration, frozenset({"decode", "namespace", "content"}))
    shared = (ord("a"),) * boundary
    prompts = (shared + (ord("b"),) * (boundary + 1), shared + (ord("c"),) * (boundary + 1))
    for _ in range(length):
        _small_step(chooser, author, prompts, boundary)
    return _schedule(name, "small scope", configuration, author.operations)


def _small_step(chooser: Chooser, author: Author, prompts: Sequence[tuple[int, ...]], boundary: int) -> None:
    """Append one operation that makes sense where the schedule stands."""
    moves: list[tuple[str, Sketch | None]] = []
    if len(author.open) < 2:
        moves += [("open same", None), ("open other", None)]
    for sketch in author.open:
        moves += [(move, sketch) for move in _moves_of(author, sketch)]
    moves += [("evict", None)] if author.allows("evict") and author.past else []
    move, chosen = chooser.choose(moves)
    if chosen is None:
        author.evict() if move == "evict" else author.start(prompts[move == "open other"])
    elif move == "extend":
        author.extend(chosen, chosen.asked + boundary)
    elif move in ("freeze", "publish"):
        author.settle(chosen, move)
    else:
        author.close(chosen, keep=move == "keep")


def _moves_of(author: Author, sketch: Sketch) -> list[str]:
    moves = ["extend"] if sketch.asked < len(sketch.prompt) else []
    moves += [verb for verb in ("freeze", "publish") if sketch.asked and author.allows(verb)]
    return [*moves, "keep", "drop"] if sketch.asked else moves

