"""Marks: what a run really reached. A run without evidence is not a pass.

`MARKS` says what each mark means, `MarkObserver` counts them, and a profile says how many of which are wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from milepost.conformance.generator import ANCHOR
from milepost.conformance.marks_kinds import MARKS_OF_KINDS, KindMarks
from milepost.conformance.outcome import Line
from milepost.conformance.profiles import PROFILES, Minimum, Profile, missing
from milepost.spec.answers import Drained, Evicted, Frozen, Grant, Hit, Launched, Refused, ResetDone
from milepost.spec.capabilities import Capabilities
from milepost.spec.geometry import boundary_grid
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
from milepost.spec.state import Claim, State
from milepost.spec.words import Cell, GroupKind

__all__ = ["MARKS", "PROFILES", "MarkObserver", "Minimum", "Profile", "missing"]

MARKS: dict[str, str] = {
    "hits": "a prompt hit a reusable prefix",
    "deep-hits": "a hit of at least two boundaries",
    "hits-inside-longer-kv": "a hit ended though the KV of the reader's next page was still in memory",
    "cut-to-nothing": "a prompt hit nothing though the KV of its first page was still in memory",
    "hits-after-pressure": "a hit after cells had changed hands between requests",
    "hits-in-flight": "a hit on cells that a step in flight was writing",
    "hits-on-promises": "a hit on cells that a planned step had still to write",
    "off-grid-hits": "a hit that is no multiple of lcm(page, chunk)",
    "partial-page-hits": "a hit that ends inside a page",
    "shared-reads": "a hit on cells that another open request reads too",
    "restores": "the first step of a request ran on the state of its hit",
    "re-granted-cells": "a cell with another request's content was granted",
    "grants-after-abort": "a cell was granted whose writer had been closed in flight",
    "aborts": "a request was closed while its step was in flight",
    "landings-after-aborts": "a step landed after one of its requests had been closed",
    "dropped-plans": "a request was closed or preempted with a planned step that never ran",
    "batched-steps": "a step of several requests",
    "overlapped-steps": "a step was launched while another was in flight",
    "opens-in-flight": "a prompt came while a step was in flight",
    "decode-steps": "a request computed a token that the model had said",
    "anchors": "a request computed the token that opens a tool call",
    "frozen-inside": "a step froze a state strictly inside itself",
    "frozen-at-start": "a step froze the state that it started from",
    "frozen-at-end": "a step froze the state that it ended with",
    "explicit-freezes": "a state was frozen because the caller asked",
    "publishes": "a request published what it had computed",
    "closes-kept": "a request ended and could publish what was left",
    "closes-dropped": "a request ended and asked for nothing to be kept",
    "unaligned-ends": "a request ended off the boundaries",
    "duplicates": "a request computed a page that another open request had computed too",
    "namespaces-separated": "a prompt came whose tokens were in memory under another namespace",
    "contents-separated": "a prompt came whose tokens were in memory with another picture among them",
    "refused-open": "an open was refused",
    "refused-extend": "an extend was refused",
    "refused-freeze": "a freeze was refused",
    "refused-publish": "a publish was refused",
    "refused-then-continued": "a request computed on after one of its extends had been refused",
    "evictions": "cells were given up because the caller asked",
    "resets": "everything published was forgotten",
    "resets-refused": "a reset was refused",
    "reset-with-open-requests": "a reset was done while requests were open",
    "preemptions": "a request lost its cells",
    "reopened-after-preempt": "a preempted request came back",
    "drains-compared": "after a drain the cache was filled and compared with a fresh one",
    **MARKS_OF_KINDS,
}
"""What each mark means."""


class MarkObserver:
    """Counts the marks of one schedule; what a drain expands to is no evidence, its comparison is."""

    def __init__(self, capabilities: Capabilities, anchor: int | None = ANCHOR) -> None:
        self.counts: Counter[str] = Counter()
        self._boundary = boundary_grid(capabilities.page_size, capabilities.chunk_size)
        self._page = capabilities.page_size
        self._recurrent = any(group.kind is GroupKind.RECURRENT for group in capabilities.groups)
        self._anchor = anchor
        self._writers: dict[Cell, str] = {}
        self._aborted: set[str] = set()
        self._refused: set[str] = set()
        self._preempted: set[str] = set()
        self._pressed = False
        self._kinds = KindMarks(capabilities, self._boundary, self._count)
        self._seen: dict[type[Operation], Callable[[State, Line, State], None]] = {
            Open: self._open,
            Extend: self._extend,
            Launch: self._launch,
            Land: self._land,
            Freeze: self._freeze,
            Publish: self._publish,
            Close: self._close,
            Preempt: self._preempt,
            Reset: self._reset,
            Evict: self._evict,
            Drain: self._drain,
        }

    def __call__(self, before: State, line: Line, after: State) -> None:
        """Count what one line reached."""
        if line.part != "drain":
            self._grants(before, line, after)
            self._seen[type(line.operation)](before, line, after)
            self._kinds(before, line, after)
        if isinstance(line.operation, Launch):
            self._writers.update((cell, writer) for cell, (writer, _, _) in after.flights[-1].writes.items())

    def _count(self, mark: str, reached: object = True) -> None:
        if reached:
            self.counts[mark] += 1

    def _grants(self, before: State, line: Line, after: State) -> None:
        """Count cells that were newly granted and still held what another request had written."""
        if not isinstance(line.answer, Hit | Grant | Frozen | Launched):
            return
        for request in {*line.answer.tables, getattr(line.operation, "request", "")}:
            old, new = before.claims.get(request), after.claims.get(request)
            for cell in (new.cells - (old.cells if old else frozenset())) if new else ():
                content, writer = before.contents.get(cell), self._writers.get(cell, request)
                if content is not None and content is not after.contents.get(cell) and writer != request:
                    self._pressed = True
                    self._count("re-granted-cells")
                    self._count("grants-after-abort", writer in self._aborted)

    # One method a verb.

    def _open(self, before: State, line: Line, after: State) -> None:
        operation, answer = line.operation, line.answer
        assert isinstance(operation, Open)
        self._count("opens-in-flight", before.flights)
        if not isinstance(answer, Hit):
            return self._count("refused-open")
        claim = after.claims[operation.request]
        self._count("reopened-after-preempt", operation.request in self._preempted)
        self._preempted.discard(operation.request)
        memory = _digests(before, before.contents)
        self._separated(before, claim, memory)
        next_page = answer.length + self._page
        more = next_page < claim.prompt and claim.stream.digests[next_page] in memory
        if not answer.length:
            return self._count("cut-to-nothing", more)
        self._count("hits-inside-longer-kv", more)
        self._hit(before, answer, claim)
        return None

    def _hit(self, before: State, answer: Hit, claim: Claim) -> None:
        self._count("hits")
        self._count("deep-hits", answer.length >= 2 * self._boundary)
        self._count("off-grid-hits", answer.length % self._boundary)
        self._count("partial-page-hits", answer.length % self._page)
        self._count("hits-after-pressure", self._pressed)
        self._count("hits-on-promises", claim.promised)
        self._count("hits-in-flight", any(not claim.cells.isdisjoint(flight.writes) for flight in before.flights))
        others = (one for one in before.open_claims() if one.request != claim.request)
        self._count("shared-reads", any(not claim.cells.isdisjoint(one.cells) for one in others))

    def _separated(self, before: State, claim: Claim, memory: set[int]) -> None:
        """Look for the same tokens in memory under another namespace, or with another picture among them."""
        page, stream = self._page, claim.stream
        if len(stream.tokens) < page:
            return
        known = (one for _, one in before.streams if one.tokens[:page] == stream.tokens[:page])
        alike = [one for one in known if one.digests[page] in memory]
        self._count("namespaces-separated", any(one.namespace != stream.namespace for one in alike))
        pictured = (one for one in alike if one.namespace == stream.namespace)
        self._count("contents-separated", any(one.identities[:page] != stream.identities[:page] for one in pictured))

    def _extend(self, before: State, line: Line, after: State) -> None:
        if isinstance(line.answer, Refused) and isinstance(line.operation, Extend):
            self._count("refused-extend")
            self._refused.add(line.operation.request)

    def _launch(self, before: State, line: Line, after: State) -> None:
        planned = before.planned()
        self._count("batched-steps", len(planned) > 1)
        self._count("overlapped-steps", before.flights)
        for claim in planned:
            assert claim.planned is not None
            self._step(before, claim, claim.planned)

    def _step(self, before: State, claim: Claim, grant: Grant) -> None:
        start, stop = claim.length, grant.length
        self._count("decode-steps", start >= claim.prompt)
        self._count("restores", self._recurrent and start and start == claim.hit)
        self._count("anchors", self._anchor in claim.stream.tokens[max(start, claim.prompt) : stop])
        self._count("refused-then-continued", claim.request in self._refused)
        self._refused.discard(claim.request)
        for _, _, position in grant.frozen:
            self._count("frozen-at-start" if position == start else
                        "frozen-at-end" if position == stop else "frozen-inside")
        ends = range(start - start % self._page + self._page, stop + 1, self._page)
        if ends and len(before.claims) > 1:
            named = (cell for other in before.claims.values() if other is not claim for cell in other.cells)
            memory = _digests(before, named)
            self._count("duplicates", any(claim.stream.digests[end] in memory for end in ends))

    def _land(self, before: State, line: Line, after: State) -> None:
        flight = before.flights[0]
        claims = (before.claims.get(request) for request in flight.spans)
        self._count("landings-after-aborts", any(claim is None or claim.closed for claim in claims))

    def _freeze(self, before: State, line: Line, after: State) -> None:
        self._count("explicit-freezes" if isinstance(line.answer, Frozen) else "refused-freeze")

    def _publish(self, before: State, line: Line, after: State) -> None:
        self._count("refused-publish" if isinstance(line.answer, Refused) else "publishes")

    def _close(self, before: State, line: Line, after: State) -> None:
        assert isinstance(line.operation, Close)
        self._count("closes-kept" if line.operation.keep else "closes-dropped")
        self._ended(before, line.operation.request)

    def _ended(self, before: State, request: str) -> None:
        claim = before.claims[request]
        self._count("unaligned-ends", claim.length % self._boundary)
        self._count("dropped-plans", claim.planned)
        self._refused.discard(request)
        if before.in_flight(request):
            self._count("aborts")
            self._aborted.add(request)

    def _preempt(self, before: State, line: Line, after: State) -> None:
        assert isinstance(line.operation, Preempt)
        self._count("preemptions")
        self._preempted.add(line.operation.request)
        self._ended(before, line.operation.request)

    def _reset(self, before: State, line: Line, after: State) -> None:
        done = isinstance(line.answer, ResetDone) and line.answer.done
        self._count("resets" if done else "resets-refused")
        self._count("reset-with-open-requests", done and any(before.open_claims()))

    def _evict(self, before: State, line: Line, after: State) -> None:
        self._count("evictions", isinstance(line.answer, Evicted) and (line.answer.cells or not line.answer.listed))

    def _drain(self, before: State, line: Line, after: State) -> None:
        self._count("drains-compared", isinstance(line.answer, Drained) and line.answer.comparable)


def _digests(state: State, cells: Iterable[Cell]) -> set[int]:
    """Return the digests of all page entries in these cells."""
    pages = (state.contents.get(cell) for cell in cells)
    return {digest for page in pages if isinstance(page, tuple) for digest in page if digest is not None}
