"""What tends to go wrong, as little stories of several operations each."""

from __future__ import annotations

from collections.abc import Callable

from milepost.conformance.generator_author import Author
from milepost.conformance.generator_prompts import Sketch

Action = Callable[[Author, tuple[str, ...]], None]
"""Writes operations; the names say what prompts are made of, repeated by their weight."""


def new_prompt(author: Author, kinds: tuple[str, ...]) -> Sketch:
    """Open a request whose prompt is of one of these kinds."""
    chooser, library = author.chooser, author.library
    kind = chooser.choose(kinds)
    known = author.known()
    if kind == "system" or not known or not author.allows("revisit"):
        return author.start(library.system())
    if kind == "fresh":
        return author.start(library.fresh(chooser.integer(1, author.sizes.usual)))
    recent = known[-4:] if chooser.chance(1, 2) else known
    past = chooser.choose(recent)
    if kind == "same":
        return author.start(past.prompt, past)
    if kind == "branch":
        return author.start(library.branch(past), past)
    if kind == "edit":
        return author.start(library.edit(past), past)
    return author.start(library.continuation(past), past)


def begin(author: Author, kinds: tuple[str, ...]) -> None:
    """A request comes."""
    new_prompt(author, kinds)


def go_on(author: Author, kinds: tuple[str, ...]) -> None:
    """A request computes."""
    sketch = _any_open(author, kinds)
    author.extend(sketch, author.next_stop(sketch))


def end(author: Author, kinds: tuple[str, ...]) -> None:
    """A request goes; about half of the time its last step has landed."""
    sketch = _any_open(author, kinds)
    if author.chooser.chance(1, 2):
        author.land()
    author.close(sketch, keep=author.chooser.chance(3, 4))


def settle(author: Author, kinds: tuple[str, ...]) -> None:
    """A request reaches a stop, freezes there or publishes, or both."""
    chooser = author.chooser
    sketch = _any_open(author, kinds)
    for _ in range(chooser.integer(0, 2)):
        boundary = author.next_boundary(sketch)
        if boundary > len(sketch.stream):
            break
        author.extend(sketch, boundary)
        if chooser.chance(2, 3):
            author.settle(sketch, "freeze")
    if chooser.chance(1, 3):
        author.extend(sketch, author.next_stop(sketch))
    if chooser.chance(2, 3):
        author.settle(sketch, "publish")


def turn(author: Author, kinds: tuple[str, ...]) -> None:
    """One turn of a conversation, from its prompt to its last word."""
    chooser = author.chooser
    sketch = new_prompt(author, kinds)
    if author.allows("freeze") and chooser.chance(*author.freeze_chance):
        author.extend(sketch, author.last_boundary(sketch))
        author.settle(sketch, "freeze")
    for _ in range(4):
        if sketch.asked >= len(sketch.prompt):
            break
        author.extend(sketch, author.next_stop(sketch))
        if chooser.chance(1, 5):
            author.settle(sketch, "publish")
    if sketch.samples and chooser.chance(2, 3):
        author.extend(sketch, chooser.integer(len(sketch.prompt) + 1, len(sketch.stream)))
    if chooser.chance(1, 8):
        author.settle(sketch, chooser.choose(("freeze", "publish")))
    if chooser.chance(3, 4):
        author.land()
    if chooser.chance(4, 5):
        author.close(sketch, keep=chooser.chance(5, 6))
        if chooser.chance(1, 2):
            author.land()
        if author.allows("revisit") and chooser.chance(1, 3):
            next_turn = author.start(author.library.continuation(sketch), sketch)
            author.extend(next_turn, author.next_stop(next_turn))


def speculate(author: Author, kinds: tuple[str, ...]) -> None:
    """A request decodes with drafts of which some stand, and the next turn of its conversation comes."""
    chooser = author.chooser
    able = [sketch for sketch in author.open if sketch.asked + 1 < len(sketch.stream) and sketch.samples]
    sketch = chooser.choose(able) if able and chooser.chance(3, 4) else new_prompt(author, kinds)
    if sketch.asked < len(sketch.prompt):
        author.extend(sketch, len(sketch.prompt))
    for _ in range(chooser.integer(1, 4)):
        if sketch.asked >= len(sketch.stream):
            break
        author.draft(sketch, chooser.integer(1, max(1, author.capabilities.speculates)))
        if chooser.chance(1, 4):
            author.settle(sketch, chooser.choose(("freeze", "publish")))
    if chooser.chance(2, 3):
        author.close(sketch, keep=chooser.chance(5, 6))
        if author.allows("revisit") and chooser.chance(2, 3):
            again = author.start(author.library.continuation(sketch), sketch)
            author.extend(again, author.next_stop(again))


def batch(author: Author, kinds: tuple[str, ...]) -> None:
    """Several requests in one step; some come and go while it is planned."""
    chooser = author.chooser
    for _ in range(2 - len(author.open)):
        new_prompt(author, kinds)
    planned = [sketch for sketch in author.open if not chooser.chance(1, 6)]
    for sketch in planned:
        author.extend(sketch, author.next_stop(sketch), alone=False)
        if chooser.chance(1, 5):
            other = author.start(sketch.prompt, sketch) if chooser.chance(1, 2) else new_prompt(author, kinds)
            author.extend(other, author.next_stop(other), alone=False)
    if author.allows("drop") and author.open and chooser.chance(1, 5):
        dropped = chooser.choose(author.open)
        if chooser.chance(1, 3) and author.allows("preempt"):
            author.preempt(dropped)
        else:
            author.close(dropped, keep=chooser.chance(1, 2))
    if chooser.chance(1, 8):
        author.evict()
    author.launch()
    if chooser.chance(1, 2):
        in_flight(author, kinds)
    if chooser.chance(1, 2):
        author.land()


