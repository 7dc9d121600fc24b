"""The verbs of the seam, played on FreeToken's scheduler: the harness decides what is launched and drained when.

`open` and the first `extend` are the two halves of one admission (prefill.py:70-270). A launch is what `overlap_loop`
does on the engine's stream, a landing its drain. `close` is an abort, as of a client that went away; FreeToken ends a
request by itself in a drain, at a stop token or at the end of its output budget, and its table is empty from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from freetoken.core import Batch
from freetoken.message import AbortBackendMsg, FlushCacheBackendMsg
from freetoken.scheduler.prefill import ChunkedReq, PrefillAdder

from milepost.conformance.adapters.freetoken_engine import FILLER, Engine, Step
from milepost.conformance.adapters.freetoken_freezes import Told, preview, read_arguments
from milepost.conformance.adapters.freetoken_memory import LAYERS, StateMemory
from milepost.conformance.adapters.freetoken_requests import EMPTY, Admission, Flight, Request, table, user_message
from milepost.spec.answers import (
    Evicted,
    Frozen,
    Grant,
    Hit,
    Landing,
    Launched,
    Phase,
    Refused,
    ResetDone,
    Table,
    Tables,
)
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, FreezeGrid, Group
from milepost.spec.payload import Content
from milepost.spec.words import Cell, GroupKind, Namespace

FAKED = (
    "the model and its sampler", "streams and events (one queue)", "the loop and its messages' transport",
    "KV memory", "pinned memory", "CHUNK_SIZE where it is not 64",
)
WHOLE_PROMPT = 1 << 30
DRAINS_FIRST = "messages are read and batches cut while one batch at most is in flight"
ADMISSION_SLOTS = 3
"""State slots without which a request is not admitted (prefill.py:93-98)."""


def declare(configuration: Configuration) -> Capabilities:
    """Say what FreeToken 0.2.1 is at these sizes."""
    page, chunk = configuration.page_size, configuration.chunk_size
    return Capabilities(
        engine="FreeToken",
        version="0.2.1",
        issues="https://github.com/FlashML-org/FreeToken/issues",
        groups=(
            Group("kv", GroupKind.FULL, "kv", page_size=page),
            Group("state", GroupKind.RECURRENT, "state", layers=len(LAYERS), executes="engine"),
        ),
        pools=dict(configuration.pools),
        fidelity=Fidelity("imported", FAKED),
        chunk_size=chunk,
        hit_alignment=page,
        freeze_grid=FreezeGrid(chunk, "step"),
        end_donation="any" if page == 1 else "page",
        mid_prefill_freeze=True,
        explicit_publish=False,
        # A finished request's live slot is donated while its last step may still write it (scheduler.py:402-405).
        ordered_steps=True,
        overlap=1,
        independent_evict=("kv", "state"),
        evicts=True,
        accounts=True,
        contents=True,
        anchor=configuration.anchor is not None,
        resets="idle",
        max_live=configuration.max_live,
        cells_per_request={"state": 4},
        promises=("not-inert", "admits-when-idle", "exact-accounting"),
        smallest_cacheable=chunk + 1,
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """One planned extend: the phase of its batch, and what its `Grant` said of the kernels' arguments."""

    request: Request
    phase: str
    granted: Told


