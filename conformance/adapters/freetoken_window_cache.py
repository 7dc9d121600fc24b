"""FreeToken's sliding-window radix cache at the seam, with full KV or with compressed rows beside the windows.

A table names of a window what its request owns by itself, and of what belongs to the tree only what the next step
reads: older tokens of the tree are not locked for it, and may go at any time.
"""

from __future__ import annotations

from freetoken.scheduler.prefill import PrefillAdder

from milepost.conformance.adapters.freetoken_requests import Request
from milepost.conformance.adapters.freetoken_verbs import DRAINS_FIRST, Plan, Verbs
from milepost.conformance.adapters.freetoken_window_engine import CompressedEngine, PagedMemory, WindowEngine
from milepost.spec.answers import Evicted, Grant, Launched, Pages, Refused, Table, named_cells
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, Group
from milepost.spec.geometry import columns_for, floor_to
from milepost.spec.payload import Content
from milepost.spec.resume import first_needed
from milepost.spec.words import NULL, Cell, GroupKind

FAKED = (
    "the model and its sampler", "streams and events (one queue)", "the loop and its messages' transport",
    "the kernels that store into the pools", "pinned memory", "FREETOKEN_SWA_EVICTION_INTERVAL, which is 128",
)
CUTTING = "no prompt is admitted while a decode batch is cut"
PREFILL_FIRST = "the prompts that wait are computed first, and free what this token needs"


def declare(configuration: Configuration, groups: tuple[Group, ...], cells: int) -> Capabilities:
    """Say what FreeToken 0.2.1 is at these sizes; `cells` is what it makes of the window's pool."""
    page = groups[0].page_size
    return Capabilities(
        engine="FreeToken",
        version="0.2.1",
        issues="https://github.com/FlashML-org/FreeToken/issues",
        groups=groups,
        pools={**configuration.pools, "window": cells},
        fidelity=Fidelity("imported", FAKED),
        hit_alignment=page,
        end_donation="any" if page == 1 else "page",
        explicit_publish=False,
        # What a finished request computed is published while its last step may still write it (scheduler.py:593-612).
        ordered_steps=True,
        overlap=1,
        independent_evict=tuple(group.name for group in groups),
        evicts=True,
        accounts=True,
        contents=True,
        anchor=configuration.anchor is not None,
        resets="idle",
        max_live=configuration.max_live,
        promises=("not-inert", "admits-when-idle", "exact-accounting"),
        smallest_cacheable=page + 1,
    )


