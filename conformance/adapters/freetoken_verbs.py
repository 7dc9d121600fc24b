"""The verbs of the seam that are the same for every kind of FreeToken's caches, played on its scheduler.

The harness decides what is launched and drained when. `open` and the first `extend` are the two halves of one
admission (prefill.py:70-270). A launch is what `overlap_loop` does on the engine's stream, a landing its drain.
`close` is an abort, as of a client that went away; FreeToken ends a request by itself in a drain, at a stop token or
at the end of its output budget, and its table is empty from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from freetoken.message import AbortBackendMsg, FlushCacheBackendMsg
from freetoken.scheduler.prefill import ChunkedReq, PrefillAdder

from milepost.conformance.adapters.freetoken_engine import FILLER, Engine, Step
from milepost.conformance.adapters.freetoken_freezes import Told
from milepost.conformance.adapters.freetoken_requests import Admission, Flight, Request, user_message
from milepost.spec.answers import Frozen, Grant, Hit, Landing, Refused, ResetDone, Table, Tables
from milepost.spec.words import Namespace

WHOLE_PROMPT = 1 << 30
DRAINS_FIRST = "messages are read and batches cut while one batch at most is in flight"


@dataclass(frozen=True, slots=True)
class Plan:
    """One planned extend: the phase of its batch, and what its `Grant` said of the state kernels' arguments."""

    request: Request
    phase: str
    granted: Told | None = None


