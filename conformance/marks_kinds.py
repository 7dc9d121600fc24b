"""Marks of windows, compressed groups and drafts: what a run has to show before it says anything of them."""

from __future__ import annotations

from collections.abc import Callable

from milepost.conformance.outcome import Line
from milepost.spec.answers import Hit, Pages, Table
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.geometry import floor_to
from milepost.spec.operations import Land, Launch, Open
from milepost.spec.payload import Stream
from milepost.spec.resume import first_needed
from milepost.spec.state import Claim, State
from milepost.spec.words import NULL, Cell, GroupKind

MARKS_OF_KINDS: dict[str, str] = {
    "window-hits": "a hit named only the end of a window's path",
    "hits-beside-tombstones": "a window was hit of whose path a page before the needed ones was gone",
    "window-cuts": "a hit was shorter than the full KV in memory, where a window's pages were gone",
    "slid-out-pages": "a running request gave up a page that its window had left behind",
    "revived-pages": "a window's page was computed again that had been lost",
    "compressed-hits": "a hit took entries of a compressed group",
    "drafts-rejected": "of a step's drafts none stood",
    "drafts-accepted-in-part": "of a step's drafts some stood",
    "drafts-accepted": "all drafts of a step stood",
    "boundaries-inside-drafts": "a boundary lay inside the drafts of a step",
}
"""What each mark means."""


class KindMarks:
    """Counts what groups beside a full and a recurrent one reach, and what speculation does; `count` takes the marks.

    Which group a cell belongs to is known from the tables of launched steps: groups may share a pool.
    """

    def __init__(
        self, capabilities: Capabilities, boundary: int, count: Callable[[str, object], None]
    ) -> None:
        groups = capabilities.groups
        self._boundary, self._count = boundary, count
        self._windows = [group for group in groups if group.kind is GroupKind.WINDOW]
        self._full = next((group for group in groups if group.kind is GroupKind.FULL), None)
        self._compressed = any(group.kind is GroupKind.COMPRESSED for group in groups)
        self._group_of: dict[Cell, str] = {}
        self._known: set[tuple[str, int]] = set()

    def __call__(self, before: State, line: Line, after: State) -> None:
        """Count what one line reached."""
        self._slid_out(before, after)
        if isinstance(line.answer, Hit) and isinstance(line.operation, Open):
            self._hit(before, line.answer, after.claims[line.operation.request])
        if isinstance(line.operation, Launch):
            self._launch(before, after)
        if isinstance(line.operation, Land):
            self._land(before, line.operation)

    def _slid_out(self, before: State, after: State) -> None:
        for claim in after.open_claims() if self._windows else ():
            old = before.claims.get(claim.request)
            for group in self._windows if old and old.table is not claim.table else ():
                held = [index for index, cell in enumerate(_columns(old.table, group)) if cell != NULL] if old else []
                now = _columns(claim.table, group)
                for _ in (column for column in held if column < len(now) and now[column] == NULL):
                    self._count("slid-out-pages", True)

    def _hit(self, before: State, answer: Hit, claim: Claim) -> None:
        memory = self._memory(before) if self._windows else set()
        self._count("window-cuts", self._windows and self._cut_by_window(answer.length, claim, memory))
        self._count("compressed-hits", self._compressed and answer.length)
        for group in self._windows if answer.length else ():
            first = first_needed(group.kind, answer.length, group.window) // group.page_size
            self._count("window-hits", first)
            earlier = claim.stream.digests[group.page_size : first * group.page_size + 1 : group.page_size]
            self._count("hits-beside-tombstones", any((group.name, digest) not in memory for digest in earlier))

    def _cut_by_window(self, length: int, claim: Claim, memory: set[tuple[str, int]]) -> bool:
        """Tell whether the full KV in memory goes on to a boundary at which a window is not there."""
        if self._full is None:
            return False
        reached = floor_to(self._boundary, claim.prompt - 1)
        while reached > length and not _present(self._full, 0, reached, claim.stream, memory):
            reached -= self._boundary
        starts = ((group, first_needed(group.kind, reached, group.window)) for group in self._windows)
        whole = all(_present(group, start, reached, claim.stream, memory) for group, start in starts)
        return reached > length and not whole

    def _memory(self, state: State) -> set[tuple[str, int]]:
        """Return (group, digest) of all page entries that are in memory."""
        pages = ((self._group_of.get(cell, ""), content) for cell, content in state.contents.items())
        return {(name, one) for name, content in pages if isinstance(content, tuple) for one in content if one}

    def _launch(self, before: State, after: State) -> None:
        memory = self._memory(before) if self._windows else set()
        for claim in before.planned():
            plan, running = claim.planned, after.claims[claim.request]
            if plan is None:
                continue
            inside = floor_to(self._boundary, plan.length + plan.draft) > plan.length
            self._count("boundaries-inside-drafts", plan.draft and inside)
            for group in self._windows:
                page = group.page_size
                for end in range(floor_to(page, claim.length) + page, plan.length + 1, page):
                    written = group.name, claim.stream.digests[end]
                    self._count("revived-pages", written in self._known and written not in memory)
                    self._known.add(written)
            for name, part in running.table.items():
                if isinstance(part, Pages):
                    pool = after.pools[name]
                    self._group_of |= {(pool, index): name for index in part.columns if index != NULL}

    def _land(self, before: State, operation: Land) -> None:
        flight = next((one for one in before.flights if operation.step in (None, one.step)), None)
        for request, drafts in flight.drafts.items() if flight else ():
            taken = operation.accepted.get(request, 0)
            self._count("drafts-rejected", not taken)
            self._count("drafts-accepted-in-part", 0 < taken < drafts)
            self._count("drafts-accepted", taken == drafts)


def _columns(table: Table, group: Group) -> tuple[int, ...]:
    part = table.get(group.name)
    return part.columns if isinstance(part, Pages) else ()


def _present(group: Group, start: int, stop: int, stream: Stream, memory: set[tuple[str, int]]) -> bool:
    """Tell whether every page of a group that holds entries of [start, stop) is in memory, by its last entry."""
    page = group.page_size
    ends = range(floor_to(page, start) + page, stop + 1, page)
    return all((group.name, stream.digests[end]) in memory for end in ends)
