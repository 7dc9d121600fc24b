"""FreeToken's hybrid radix cache at the seam: KV pages, and states in the slots of its own pool."""

from __future__ import annotations

from freetoken.core import Batch

from milepost.conformance.adapters.freetoken_engine import Engine
from milepost.conformance.adapters.freetoken_freezes import Told, preview, read_arguments
from milepost.conformance.adapters.freetoken_memory import LAYERS, StateMemory
from milepost.conformance.adapters.freetoken_requests import EMPTY, Admission, Request, table
from milepost.conformance.adapters.freetoken_verbs import Plan, Verbs
from milepost.spec.answers import Evicted, Grant, Launched, Phase, Table
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, FreezeGrid, Group
from milepost.spec.payload import Content
from milepost.spec.words import Cell, GroupKind

FAKED = (
    "the model and its sampler", "streams and events (one queue)", "the loop and its messages' transport",
    "KV memory", "pinned memory", "CHUNK_SIZE where it is not 64",
)
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


class FreeTokenCache(Verbs):
    """FreeToken at the seam."""

    def __init__(self, configuration: Configuration) -> None:
        self.capabilities = declare(configuration)
        self._chunk = configuration.chunk_size
        super().__init__(Engine(configuration), configuration.page_size, EMPTY)
        self._memory = StateMemory(self._engine.pool)

    # -- memory of the state group

    def read(self, cell: Cell, group: str) -> Content:
        """Return what the state tensors hold in a slot."""
        return self._memory.read(cell[1])

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write a state into a slot of the state tensors."""
        assert isinstance(content, int)
        self._memory.write(cell[1], content)

    # -- admission and planning

    def _lacking(self) -> str:
        return "no-page" if self._engine.pool.num_free_slots >= ADMISSION_SLOTS else "no-slot"

    def _grant_chunk(self, claim: Request) -> Grant:
        planned, told = preview([*(plan.request.req for plan in self._plans), claim.req], self._chunk)
        self._plans.append(Plan(claim, "prefill", told))
        return Grant(
            claim.req.device_len,
            self._table(claim, planned),
            tuple(("state", freeze.slot, freeze.position) for freeze in told.freezes),
            {"state": told.initial},
        )

    def _grant_token(self, claim: Request) -> Grant:
        slot = claim.req.linear_slot_idx
        self._plans.append(Plan(claim, "decode", Told(slot, slot, ())))
        return Grant(claim.req.device_len, self._table(claim), (), {"state": slot})

    # -- steps

    def launch(self) -> Launched:
        """Run all plans as one batch; each restore and each anchor's snapshot is a phase of its own."""
        plans, starts, forward_input = self._take_plans()
        self._check_arguments(plans, starts, forward_input.batch)
        self._engine.pool.take_copies()
        requests = self._start(plans, forward_input)
        phases = tuple(Phase((("state", *copy),)) for copy in self._engine.pool.take_copies())
        return Launched(self._launched, phases, self._tables(requests))

    def _check_arguments(self, plans: list[Plan], starts: list[int], batch: Batch) -> None:
        """The kernels of the whole batch are told what each Grant said, and write KV where the page table says."""
        told = read_arguments(batch.fla_metadata, starts, self._chunk)
        if told != [plan.granted for plan in plans]:
            raise RuntimeError(f"the state kernels are given {told}, the requests own {[one.granted for one in plans]}")
        self._check_locations(batch)
        self._memory.torn.update(freeze.slot for one in told for freeze in one.freezes if not freeze.whole)

    # -- ends

    def _give_back_slots(self, admission: Admission) -> None:
        self._engine.pool.free([admission.live, *admission.ping_pong])

    def evict(self, group: str, cells: int) -> Evicted:
        """Evict as an admission short of slots does, or as an allocation short of pages does."""
        manager, pool = self._engine.cache_manager, self._engine.pool
        before = self._free_cells()
        if group == "state":
            manager.ensure_mamba_slots(pool.num_free_slots + cells)
        else:
            manager._free(manager._evict(cells * self._page))
        return Evicted(tuple(sorted(self._free_cells() - before)))

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

    def _free_cells(self) -> set[Cell]:
        pages = {("kv", location // self._page) for location in self._engine.cache_manager.free_slots.tolist()}
        return pages | {("state", slot) for slot in self._engine.pool._free_slots}

    def _table(self, claim: Request, planned: object = None) -> Table:
        return table(claim, self._engine.engine.page_table, self._page, planned)
