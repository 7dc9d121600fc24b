"""Recordings of engines that keep a row of token locations for each request, and states in slots: SGLang, FreeToken.

What an engine does is noted when it happens, and written a step later, in the same order: its tables may lie in the
memory of a device, and nothing here may wait for one. A method whose name begins with `_write` runs then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from milepost_record.held import Held, values
from milepost_record.settings import Settings
from milepost_record.trace import NULL, Trace, text_of

KV, STATE = "kv", "state"
ATTRIBUTE = "_milepost_recording"

Ints = Held | Sequence[int]


class Claim:
    """A request that holds cells.

    Noted: its `length`, the `told` tokens that are known of it, and those of them that were `heard` and are not written
    yet. Written: its `pages`, its `live` slot, the
    slots that hold its `frozen` states by position, and the `source` that it is restored from. It has no `name` in
    the trace where it is outside of the sample or was open before the recorder came.
    """

    __slots__ = ("frozen", "heard", "length", "live", "name", "pages", "source", "told")

    def __init__(self, name: str, length: int, told: int) -> None:
        self.name, self.length, self.told = name, length, told
        self.pages: list[int] = []
        self.live = self.source = NULL
        self.frozen: dict[int, int] = {}
        self.heard: list[int] = []

    def slots(self) -> str:
        """Return the state group's part of the table as JSON."""
        members = [f'"live":{self.live}'] if self.live != NULL else []
        if self.frozen:
            pairs = ",".join(f'"{position}":{slot}' for position, slot in sorted(self.frozen.items()))
            members.append(f'"frozen":{{{pairs}}}')
        if self.source != NULL:
            members.append(f'"source":{self.source}')
        return f"{{{','.join(members)}}}"

    def freeze(self, slot: int, position: int) -> None:
        """Put a state into a slot; what the slot held before is gone."""
        self.frozen = {place: other for place, other in self.frozen.items() if other != slot}
        self.frozen[position] = slot


class Tracked:
    """What a step freezes: for some of its requests, by their place in `slots`, the position of the state."""

    def __init__(self, slots: Ints, positions: dict[int, int]) -> None:
        self.places, self._slots = positions, slots

    def look(self, place: int) -> tuple[int, int]:
        """Return the slot and the position of one of `places`."""
        return values(self._slots)[place], self.places[place]


class Phases:
    """Copies and zeroings of state slots since they were last taken."""

    def __init__(self) -> None:
        self._moves: list[tuple[Ints, Ints | None]] = []

    def copy(self, sources: Ints, targets: Ints) -> None:
        """Note a copy of slots."""
        self._moves.append((sources, targets))

    def zero(self, slots: Ints) -> None:
        """Note that slots were zeroed."""
        self._moves.append((slots, None))

    def take(self) -> list[tuple[Ints, Ints | None]]:
        """Return what was noted, and begin anew."""
        moves, self._moves = self._moves, []
        return moves


def _phases(moves: Iterable[tuple[Ints, Ints | None]]) -> list[dict[str, Any]]:
    phases: list[dict[str, Any]] = []
    for cells, targets in moves:
        if targets is None:
            phases.append({"zeros": [(STATE, slot) for slot in values(cells)]})
        else:
            pairs = zip(values(cells), values(targets), strict=True)
            phases.append({"copies": [(STATE, source, target) for source, target in pairs]})
    return phases


