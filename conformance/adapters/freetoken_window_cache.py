"""FreeToken's sliding-window radix cache at the seam.

A table names of a window what its request owns by itself, and of what belongs to the tree only what the next step
reads: older tokens of the tree are not locked for it, and may go at any time.
"""

from __future__ import annotations

from milepost.conformance.adapters.freetoken_requests import Request
from milepost.conformance.adapters.freetoken_verbs import DRAINS_FIRST, Plan, Verbs
from milepost.conformance.adapters.freetoken_window_engine import PagedMemory, WindowEngine
from milepost.spec.answers import Evicted, Grant, Launched, Pages, Refused, Table, named_cells
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, Group
from milepost.spec.payload import GARBAGE, ZERO, Content
from milepost.spec.resume import first_needed
from milepost.spec.words import NULL, Cell, GroupKind

NOTHING: Table = {"kv": Pages(), "window": Pages()}
POOLS = {"kv": "kv", "window": "window"}
FAKED = (
    "the model and its sampler", "streams and events (one queue)", "the loop and its messages' transport",
    "store_kv (its kernel needs a GPU)", "pinned memory", "FREETOKEN_SWA_EVICTION_INTERVAL, which is 128",
)
CUTTING = "no prompt is admitted while a decode batch is cut"
PREFILL_FIRST = "the prompts that wait are computed first, and free what this token needs"


def declare(configuration: Configuration, cells: int) -> Capabilities:
    """Say what FreeToken 0.2.1 is at these sizes; `cells` is what it makes of the window's pool."""
    window = next(one.window for one in configuration.groups if one.kind is GroupKind.WINDOW)
    return Capabilities(
        engine="FreeToken",
        version="0.2.1",
        issues="https://github.com/FlashML-org/FreeToken/issues",
        groups=(
            Group("kv", GroupKind.FULL, "kv", layers=2, executes="engine"),
            Group("window", GroupKind.WINDOW, "window", window=window, layers=2, executes="engine"),
        ),
        pools={"kv": configuration.pools["kv"], "window": cells},
        fidelity=Fidelity("imported", FAKED),
        end_donation="any",
        explicit_publish=False,
        # What a finished request computed is published while its last step may still write it (scheduler.py:593-612).
        ordered_steps=True,
        overlap=1,
        independent_evict=("kv", "window"),
        evicts=True,
        accounts=True,
        contents=True,
        anchor=configuration.anchor is not None,
        resets="idle",
        max_live=configuration.max_live,
        promises=("not-inert", "admits-when-idle", "exact-accounting"),
        smallest_cacheable=2,
    )


class FreeTokenWindowCache(Verbs):
    """FreeToken's sliding-window cache at the seam."""

    _engine: WindowEngine

    def __init__(self, configuration: Configuration) -> None:
        engine = WindowEngine(configuration)
        super().__init__(engine, 1, NOTHING)
        self.capabilities = declare(configuration, engine.pool.window_pages)
        self._memory = PagedMemory(engine.pool)

    # -- memory

    def read(self, cell: Cell, group: str) -> Content:
        """Return what the keys and values of a token hold in all layers of a group."""
        payload = self._memory.read(group, cell[1])
        return (payload if payload > ZERO else GARBAGE,)

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write a token's payload."""
        assert isinstance(content, tuple)
        if content[0] is not None:
            self._memory.write(group, cell[1], content[0])

    # -- admission and planning

    def _refuse_open(self) -> Refused | None:
        if self._plans and self._plans[0].phase == "decode":
            return Refused("busy", CUTTING)
        return Refused("in-flight", DRAINS_FIRST) if self._drains_first else None

    def _lacking(self) -> str:
        return "no-page"

    def _adder(self, budget: int):  # type: ignore[no-untyped-def]  # FreeToken's PrefillAdder, which is untyped
        """Return the admission pass, with the window cells that the chunks of this batch will take set aside."""
        adder = super()._adder(budget)
        adder.reserved_swa = sum(self._new_cells(plan) for plan in self._plans)
        return adder

    def _new_cells(self, plan: Plan) -> int:
        return int(plan.request.req.device_len - plan.request.length)

    def _has_room_for_chunk(self, claim: Request) -> bool:
        """Tell whether FreeToken's own order could have come to this chunk.

        It cuts the first chunk in the pass that admits, and prompts go before decodes. Here others may have taken
        the cells meanwhile, and it would cut a chunk of no tokens, which nothing in it expects.
        """
        manager, reach = self._engine.cache_manager, self._engine.window + self._page
        evicted = claim.req.swa_evicted_seqlen if claim.req is not None else 0
        slid_out = max(0, claim.length - reach - max(evicted, claim.tree_length))
        reserved = sum(self._new_cells(plan) for plan in self._plans)
        return bool(manager.swa_available_size + slid_out > reserved) or self._is_alone(claim)

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
        manager, pool = self._engine.cache_manager, self._engine.pool
        before = self._free_cells()
        if group == "window":
            manager.ensure_swa_slots(pool.swa_available_size() + cells)
        else:
            manager._free(manager._evict(cells))
        return Evicted(tuple(sorted(self._free_cells() - before)))

    # -- what is held

    def account(self) -> dict[str, dict[str, int]]:
        """Count cells: free and in the tree by FreeToken's own ledgers, private by what else its requests hold."""
        manager, pool = self._engine.cache_manager, self._engine.pool
        tree, private = manager.prefix_cache, self._private_cells()
        return {
            "kv": {
                "free": len(manager.free_slots),
                "private": sum(cell[0] == "kv" for cell in private),
                "evictable": tree.full_evictable,
                "protected": tree.full_protected,
            },
            "window": {
                "free": pool.swa_available_size(),
                "private": sum(cell[0] == "window" for cell in private),
                "evictable": tree.swa_evictable,
                "protected": tree.swa_protected,
            },
        }

    def _private_cells(self) -> set[Cell]:
        """Return what requests name that is neither free nor in the tree; what is both is for the laws to judge."""
        named = {cell for one in self._holders() for cell in named_cells(self._table(one), POOLS)}
        nodes = self._engine.cache_manager.prefix_cache._all_nodes()
        published = {("kv", location) for node in nodes for location in node.value.tolist()}
        live = (node for node in nodes if not node.swa_tombstone)
        published |= {("window", cell) for node in live for cell in self._engine.window_cells(node.value)}
        return named - published - self._free_cells()

    def _free_cells(self) -> set[Cell]:
        manager, pool = self._engine.cache_manager, self._engine.pool
        pages = {("kv", location) for location in manager.free_slots.tolist()}
        return pages | {("window", cell) for cell in pool._swa_free.tolist()}

    def _table(self, claim: Request, planned: object = None) -> Table:
        return self._table_at(claim, claim.length)

    def _table_at(self, claim: Request, position: int) -> Table:
        """Return what a request names whose query at `position` reads its window."""
        if claim.freed:
            return NOTHING
        rows = self._engine.engine.page_table[self._row(claim), : claim.length]
        return {"kv": Pages(tuple(rows.tolist())), "window": Pages(self._window(claim, position))}

    def _window(self, claim: Request, position: int) -> tuple[int, ...]:
        """Return a request's columns of the window group."""
        first = min(first_needed(GroupKind.WINDOW, position, self._engine.window), claim.tree_length)
        cells = self._engine.window_cells(self._engine.engine.page_table[self._row(claim), first : claim.length])
        return (NULL,) * first + tuple(cell or NULL for cell in cells)

    def _row(self, claim: Request) -> int:
        return int(claim.admission.row if claim.req is None else claim.req.table_idx)
