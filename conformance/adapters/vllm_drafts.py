"""vLLM with speculative decoding behind the verbs of the seam: what `vllm_scheduler` does, with drafts in flight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from milepost.conformance.adapters.vllm_engine import POOL, Settings
from milepost.conformance.adapters.vllm_scheduler import Vllm
from milepost.conformance.adapters.vllm_states import DraftMemory, Moves, Row, StateMover
from milepost.conformance.adapters.vllm_worker import NULL_BLOCK, Claim, Planned
from milepost.conformance.errors import AdapterError
from milepost.spec.answers import Grant, GroupTable, Hit, Landing, Launched, Phase, Refused, Slots
from milepost.spec.capabilities import Capabilities
from milepost.spec.payload import GARBAGE, Content
from milepost.spec.words import NULL, Cell, Namespace


class DraftingVllm(Vllm):
    """vLLM whose running requests speculate.

    What follows a forward needs to know what was accepted, which is known at the landing. What it does whatever was
    accepted is done as soon as the forward's writes are there, as on the device (`_catch_up`); the rest at the landing.
    """

    memory: DraftMemory

    def __init__(self, settings: Settings, declare: Callable[[Settings, int], Capabilities]) -> None:
        super().__init__(settings, declare)
        columns = -(-self.scheduler.max_model_len // settings.state_block) + 2 * settings.drafts + 2
        self.mover = StateMover(self.scheduler, self.memory, self.states, columns)
        self.behind: tuple[int, list[Planned]] = (0, [])
        self.done: dict[int, Moves] = {}
        self.saved: set[int] = set()
        self.overrun: set[int] = set()
        self.windows: dict[int, tuple[int, int]] = {}

    def _allocate(self) -> DraftMemory:
        return DraftMemory(self.specs, self.specs[1].shapes, self.settings.blocks + 1)

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        """Look up as without drafts, on memory that has caught up."""
        self._catch_up()
        return super().open(request, tokens, namespace, content)

    def _granted(self, claim: Claim, start: int, stop: int, fresh: bool, drafts: int) -> Grant:
        worker, size = claim.worker, self.settings.state_block
        self.budget -= stop + drafts - start
        if fresh:
            claim.known = claim.request.num_tokens
        landed = all(one.claim is not claim for one in self.behind[1])
        row = Row(claim.place, start, stop, drafts, claim.known)
        claim.began = began = self.mover.look_ahead(row, start if fresh else None, landed)
        column = began.column
        worker.column, worker.positions[column] = column, stop
        written = [] if drafts else self._checkpoints(claim, start, stop)
        if drafts and stop % size == 0:
            # The running column is behind the boundary; what follows the forward copies the state to where it belongs.
            worker.positions[stop // size - 1] = stop
            saved = [(group, worker.block(group, stop // size - 1), stop) for group in self.states]
            written += [one for one in saved if one[1] not in (NULL_BLOCK, worker.block(one[0], column))]
        self.plan.append(Planned(claim, start, stop, [], fresh, drafts, stop >= claim.request.num_tokens))
        first = {group: worker.block(group, column + began.behind) for group in self.states}
        return Grant(
            stop, self.table(claim), tuple((self.names[group], block, at) for group, block, at in written),
            # The null block holds no state: who reads it starts from nothing.
            {self.names[group]: block if start and block != NULL_BLOCK else None for group, block in first.items()},
            draft=drafts,
        )

    def _slots(self, claim: Claim, named: Sequence[int], group: int) -> GroupTable:
        worker, source = claim.worker, claim.sources.get(group, NULL)
        running = max(worker.column, 0)
        frozen = tuple(
            (worker.position(column), cell)
            for column, cell in enumerate(named[:running]) if cell not in (NULL, source)
        )
        return Slots(named[running] if running < len(named) else NULL, frozen, source, tuple(named[running + 1 :]))

    # -- steps

    def launch(self) -> Launched:
        """Start the step, on memory that has caught up."""
        self._catch_up()
        launched = super().launch()
        for _, _, target in (copy for phase in launched.phases for copy in phase.copies):
            self.windows.pop(target, None)
        return launched

    def _move_states(self, planned: Sequence[Planned]) -> Moves:
        for one in planned:
            claim = one.claim
            rows = [claim.worker.rows[group] for group in self.states]
            if one.fresh:
                claim.place = self.mover.free.pop()
                self.mover.begin(claim.place, one.start)
            self.mover.put(claim.place, rows)
            self._keep_windows(claim)
        batch = [Row(one.claim.place, one.start, one.stop, one.drafts, one.claim.known) for one in planned]
        moves, began = self.mover.before(batch)
        if began != [one.claim.began for one in planned]:
            raise AdapterError("vLLM's worker begins a step in another way than when it was asked before")
        self.overrun = {one.claim.worker.block(group, one.claim.worker.column) for one in planned
                        if one.drafts and not one.claim.began.verifies for group in self.states}
        self.behind = self.steps + 1, list(planned)
        size = self.settings.state_block
        ends = [(one, one.stop // size - 1) for one in planned if one.drafts and one.stop % size == 0]
        self.saved = {one.claim.worker.block(group, column) for one, column in ends for group in self.states
                      if column != one.claim.worker.column}
        return moves

    def _catch_up(self) -> None:
        """Do what follows the newest forward whatever it accepted: a boundary's state goes to the boundary's column."""
        step, planned = self.behind
        if planned:
            said = [int(one.samples) for one in planned]
            places = [one.claim.place for one in planned]
            self.done[step] = self.mover.after(places, said, [one.stop for one in planned])
        self.behind = 0, []
        self.saved = set()

    def land(self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]) -> Landing:
        """Do what follows the forward with what was accepted, and land."""
        self._catch_up()
        speculating = [one for one in self.flights[0][2] if one.drafts and not one.claim.request.is_finished()]
        counts = [accepted.get(one.claim.name, 0) for one in speculating]
        done = self.done.pop(step)
        moves: Moves = []
        if speculating:
            ends = [one.stop + count for one, count in zip(speculating, counts, strict=True)]
            places = [one.claim.place for one in speculating]
            moves = [one for one in self.mover.after(places, [1 + one for one in counts], ends) if one not in done]
            for one, end in zip(speculating, ends, strict=True):
                boundary = end - end % self.settings.state_block
                if boundary >= one.stop:
                    one.claim.worker.positions[boundary // self.settings.state_block - 1] = boundary
        landing = super().land(step, accepted, sampled)
        copies = tuple((POOL, *pair) for pair in moves)
        return replace(landing, phases=(Phase(copies=copies, unordered=True),) if copies else ())

    # -- ends

    def preempt(self, request: str) -> Landing:
        """Preempt; its place is free for another request."""
        self._catch_up()
        self._leave(request)
        return super().preempt(request)

    def close(self, request: str, keep: bool) -> Landing:
        """Close; its place is free for another request."""
        self._leave(request)
        return super().close(request, keep)

    def _leave(self, request: str) -> None:
        if self.claims[request].place >= 0:
            self.mover.free.append(self.claims[request].place)

    # -- memory

    def _keep_windows(self, claim: Claim) -> None:
        """Note where the convolution of each state of a request is: a draft's is a row of the running column's."""
        running = claim.worker.column
        for row in (claim.worker.rows[group] for group in self.states):
            for block in row[: running + 1]:
                self.windows.pop(block, None)
            for place, block in enumerate(row[running + 1 : running + 1 + self.settings.drafts], 1):
                self.windows[block] = row[running], place

    def _window(self, block: int) -> tuple[int, int]:
        return self.windows.get(block, (block, 0))

    def read(self, cell: Cell, group: str) -> Content:
        """Read what the tensors hold, of a draft's state both places."""
        if self.names.index(group) not in self.states:
            return super().read(cell, group)
        return self.memory.read_draft(cell[1], self._window(cell[1]))

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write what the forward would leave: in the running column, behind all tokens where it does not verify.

        What is copied behind the forward, vLLM's own kernel copies.
        """
        if isinstance(content, int) and cell[1] not in self.saved:
            content = GARBAGE if cell[1] in self.overrun else content
            self.memory.write_state(cell[1], self._window(cell[1]), content)
        elif isinstance(content, tuple):
            super().write(cell, group, content)
