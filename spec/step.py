"""The judge: `step(state, operation, answer)` gives the next state, or the fault that the answer proves.

Pure: the answer resolves everything that the engine was free to decide, so there is no tree and no search here.
"""

from __future__ import annotations

from dataclasses import replace

from milepost.spec import answers
from milepost.spec import operations as verbs
from milepost.spec.answers import Slots, Tables
from milepost.spec.capabilities import Capabilities
from milepost.spec.effects import Contradiction, apply_tables, run_phases
from milepost.spec.faults import Fault
from milepost.spec.geometry import lies_on
from milepost.spec.launch import accept, judge_launch
from milepost.spec.opening import judge_open
from milepost.spec.reads import FaultFound
from milepost.spec.refusals import judge_refused, judge_refused_reset
from milepost.spec.state import Claim, State, initial
from milepost.spec.words import NULL, Cell

__all__ = ["Contradiction", "State", "initial", "step"]


def step(state: State, operation: verbs.Operation, answer: answers.Answer) -> State | Fault:
    """Judge one operation and its answer; raise Contradiction where the answer is none that the protocol knows."""
    request = getattr(operation, "request", None)
    claim = state.claims.get(request) if request is not None else None
    if isinstance(operation, verbs.Open):
        if claim is not None:
            raise Contradiction(f"'{request}' is open already")
    elif request is not None and (claim is None or claim.closed):
        raise Contradiction(f"'{request}' is not open")
    try:
        return _judge(state.copy(), operation, answer)
    except FaultFound as found:
        return found.fault


def _judge(state: State, operation: verbs.Operation, answer: answers.Answer) -> State:
    match operation, answer:
        case verbs.Open(), answers.Hit():
            return judge_open(state, operation, answer)
        case verbs.Extend(), answers.Grant():
            return _extend(state, operation, answer)
        case verbs.Launch(), answers.Launched():
            return judge_launch(state, answer)
        case verbs.Land(), answers.Landing():
            return _land(state, operation, answer)
        case verbs.Freeze(), answers.Frozen():
            apply_tables(state, {**answer.tables, operation.request: answer.table}, granting=True)
            run_phases(state, answer.phases, answer.readings, {operation.request})
            return state
        case (verbs.Publish() | verbs.Preempt() | verbs.Close()), answers.Landing():
            return _settle(state, operation, answer)
        case verbs.Reset(), answers.ResetDone():
            return _reset(state, answer)
        case verbs.Evict(), answers.Evicted():
            return _evict(state, answer)
        case (verbs.Open() | verbs.Extend() | verbs.Freeze() | verbs.Publish()), answers.Refused():
            return judge_refused(state, operation, answer)
        case verbs.Drain(), answers.Drained():
            return _drain(state, answer)
    raise Contradiction(f"{operation.verb} was answered with '{answer.tag}'")


def _extend(state: State, operation: verbs.Extend, answer: answers.Grant) -> State:
    start, tokens = state.claims[operation.request].length, len(state.claims[operation.request].stream.tokens)
    if not start < answer.length <= min(operation.to, tokens):
        raise Contradiction(f"{operation.to} of {tokens} tokens were asked for at {start}, granted: {answer.length}")
    if answer.draft > state.capabilities.speculates:
        raise Contradiction(f"{answer.draft} draft columns, and the capabilities say {state.capabilities.speculates}")
    apply_tables(state, {**answer.tables, operation.request: answer.table}, granting=True)
    for _, _, position in answer.frozen:
        if not _may_freeze(state.capabilities, start, position, answer.length):
            raise FaultFound(Fault("illegal-boundary", operation.request, position=position))
    # Put back at the end: the order of the dictionary is the order in which the requests were planned.
    claim = state.claims.pop(operation.request)
    state.claims[operation.request] = replace(claim, planned=answer, extended=True)
    return state


def _may_freeze(declared: Capabilities, start: int, position: int, stop: int) -> bool:
    """Tell whether a step over [start, stop) may freeze at a position: at its ends always, inside on its own grid."""
    if not start < position < stop:
        return start <= position <= stop
    if not declared.mid_prefill_freeze:
        raise Contradiction(f"a step freezes at {position}, strictly inside itself, and the capabilities rule that out")
    return lies_on(declared.freeze_grid.chunk_size, position - start * (declared.freeze_grid.origin == "step"))


def _land(state: State, operation: verbs.Land, answer: answers.Landing) -> State:
    flight = next((one for one in state.flights if operation.step in (None, one.step)), None)
    if flight is None:
        raise Contradiction(f"step {operation.step} is not in flight")
    state = replace(state, flights=tuple(one for one in state.flights if one is not flight))
    claims = [state.claims[request] for request in flight.spans if request in state.claims]
    for claim in claims:
        stop = accept(state, flight, claim, operation.accepted.get(claim.request, 0))
        known = max(claim.known, min(stop + 1, len(claim.stream.tokens)))
        length = max(claim.length, stop)
        state.claims[claim.request] = replace(claim, known=known, length=length, restoring=frozenset())
    closed: Tables = {claim.request: {} for claim in claims if claim.closed}
    apply_tables(state, closed | answer.tables, granting=False)
    run_phases(state, answer.phases, answer.readings, flight.spans)
    for request in closed:
        _retire(state, request)
    return state


def _settle(
    state: State, operation: verbs.Publish | verbs.Preempt | verbs.Close, answer: answers.Landing
) -> State:
    request, ends = operation.request, not isinstance(operation, verbs.Publish)
    apply_tables(state, {request: {}, **answer.tables} if ends else answer.tables, granting=False)
    run_phases(state, answer.phases, answer.readings, {request})
    if ends:
        state.claims[request] = replace(state.claims[request], closed=True, planned=None, leases=frozenset())
        _retire(state, request)
    return state


def _retire(state: State, request: str) -> None:
    """Forget a closed request once nothing of it is in flight."""
    if not state.in_flight(request) and state.claims.pop(request).cells:
        raise Contradiction(f"'{request}' is closed, nothing of it is in flight, and its table still names cells")


def _reset(state: State, answer: answers.ResetDone) -> State:
    if not answer.done:
        return judge_refused_reset(state, answer)
    apply_tables(state, answer.tables, granting=False)
    return replace(state, epoch=state.epoch + 1)


def _evict(state: State, answer: answers.Evicted) -> State:
    apply_tables(state, answer.tables, granting=False)
    for claim in state.open_claims():
        taken = sorted((claim.cells - _used_sources(state, claim) | claim.restoring) & set(answer.cells))
        if taken:
            raise FaultFound(Fault("evicted-while-leased", claim.request, "", taken[0], other=claim.request))
    for cell in answer.cells:
        state.fill(cell, None)
    return state


def _used_sources(state: State, claim: Claim) -> frozenset[Cell]:
    """Return the snapshots that a request was restored from: their lease has ended, though the table names them."""
    slots = ((state.pools[name], part) for name, part in claim.table.items() if isinstance(part, Slots))
    sources = {(pool, part.source) for pool, part in slots if part.source not in (NULL, part.live)}
    return frozenset(sources - claim.restoring)


def _drain(state: State, answer: answers.Drained) -> State:
    if answer.comparable and answer.granted < answer.fresh:
        numbers = {"granted": answer.granted, "fresh": answer.fresh}
        raise FaultFound(Fault("leak", "", numbers=numbers))
    return state
