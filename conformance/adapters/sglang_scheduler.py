"""The verbs of the seam as calls of SGLang's scheduler.

The harness stands for the event loop: it says who runs when. `open` is the look-up of a scheduling pass and the first
`extend` its admission, `launch` the copies before the forward, `land` the processing of the result. In the engine all
look-ups of a pass come before its one allocation; here a step's requests are admitted one after another, each in a
batch of its own, as in passes that admit one request each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from milepost.conformance.adapters.sglang_engine import Engine
from milepost.conformance.adapters.sglang_memory import StateMemory
from milepost.conformance.adapters.sglang_modules import ANSWER
from milepost.conformance.adapters.sglang_pools import window_columns
from milepost.conformance.adapters.sglang_settings import Settings
from milepost.spec.answers import (
    Evicted,
    Frozen,
    Grant,
    Hit,
    Landing,
    Launched,
    Pages,
    Phase,
    Refused,
    ResetDone,
    Slots,
    Table,
    Tables,
)
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.payload import Content
from milepost.spec.words import NULL, Cell, Namespace

FILLER = 1
"""A token for a result that nobody waits for."""


@dataclass(slots=True)
class _Claim:
    """One request of the harness; `settled` where nothing of it was planned since its last landing."""

    name: str
    request: Any
    source: int = NULL
    admitted: bool = False
    settled: bool = False
    closing: bool = False


_Part = tuple[Any, list[_Claim]]
"""A batch of a step, and the requests in it in its order."""


@dataclass(slots=True)
class _Flight:
    step: int
    parts: list[_Part]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What an engine is built with: pages and state slots of its pools, and rows, one for each running request."""

    pages: int
    slots: int
    rows: int
    window_pages: int = 0