class FreeTokenCache:
    """FreeToken at the seam."""

    def __init__(self, configuration: Configuration) -> None:
        self.capabilities = declare(configuration)
        self._page, self._chunk = configuration.page_size, configuration.chunk_size
        self._engine = Engine(configuration)
        self._memory = StateMemory(self._engine.pool)
        self._requests: dict[str, Request] = {}
        self._flights: list[Flight] = []
        self._plans: list[Plan] = []
        self._waiting_aborts: list[Request] = []
        self._opened = self._launched = 0

    # -- memory of the state group

    def read(self, cell: Cell, group: str) -> Content:
        """Return what the state tensors hold in a slot."""
        return self._memory.read(cell[1])

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write a state into a slot of the state tensors."""
        assert isinstance(content, int)
        self._memory.write(cell[1], content)

    # -- admission and planning

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        """Bring a prompt and admit it at once: `match_req`, `lock`, a row, three state slots, no page yet."""
        if self._drains_first:
            return Refused("in-flight", DRAINS_FIRST)
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
            return Refused("no-page" if engine.pool.num_free_slots >= ADMISSION_SLOTS else "no-slot")
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
        return self._plan_chunk(claim, to) if claim.in_prompt else self._plan_token(claim)

    def _plan_chunk(self, claim: Request, to: int) -> Grant | Refused:
        """Let FreeToken cut a chunk, which may end before `to`, and leave the queue as its scheduling pass does."""
        adder, pending, admission = self._adder(to - claim.length), claim.pending, claim.admission
        if claim.req is None:
            claim.req = adder._add_one_req(
                pending, admission.match, admission.row, claim.length, admission.live, admission.ping_pong, 0,
                admission.source,
            )
        else:
            claim.req = adder.try_add_one(pending)
        queue = self._engine.prefill_manager
        pending.chunked_req = claim.req if isinstance(claim.req, ChunkedReq) else None
        queue.pending_list = [one for one in queue.pending_list if one is not pending or one.chunked_req]
        self._engine.enter()
        planned, told = preview([*(plan.request.req for plan in self._plans), claim.req], self._chunk)
        self._plans.append(Plan(claim, "prefill", told))
        return Grant(
            claim.req.device_len,
            self._table(claim, planned),
            tuple(("state", freeze.slot, freeze.position) for freeze in told.freezes),
            {"state": told.initial},
        )

    def _plan_token(self, claim: Request) -> Grant | Refused:
        req = claim.req
        if req not in self._engine.decode_manager.running_reqs:
            return Refused("engine", "the output budget is used up")
        self._plans.append(Plan(claim, "decode", Told(req.linear_slot_idx, req.linear_slot_idx, ())))
        return Grant(req.device_len, self._table(claim), (), {"state": req.linear_slot_idx})

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

    def launch(self) -> Launched:
        """Run all plans as one batch: pages, restores, anchors' snapshots, the model's bookkeeping."""
        plans, self._plans = self._plans, []
        if plans[0].phase == "decode":
            plans.sort(key=lambda plan: plan.request.pending.uid)  # decode.py:35
        requests = [plan.request for plan in plans]
        starts = [request.length for request in requests]
        forward_input = self._engine.prepare([request.req for request in requests], plans[0].phase)
        self._check_arguments(plans, starts, forward_input.batch)
        self._engine.pool.take_copies()
        step = self._engine.start(forward_input)
        phases = tuple(Phase((("state", *copy),)) for copy in self._engine.pool.take_copies())
        for request in requests:
            request.restored = True
        self._launched += 1
        self._flights.append(Flight(self._launched, step, requests))
        return Launched(self._launched, phases, self._tables(requests))

    def _check_arguments(self, plans: list[Plan], starts: list[int], batch: Batch) -> None:
        """The kernels of the whole batch are told what each Grant said, and write KV where the page table says."""
        told = read_arguments(batch.fla_metadata, starts, self._chunk)
        if told != [plan.granted for plan in plans]:
            raise RuntimeError(f"the state kernels are given {told}, the requests own {[one.granted for one in plans]}")
        rows, reqs = self._engine.engine.page_table, batch.reqs
        owned = [rows[req.table_idx, req.cached_len : req.device_len].tolist() for req in reqs]
        if batch.out_loc.tolist() != [location for one in owned for location in one]:
            raise RuntimeError(f"the KV of a batch goes to {batch.out_loc.tolist()}, its requests own {owned}")
        self._memory.torn.update(freeze.slot for one in told for freeze in one.freezes if not freeze.whole)

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
            return Landing({request: EMPTY})
        self._abort(claim)
        return Landing({request: self._table(claim)})

    def _undo_admission(self, claim: Request) -> None:
        """Give back what an admission took, as FreeToken does where no chunk comes of it (prefill.py:262-267)."""
        engine, admission = self._engine, claim.admission
        engine.prefill_manager.abort_req(claim.pending.uid)
        engine.cache_manager.unlock(admission.match)
        engine.table_manager.free(admission.row)
        engine.pool.free([admission.live, *admission.ping_pong])

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

    def evict(self, group: str, cells: int) -> Evicted:
        """Evict as an admission short of slots does, or as an allocation short of pages does."""
        manager, pool = self._engine.cache_manager, self._engine.pool
        before = self._free_cells()
        if group == "state":
            manager.ensure_mamba_slots(pool.num_free_slots + cells)
        else:
            manager._free(manager._evict(cells * self._page))
        return Evicted(tuple(sorted(self._free_cells() - before)))

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

    def account(self) -> dict[str, dict[str, int]]:
        """Count cells: free and in the tree by FreeToken's own ledgers, private by what its requests hold."""
        engine, page = self._engine, self._page
        tree, holders = engine.cache_manager.prefix_cache, list(self._holders())
        own_pages = sum(-(-one.length // page) - one.tree_length // page for one in holders)
        own_slots = sum(3 if one.req is None else 1 + len(one.req.mamba_ping_pong) for one in holders)
        return {
            "kv": {
                "free": len(engine.cache_manager.free_slots),
                "private": own_pages,
                "evictable": tree.full_evictable // page,
                "protected": tree.full_protected // page,
            },
            "state": {
                "free": engine.pool.num_free_slots,
                "private": own_slots,
                "evictable": tree.mamba_evictable,
                "protected": tree.mamba_protected,
            },
        }

    def _holders(self) -> Iterator[Request]:
        """Yield each request that holds cells, aborted ones in flight too."""
        everyone = [*self._requests.values(), *(one for flight in self._flights for one in flight.requests)]
        yield from (one for one in dict.fromkeys(everyone) if not one.freed)

    def _free_cells(self) -> set[Cell]:
        pages = {("kv", location // self._page) for location in self._engine.cache_manager.free_slots.tolist()}
        return pages | {("state", slot) for slot in self._engine.pool._free_slots}

    def _flights_of(self, claim: Request) -> list[Flight]:
        return [flight for flight in self._flights if claim in flight.requests]

    @property
    def _drains_first(self) -> bool:
        """True while two batches are in flight: `overlap_loop` ends with the drain of the older one."""
        return len(self._flights) > 1

    def _undrained(self) -> Step | None:
        return self._flights[-1].step if self._flights else None

    def _table(self, claim: Request, planned: object = None) -> Table:
        return table(claim, self._engine.engine.page_table, self._page, planned)

    def _tables(self, requests: list[Request]) -> Tables:
        return {request.name: self._table(request) for request in requests}
