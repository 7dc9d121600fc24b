"""The judge: `step(state, operation, answer)` gives the next state, or the fault that the answer proves.

Pure: the answer resolves everything that the engine was free to decide, so there is no tree and no search here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from milepost.spec.answers import (
    Answer,
    Drained,
    Evicted,
    Frozen,
    Grant,
    Hit,
    Landing,
    Launched,
    Pages,
    Refused,
    ResetDone,
    Slots,
    Table,
)
from milepost.spec.effects import Contradiction, apply_tables, run_phases, write_entries, write_slot
from milepost.spec.faults import Fault
from milepost.spec.geometry import lies_on
from milepost.spec.operations import (
    Close,
    Drain,
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
from milepost.spec.payload import make_stream
from milepost.spec.reads import FaultFound, check_all, check_state
from milepost.spec.state import Claim, Flight, State, initial
from milepost.spec.words import NULL, Cell, GroupKind

__all__ = ["Contradiction", "State", "initial", "step"]


def step(state: State, operation: Operation, answer: Answer) -> State | Fault:
    """Judge one operation and its answer; raise Contradiction where the answer is none that the protocol knows."""
    draft = state.copy()
    try:
        return _judge(draft, operation, answer)
    except FaultFound as found:
        return found.fault


def _judge(state: State, operation: Operation, answer: Answer) -> State:
    match operation, answer:
        case Open(), Hit():
            return _open(state, operation, answer)
        case Open(), Refused():
            return _open_refused(state, operation, answer)
        case Extend(), Grant():
            return _extend(state, operation, answer)
        case Launch(), Launched():
            return _launch(state, answer)
        case Land(), Landing():
            return _land(state, operation, answer)
        case Freeze(), Frozen():
            return _freeze(state, operation, answer)
        case (Publish() | Preempt() | Close()), Landing():
            return _settle(state, operation, answer)
        case Reset(), ResetDone():
            apply_tables(state, answer.tables, granting=False)
            return replace(state, epoch=state.epoch + answer.done)
        case Evict(), Evicted():
            return _evict(state, answer)
        case (Extend() | Freeze() | Publish()), Refused():
            return _refused(state, operation, answer)
        case Drain(), Drained():
            return _drain(state, answer)
    raise Contradiction(f"{operation.verb} was answered with '{answer.tag}'")


def _open(state: State, operation: Open, answer: Hit) -> State:
    if operation.request in state.claims:
        raise Contradiction(f"'{operation.request}' is open already")
    tokens = operation.tokens + operation.samples
    stream = make_stream(operation.namespace, state.epoch, tokens, operation.content)
    prompt, n, request = len(operation.tokens), answer.length, operation.request
    state = replace(state, streams=(*state.streams, (request, stream)))
    if not 0 <= n <= max(prompt - 1, 0) or not lies_on(state.capabilities.hit_alignment, n):
        raise FaultFound(Fault("illegal-boundary", request, position=n, numbers={"prompt": prompt}))
    # What the hit offers keeps its content: it is named before the table is, so that none of it counts as granted.
    offered = _hit_cells(state, answer.table, n)
    state.claims[request] = Claim(request, stream, prompt, prompt, n, n, cells=offered)
    apply_tables(state, {**answer.tables, request: answer.table}, granting=True)
    run_phases(state, answer.phases, answer.readings)
    claim = state.claims[request]
    promised = check_all(state, claim, n, n, at_open=True)
    sources: set[Cell] = set()
    for group in state.capabilities.groups if n else ():
        if group.kind is GroupKind.RECURRENT:
            part = claim.table.get(group.name)
            index = (part.source if part.source != NULL else part.live) if isinstance(part, Slots) else NULL
            if check_state(state, claim, group, index, n, at_open=True):
                promised |= {(group.pool, index)}
            sources.add((group.pool, index))
    state.claims[request] = replace(
        claim, leases=offered, restoring=frozenset(sources), promised=promised
    )
    return state


def _hit_cells(state: State, table: Table, n: int) -> frozenset[Cell]:
    cells: set[Cell] = set()
    for name, part in table.items():
        if isinstance(part, Pages):
            columns = part.columns[: -(-n // state.capabilities.group(name).page_size)]
            cells.update((state.pools[name], index) for index in columns if index != NULL)
    return frozenset(cells)


def _open_refused(state: State, operation: Open, answer: Refused) -> State:
    if any(part not in (Pages(), Slots()) for part in answer.tables.get(operation.request, {}).values()):
        raise FaultFound(Fault("torn-refusal", operation.request, detail="a refused open still holds cells"))
    _apply_refused(state, {name: table for name, table in answer.tables.items() if name != operation.request})
    return state


def _extend(state: State, operation: Extend, answer: Grant) -> State:
    claim = state.claims[operation.request]
    if not claim.length < answer.length <= operation.to:
        raise Contradiction(f"extend to {operation.to} from {claim.length} was granted up to {answer.length}")
    apply_tables(state, {**answer.tables, operation.request: answer.table}, granting=True)
    claim = state.claims.pop(operation.request)
    grid = state.capabilities.freeze_grid
    for _, _, position in answer.frozen:
        origin = claim.length if grid.origin == "step" else 0
        inside = claim.length < position < answer.length
        if not claim.length <= position <= answer.length or (inside and (position - origin) % grid.chunk_size):
            raise FaultFound(Fault("illegal-boundary", claim.request, position=position))
    # Put back at the end: the order of the dictionary is the order in which the requests were planned.
    state.claims[operation.request] = replace(claim, planned=answer, extended=True)
    return state


def _launch(state: State, answer: Launched) -> State:
    apply_tables(state, answer.tables, granting=True)
    run_phases(state, answer.phases, answer.readings)
    steps = [(claim, claim.planned) for claim in state.planned() if claim.planned]
    reads = {cell for claim, _ in steps for cell in claim.cells}
    reads |= {(pool, source) for phase in answer.phases for pool, source, _ in phase.copies}
    for claim, grant in steps:
        _read_states(state, claim, grant)
    writes: dict[Cell, tuple[str, int, int]] = {}
    for claim, grant in steps:
        for group in state.capabilities.groups:
            if group.kind.paged:
                writes.update(write_entries(state, claim, group, claim.length, grant.length))
    for claim, grant in steps:
        _same_step(state, claim, writes)
        check_all(state, claim, claim.length, grant.length, at_open=False)
    for claim, grant in steps:
        writes.update(_write_states(state, claim, grant))
    ordered = state.capabilities.ordered_steps
    for claim, grant in steps:
        restoring = frozenset() if ordered else claim.restoring
        state.claims[claim.request] = replace(
            claim, length=grant.length, planned=None, restoring=restoring, promised=frozenset()
        )
    spans = {claim.request: (claim.length, grant.length) for claim, grant in steps}
    return replace(state, flights=(*state.flights, Flight(answer.step, spans, writes, frozenset(reads))))


def _read_states(state: State, claim: Claim, grant: Grant) -> None:
    for group in state.capabilities.groups:
        if group.kind is GroupKind.RECURRENT:
            index = grant.initial_state.get(group.name)
            if index is None and claim.length == 0:
                continue
            check_state(state, claim, group, NULL if index is None else index, claim.length, at_open=False)


def _same_step(state: State, claim: Claim, writes: dict[Cell, tuple[str, int, int]]) -> None:
    """Another request's KV of the same step may be read only where the forward orders it so."""
    for group in state.capabilities.groups:
        part = claim.table.get(group.name)
        if not group.same_step_reads and isinstance(part, Pages):
            for column, index in enumerate(part.columns):
                cell = (group.pool, index)
                writer, low, _ = writes.get(cell, (claim.request, 0, 0))
                if writer != claim.request and low < claim.length - column * group.page_size:
                    raise FaultFound(Fault("read-before-landing", claim.request, group.name, cell, other=writer))