def engine_sizes(settings: Settings, configuration: Configuration) -> Sizes:
    """Round a configuration to what the engine would serve: its slots limit its requests, and two should fit.

    One request takes a live slot, its tracking slots, and two that the cache may lock for it
    (mem_cache/kv_cache_configurator.py:3062). A window's pool has room for two windows and a page.
    """
    page = settings.page
    tokens = max(configuration.pools.get("kv", 12) * configuration.page_size, 4 * settings.grid)
    pages = -(-tokens // page)
    asked = configuration.pools.get("window", configuration.pools.get("kv", 12)) * configuration.page_size
    spanned = -(-settings.reach // page) + 1
    window_pages = max(-(-asked // page), 2 * spanned + 1) if settings.window else 0
    if not settings.recurrent:
        return Sizes(pages, 0, configuration.max_live, window_pages)
    each = settings.slots_each
    slots = max(configuration.pools.get("state", 8), each * min(configuration.max_live, 2))
    return Sizes(pages, slots, min(configuration.max_live, slots // each), window_pages)


class SGLang:
    """One scheduler of the engine; see `milepost.spec.seam.Adapter` for the verbs."""

    def __init__(self, settings: Settings, sizes: Sizes, capabilities: Capabilities) -> None:
        self.settings, self.capabilities = settings, capabilities
        tokens, window_tokens = sizes.pages * settings.page, sizes.window_pages * settings.page
        self.engine = Engine(settings, tokens, sizes.slots, sizes.rows, window_tokens)
        if settings.recurrent:
            self.memory = StateMemory(self.engine.pool.mamba_pool, self.engine.m.torch)
        self.gone: Table = {
            group.name: Pages() if group.kind.paged else Slots() for group in capabilities.groups
        }
        self.claims: dict[str, _Claim] = {}
        self.retracted: dict[str, Any] = {}
        self.reported: dict[str, Table] = {}
        self.planned: list[tuple[str, Any, _Claim]] = []
        self.flights: list[_Flight] = []
        self.steps = 0
        self.serial = 0

    # -- memory

    def read(self, cell: Cell, group: str) -> Content:
        return self.memory.read(cell[1])

    def write(self, cell: Cell, group: str, content: Content) -> None:
        if isinstance(content, int):
            self.memory.write(cell[1], content)

    # -- tables

    def _table(self, claim: _Claim) -> Table:
        """Return what the engine's own structures say that a request holds."""
        request, kv = claim.request, claim.request.kv
        if request.finished() and not kv.holds_kv:
            return self.gone  # a live slot that was handed to the tree stays written on the request
        row, page = self._row(claim), self.settings.page
        table: Table = {"kv": Pages(tuple(index // page for index in row[::page].tolist()))}
        if self.settings.window:
            table["window"] = Pages(window_columns(self.engine.allocator, page, row))
        if self.settings.recurrent:
            live = NULL if kv.mamba_pool_idx is None else int(kv.mamba_pool_idx)
            table["state"] = Slots(live, self._frozen(request), claim.source)
        return table

    def _row(self, claim: _Claim) -> Any:
        """Return the token indexes that a request's row holds, or that it was offered before it has a row."""
        request = claim.request
        if request.kv.holds_kv:
            return self.engine.pool.req_to_token[request.kv.req_pool_idx, : request.kv.kv_allocated_len]
        if not claim.admitted and request.prefix_len:
            return self.engine.tree.prefix_device_indices(request)
        return self.engine.m.torch.empty(0, dtype=self.engine.m.torch.int64)

    def _frozen(self, request: Any) -> tuple[tuple[int, int], ...]:
        """List the request's tracking slots; a position is the engine's label, 0 where it claims none."""
        kv = request.kv
        if kv.mamba_ping_pong_track_buffer is None:
            return ()
        positions = [0] * len(kv.mamba_ping_pong_track_buffer)
        if kv.mamba_last_track_seqlen is not None:
            positions[kv.mamba_last_track_idx] = kv.mamba_last_track_seqlen
            if kv.mamba_prev_track_seqlen is not None and len(positions) == 2:
                positions[1 - kv.mamba_last_track_idx] = kv.mamba_prev_track_seqlen
        slots = kv.mamba_ping_pong_track_buffer.tolist()
        return tuple((position, slot) for position, slot in zip(positions, slots, strict=True) if slot != NULL)

    def _changed(self, *without: str) -> Tables:
        """Return the tables that differ from those that were last reported, and remember them."""
        tables: Tables = {}
        for name, claim in self.claims.items():
            table = self._table(claim)
            if table != self.reported.get(name):
                self.reported[name] = table
                tables[name] = table
        for name in without:
            tables.pop(name, None)
        return tables

    # -- requests

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        if self._results_missing():
            return Refused("in-flight")
        if len(self.claims) >= self.engine.rows:
            return Refused("too-many-requests")
        if len(tokens) > self.engine.tokens - ANSWER - self.settings.page:
            return Refused("prompt-too-long")
        spaces = dict(namespace)
        again = self.retracted.get(request)
        if again is None or tuple(again.origin_input_ids + again.output_ids) != tokens:
            self.serial += 1
            again = self.engine.new_request(
                f"{request}.{self.serial}", tokens, spaces.get("extra_key"), spaces.get("cache_salt")
            )
        self.engine.begin_pass()
        self.engine.look_up(again)
        claim = _Claim(request, again)
        if again.kv.mamba_cow_src_index is not None:
            claim.source = int(again.kv.mamba_cow_src_index)
        self.claims[request] = claim
        table = self.reported[request] = self._table(claim)
        return Hit(again.prefix_len, table, self._changed(request))

    def _results_missing(self) -> bool:
        """Tell whether the event loop would process a result before it schedules (scheduler.py:2026, 2061)."""
        return not self.planned and len(self.flights) > self.capabilities.overlap

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        claim = self.claims[request]
        if self._results_missing():
            return Refused("in-flight")
        if claim.request.finished():
            return Refused("engine", "the engine has finished it")
        if claim.admitted and claim.request is not self.engine.chunked:
            return self._decode(claim)
        return self._prefill(claim, to)

    def _prefill(self, claim: _Claim, to: int) -> Grant | Refused:
        answer = self._admit(claim, to)
        if isinstance(answer, Refused) and not claim.admitted:
            # The request stays in the queue with nothing, and is looked up anew (scheduler.py:4293-4307).
            self.engine.take_back(claim.request)
            del self.claims[claim.name], self.reported[claim.name]
            return Refused(answer.reason, answer.text, {claim.name: self.gone})
        return answer

    def _admit(self, claim: _Claim, to: int) -> Grant | Refused:
        """Admit a request, or the next chunk of one: one prompt at a time is cut, and it goes first in its pass."""
        engine, request = self.engine, claim.request
        if any(kind == "decode" for kind, _, _ in self.planned):
            return Refused("engine", "the step is a decode")
        if request is engine.chunked and self.planned:
            return Refused("engine", "a chunk goes first in its pass")
        if engine.chunked is not None and request is not engine.chunked:
            return Refused("busy", "another prompt is in the middle of its chunks")
        self.engine.begin_pass()
        start = request.prefix_len
        if engine.admit(request, to) is None:
            # What the pass published before that is reported with the next answer: it is no part of the refusal.
            return Refused("no-page" if to - start >= self.settings.page else "no-progress")
        claim.admitted, claim.settled = True, False
        self.retracted.pop(claim.name, None)
        batch, track = engine.prepare_prefill(request)
        self.planned.append(("prefill", batch, claim))
        return self._grant(claim, request.extend_end, track, bool(start))

    def _decode(self, claim: _Claim) -> Grant | Refused:
        engine, request = self.engine, claim.request
        mixed = bool(self.planned) and self.planned[0][0] == "prefill"
        if mixed and not self.settings.mixed:
            return Refused("engine", "the step is a prefill")
        self.engine.begin_pass()
        prepared = engine.prepare_decode(request, tracked=not mixed)
        if prepared is None:
            return Refused("no-page")
        batch, track = prepared
        claim.settled = False
        self.planned.append(("decode", batch, claim))
        return self._grant(claim, int(batch.seq_lens_cpu[0]), track, True)

    def _grant(self, claim: _Claim, length: int, track: Any, warm: bool) -> Grant:
        """Report a step; a cold one starts from zeros, by the engine's has-initial-state flag."""
        table = self.reported[claim.name] = self._table(claim)
        frozen = (("state", track.slot, track.position),) if track is not None else ()
        live = int(claim.request.kv.mamba_pool_idx) if warm and self.settings.recurrent else None
        initial = {"state": live} if self.settings.recurrent else {}
        return Grant(length, table, frozen, initial, self._changed(claim.name))

    # -- steps

    def launch(self) -> Launched:
        self.engine.run([batch for _, batch, _ in self.planned])
        prefills = [(batch, [claim]) for kind, batch, claim in self.planned if kind == "prefill"]
        decodes = [(batch, [claim]) for kind, batch, claim in self.planned if kind == "decode"]
        if prefills and decodes:
            prefills[-1], decodes = self._mix(prefills[-1], decodes), []
        for _, _, claim in self.planned:
            claim.source = NULL
        self.planned = []
        self.steps += 1
        self.flights.append(_Flight(self.steps, [(batch.copy(), claims) for batch, claims in prefills + decodes]))
        return Launched(self.steps, self._phases(), self._changed())

    def _mix(self, prefill: _Part, decodes: list[_Part]) -> _Part:
        """Let the decoding requests ride a prefill (scheduler.py:4386-4408)."""
        batch, claims = prefill
        riders: list[Any] = []
        for running, riding in decodes:
            batch.mix_with_running(running)
            riders += running.reqs
            claims = claims + riding
        batch.decoding_reqs = riders
        return batch, claims

    def _phases(self) -> tuple[Phase, ...]:
        """Drain what the engine zeroed and copied since the last time, each call a phase of its own."""
        moves, self.engine.moves = self.engine.moves, []
        return tuple(
            Phase(
                tuple(("state", source, target) for source, target in move.copies),
                tuple(("state", slot) for slot in move.zeros),
            )
            for move in moves
        )

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        flight = self.flights.pop(0)
        assert flight.step == step
        for batch, claims in flight.parts:
            self.engine.process(batch, [(sampled.get(claim.name) or (FILLER,))[-1] for claim in claims])
            for claim in claims:
                claim.settled = True
        if not self.settings.overlap:
            self.engine.begin_pass()  # nothing happens between a landing and the next pass
        tables = self._changed()
        self._forget_closed()
        return Landing(tables, self._phases())

    def _flying(self, claim: _Claim) -> bool:
        return any(claim is one for flight in self.flights for _, claims in flight.parts for one in claims)

    def _forget_closed(self) -> None:
        for name in [name for name, claim in self.claims.items() if claim.closing and not self._flying(claim)]:
            assert self.claims[name].request.finished()
            del self.claims[name], self.reported[name]

    # -- ends

    def close(self, request: str, keep: bool) -> Landing:
        claim = self.claims[request]
        engine, one = self.engine, claim.request
        running = claim.admitted and not one.finished() and one is not engine.chunked
        if running and self._flying(claim) and not (keep and claim.settled):
            # An abort of a running request waits for the result that is processed next (scheduler.py:5675).
            engine.abort_later(one)
            claim.closing = True
            return Landing({request: self.reported[request], **self._changed()}, self._phases())
        self._release(claim, keep)
        return Landing({**self._changed(), request: self.gone}, self._phases())

    def _release(self, claim: _Claim, keep: bool) -> None:
        """Give up everything at once, and forget the request."""
        engine, one = self.engine, claim.request
        if not claim.admitted:
            engine.take_back(one)
        elif one.finished():
            pass
        elif one is not engine.chunked and keep:
            engine.finish(one)
        else:
            engine.abort(one)
        del self.claims[claim.name], self.reported[claim.name]

    def preempt(self, request: str) -> Landing:
        claim = self.claims[request]
        if claim.admitted and not claim.request.finished() and claim.request is not self.engine.chunked:
            self.engine.retract(claim.request)
            self.retracted[request] = claim.request
            del self.claims[request], self.reported[request]
        else:
            self._release(claim, keep=False)
        return Landing({**self._changed(), request: self.gone}, self._phases())

    def reset(self) -> ResetDone:
        if self.claims or self.flights:
            return ResetDone(False)
        self.engine.flush()
        return ResetDone(True)

    def evict(self, group: str, cells: int) -> Evicted:
        tokens = cells * self.settings.page
        before = self.engine.free_cells()
        self.engine.evict(
            tokens if group == "kv" else 0, cells if group == "state" else 0, tokens if group == "window" else 0
        )
        gone = [(pool, cell) for pool, free in self.engine.free_cells().items() for cell in sorted(free - before[pool])]
        return Evicted(tuple(gone), tables=self._changed())

    def freeze(self, request: str) -> Frozen | Refused:
        return Refused("engine", "the engine freezes by itself")

    def publish(self, request: str) -> Landing | Refused:
        return Refused("engine", "the engine publishes by itself")