class RowRecording:
    """The recording of one cache; `states` tells whether it has a state group beside its pages."""

    def __init__(
        self, settings: Settings, engine: str, header: dict[str, Any], partial: list[str], page: int, states: bool
    ) -> None:
        self.page, self.states = page, states
        self.claims: dict[Any, Claim] = {}
        self.phases = Phases()
        self.trace = Trace(settings, engine, header, partial)
        self.trace.before_end = lambda: self._write_up_to(len(self._waiting))
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._flights: deque[int] = deque()
        self._launched = self._written = 0
        self._opened: set[Claim] = set()
        self._sampling = settings.sample

    @property
    def on(self) -> bool:
        """True while the trace is written."""
        return self.trace.on

    def fail(self, error: BaseException) -> None:
        """Switch the recording off."""
        self.claims = {}
        self._waiting.clear()
        self.trace.fail(error)

    # -- what engines note

    def later(self, write: Callable[..., None], *arguments: Any) -> None:
        """Have something written when its turn comes."""
        self._waiting.append((write, arguments))

    def admit(
        self, request: Any, identity: str, tokens: Sequence[int], namespace: list[list[str]], length: int, row: Ints,
        source: Ints, foreign: bool = False,
    ) -> Claim:
        """Note a hit of `length` tokens at the locations of `row`, restored from the slot in `source` if there is one.

        A `foreign` one is left out of the trace, as what is outside of the sample is: some of it came from elsewhere.
        """
        inside = not foreign and self.trace.digests.chooses(identity, self._sampling)
        claim = self.claims[request] = Claim(self.trace.new_request() if inside else "", length, len(tokens))
        spaces = [[kind, self.trace.digests.name(name)] for kind, name in namespace] if inside else []
        self.later(self._write_open, claim, list(tokens) if inside else [], spaces, length, row, source)
        return claim

    def extend(
        self, claim: Claim, stop: int, said: Sequence[int], locations: Ints, first: int, live: Ints | None,
        tracked: Tracked | None = None, place: int = 0,
    ) -> None:
        """Note a grant up to `stop`, whose new tokens lie at `locations[first:]`.

        `live` has the live slot, if there is one, and is None once it was told. `place` is the request's in `tracked`.
        """
        start, claim.length = claim.length, stop
        told = self.trace.said(said) if said and claim.name else ""
        self.later(self._write_extend, claim, start, stop, told, locations, first, live, tracked, place)

    def go_on(self, told: list[tuple[Claim, str]], locations: Ints, tracked: Tracked | None = None) -> None:
        """Note that each request of a decode step is granted one token more, at its place in `locations`.

        `told` has the digests that each one learns. What is struck from `tracked` before it is written is not frozen.
        """
        starts = []
        for claim, _ in told:
            starts.append(claim.length)
            claim.length += 1
        self.later(self._write_going_on, told, starts, locations, tracked)

    def lose(self, claim: Claim) -> None:
        """Take a request out of the trace: it went on in a way that is not understood."""
        self.later(self._write_loss, claim)

    def launch(self, claims: Iterable[Claim]) -> None:
        """Note that everything planned is started, with the copies and zeroings that were noted before."""
        self._launched += 1
        self._flights.append(self._launched)
        self.later(self._write_launch, self._launched, list(claims), self.phases.take())

    def land(self) -> None:
        """Note that the results of the oldest step are being processed."""
        if self._flights:
            self.later(self._write_land, self._flights.popleft())

    def publish(self, claim: Claim, first: int, row: Ints, kept: Ints) -> None:
        """Note that the cache took what a request has: its row from `first` on is `row`, it keeps the slots `kept`."""
        self.later(self._write_publish, claim, first, row, kept, self.phases.take())

    def close(self, request: Any, said: Sequence[int]) -> None:
        """Note the end of a request, and what it said since it was last asked."""
        claim = self.claims.pop(request, None)
        if claim is not None:
            self.later(self._write_close, claim, self.trace.said(said) if said and claim.name else "")

    def reset(self) -> None:
        """Note that everything published was forgotten."""
        self.later(self.trace.reset)

    def settle(self) -> None:
        """Write what came before the newest step whose results are known: no device has to be waited for."""
        landed = self._launched - len(self._flights)
        while self._waiting and self._written < landed:
            self._write_up_to(1)

    # -- what is written when its turn comes

    def _write_up_to(self, count: int) -> None:
        for _ in range(count):
            if not self._waiting:
                return
            write, arguments = self._waiting.popleft()
            write(*arguments)

    def _pages(self, locations: Sequence[int]) -> list[int]:
        """Return the pages of a row that begins at a page's first token."""
        page = self.page
        return list(locations) if page == 1 else [location // page for location in locations[::page]]

    def _unsee(self, pages: Iterable[int], slots: Iterable[int]) -> None:
        self.trace.unseen((KV, page) for page in pages)
        self.trace.unseen((STATE, slot) for slot in slots if slot != NULL)

    def _write_open(
        self, claim: Claim, tokens: list[int], namespace: list[list[str]], length: int, row: Ints, source: Ints
    ) -> None:
        self._opened.add(claim)
        claim.pages = self._pages(values(row))
        claim.source = next(iter(values(source)), NULL)
        if claim.name:
            states = {STATE: {"source": claim.source} if claim.source != NULL else {}} if self.states else {}
            table = {KV: claim.pages, **states} if length else {}
            self.trace.open(claim.name, self.trace.digests.tokens(tokens), namespace, length, table)

    def _write_extend(
        self, claim: Claim, start: int, stop: int, told: str, locations: Ints, first: int, live: Ints | None,
        tracked: Tracked | None, place: int,
    ) -> None:
        page, opened = self.page, live is not None
        # A page that was begun is held already: the new ones start at the next multiple.
        skipped = first + -start % page
        pages = self._pages(values(locations)[skipped : first + stop - start])
        if live is not None:
            claim.live = next(iter(values(live)), NULL)
        written = [tracked.look(place)] if tracked is not None and place in tracked.places else []
        for slot, position in written:
            claim.freeze(slot, position)
        if not claim.name:
            self._unsee(pages, (claim.live, *(slot for slot, _ in written)))
            claim.pages += pages
            return
        columns = [[column, one] for column, one in enumerate(pages, start=len(claim.pages))]
        claim.pages += pages
        members = [f'"{KV}":{text_of(columns)}'] if columns and not opened else []
        if self.states and (opened or written):
            members.append(f'"{STATE}":{claim.slots()}')
        if opened:
            members.insert(0, f'"{KV}":{text_of(claim.pages)}')
        table = f',"{"table" if opened else "changes"}":{{{",".join(members)}}}' if members else ""
        items = ",".join(f'["{STATE}",{slot},{position}]' for slot, position in written)
        initial = f'"{STATE}":{claim.live}' if self.states and start else ""
        self.trace.extend(claim.name, stop, told, table, items, initial)

    def _write_going_on(
        self, told: list[tuple[Claim, str]], starts: list[int], locations: Ints, tracked: Tracked | None
    ) -> None:
        page, trace, places = self.page, self.trace, values(locations)
        frozen = tracked.places if tracked is not None else ()
        for place, (claim, digests) in enumerate(told):
            start = starts[place]
            if place in frozen:
                said = f',"said":[{digests}]' if digests else ""
                self._write_extend(claim, start, start + 1, said, places, place, None, tracked, place)
                continue
            cell = NULL if start % page else places[place] // page
            if cell != NULL:
                claim.pages.append(cell)
            if claim.name:
                trace.go_on(claim.name, start + 1, digests, cell)
            elif cell != NULL:
                self._unsee((cell,), ())

    def _write_loss(self, claim: Claim) -> None:
        if claim.name:
            self.trace.close(claim.name, "")
            claim.name = ""
            self._unsee(claim.pages, (claim.live, *claim.frozen.values()))

    def _write_launch(self, flight: int, claims: list[Claim], moves: list[tuple[Ints, Ints | None]]) -> None:
        settled = [claim for claim in claims if claim.source != NULL]
        for claim in settled:
            claim.source = NULL
        shown = ",".join(f'"{claim.name}":{{"{STATE}":{claim.slots()}}}' for claim in settled if claim.name)
        self.trace.launch(flight, _phases(moves), shown)
        self._written = flight
        if self.trace.full:
            self._rotate()

    def _rotate(self) -> None:
        self.trace.rotate()
        for claim in self._opened:
            claim.name = ""
            self._unsee(claim.pages, (claim.live, *claim.frozen.values()))

    def _write_land(self, flight: int) -> None:
        self.trace.land(flight)

    def _write_publish(
        self, claim: Claim, first: int, row: Ints, kept: Ints, moves: list[tuple[Ints, Ints | None]]
    ) -> None:
        column, changes = first // self.page, []
        for place, page in enumerate(self._pages(values(row)), start=column):
            if place < len(claim.pages) and claim.pages[place] != page:
                claim.pages[place] = page
                changes.append([place, page])
        slots = set(values(kept))
        before = claim.frozen
        claim.frozen = {position: slot for position, slot in before.items() if slot in slots}
        phases = _phases(moves)
        if not claim.name:
            self._unsee((), [target for phase in phases for _, _, target in phase.get("copies", ())])
            return
        members = [f'"{KV}":{text_of(changes)}'] if changes else []
        if claim.frozen != before:
            members.append(f'"{STATE}":{claim.slots()}')
        if members or phases:
            self.trace.publish(claim.name, phases, ",".join(members))

    def _write_close(self, claim: Claim, told: str) -> None:
        self._opened.discard(claim)
        if claim.name:
            self.trace.close(claim.name, told)
