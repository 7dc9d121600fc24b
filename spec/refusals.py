"""How a refusal is judged: it may free what nobody reads again, and must leave what open requests rely on."""

from __future__ import annotations

from dataclasses import replace

from milepost.spec.answers import REASONS, Refused, ResetDone, Slots, Tables, named_cells
from milepost.spec.effects import Contradiction, apply_tables, fresh_cells
from milepost.spec.faults import Fault
from milepost.spec.operations import Extend, Freeze, Open, Publish
from milepost.spec.reads import FaultFound, check, page_reads
from milepost.spec.state import Claim, State
from milepost.spec.words import Cell


def judge_refused(state: State, operation: Open | Extend | Freeze | Publish, answer: Refused) -> State:
    """Judge a refusal; that of an open, or of the first extend of one that leases nothing, ends the claim."""
    if answer.reason not in REASONS:
        raise Contradiction(f"'{answer.reason}' is no reason, known are {', '.join(REASONS)}")
    claim, tables = state.claims.get(operation.request), dict(answer.tables)
    first = isinstance(operation, Extend) and claim is not None and not claim.extended
    if claim is None or (first and not state.capabilities.leases_on_open):
        state.claims.pop(operation.request, None)
        if named_cells(tables.pop(operation.request, {}), state.pools):
            detail = "a refused open still holds cells"
            raise FaultFound(Fault("torn-refusal", operation.request, detail=detail))
    _leave_intact(state, tables)
    return state


def judge_refused_reset(state: State, answer: ResetDone) -> State:
    """Judge a refused reset: a cache may refuse while it is busy, unless it says that it always resets."""
    if not state.claims and not state.flights:
        raise FaultFound(Fault("leak", "", detail="nothing is open or in flight, and the reset was refused"))
    if state.capabilities.resets == "always":
        raise Contradiction("a reset was refused, and the capabilities say 'always'")
    _leave_intact(state, answer.tables)
    return state


def _leave_intact(state: State, tables: Tables) -> None:
    before = dict(state.claims)
    apply_tables(state, tables, granting=False)
    for request, table in tables.items():
        old, claim = before[request], state.claims[request]
        lost = sorted(_relied_on(state, old) & old.cells - claim.cells)
        changed = [*lost, *fresh_cells(state, old, table)]
        if changed and not claim.closed:
            raise FaultFound(Fault("torn-refusal", request, "", changed[0]))
        try:
            check(state, page_reads(state, claim, claim.length, claim.length), at_open=True)
        except FaultFound as found:
            raise FaultFound(replace(found.fault, code="torn-refusal", detail=found.fault.code)) from None


def _relied_on(state: State, claim: Claim) -> frozenset[Cell]:
    """Return what a request will write, and the snapshots that it has still to read; pages are judged by content."""
    plan, cells = claim.planned, set(claim.restoring)
    if plan is not None:
        cells |= {(state.pools[name], slot) for name, slot, _ in plan.frozen}
    for name, part in claim.table.items():
        if isinstance(part, Slots):
            cells |= {(state.pools[name], index) for index in (part.live, *part.drafts)}
        elif plan is not None:
            first = claim.length // state.capabilities.group(name).page_size
            cells |= {(state.pools[name], index) for index in part.columns[first:]}
    return frozenset(cells)
