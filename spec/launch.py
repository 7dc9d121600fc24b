"""How a step is judged, in the order in which it runs.

Phases; initial states are read; all KV of the step is written; KV is read; frozen and live states are written.
A draft column holds garbage until a landing accepts its token: before that nobody may take it for anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from milepost.spec.answers import Grant, Launched, Slots
from milepost.spec.effects import Contradiction, apply_tables, run_phases, write_entries, write_slot
from milepost.spec.payload import GARBAGE, ZERO
from milepost.spec.reads import Read, check, page_reads, state_read
from milepost.spec.state import Claim, Flight, State, Writes
from milepost.spec.words import NULL, Cell, GroupKind


def judge_launch(state: State, answer: Launched) -> State:
    """Launch everything that is planned as one step."""
    if any(flight.step == answer.step for flight in state.flights):
        raise Contradiction(f"step {answer.step} is in flight already")
    apply_tables(state, answer.tables, granting=True)
    planned = frozenset(claim.request for claim in state.planned())
    fills = run_phases(state, answer.phases, answer.readings, planned)
    steps = [(claim, claim.planned) for claim in state.planned() if claim.planned]
    states = [read for claim, grant in steps for read in _initial_states(state, claim, grant)]
    entries = [read for claim, grant in steps for read in page_reads(state, claim, claim.length, grant.length)]
    writes: Writes = {}
    check(state, states, at_open=False)
    for claim, grant in steps:
        writes |= _write_kv(state, claim, grant)
    check(state, entries, at_open=False, same_step=writes)
    for claim, grant in steps:
        writes |= _write_states(state, claim, grant)
    for claim in [one for one in state.claims.values() if one.planned or one.restoring or one.promised]:
        state.claims[claim.request] = _after_step(state, claim, writes.keys() | fills.keys())
    spans = {claim.request: (claim.length, grant.length) for claim, grant in steps}
    reads = {read.cell: read.claim.request for read in states + entries}
    reads |= {(pool, source): fills.get((pool, target), "")
              for phase in answer.phases for pool, source, target in phase.copies}
    drafts = {claim.request: grant.draft for claim, grant in steps if grant.draft}
    return replace(state, flights=(*state.flights, Flight(answer.step, spans, writes, fills, reads, drafts)))


def _initial_states(state: State, claim: Claim, grant: Grant) -> Iterator[Read]:
    """Yield the states that the kernels start from: none where a cold forward starts from zeros by itself."""
    for group in state.capabilities.groups:
        index = grant.initial_state.get(group.name)
        if group.kind is GroupKind.RECURRENT and (index is not None or claim.length):
            yield state_read(claim, group, NULL if index is None else index, claim.length)


def _write_kv(state: State, claim: Claim, grant: Grant) -> Writes:
    writes: Writes = {}
    digests = claim.stream.digests[: grant.length + 1] + (GARBAGE,) * grant.draft
    for group in state.capabilities.groups:
        if group.kind.paged:
            writes |= write_entries(state, claim, group, claim.length, grant.length + grant.draft, digests)
    return writes


def _write_states(state: State, claim: Claim, grant: Grant) -> Writes:
    writes: Writes = {}
    for name, index, position in grant.frozen:
        writes |= write_slot(state, claim, state.capabilities.group(name), index, claim.stream.digests[position])
    for group in state.capabilities.groups:
        if group.kind is GroupKind.RECURRENT:
            part = claim.table.get(group.name)
            if not isinstance(part, Slots) or part.live == NULL:
                raise Contradiction(f"'{claim.request}' was launched with no live slot in group '{group.name}'")
            writes |= write_slot(state, claim, group, part.live, claim.stream.digests[grant.length])
            for index in part.drafts[: grant.draft]:
                writes |= write_slot(state, claim, group, index, GARBAGE)
    return writes


def _after_step(state: State, claim: Claim, touched: set[Cell]) -> Claim:
    """Count the step's tokens; promises are kept now, and behind an ordered queue the restores have run."""
    plan, ordered = claim.planned, state.capabilities.ordered_steps
    if plan is None:
        waiting = still_restoring(state, claim) if ordered and claim.restoring else claim.restoring
        return replace(claim, restoring=waiting, promised=claim.promised - touched)
    waiting = frozenset() if ordered else claim.restoring
    return replace(claim, length=plan.length, planned=None, restoring=waiting, promised=frozenset())


def accept(state: State, flight: Flight, claim: Claim, accepted: int) -> int:
    """Let `accepted` draft tokens of a landing step be what the model says; return the length that stands.

    Their columns hold the request's own text now, in the cells that its table still names.
    """
    start, drafts = flight.spans[claim.request][1], flight.drafts.get(claim.request, 0)
    stop = start + accepted
    if not 0 <= accepted <= drafts or stop > len(claim.stream.tokens):
        raise Contradiction(f"'{claim.request}' has {drafts} draft columns at {start}, accepted: {accepted}")
    for group in state.capabilities.groups if accepted else ():
        part = claim.table.get(group.name)
        if group.kind.paged:
            write_entries(state, claim, group, start, stop)
        elif isinstance(part, Slots):
            for index, digest in zip(part.drafts[:accepted], claim.stream.digests[start + 1 :], strict=False):
                write_slot(state, claim, group, index, digest)
    return stop


def still_restoring(state: State, claim: Claim) -> frozenset[Cell]:
    """Return the snapshots of a hit that no live slot holds a copy of yet."""
    waiting: set[Cell] = set()
    for name, part in claim.table.items() if claim.hit else ():
        if isinstance(part, Slots) and part.source != NULL:
            live = NULL if part.live == part.source else part.live
            if state.contents.get((state.pools[name], live), ZERO) != claim.stream.digests[claim.hit]:
                waiting.add((state.pools[name], part.source))
    return frozenset(waiting)