def _write_states(state: State, claim: Claim, grant: Grant) -> dict[Cell, tuple[str, int, int]]:
    writes: dict[Cell, tuple[str, int, int]] = {}
    for name, index, position in grant.frozen:
        writes.update(write_slot(state, claim, state.capabilities.group(name), index, position))
    for group in state.capabilities.groups:
        if group.kind is GroupKind.RECURRENT:
            part = claim.table.get(group.name)
            if not isinstance(part, Slots) or part.live == NULL:
                raise Contradiction(f"'{claim.request}' was launched with no live slot in group '{group.name}'")
            writes.update(write_slot(state, claim, group, part.live, grant.length))
    return writes


def _land(state: State, operation: Land, answer: Landing) -> State:
    flight = next((one for one in state.flights if operation.step in (None, one.step)), None)
    if flight is None:
        raise Contradiction(f"step {operation.step} is not in flight")
    state = replace(state, flights=tuple(one for one in state.flights if one is not flight))
    for request, (_, stop) in flight.spans.items():
        claim = state.claims.get(request)
        if claim is not None:
            known = max(claim.known, min(stop + 1, len(claim.stream.tokens)))
            state.claims[request] = replace(claim, known=known, restoring=frozenset())
    apply_tables(state, answer.tables, granting=False)
    run_phases(state, answer.phases, answer.readings)
    for request in flight.spans:
        _retire(state, request, answer)
    return state


