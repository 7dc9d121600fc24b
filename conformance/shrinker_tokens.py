"""How the tokens of a schedule become fewer and plainer without changing which prompts share which prefixes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from milepost.spec.operations import Extend, Land, Open, Operation

Operations = tuple[Operation, ...]
FIRST_LETTER = ord("a")
FRAMES = (16, 8, 4, 2, 1)
"""How many tokens are cut out at once: pages and chunks first, so that boundaries stay where they are."""


def shorter(operations: Operations) -> Iterator[Operations]:
    """Cut the same positions out of all prompts, and cut the tail off one of them."""
    longest = max((len(one.tokens) for one in operations if isinstance(one, Open)), default=0)
    for frame in FRAMES:
        for start in range(longest - frame, -1, -frame):
            yield tuple(_cut(operation, start, start + frame) for operation in operations)
    for index, operation in enumerate(operations):
        if isinstance(operation, Open):
            for frame in FRAMES:
                if len(operation.tokens) > frame:
                    short = replace(operation, tokens=operation.tokens[:-frame], content={})
                    yield (*operations[:index], short, *operations[index + 1 :])


def _cut(operation: Operation, start: int, stop: int) -> Operation:
    """Take tokens [start, stop) away; a request that is extended beyond them is extended by that much less."""
    gone = stop - start
    if isinstance(operation, Extend) and operation.to > start:
        return replace(operation, to=max(operation.to - gone, start))
    if isinstance(operation, Open) and len(operation.tokens) > start:
        kept = operation.tokens[:start] + operation.tokens[stop:]
        content = {at - gone * (at >= stop): one for at, one in operation.content.items() if not start <= at < stop}
        return replace(operation, tokens=kept or operation.tokens[:1], content=content)
    return operation


def more_alike(operations: Operations) -> Iterator[Operations]:
    """One prompt that agrees with an earlier one for longer than it did."""
    opens = [(index, one) for index, one in enumerate(operations) if isinstance(one, Open)]
    for number, (index, later) in enumerate(opens):
        for _, earlier in opens[:number]:
            tokens = earlier.tokens[: len(later.tokens)] + later.tokens[len(earlier.tokens) :]
            if tokens != later.tokens:
                yield (*operations[:index], replace(later, tokens=tokens), *operations[index + 1 :])


def plainer(operations: Operations) -> Iterator[Operations]:
    """All prompts in as few letters as keep every shared prefix as long as it was: `a`, and `b` where two part."""
    tree: dict[int, Branch] = {}
    written = tuple(
        replace(operation, tokens=tokens[: len(operation.tokens)], samples=tokens[len(operation.tokens) :])
        if isinstance(operation, Open) and (tokens := _plain(tree, operation.tokens + operation.samples)) is not None
        else operation
        for operation in operations
    )
    yield written


class Branch:
    """The continuations of one prefix, numbered in the order in which they were met."""

    __slots__ = ("below", "letter")

    def __init__(self, letter: int) -> None:
        self.letter = letter
        self.below: dict[int, Branch] = {}


def _plain(tree: dict[int, Branch], tokens: tuple[int, ...]) -> tuple[int, ...]:
    letters: list[int] = []
    for token in tokens:
        branch = tree.get(token)
        if branch is None:
            branch = tree[token] = Branch(FIRST_LETTER + len(tree))
        letters.append(branch.letter)
        tree = branch.below
    return tuple(letters)


def renamed(operations: Operations) -> Operations:
    """Call the requests r1, r2, ... in the order in which they come."""
    names: dict[str, str] = {}
    for operation in operations:
        request = getattr(operation, "request", "")
        if request:
            names.setdefault(request, f"r{len(names) + 1}")
    return tuple(_rename(operation, names) for operation in operations)


def _rename(operation: Operation, names: dict[str, str]) -> Operation:
    if isinstance(operation, Land):
        accepted = {names[request]: count for request, count in operation.accepted.items() if request in names}
        return replace(operation, accepted=accepted)
    request = getattr(operation, "request", "")
    changed: Callable[..., Operation] = replace
    return changed(operation, request=names[request]) if request else operation
