"""A cache that is told by hand: operations and answers go to the judge one by one, and it says what it thinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from milepost.spec.answers import (
    Answer,
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
from milepost.spec.capabilities import Capabilities, Group
from milepost.spec.faults import Fault
from milepost.spec.operations import (
    Close,
    Evict,
    Extend,
    Freeze,
    Land,
    Launch,
    Open,
    Operation,
    Preempt,
    Publish,
    Reset,
)
from milepost.spec.payload import Content
from milepost.spec.schedule import parse_tokens
from milepost.spec.state import Claim, State, initial
from milepost.spec.step import step
from milepost.spec.words import NULL, Cell, GroupKind, Namespace

FULL = Group("kv", GroupKind.FULL, "kv", page_size=4)
STATE = Group("state", GroupKind.RECURRENT, "state")
WINDOW = Group("near", GroupKind.WINDOW, "near", page_size=4, window=6)
COMPRESSED = Group("far", GroupKind.COMPRESSED, "far", page_size=4, ratio=2)

HYBRID = Capabilities(
    engine="acme",
    version="0.9.2",
    groups=(FULL, STATE),
    pools={"kv": 12, "state": 8},
    chunk_size=8,
    mid_prefill_freeze=True,
    explicit_freeze=True,
    evicts=True,
    resets="always",
    namespaces=("salt", "adapter"),
    contents=True,
    preempts=True,
    overlap=1,
    drops_planned=("close", "preempt"),
)
"""A cache with one full and one recurrent group behind one ordered queue, and no grid of its own."""

LITERAL = replace(HYBRID, ordered_steps=False)
PAGED = replace(HYBRID, groups=(FULL,), pools={"kv": 12})
WINDOWED = replace(HYBRID, groups=(FULL, WINDOW), pools={"kv": 12, "near": 12})
SQUEEZED = replace(HYBRID, groups=(COMPRESSED,), pools={"far": 12})
SHARED = replace(HYBRID, groups=(replace(FULL, pool="cells"), replace(STATE, pool="cells")), pools={"cells": 16})
"""One pool for pages and slots, as vLLM has it."""

TEXT = "abcdefghijklmnop"


def hybrid(
    kv: tuple[int, ...] = (), live: int = NULL, frozen: Mapping[int, int] | None = None, source: int = NULL
) -> Table:
    """The table of a request in a cache with the groups kv and state."""
    return {"kv": Pages(kv), "state": Slots(live, tuple((frozen or {}).items()), source)}


def copy(source: int, target: int, pool: str = "state", at: str = "queue") -> Phase:
    """A phase of one copy."""
    return Phase(copies=((pool, source, target),), at=at)


def zero(*slots: int, pool: str = "state", at: str = "queue") -> Phase:
    """A phase of zeroings."""
    return Phase(zeros=tuple((pool, slot) for slot in slots), at=at)


class World:
    """The judge's state, and one method for each verb that states the answer along with the question."""

    def __init__(self, capabilities: Capabilities = HYBRID) -> None:
        self.capabilities = capabilities
        self.state = initial(capabilities)
        self.steps = 0

    def ask(self, operation: Operation, answer: Answer) -> State | Fault:
        """Let the judge see one operation and its answer; a fault leaves the state as it was."""
        result = step(self.state, operation, answer)
        if isinstance(result, State):
            self.state = result
        return result

    def claim(self, request: str) -> Claim:
        """Return what the judge knows of a request."""
        return self.state.claims[request]

    def content(self, cell: Cell) -> Content:
        """Return what the judge takes a cell to hold."""
        return self.state.contents.get(cell)

    def open(
        self,
        request: str,
        text: str,
        hit: int = 0,
        table: Table | None = None,
        *,
        samples: str = "",
        namespace: Namespace = (),
        content: dict[int, str] | None = None,
        phases: tuple[Phase, ...] = (),
        tables: Tables | None = None,
    ) -> State | Fault:
        """Open a request, and answer with a hit."""
        operation = Open(request, parse_tokens(text), parse_tokens(samples), namespace, content or {})
        return self.ask(operation, Hit(hit, table or {}, tables or {}, phases))

    def open_refused(self, request: str, text: str, tables: Tables | None = None) -> State | Fault:
        """Open a request, and refuse it."""
        return self.ask(Open(request, parse_tokens(text)), Refused("busy", tables=tables or {}))

    def extend(
        self,
        request: str,
        to: int,
        table: Table,
        *,
        granted: int | None = None,
        frozen: Mapping[int, int] | None = None,
        initial: Mapping[str, int | None] | None = None,
        tables: Tables | None = None,
    ) -> State | Fault:
        """Plan up to `to`; the initial state is the live slot of each recurrent group unless it is given.

        `frozen` has slots of the group `state` by the position that the kernel is told.
        """
        if initial is None:
            initial = {name: part.live for name, part in table.items() if isinstance(part, Slots)}
        rows = tuple(("state", slot, position) for position, slot in (frozen or {}).items())
        length = to if granted is None else granted
        return self.ask(Extend(request, to), Grant(length, table, rows, dict(initial), tables or {}))

    def plan(
        self,
        request: str,
        to: int,
        table: Table,
        frozen: tuple[tuple[str, int, int], ...],
        initial: Mapping[str, int | None],
    ) -> State | Fault:
        """Plan up to `to` with snapshots in any group: (group, slot, position)."""
        return self.ask(Extend(request, to), Grant(to, table, frozen, dict(initial)))

    def extend_refused(self, request: str, to: int, tables: Tables | None = None) -> State | Fault:
        """Ask for tokens up to `to`, and refuse."""
        return self.ask(Extend(request, to), Refused("no-page", tables=tables or {}))

    def launch(self, *phases: Phase, tables: Tables | None = None) -> State | Fault:
        """Launch what is planned."""
        self.steps += 1
        return self.ask(Launch(), Launched(self.steps, phases, tables or {}))

    def land(self, number: int | None = None, tables: Tables | None = None, *phases: Phase) -> State | Fault:
        """Land a step, the oldest one unless its number is given."""
        return self.ask(Land(number), Landing(tables or {}, phases))

    def freeze(
        self, request: str, position: int, slot: int, table: Table, *phases: Phase, tables: Tables | None = None
    ) -> State | Fault:
        """Freeze into a slot of the group `state`."""
        answer = Frozen(position, (("state", slot),), table, tables or {}, phases)
        return self.ask(Freeze(request), answer)

    def publish(self, request: str, tables: Tables | None = None, *phases: Phase) -> State | Fault:
        """Publish."""
        return self.ask(Publish(request), Landing(tables or {}, phases))

    def close(self, request: str, tables: Tables | None = None, *phases: Phase, keep: bool = True) -> State | Fault:
        """Close a request."""
        return self.ask(Close(request, keep), Landing(tables or {}, phases))

    def preempt(self, request: str, tables: Tables | None = None) -> State | Fault:
        """Preempt a request."""
        return self.ask(Preempt(request), Landing(tables or {}))

    def reset(self, done: bool = True, tables: Tables | None = None) -> State | Fault:
        """Reset, or be refused."""
        return self.ask(Reset(), ResetDone(done, tables or {}))

    def evict(self, *cells: Cell, group: str = "kv", tables: Tables | None = None) -> State | Fault:
        """Evict, and list what was given up."""
        return self.ask(Evict(group, max(1, len(cells))), Evicted(cells, tables=tables or {}))

    def run(self, request: str, to: int, table: Table, *phases: Phase, frozen: Mapping[int, int] | None = None) -> None:
        """Extend, launch and land, all of it legal."""
        legal(self.extend(request, to, table, frozen=frozen))
        legal(self.launch(*phases))
        legal(self.land())

    def compute(
        self,
        request: str,
        text: str,
        kv: tuple[int, ...],
        live: int,
        *,
        to: int | None = None,
        frozen: Mapping[int, int] | None = None,
        namespace: Namespace = (),
        content: dict[int, str] | None = None,
    ) -> None:
        """Open a request in a hybrid cache with no hit, and compute its prompt or the first `to` tokens of it."""
        legal(self.open(request, text, samples=TEXT, namespace=namespace, content=content))
        table = hybrid(kv, live, frozen)
        self.run(request, len(text) if to is None else to, table, zero(live, pool=self._pool()), frozen=frozen)

    def _pool(self) -> str:
        return self.state.pools["state"]


def legal(result: State | Fault) -> State:
    """Assert that the judge found nothing, and return its state."""
    assert isinstance(result, State), result
    return result


def faulty(result: State | Fault, code: str) -> Fault:
    """Assert that the judge found a fault with this code, and return it."""
    assert isinstance(result, Fault), f"nothing found, expected {code}"
    assert result.code == code, result
    return result