class Verbs:
    """What an adapter of one of FreeToken's caches is made of; it adds its memory, its tables and its counts."""

    def __init__(self, engine: Engine, page: int, nothing: Table) -> None:
        """`nothing` is the table of a request that FreeToken has ended."""
        self._engine, self._page, self._nothing = engine, page, nothing
        self._requests: dict[str, Request] = {}
        self._flights: list[Flight] = []
        self._plans: list[Plan] = []
        self._waiting_aborts: list[Request] = []
        self._opened = self._launched = 0

    # -- what depends on the kind of cache

    def _refuse_open(self) -> Refused | None:
        """Return why no prompt is admitted at this moment, None where one may be."""
        return Refused("in-flight", DRAINS_FIRST) if self._drains_first else None

    def _lacking(self) -> str:
        """Name what an admission lacked that FreeToken turned away."""
        raise NotImplementedError

    def _grant_chunk(self, claim: Request) -> Grant:
        """Plan the chunk that FreeToken has just cut, and return what the request is granted."""
        raise NotImplementedError

    def _grant_token(self, claim: Request) -> Grant | Refused:
        """Plan one token of a running request, and return what it is granted."""
        raise NotImplementedError

    def _has_room_for_chunk(self, claim: Request) -> bool:
        """Tell whether a chunk may be cut at all."""
        return True

    def _give_back_slots(self, admission: Admission) -> None:
        """Give back what an admission took besides its row and its lock."""

    def _table(self, claim: Request, planned: object = None) -> Table:
        """Return what a request names; `planned` is a copy of its `Req` with what its next step will freeze."""
        raise NotImplementedError

    # -- admission and planning

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        """Bring a prompt and admit it at once: `match_req`, `lock`, a row, state slots, no page yet."""
        if refused := self._refuse_open():
            return refused
        engine = self._engine
        message = user_message(self._opened, tokens, content, engine.engine.max_seq_len)
        self._opened += 1
        engine.receive(message, self._undrained())
        queue = engine.prefill_manager.pending_list
        if not queue or queue[-1].uid != message.uid:
            return Refused("prompt-too-long")
        if engine.table_manager.available_size == 0:
            queue.pop()
            return Refused("too-many-requests")
        admitted = self._adder(WHOLE_PROMPT)._try_allocate_one(queue[-1])
        if admitted is None:
            queue.pop()  # FreeToken would try it again at its next pass
            return Refused(self._lacking())
        claim = self._requests[request] = Request(request, queue[-1], Admission(*admitted))
        return Hit(claim.length, self._table(claim))

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        """Plan one chunk of a prompt, or one token of a running request."""
        if self._drains_first:
            return Refused("in-flight", DRAINS_FIRST)
        claim = self._requests[request]
        phase = "prefill" if claim.in_prompt else "decode"
        if claim.freed:
            return Refused("engine", "FreeToken has ended the request: a stop token, or its output budget")
        if self._plans and self._plans[0].phase != phase:
            return Refused("engine", "a batch is either prefill or decode")
        if claim.in_prompt:
            return self._plan_chunk(claim, to)
        if claim.req not in self._engine.decode_manager.running_reqs:
            return Refused("engine", "the output budget is used up")
        return self._grant_token(claim)

    def _plan_chunk(self, claim: Request, to: int) -> Grant | Refused:
        """Let FreeToken cut a chunk, which may end before `to`, and leave the queue as its scheduling pass does."""
        if not self._has_room_for_chunk(claim):
            return Refused("no-page", "a batch that was cut meanwhile took what this chunk needs")
        adder, pending, admission = self._adder(to - claim.length), claim.pending, claim.admission
        if claim.req is None:
            req = adder._add_one_req(
                pending, admission.match, admission.row, claim.length, admission.live, admission.ping_pong, 0,
                admission.source,
            )
        else:
            req = adder.try_add_one(pending)
        if req is None:
            return Refused("no-progress", "less than a page of the pass' budget is left")
        claim.req = req
        queue = self._engine.prefill_manager
        pending.chunked_req = req if isinstance(req, ChunkedReq) else None
        queue.pending_list = [one for one in queue.pending_list if one is not pending or one.chunked_req]
        self._engine.enter()
        return self._grant_chunk(claim)

    def _adder(self, budget: int) -> PrefillAdder:
        """Return FreeToken's admission pass with what others will still need set aside.

        Its own pass takes requests in order and adds each to `reserved_size`; here they were taken one at a time.
        """
        engine = self._engine
        adder = PrefillAdder(
            budget, engine.decode_manager.inflight_tokens, engine.cache_manager, engine.table_manager
        )
        planned = {plan.request.name for plan in self._plans if plan.phase == "prefill"}
        for claim in self._requests.values():
            if claim.in_prompt or claim.name in planned:
                total = claim.pending.input_len + claim.pending.output_len
                adder.reserved_size += adder._kv_reservation_size(total, claim.length)
        return adder

    # -- steps

    def _take_plans(self) -> tuple[list[Plan], list[int], Any]:
        """Prepare all plans as one batch: return them in its order, where each starts, and the batch's arguments."""
        plans, self._plans = self._plans, []
        if plans[0].phase == "decode":
            plans.sort(key=lambda plan: plan.request.pending.uid)  # decode.py:35
        starts = [plan.request.length for plan in plans]
        return plans, starts, self._engine.prepare([plan.request.req for plan in plans], plans[0].phase)

    def _start(self, plans: list[Plan], forward_input: Any) -> list[Request]:
        """Run a prepared batch, and return its requests: restores, anchors' snapshots, the model's bookkeeping."""
        requests = [plan.request for plan in plans]
        step = self._engine.start(forward_input)
        for request in requests:
            request.restored = True
        self._launched += 1
        self._flights.append(Flight(self._launched, step, requests))
        return requests

    def _check_locations(self, batch: Any) -> None:
        """The kernels of a batch write KV where the page table says."""
        rows, reqs = self._engine.engine.page_table, batch.reqs
        owned = [rows[req.table_idx, req.cached_len : req.device_len].tolist() for req in reqs]
        if batch.out_loc.tolist() != [location for one in owned for location in one]:
            raise RuntimeError(f"the KV of a batch goes to {batch.out_loc.tolist()}, its requests own {owned}")

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        """Drain the oldest step: commits, ends, aborts; then read the messages that had to wait for it."""
        flight = self._flights.pop(0)
        assert flight.number == step
        for place, request in enumerate(flight.requests):
            said = sampled.get(request.name)
            flight.step.output.next_tokens_cpu[place] = said[-1] if said else FILLER
        self._engine.drain(flight.step)
        waiting, self._waiting_aborts = self._waiting_aborts, []
        for request in waiting:
            self._abort(request)
        return Landing(self._tables(flight.requests))

    # -- ends

    def close(self, request: str, keep: bool) -> Landing:
        """Abort: FreeToken donates what there is as at any other end, and knows nothing of one that it has ended."""
        claim = self._requests.pop(request)
        if claim.req is None:
            self._undo_admission(claim)
            return Landing({request: self._nothing})
        self._abort(claim)
        return Landing({request: self._table(claim)})

    def _undo_admission(self, claim: Request) -> None:
        """Give back what an admission took, as FreeToken does where no chunk comes of it (prefill.py:262-267)."""
        engine, admission = self._engine, claim.admission
        engine.prefill_manager.abort_req(claim.pending.uid)
        engine.cache_manager.unlock(admission.match)
        engine.table_manager.free(admission.row)
        self._give_back_slots(admission)

    def _abort(self, claim: Request) -> None:
        """Send the abort; where two batches with the request are in flight, it is read after the older one's drain.

        What is in flight is freed when it is drained (scheduler.py:593-600).
        """
        flights = self._flights_of(claim)
        if len(flights) > 1:
            self._waiting_aborts.append(claim)
        else:
            self._engine.receive(AbortBackendMsg(uid=claim.pending.uid), flights[0].step if flights else None)

    def reset(self) -> ResetDone:
        """Ask for a flush, which FreeToken carries out when it is idle."""
        self._engine.receive(FlushCacheBackendMsg(request_id="reset", timeout=0.0), self._undrained())
        return ResetDone(self._engine.replies[-1].status == "ok")

    # -- what FreeToken does not offer

    def freeze(self, request: str) -> Frozen | Refused:
        """FreeToken freezes by itself only."""
        return Refused("engine", "FreeToken freezes by itself only")

    def publish(self, request: str) -> Landing | Refused:
        """FreeToken publishes by itself only."""
        return Refused("engine", "FreeToken publishes by itself only")

    def preempt(self, request: str) -> Landing:
        """FreeToken never preempts."""
        raise NotImplementedError("FreeToken never preempts")

    # -- what is held

    def _holders(self) -> Iterator[Request]:
        """Yield each request that holds cells, aborted ones in flight too."""
        everyone = [*self._requests.values(), *(one for flight in self._flights for one in flight.requests)]
        yield from (one for one in dict.fromkeys(everyone) if not one.freed)

    def _flights_of(self, claim: Request) -> list[Flight]:
        return [flight for flight in self._flights if claim in flight.requests]

    @property
    def _drains_first(self) -> bool:
        """True while two batches are in flight: `overlap_loop` ends with the drain of the older one."""
        return len(self._flights) > 1

    def _undrained(self) -> Step | None:
        return self._flights[-1].step if self._flights else None

    def _tables(self, requests: Iterable[Request]) -> Tables:
        return {request.name: self._table(request) for request in requests}