class FreeTokenWindowCache(Verbs):
    """FreeToken's sliding-window cache at the seam."""

    _engine: WindowEngine

    def __init__(self, configuration: Configuration) -> None:
        compressed = any(group.kind is GroupKind.COMPRESSED for group in configuration.groups)
        engine = (CompressedEngine if compressed else WindowEngine)(configuration)
        super().__init__(engine, configuration.page_size, {group.name: Pages() for group in engine.groups})
        self.capabilities = declare(configuration, engine.groups, engine.pool.window_pages)
        self._main = [group.name for group in engine.main_groups]
        self._pools = {group.name: group.pool for group in engine.groups}
        self._memory = PagedMemory(engine.groups, engine.tensors())

    # -- memory

    def read(self, cell: Cell, group: str) -> Content:
        """Return what the tensors of a group hold in a page."""
        return self._memory.read(group, cell[1])

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write the entries of a page."""
        assert isinstance(content, tuple)  # pages are all there is
        self._memory.write(group, cell[1], content)

    # -- admission and planning

    def _refuse_open(self) -> Refused | None:
        if self._plans and self._plans[0].phase == "decode":
            return Refused("busy", CUTTING)
        return Refused("in-flight", DRAINS_FIRST) if self._drains_first else None

    def _lacking(self) -> str:
        return "no-page"

    def _adder(self, budget: int) -> PrefillAdder:
        """Return the admission pass, with the window cells that the chunks of this batch will take set aside."""
        cap = self._engine.cache_manager.prefill_chunk_budget  # scheduler.py:144-149
        adder = super()._adder(budget if cap is None else min(budget, cap))
        adder.reserved_swa = sum(self._new_cells(plan) for plan in self._plans)
        return adder

    def _new_cells(self, plan: Plan) -> int:
        """Return the tokens of the pages that a plan will take."""
        start, stop = (columns_for(self._page, at) for at in (plan.request.length, plan.request.req.device_len))
        return (stop - start) * self._page

    def _has_room_for_chunk(self, claim: Request) -> bool:
        """Tell whether FreeToken's own order could have come to this chunk.

        It cuts the first chunk in the pass that admits, and prompts go before decodes. Here others may have taken
        the cells meanwhile, and it would cut a chunk of no tokens, which nothing in it expects.
        """
        manager, reach = self._engine.cache_manager, self._engine.window_group.window + self._page
        evicted = claim.req.swa_evicted_seqlen if claim.req is not None else 0
        slid_out = max(0, floor_to(self._page, claim.length - reach) - max(evicted, claim.tree_length))
        left = manager.swa_available_size + slid_out - sum(self._new_cells(plan) for plan in self._plans)
        end = floor_to(self._page, max(left, 0)) + columns_for(self._page, claim.length) * self._page
        return end > claim.length or self._is_alone(claim)

    def _is_alone(self, claim: Request) -> bool:
        return all(one is claim for one in self._holders())

    def _grant_chunk(self, claim: Request) -> Grant:
        self._plans.append(Plan(claim, "prefill"))
        return Grant(claim.req.device_len, self._table(claim))

    def _grant_token(self, claim: Request) -> Grant | Refused:
        """Plan one token; where cells are short, FreeToken would first compute what is left of the prompts."""
        plan = Plan(claim, "decode")
        wanted = sum(self._new_cells(one) for one in (*self._plans, plan))
        if wanted > self._engine.cache_manager.swa_available_size and self._has_waiting_prompts:
            return Refused("no-page", PREFILL_FIRST)
        self._plans.append(plan)
        return Grant(claim.req.device_len, self._table(claim))

    @property
    def _has_waiting_prompts(self) -> bool:
        return any(claim.in_prompt for claim in self._requests.values())

    # -- steps

    def launch(self) -> Launched:
        """Run all plans as one batch: windows slide, pages and cells are allocated, the model's bookkeeping."""
        plans, starts, forward_input = self._take_plans()
        self._check_locations(forward_input.batch)
        requests = self._start(plans, forward_input)
        return Launched(self._launched, (), {
            request.name: self._table_at(request, start) for request, start in zip(requests, starts, strict=True)
        })

    def evict(self, group: str, cells: int) -> Evicted:
        """Evict as an allocation short of window cells does, or as one short of pages does."""
        manager, pool, tokens = self._engine.cache_manager, self._engine.pool, cells * self._page
        before = self._free_cells()
        if group == self._engine.window_group.name:
            manager.ensure_swa_slots(pool.swa_available_size() + tokens)
        else:
            manager._free(manager._evict(tokens))
        return Evicted(tuple(sorted(self._free_cells() - before)))

    # -- what is held

    def account(self) -> dict[str, dict[str, int]]:
        """Count cells: free and in the tree by FreeToken's own ledgers, private by what else its requests hold."""
        manager, page, window = self._engine.cache_manager, self._page, self._engine.window_group.pool
        tree, private = manager.prefix_cache, [pool for pool, _ in self._private_cells()]
        counts = {
            pool: {
                "free": len(manager.free_slots),
                "private": private.count(pool),
                "evictable": tree.full_evictable // page,
                "protected": tree.full_protected // page,
            }
            for pool in self._pools.values()
        }
        counts[window] |= {
            "free": self._engine.pool.swa_available_size() // page,
            "evictable": tree.swa_evictable // page,
            "protected": tree.swa_protected // page,
        }
        return counts

    def _private_cells(self) -> set[Cell]:
        """Return what requests name that is neither free nor in the tree; what is both is for the laws to judge."""
        named = {cell for one in self._holders() for cell in named_cells(self._table(one), self._pools)}
        for node in self._engine.cache_manager.prefix_cache._all_nodes():
            named -= self._main_cells(node.value.tolist())
            if not node.swa_tombstone:
                named -= {(self._engine.window_group.pool, cell) for cell in self._engine.window_columns(node.value)}
        return named - self._free_cells()

    def _free_cells(self) -> set[Cell]:
        window = {(self._engine.window_group.pool, cell) for cell in self._engine.free_window_cells()}
        return window | self._main_cells(self._engine.cache_manager.free_slots.tolist())

    def _main_cells(self, locations: list[int]) -> set[Cell]:
        """Return the cells of every group but the windows at these locations."""
        return {(self._pools[name], location // self._page) for name in self._main for location in locations}

    def _table(self, claim: Request, planned: object = None) -> Table:
        return self._table_at(claim, claim.length)

    def _table_at(self, claim: Request, position: int) -> Table:
        """Return what a request names whose query at `position` reads its window."""
        if claim.freed:
            return self._nothing
        page, window = self._page, self._engine.window_group
        row = self._engine.engine.page_table[claim.admission.row if claim.req is None else claim.req.table_idx]
        end = columns_for(page, claim.length) * page
        pages = Pages(tuple(location // page for location in row[:end:page].tolist()))
        first = min(first_needed(window.kind, position, window.window), claim.tree_length) // page
        cells = self._engine.window_columns(row[first * page : end])
        return {**dict.fromkeys(self._main, pages), window.name: Pages((NULL,) * first + tuple(cells))}
