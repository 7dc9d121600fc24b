"""Makes a failing schedule small: fewer operations, shorter prompts, plainer tokens, and a name for what is left.

Every subsequence of a schedule is a schedule, so shrinking is deleting lines. All passes repeat until none helps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b

from milepost.conformance.codec import write_operation
from milepost.conformance.shrinker_tokens import more_alike, plainer, renamed, shorter
from milepost.spec.operations import Close, Evict, Extend, Land, Open, Operation
from milepost.spec.schedule import Schedule

Operations = tuple[Operation, ...]
Fails = Callable[[Schedule], bool]


class OutOfTime(Exception):
    """Ends the search with what was found so far."""


class Search:
    """The smallest failing schedule so far, and what has been tried."""

    def __init__(self, schedule: Schedule, fails: Fails, budget_seconds: float) -> None:
        self.best = schedule
        self._fails = fails
        self._deadline = time.monotonic() + budget_seconds
        self._tried = {repr(schedule.operations)}

    @property
    def operations(self) -> Operations:
        """The operations of the smallest failing schedule."""
        return self.best.operations

    def accept(self, operations: Sequence[Operation]) -> bool:
        """Try a candidate and keep it if it fails too; one that was tried before is not run again."""
        candidate = replace(self.best, operations=tuple(operations))
        name = repr(candidate.operations)
        if name in self._tried:
            return False
        if time.monotonic() > self._deadline:
            raise OutOfTime
        self._tried.add(name)
        if not self._fails(candidate):
            return False
        self.best = candidate
        return True

    def sweep(self, candidates: Callable[[Operations], Iterator[Operations]]) -> bool:
        """Try what a pass proposes; after a success it proposes anew, for what is left. Tell whether any helped."""
        helped = False
        while any(self.accept(candidate) for candidate in candidates(self.operations)):
            helped = True
        return helped


def shrink(schedule: Schedule, fails: Fails, budget_seconds: float) -> Schedule:
    """Return a schedule that still fails and from which nothing simple can be taken away."""
    search = Search(schedule, fails, budget_seconds)
    try:
        _delete(search)
        while _one_round(search):
            pass
    except OutOfTime:
        pass
    return search.best


def _one_round(search: Search) -> bool:
    before = repr(search.operations)
    for one_pass in (_without_request, _without_pair, _simpler_operations):
        search.sweep(one_pass)
    _delete(search)
    for one_pass in (shorter, more_alike, plainer, _smaller_numbers, _canonical):
        search.sweep(one_pass)
    return repr(search.operations) != before


def _delete(search: Search) -> None:
    """Delta debugging: take away runs of operations, first long ones, from the end."""
    size = max(1, len(search.operations) // 2)
    while size:
        start = len(search.operations)
        while start > 0:
            start = max(0, start - size)
            search.accept(search.operations[:start] + search.operations[start + size :])
        size //= 2


def _without_request(operations: Operations) -> Iterator[Operations]:
    """All operations of one request at once."""
    for request in dict.fromkeys(_request(operation) for operation in operations):
        if request:
            yield tuple(operation for operation in operations if _request(operation) != request)


def _without_pair(operations: Operations) -> Iterator[Operations]:
    """Two operations that can only go together, such as an eviction and what it made room for."""
    for first in range(len(operations)):
        for second in range(first + 1, min(first + 6, len(operations))):
            yield (*operations[:first], *operations[first + 1 : second], *operations[second + 1 :])


def _simpler_operations(operations: Operations) -> Iterator[Operations]:
    """One operation with a default where it had something special."""
    for index, operation in enumerate(operations):
        for simpler in _simpler(operation):
            yield (*operations[:index], simpler, *operations[index + 1 :])


def _simpler(operation: Operation) -> Iterator[Operation]:
    match operation:
        case Open():
            yield replace(operation, samples=())
            yield replace(operation, namespace=())
            yield replace(operation, content={})
            yield replace(operation, tokens=operation.tokens + operation.samples, samples=())
            yield replace(operation, samples=operation.samples[:-1])
        case Extend(draft=draft) if draft:
            yield replace(operation, draft=0)
        case Close(keep=True):
            yield replace(operation, keep=False)
        case Land():
            yield Land()


def _smaller_numbers(operations: Operations) -> Iterator[Operations]:
    """A shorter extend, or fewer cells to evict."""
    for index, operation in enumerate(operations):
        if isinstance(operation, Extend):
            smaller: Iterator[Operation] = (replace(operation, to=to) for to in _below(operation.to))
        elif isinstance(operation, Evict):
            smaller = (replace(operation, cells=cells) for cells in _below(operation.cells))
        else:
            continue
        for one in smaller:
            yield (*operations[:index], one, *operations[index + 1 :])


def _below(number: int) -> Iterator[int]:
    steps = dict.fromkeys(step for step in (number // 2, number // 4, 8, 4, 2, 1) if step)
    return (number - step for step in steps if number - step >= 1)


def _canonical(operations: Operations) -> Iterator[Operations]:
    """Requests r1, r2, ... in the order in which they come."""
    yield renamed(operations)


def _request(operation: Operation) -> str:
    return getattr(operation, "request", "")


def fingerprint(schedule: Schedule, code: str) -> str:
    """Return a short name of a shrunk schedule and its code: the same for the same story with other names and tokens.

    Page and chunk size belong to the story; pool sizes only say how soon it is told. It is taken from the written form,
    which leaves defaults out, so that a new field changes no fingerprint.
    """
    (operations,) = plainer(renamed(schedule.operations))
    sizes = [schedule.header.page_size, schedule.header.chunk_size]
    story = json.dumps([code, sizes, [write_operation(one) for one in operations]], sort_keys=True)
    return blake2b(story.encode(), digest_size=3).hexdigest()
