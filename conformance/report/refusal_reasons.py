"""Accounts of refusals that changed something all the same."""

from __future__ import annotations

from milepost.conformance.report.case import SILENT, Account, Case
from milepost.conformance.report.holding import held_since
from milepost.conformance.report.layout import plain
from milepost.spec.answers import Pages, Refused, Slots, named_cells
from milepost.spec.words import NULL, Cell


def torn_refusal(case: Case) -> Account:
    """A refusal that changed what an open request relies on."""
    fault, answer = case.fault, case.line.answer if case.line else None
    reason = f" ({plain(answer.reason)})" if isinstance(answer, Refused) else ""
    asked = getattr(case.line.operation, "request", "") if case.line else ""
    victim = "it" if asked == fault.request else case.name
    start = f"{case.where} refuses {case.short(asked) or 'to reset'}{reason}"
    tail = f"The caller goes on as if nothing had happened: {case.name}{SILENT}"
    if "still holds cells" in fault.detail:
        shown = case.cells(_refused_cells(case)) or "cells"
        return Account(
            f"{start}, and leaves it holding {shown}.",
            "The caller believes that the request holds nothing and never closes it: the cells are lost.",
            (f"the answer to {case.where} is a refusal", f"its table still names {shown}"),
        )
    lost = case.cell_name if fault.cell[1] != NULL else "a page that it needs"
    if fault.cell in _gained(case):
        return Account(
            f"{start}, and gives {victim} {lost}.",
            "The caller was told that nothing was granted: nobody will give the cell back.",
            (f"{case.where} refused", f"its answer names {lost} for {case.name}, who did not hold it before"),
        )
    if fault.detail:
        what = f"and {victim} can no longer read token {fault.position} ({plain(fault.detail)})"
    else:
        what = f"and takes {lost}, {_use(case, victim)}"
    clauses, notes = held_since(case, fault.request, fault.cell) if fault.cell[1] != NULL else ([], [])
    clauses = [one for one in clauses if not one.startswith("no line")]
    return Account(f"{start}, {what}.", tail,
                   (*clauses, f"{case.where} refused, and its answer takes {_taken(case)} from {case.name}"),
                   tuple(notes))


def _gained(case: Case) -> frozenset[Cell]:
    """Return the cells that the fault's request holds after the refusal and did not hold before."""
    claim, now = case.before.claims.get(case.fault.request), case.after.claims.get(case.fault.request)
    return (now.cells if now else frozenset()) - (claim.cells if claim else frozenset())


def _use(case: Case, victim: str) -> str:
    """Return what the lost cell was to its request."""
    claim, index = case.before.claims.get(case.fault.request), case.fault.cell[1]
    parts = [part for name, part in claim.table.items() if case.before.pools[name] == case.fault.cell[0]
             ] if claim else []
    whose = "its" if victim == "it" else f"{victim}'s"
    if any(isinstance(part, Slots) and part.live == index for part in parts):
        return f"the state that {victim} goes on from"
    if any(isinstance(part, Slots) and index in dict(part.frozen).values() for part in parts):
        return f"which {whose} planned step freezes into"
    if any(isinstance(part, Pages) and index in part.columns for part in parts):
        return f"which {whose} planned step writes"
    return f"the snapshot that {victim} is to be restored from"


def _taken(case: Case) -> str:
    """Return the cells that a refusal took from the request that the fault is about."""
    claim, now = case.before.claims.get(case.fault.request), case.after.claims.get(case.fault.request)
    cells = sorted((claim.cells if claim else frozenset()) - (now.cells if now else frozenset()))
    return case.cells(cells) or "content"


def _refused_cells(case: Case) -> set[Cell]:
    """Return the cells that the refusing answer's tables name for the refused request."""
    answer = case.line.answer if case.line else None
    table = getattr(answer, "tables", {}).get(case.fault.request, {})
    claim = case.after.claims.get(case.fault.request)
    return set(named_cells(table, case.before.pools)) or set(claim.cells if claim else ())
