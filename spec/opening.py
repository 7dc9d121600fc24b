"""How an open is judged: what its hit offers must be there, or be promised by a step that was planned before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from milepost.spec.answers import Hit, Pages, Slots, Table, named_cells
from milepost.spec.effects import apply_tables, run_phases
from milepost.spec.faults import Fault
from milepost.spec.geometry import lies_on
from milepost.spec.launch import still_restoring
from milepost.spec.operations import Open
from milepost.spec.payload import make_stream
from milepost.spec.reads import FaultFound, Read, check, page_reads, state_read
from milepost.spec.resume import aligned
from milepost.spec.state import Claim, State
from milepost.spec.words import NULL


def judge_open(state: State, operation: Open, answer: Hit) -> State:
    """Judge a hit, and lease what it offers."""
    request, n, prompt = operation.request, answer.length, len(operation.tokens)
    stream = make_stream(operation.namespace, state.epoch, operation.tokens + operation.samples, operation.content)
    state = replace(state, streams=(*state.streams, (request, stream)))
    if not 0 <= n <= max(prompt - 1, 0) or not _may_end_at(state, n):
        raise FaultFound(Fault("illegal-boundary", request, position=n, numbers={"prompt": prompt}))
    # What the hit offers keeps its content: it is named before the table is, so that none of it counts as granted.
    pages: Table = {name: part for name, part in answer.table.items() if isinstance(part, Pages)}
    offered = frozenset(named_cells(pages, state.pools))
    state.claims[request] = Claim(request, stream, prompt, prompt, n, n, cells=offered)
    apply_tables(state, {**answer.tables, request: answer.table}, granting=True)
    run_phases(state, answer.phases, answer.readings, {request})
    claim = state.claims[request]
    promised = check(state, (*page_reads(state, claim, n, n), *_sources(state, claim)), at_open=True)
    for pool, source, target in (copy for phase in answer.phases for copy in phase.copies):
        if (pool, source) in promised:
            state.fill((pool, target), state.contents.get((pool, target)), "read-before-landing")
    restoring = still_restoring(state, claim)
    state.claims[request] = replace(claim, leases=offered, restoring=restoring, promised=promised)
    return state


def _may_end_at(state: State, n: int) -> bool:
    groups = state.capabilities.groups
    return lies_on(state.capabilities.hit_alignment, n) and all(aligned(one.kind, n, one.ratio) for one in groups)


def _sources(state: State, claim: Claim) -> Iterator[Read]:
    """Yield the state that each recurrent group is to be restored from, or already was where only a live one is."""
    for group in state.capabilities.groups if claim.hit else ():
        if not group.kind.paged:
            part = claim.table.get(group.name)
            slots = part if isinstance(part, Slots) else Slots()
            yield state_read(claim, group, slots.live if slots.source == NULL else slots.source, claim.hit)
