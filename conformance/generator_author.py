"""Writes single operations of a schedule, and remembers what was asked of whom."""

from __future__ import annotations

from collections.abc import Sequence

from milepost.conformance.choosers import Chooser
from milepost.conformance.generator_prompts import (
    LETTERS,
    Library,
    Sizes,
    Sketch,
    boundary_length,
    measure,
)
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.geometry import floor_to
from milepost.spec.operations import (
    Close,
    Drain,
    Evict,
    Extend,
    Freeze,
    Land,
    Launch,
    Open,
    Operation,
    Preempt,
    Publish,
    Reset,
)
from milepost.spec.words import Namespace

FEATURES: tuple[str, ...] = (
    "freeze", "publish", "evict", "reset", "preempt", "abort", "batch", "drop", "decode", "keep", "namespace",
    "content", "squeeze", "drain", "revisit",
)
"""What a swarm mask can switch off for one schedule."""


class Author:
    """The schedule so far, and the requests in it. Everything that it decides, the chooser chooses."""

    def __init__(
        self, chooser: Chooser, capabilities: Capabilities, configuration: Configuration, off: frozenset[str]
    ) -> None:
        self.chooser = chooser
        self.capabilities = capabilities
        self.anchor = configuration.anchor if capabilities.anchor else None
        self.sizes: Sizes = measure(capabilities, configuration)
        self.library = Library(chooser, self.sizes)
        self.off = off | not_offered(capabilities)
        self.namespaces = self._namespaces()
        self.pictures = "content" not in self.off and chooser.chance(1, 3)
        self.crowd = min(capabilities.max_live, chooser.integer(2, 5))
        self.freeze_chance = (1, 6) if capabilities.mid_prefill_freeze else (1, 2)
        self.operations: list[Operation] = []
        self.open: list[Sketch] = []
        self.past: list[Sketch] = []
        self.preempted: list[Sketch] = []
        self._count = 0

    def _namespaces(self) -> list[Namespace]:
        """Choose the namespaces of this schedule: often one alone, else also equal values of different kinds."""
        kinds = self.capabilities.namespaces
        if "namespace" in self.off or not self.chooser.chance(2, 5):
            return [()]
        both = [tuple((kind, "x") for kind in sorted(kinds))] if len(kinds) > 1 else []
        return [(), *(((kind, "x"),) for kind in kinds), *both]

    def allows(self, feature: str) -> bool:
        """Tell whether this cache offers a feature and this schedule uses it."""
        return feature not in self.off

    def write(self, operation: Operation) -> None:
        """Append one operation."""
        self.operations.append(operation)

    # -- requests

    def start(self, prompt: tuple[int, ...], like: Sketch | None = None) -> Sketch:
        """Open a request; a revisit keeps namespace and pictures of what it revisits, most of the time."""
        chooser = self.chooser
        if len(self.open) >= self.crowd and not chooser.chance(1, 8):
            self.close(chooser.choose(self.open), keep=chooser.chance(7, 8))
        content: dict[int, str] = {}
        if like is not None and like.content:
            content = {at: one for at, one in like.content.items() if prompt[at : at + 1] == like.prompt[at : at + 1]}
        elif self.pictures and chooser.chance(2, 3):
            prompt, content = self.library.pictures(prompt)
        if content and chooser.chance(1, 3):
            content = dict.fromkeys(content, chooser.choose(("cat", "dog")))
        same = like is not None and not chooser.chance(1, 3)
        namespace = like.namespace if same and like is not None else chooser.choose(self.namespaces)
        self._count += 1
        sketch = Sketch(f"r{self._count}", prompt, self.samples(), namespace, content)
        self.reopen(sketch)
        return sketch

    def reopen(self, sketch: Sketch) -> None:
        """Open a request that the schedule has already thought up."""
        self.write(Open(sketch.request, sketch.prompt, sketch.samples, sketch.namespace, sketch.content))
        self.open.append(sketch)

    def samples(self) -> tuple[int, ...]:
        """Choose what the model will say: a few tokens, a call of a tool among them."""
        chooser = self.chooser
        if not self.allows("decode"):
            return ()
        said = [chooser.choose(LETTERS) for _ in range(chooser.integer(0, 10 if self.capabilities.speculates else 5))]
        if self.anchor is not None and said and chooser.chance(1, 2):
            said[chooser.integer(0, len(said) - 1)] = self.anchor
        return tuple(said)

    def extend(self, sketch: Sketch, to: int, alone: bool = True) -> None:
        """Ask for tokens up to `to`; unless others are to share the step, one of them makes room first."""
        if alone:
            self.make_way(sketch, to)
        draft = self.chooser.integer(0, self.capabilities.speculates) if self.capabilities.speculates else 0
        self.write(Extend(sketch.request, to, draft))
        sketch.asked = max(sketch.asked, min(to, len(sketch.stream)))
        sketch.in_flight = True
        if draft and alone and self.chooser.chance(1, 3):
            self.land()

    def make_way(self, sketch: Sketch, to: int) -> None:
        """Close another request where not all fit, most of the time: a full pool only refuses."""
        others = [one for one in self.open if one is not sketch and one.asked]
        if others and sum(one.asked for one in others) + to > self.sizes.longest and self.chooser.chance(2, 3):
            self.close(self.chooser.choose(others), keep=self.chooser.chance(7, 8))

    def draft(self, sketch: Sketch, draft: int) -> None:
        """Compute the next token with drafts behind it, and let as many of them stand as the chooser says.

        An earlier step may be in flight and lands first, so that there are two landings.
        """
        self.make_way(sketch, sketch.asked + 1 + draft)
        self.write(Extend(sketch.request, sketch.asked + 1, draft))
        accepted = self.chooser.integer(0, draft)
        self.operations += [Land(None, {sketch.request: accepted})] * 2
        sketch.asked = min(sketch.asked + 1 + accepted, len(sketch.stream))
        sketch.said = min(sketch.asked + 1, len(sketch.stream))
        sketch.in_flight = False

    def next_stop(self, sketch: Sketch) -> int:
        """Choose how far to extend: the whole prompt, a boundary on the way, or a few decoded tokens."""
        prompt, asked = len(sketch.prompt), sketch.asked
        if asked >= prompt:
            return min(asked + self.chooser.integer(1, 3), len(sketch.stream)) if sketch.samples else prompt
        if self.chooser.chance(1, 2):
            return prompt
        return boundary_length(self.chooser, self.sizes, asked + 1, prompt)

    def next_boundary(self, sketch: Sketch) -> int:
        """Return the first boundary that lies behind what was asked."""
        return floor_to(self.sizes.boundary, sketch.asked) + self.sizes.boundary

    def last_boundary(self, sketch: Sketch) -> int:
        """Return the last boundary that a second request with this prompt could resume at, or the first of all."""
        return max(self.sizes.boundary, floor_to(self.sizes.boundary, len(sketch.prompt) - 1))

    def close(self, sketch: Sketch, keep: bool) -> None:
        """End a request."""
        if sketch.in_flight and not self.allows("abort"):
            self.land()
        self.write(Close(sketch.request, keep and self.allows("keep")))
        self._gone(sketch)
        self.past.append(sketch)

    def preempt(self, sketch: Sketch) -> None:
        """Take a request's cells away; it may come back."""
        self.write(Preempt(sketch.request))
        self._gone(sketch)
        self.preempted.append(sketch)

    def _gone(self, sketch: Sketch) -> None:
        self.open = [one for one in self.open if one is not sketch]

    def known(self) -> Sequence[Sketch]:
        """Return every request that a prompt can be built on, newest last."""
        return [*self.past, *self.preempted, *self.open]

    # -- the rest

    def launch(self) -> None:
        """Start what is planned."""
        self.write(Launch())

    def land(self) -> None:
        """Land the oldest step."""
        self.write(Land(None, self._accepted()))
        for sketch in self.open:
            sketch.in_flight = False

    def _accepted(self) -> dict[str, int]:
        most = self.capabilities.speculates
        running = [sketch.request for sketch in self.open if sketch.in_flight] if most else []
        return {request: self.chooser.integer(0, most) for request in running}

    def settle(self, sketch: Sketch, verb: str) -> None:
        """Freeze or publish, where that is offered."""
        if self.allows(verb):
            self.write(Freeze(sketch.request) if verb == "freeze" else Publish(sketch.request))
            sketch.in_flight = False

    def evict(self) -> None:
        """Ask for cells of one group."""
        if self.allows("evict"):
            groups = self.capabilities.independent_evict or tuple(group.name for group in self.capabilities.groups)
            self.write(Evict(self.chooser.choose(groups), self.chooser.integer(1, 3)))

    def reset(self) -> None:
        """Forget what is published."""
        if self.allows("reset"):
            self.write(Reset())

    def drain(self) -> None:
        """Close everything and compare with a fresh cache."""
        if self.allows("drain"):
            self.write(Drain())
            self.past += self.open
            self.open, self.preempted = [], []


def not_offered(capabilities: Capabilities) -> frozenset[str]:
    """Return the features that this cache does not have."""
    offers = {
        "freeze": capabilities.explicit_freeze,
        "publish": capabilities.explicit_publish,
        "evict": capabilities.evicts,
        "reset": capabilities.resets != "never",
        "preempt": capabilities.preempts,
        "abort": capabilities.aborts,
        "batch": capabilities.batched_steps,
        "drop": bool(capabilities.drops_planned),
        "namespace": bool(capabilities.namespaces),
        "content": capabilities.contents,
    }
    return frozenset(feature for feature, offered in offers.items() if not offered)