def in_flight(author: Author, kinds: tuple[str, ...]) -> None:
    """While a step is in flight its requests are aborted, cells are evicted, and others are granted them."""
    chooser = author.chooser
    if not author.open:
        new_prompt(author, kinds)
    sketch = chooser.choose(author.open)
    author.extend(sketch, author.next_stop(sketch))
    if author.allows("abort") and chooser.chance(1, 2):
        author.close(sketch, keep=chooser.chance(1, 2))
    if chooser.chance(1, 3):
        author.evict()
    if chooser.chance(1, 3):
        author.settle(sketch, "publish")
    if chooser.chance(2, 3):
        other = author.start(sketch.prompt, sketch) if chooser.chance(1, 2) else new_prompt(author, kinds)
        if chooser.chance(3, 4):
            author.extend(other, author.next_stop(other))
    if chooser.chance(1, 2):
        author.land()


def twins(author: Author, kinds: tuple[str, ...]) -> None:
    """Two requests compute the same prefix, each for itself, and a third one comes after them."""
    chooser = author.chooser
    first = new_prompt(author, kinds)
    second = author.start(first.prompt, first)
    order = [first, second, first, second]
    for sketch in order if chooser.chance(1, 2) else order[1::-1]:
        author.extend(sketch, author.next_stop(sketch))
    for sketch in (first, second):
        if chooser.chance(1, 3):
            author.settle(sketch, "publish")
        if sketch in author.open and chooser.chance(2, 3):
            author.close(sketch, keep=chooser.chance(4, 5))
    third = author.start(first.prompt, first)
    author.extend(third, len(third.prompt))


def squeeze(author: Author, kinds: tuple[str, ...]) -> None:
    """Fresh requests take all cells that can be had; then whoever was there reads on, and old prompts come back."""
    if not author.allows("squeeze"):
        return turn(author, kinds)
    chooser, sizes = author.chooser, author.sizes
    readers = list(author.open)
    places = max(1, author.capabilities.max_live - len(readers))
    together = chooser.chance(1, 2)
    length = -(-sizes.longest // places) if together else sizes.longest
    fresh: list[Sketch] = []
    for _ in range(places if together else 2):
        sketch = author.start(author.library.fresh(max(1, length - chooser.integer(0, 2))))
        author.extend(sketch, len(sketch.prompt))
        fresh.append(sketch)
        if not together:
            author.close(sketch, keep=chooser.chance(1, 2))
    for sketch in readers:
        if sketch in author.open and chooser.chance(1, 2):
            author.extend(sketch, author.next_stop(sketch))
    for sketch in fresh:
        if sketch in author.open and chooser.chance(4, 5):
            author.close(sketch, keep=chooser.chance(1, 4))
    _revisit(author)
    return None


def _revisit(author: Author) -> None:
    """An old prompt comes back, perhaps twice: the second time it may hit what the first one computed anew."""
    if not author.past:
        return
    past = author.chooser.choose(author.past[:8])
    for _ in range(author.chooser.integer(1, 2)):
        again = author.start(past.prompt, past)
        author.extend(again, len(again.prompt))
        if author.chooser.chance(2, 3):
            author.land()
            author.close(again, keep=True)


def preempt(author: Author, kinds: tuple[str, ...]) -> None:
    """A request loses its cells; it or an earlier one comes back and goes on."""
    chooser = author.chooser
    if not author.allows("preempt"):
        return go_on(author, kinds)
    sketch = _any_open(author, kinds)
    if chooser.chance(2, 3):
        author.extend(sketch, author.next_stop(sketch))
    author.preempt(sketch)
    if chooser.chance(1, 2):
        go_on(author, kinds)
    if author.preempted and chooser.chance(3, 4):
        back = author.preempted.pop(chooser.integer(0, len(author.preempted) - 1))
        author.reopen(back)
        author.extend(back, len(back.stream))
    return None


def reset(author: Author, kinds: tuple[str, ...]) -> None:
    """Everything published is forgotten; a request of before goes on, ends, and its prompt comes again."""
    author.reset()
    if author.open and author.chooser.chance(2, 3):
        sketch = author.chooser.choose(author.open)
        author.extend(sketch, author.next_stop(sketch))
        if author.chooser.chance(2, 3):
            author.land()
            author.close(sketch, keep=True)
            again = author.start(sketch.prompt, sketch)
            author.extend(again, len(again.prompt))
            return
    _revisit(author)


def evict(author: Author, kinds: tuple[str, ...]) -> None:
    """Cells are asked back; then an old prompt comes again."""
    author.evict()
    if author.chooser.chance(1, 2):
        _revisit(author)


def noise(author: Author, kinds: tuple[str, ...]) -> None:
    """A landing or a launch that nobody expects."""
    author.land() if author.chooser.chance(2, 3) else author.launch()


def drain(author: Author, kinds: tuple[str, ...]) -> None:
    """Everything goes, and the pool must be as large as ever."""
    author.drain()


def _any_open(author: Author, kinds: tuple[str, ...]) -> Sketch:
    return author.chooser.choose(author.open) if author.open else new_prompt(author, kinds)


ACTIONS: dict[str, Action] = {
    "begin": begin, "go_on": go_on, "end": end, "settle": settle, "turn": turn, "batch": batch,
    "in_flight": in_flight, "twins": twins, "squeeze": squeeze, "preempt": preempt, "reset": reset, "evict": evict,
    "noise": noise, "drain": drain, "speculate": speculate,
}
