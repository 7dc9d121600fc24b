"""vLLM's scheduler, block manager and block memory behind the verbs of the seam.

Shimmed is the body of the loop in `Scheduler.schedule()`. The harness chooses which request is next and how much of the
step's token budget is left for it; what the loop then does with that one request is followed call by call, with the
lines of vllm 0.33.0 named. Everything else is the engine's own code: chunk splitter, lookup, allocation, preemption,
what happens after a step is scheduled and when its output arrives, and the copies of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from milepost.conformance.adapters.vllm_engine import (
    ATTENTION,
    POOL,
    WINDOW,
    Settings,
    build_scheduler,
    make_request,
)
from milepost.conformance.adapters.vllm_memory import BlockMemory
from milepost.conformance.adapters.vllm_worker import NULL_BLOCK, Claim, Planned, WorkerRows, cells
from milepost.spec.answers import (
    Evicted,
    Frozen,
    Grant,
    GroupTable,
    Hit,
    Landing,
    Launched,
    Pages,
    Phase,
    Refused,
    ResetDone,
    Slots,
    Table,
)
from milepost.spec.capabilities import Capabilities
from milepost.spec.payload import Content
from milepost.spec.words import NULL, Cell, Namespace


class Vllm:
    """One engine with its memory, under judgement."""

    def __init__(self, settings: Settings, declare: Callable[[Settings, int], Capabilities]) -> None:
        self.settings = settings
        self.scheduler = build_scheduler(settings)
        self.manager = self.scheduler.kv_cache_manager
        groups = self.scheduler.kv_cache_config.kv_cache_groups
        self.names = [ATTENTION, *settings.state_names, WINDOW][: len(groups)]
        self.states = range(1, 1 + settings.states)
        self.specs = [group.kv_cache_spec for group in groups]
        self.managers = self.manager.coordinator.single_type_managers
        self.memory = self._allocate()
        self.claims: dict[str, Claim] = {}
        self.preempted: dict[str, Any] = {}
        self.plan: list[Planned] = []
        self.budget = 0
        self.preempted_in_step = False
        self.flights: list[tuple[int, Any, list[Planned]]] = []
        self.steps = 0
        self.changes = 0
        self.serial = 0
        self.capabilities = declare(settings, self.managers[1].cache_hit_alignment_tokens)

    def _allocate(self) -> BlockMemory:
        return BlockMemory(self.specs, self.specs[1].shapes, self.settings.blocks + 1)

    # -- looking up, and what the waiting loop does

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        """Look the prompt up, as the waiting loop does before it allocates."""
        if len(tokens) + 1 + self.scheduler.num_spec_tokens >= self.scheduler.max_model_len:
            return Refused("prompt-too-long", "vLLM refuses prompts that max_model_len does not hold")
        if len(self.scheduler.running) >= self.scheduler.max_num_active_reqs:  # scheduler.py:1073
            return Refused("too-many-requests")
        if self.plan and self.preempted_in_step:  # scheduler.py:1050
            return Refused("engine", "no request is admitted in a step that preempted another")
        self._begin_step()
        ours = self._resume(request, tokens) or self._add(request, tokens, dict(namespace))
        # scheduler.py:1122-1127
        blocks, length, ours.shared_prefix_boundary, _ = self.scheduler._get_local_prefix_cache_hit(ours, None)
        if not self._fits(ours, blocks, length):
            self._finish(ours)
            return Refused("no-page", "the whole prompt does not fit, or its state is computed in this very step")
        claim = Claim(request, ours, WorkerRows(self.settings.state_block), (blocks, length), self.changes)
        self.claims[request] = claim
        rows: Sequence[Sequence[int]] = blocks.get_block_ids() if length else [()] * len(self.names)
        claim.sources = {group: cells(rows[group][-1:])[0] for group in self.states if rows[group]}
        return Hit(length, {
            name: Slots(source=claim.sources.get(group, NULL)) if group in self.states else Pages(cells(rows[group]))
            for group, name in enumerate(self.names)
        })

    def _fits(self, request: Any, blocks: Any, hit: int) -> bool:
        """Ask what `allocate_slots` asks first, kv_cache_manager.py:531: a lookup that it turns down was never used."""
        length = min(request.num_tokens, self.scheduler.max_model_len)
        needed = self.manager.coordinator.get_num_blocks_to_allocate(
            request_id=request.request_id, num_tokens=length, new_computed_blocks=blocks.blocks,
            num_encoder_tokens=0, total_computed_tokens=hit, num_local_computed_tokens=hit,
            num_tokens_main_model=length, apply_admission_cap=True,
            prefill_end=max(request.num_prompt_tokens, request.num_tokens - 1),
        )
        return bool(needed <= self.manager.block_pool.get_num_free_blocks())

    def _add(self, name: str, tokens: tuple[int, ...], namespace: dict[str, str]) -> Any:
        self.serial += 1
        request = make_request(
            f"{name}#{self.serial}", tokens, self.scheduler.hash_block_size, namespace.get("salt"),
            namespace.get("adapter"), self.scheduler.num_hash_lookahead_tokens,
        )
        self.scheduler.add_request(request)
        return request

    def _resume(self, name: str, tokens: tuple[int, ...]) -> Any:
        """Return the preempted request of that name, which waits in vLLM's queue, if it is the one that comes back."""
        request = self.preempted.pop(name, None)
        if request is not None and tuple(request.all_token_ids) != tokens:
            self._finish(request)
            return None
        return request

    def _begin_step(self) -> None:
        if not self.plan:
            self.manager.new_step_starts()  # scheduler.py:746
            self.budget = self.scheduler.max_num_scheduled_tokens
            self.preempted_in_step = False

    # -- planning one request

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        """Do for this request what the running or the waiting loop does, with a budget that ends at `to`."""
        self._begin_step()
        claim = self.claims[request]
        if claim.lookup is not None:
            answer = self._admit(claim, to)
            if isinstance(answer, Refused):
                self.claims.pop(request)
                self._finish(claim.request)
                answer = Refused(answer.reason, answer.text, {request: self._empty()})
        else:
            answer = self._run_on(claim, to, draft)
        self.changes += 1
        return answer

    def _run_on(self, claim: Claim, to: int, draft: int) -> Grant | Refused:
        """Follow the running loop, scheduler.py:841-1004, for one request."""
        scheduler, request = self.scheduler, claim.request
        order = [self._place(one.claim) for one in self.plan]
        if any(one.fresh for one in self.plan) or any(place > self._place(claim) for place in order):
            return Refused("engine", "vLLM goes through its running requests in order, and admits others after them")
        computed = request.num_computed_tokens
        ends = request.num_tokens + request.num_output_placeholders
        # The sampled token and those that are accepted stay below max_model_len, at which the engine ends a request.
        reach = 0 if request.is_prefill_chunk or to < ends else scheduler.max_model_len - ends - 2
        draft = max(0, min(draft, scheduler.num_spec_tokens, reach))
        request.spec_token_ids = [-1] * draft
        wanted = request.num_tokens_with_spec + request.num_output_placeholders - computed
        room = scheduler.max_model_len - computed - scheduler.num_sampled_tokens_per_step
        count = min(wanted, to + draft - computed, self.budget, room)
        if count > 0 and computed + count >= ends and ends + 1 >= scheduler.max_model_len:
            return Refused("engine", "the step would sample the last token that max_model_len allows")
        if count > 0:
            count = scheduler._mamba_block_aligned_split(request, count)
            count = scheduler._reserve_prefill_lookahead(request, computed, count)
        if count <= 0:
            return Refused("no-progress", "the budget that is left ends before a position where vLLM may stop")
        blocks = self.manager.allocate_slots(request, count, num_lookahead_tokens=scheduler.num_lookahead_tokens)
        if blocks is None:
            return Refused("no-page", "allocate_slots found too few free blocks", {claim.name: self.table(claim)})
        claim.worker.append(blocks.get_block_ids())
        drafts = max(0, computed + count - ends) if draft else 0  # scheduler.py:1010-1025
        request.spec_token_ids = []
        return self._granted(claim, computed, computed + count - drafts, False, drafts)

    def _place(self, claim: Claim) -> int:
        return int(self.scheduler.running.index(claim.request))

    def _admit(self, claim: Claim, to: int) -> Grant | Refused:
        """Follow the waiting loop, scheduler.py:1295-1593, for one request."""
        scheduler, request = self.scheduler, claim.request
        assert claim.lookup is not None
        blocks, hit = claim.lookup
        if claim.seen != self.changes:
            return Refused("engine", "the lookup is out of date: vLLM looks up and allocates in one go")
        count = min(request.num_tokens - hit, to - hit, self.budget)
        padding = self._padding(request, hit)
        if padding >= self.budget:
            return Refused("no-progress", "vLLM does not admit a request whose padded drafts exceed the budget")
        if count > 0:
            count = scheduler._mamba_block_aligned_split(request, count + padding, hit, 0)
        if padding and count > 0:
            padding, count = (padding, count) if count == 1 + padding else (0, 1)
        count = scheduler._reserve_prefill_lookahead(request, hit, count) if count > 0 else 0
        if count <= 0:
            return Refused("no-progress", "the budget that is left ends before a position where vLLM may stop")
        allocated = self.manager.allocate_slots(
            request, count, num_new_computed_tokens=hit, new_computed_blocks=blocks,
            num_lookahead_tokens=scheduler.num_lookahead_tokens, num_external_computed_tokens=0,
            delay_cache_blocks=False, num_encoder_tokens=0,
            full_sequence_must_fit=scheduler.scheduler_reserve_full_isl, reserved_blocks=0,
            has_scheduled_reqs=bool(scheduler.running),
        )
        if allocated is None:
            return Refused("no-page", "allocate_slots found too few free blocks")
        scheduler.waiting.remove_request(request)
        scheduler.running.append(request)
        request.status = type(request.status).RUNNING
        request.num_computed_tokens = hit
        if hit + count < request.num_tokens:
            scheduler._inflight_prefills.add(request)
        claim.lookup = None
        claim.worker.start(self.manager.get_blocks(request.request_id).get_block_ids(), hit)
        return self._granted(claim, hit, hit + count - padding, True, padding)

    def _padding(self, request: Any, hit: int) -> int:
        """Return how many drafts a request gets that has one token left to compute, scheduler.py:1311-1330."""
        scheduler, drafts = self.scheduler, self.scheduler.num_spec_tokens
        running = [one.claim.request for one in self.plan if not one.fresh]
        padded = drafts and request.num_tokens - hit == 1 and not any(one.is_prefill_chunk for one in running)
        fits = hit + 1 + drafts + scheduler.num_sampled_tokens_per_step <= scheduler.max_model_len
        return drafts if padded and (running or hit) and fits else 0

    def _granted(self, claim: Claim, start: int, stop: int, fresh: bool, drafts: int) -> Grant:
        worker = claim.worker
        self.budget -= stop + drafts - start
        copies = worker.advance(self.states, stop)
        written = self._checkpoints(claim, start, stop)
        self.plan.append(Planned(claim, start, stop, copies, fresh))
        return Grant(
            stop, self.table(claim), tuple((self.names[group], block, position) for group, block, position in written),
            {self.names[group]: cells([worker.block(group, worker.column)])[0] if start else None
             for group in self.states},
        )

    def _checkpoints(self, claim: Claim, start: int, stop: int) -> list[tuple[int, int, int]]:
        if not self.settings.checkpoint:
            return []
        return claim.worker.checkpoint(
            self.states, start, stop, self.scheduler.hash_block_size, self.settings.checkpoint,
            self.capabilities.hit_alignment,
        )

    # -- tables

    def table(self, claim: Claim) -> Table:
        """Return what the scheduler holds for a request, by the block ids that the worker will use."""
        table: Table = {}
        for group, name in enumerate(self.names):
            held = self.managers[group].req_to_blocks.get(claim.request.request_id) or []
            named = cells([
                NULL_BLOCK if block.is_null else claim.worker.block(group, column) for column, block in enumerate(held)
            ])
            table[name] = self._slots(claim, named, group) if group in self.states else Pages(named)
        return table

    def _slots(self, claim: Claim, named: Sequence[int], group: int) -> GroupTable:
        worker, source = claim.worker, claim.sources.get(group, NULL)
        live = named[worker.column] if 0 <= worker.column < len(named) else NULL
        frozen = tuple(
            (worker.position(column), cell)
            for column, cell in enumerate(named) if cell not in (NULL, live, source)
        )
        return Slots(live, frozen, source)

    def _empty(self) -> Table:
        return {name: Slots() if group in self.states else Pages() for group, name in enumerate(self.names)}

    # -- steps

    def launch(self) -> Launched:
        """Drain what the scheduler hands to its worker, and do what the worker does before the forward."""
        scheduler = self.scheduler
        planned, self.plan = self.plan, []
        scheduler.current_step += 1
        self.manager.take_boundary_state_offloads()  # from here on scheduler.py:1681-1783
        copies, retained = self.manager.take_kv_cache_block_copies()
        if copies:
            scheduler._free_cow_retained_blocks(retained, scheduler.sched_step_seq + 1)
        zeroed = scheduler._get_new_block_ids_to_zero() or []
        counts = {one.claim.request.request_id: one.stop + one.drafts - one.start for one in planned}
        drafts = {one.claim.request.request_id: [-1] * one.drafts for one in planned if one.drafts}
        output = SimpleNamespace(
            num_scheduled_tokens=counts, total_num_scheduled_tokens=sum(counts.values()),
            scheduled_spec_decode_tokens=drafts, num_spec_tokens_to_schedule=0, has_structured_output_requests=False,
            pending_structured_output_tokens=False, num_invalid_spec_tokens=None,
        )
        scheduler._update_after_schedule(output)
        # The worker's order: gpu/model_runner.py:1293-1304, then preprocess_state before the forward.
        self.memory.zero(zeroed)
        self.memory.copy_blocks(copies)
        states = self._move_states(planned)
        for one in planned:
            one.claim.sources = {}
        self.steps += 1
        self.changes += 1
        self.flights.append((self.steps, output, planned))
        phases = (
            Phase(zeros=tuple((POOL, block) for block in zeroed)),
            Phase(copies=tuple((POOL, one.src_block_id, one.dst_block_id) for one in copies)),
            Phase(copies=tuple((POOL, *pair) for pair in states), unordered=True),
        )
        tables = {one.claim.name: self.table(one.claim) for one in planned}
        return Launched(self.steps, tuple(phase for phase in phases if phase.copies or phase.zeros), tables)

    def _move_states(self, planned: Sequence[Planned]) -> list[tuple[int, int]]:
        states = [copy for one in planned for copy in one.copies]
        self.memory.copy_states(states)
        return states

    def land(self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]) -> Landing:
        """Hand the sampled tokens to vLLM's own `update_from_output`."""
        from vllm.v1.outputs import ModelRunnerOutput

        number, output, steps = self.flights.pop(0)
        assert number == step, f"step {step} was landed before step {number}"
        names = list(output.num_scheduled_tokens)
        said = [self._said(one, accepted, sampled) for one in steps]
        self.scheduler.update_from_output(
            output, ModelRunnerOutput(names, {name: place for place, name in enumerate(names)}, said)
        )
        self.changes += 1
        return Landing()

    def _said(self, one: Planned, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]) -> list[int]:
        """Return the tokens that a step says: one more than it accepted, also where the schedule knows of no more."""
        if one.claim.request.is_finished():
            return []
        tokens = list(sampled.get(one.claim.name, ()))
        return tokens + [0] * (1 + accepted.get(one.claim.name, 0) - len(tokens)) if one.drafts else tokens

    # -- ends

    def preempt(self, request: str) -> Landing:
        """Preempt as the running loop does when blocks are short."""
        claim = self.claims.pop(request)
        self.preempted_in_step = bool(self.plan)
        self.scheduler.running.remove(claim.request)
        self.scheduler._preempt_request(claim.request, 0.0)
        self.preempted[request] = claim.request
        self.changes += 1
        return Landing({request: self._empty()})

    def close(self, request: str, keep: bool) -> Landing:
        """Finish the request; what it computed stays cached either way."""
        self._finish(self.claims.pop(request).request)
        self.changes += 1
        return Landing({request: self._empty()})

    def _finish(self, request: Any) -> None:
        self.scheduler.finish_requests(request.request_id, type(request.status).FINISHED_ABORTED)

    def reset(self) -> ResetDone:
        """Reset the prefix cache, which vLLM refuses while a block is in use."""
        self.changes += 1
        return ResetDone(bool(self.scheduler.reset_prefix_cache()))

    def freeze(self, request: str) -> Frozen | Refused:
        """Never called: vLLM's states are written where chunks end."""
        raise NotImplementedError

    def publish(self, request: str) -> Landing | Refused:
        """Never called: vLLM publishes while it schedules."""
        raise NotImplementedError

    def evict(self, group: str, cells: int) -> Evicted:
        """Never called: vLLM evicts when it allocates."""
        raise NotImplementedError

    # -- accounts and memory

    def account(self) -> dict[str, dict[str, int]]:
        """Count the blocks by vLLM's own reference counts and hashes."""
        counts = {"free": 0, "private": 0, "evictable": 0, "protected": 0}
        for block in self.manager.block_pool.blocks[1:]:
            cached = block.block_hash is not None
            kind = ("protected" if cached else "private") if block.ref_cnt else ("evictable" if cached else "free")
            counts[kind] += 1
        return {POOL: counts}

    def read(self, cell: Cell, group: str) -> Content:
        """Read what the tensors hold; a block may serve any group, and `group` says as which it is to be read."""
        index = self.names.index(group)
        if index in self.states:
            return self.memory.read_state(cell[1])
        return self.memory.read_page(cell[1], self.specs[index].block_size)

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write what the forward of the model would leave."""
        self.memory.write(cell[1], content)