def _retire(state: State, request: str, answer: Landing) -> None:
    """Forget a closed request once nothing of it is in flight; one that the answer leaves out holds nothing."""
    claim = state.claims.get(request)
    if claim is not None and claim.closed and not state.in_flight(request):
        if claim.cells and request in answer.tables:
            raise Contradiction(f"'{request}' is closed and landed, and its table still names cells")
        del state.claims[request]


def _freeze(state: State, operation: Freeze, answer: Frozen) -> State:
    apply_tables(state, {**answer.tables, operation.request: answer.table}, granting=True)
    run_phases(state, answer.phases, answer.readings)
    return state


def _settle(state: State, operation: Publish | Preempt | Close, answer: Landing) -> State:
    apply_tables(state, answer.tables, granting=False)
    run_phases(state, answer.phases, answer.readings)
    if not isinstance(operation, Publish):
        claim = state.claims[operation.request]
        state.claims[operation.request] = replace(claim, closed=True, planned=None, leases=frozenset(),
                                                  restoring=frozenset())
        _retire(state, operation.request, answer)
    return state


def _evict(state: State, answer: Evicted) -> State:
    apply_tables(state, answer.tables, granting=False)
    for claim in state.open_claims():
        reads = claim.leases | claim.restoring | frozenset(_working_cells(state, claim.table))
        taken = sorted(reads & set(answer.cells))
        if taken:
            raise FaultFound(Fault("evicted-while-leased", claim.request, "", taken[0], other=claim.request))
    return state


def _working_cells(state: State, table: Table) -> Iterator[Cell]:
    """Yield the pages and live slots of a table; frozen slots and used sources may go at any time."""
    for name, part in table.items():
        indexes = part.columns if isinstance(part, Pages) else (part.live,)
        yield from ((state.pools[name], index) for index in indexes if index != NULL)


def _refused(state: State, operation: Extend | Freeze | Publish, answer: Refused) -> State:
    _apply_refused(state, answer.tables)
    claim = state.claims[operation.request]
    if isinstance(operation, Extend) and not claim.extended and not state.capabilities.leases_on_open:
        if claim.cells:
            raise FaultFound(Fault("torn-refusal", claim.request, detail="a refused first extend still holds cells"))
        del state.claims[operation.request]
    return state


def _apply_refused(state: State, tables: dict[str, Table]) -> None:
    """A refusal may free what nobody reads again; what open requests rely on must be as it was."""
    before = {request: state.claims[request] for request in tables if request in state.claims}
    apply_tables(state, tables, granting=True)
    for request, old in before.items():
        claim = state.claims[request]
        void = not state.capabilities.leases_on_open and not old.extended and not claim.cells
        if claim.closed or void:
            continue
        try:
            check_all(state, claim, claim.length, claim.length, at_open=True)
        except FaultFound as found:
            raise FaultFound(replace(found.fault, code="torn-refusal", detail=found.fault.code)) from None
        for name, part in old.table.items():
            now = claim.table.get(name)
            if isinstance(part, Slots) and part.live != NULL and getattr(now, "live", NULL) != part.live:
                raise FaultFound(Fault("torn-refusal", request, name, (state.pools[name], part.live)))


def _drain(state: State, answer: Drained) -> State:
    if answer.comparable and answer.granted < answer.fresh:
        numbers = {"granted": answer.granted, "fresh": answer.fresh}
        raise FaultFound(Fault("leak", "", numbers=numbers))
    return state
