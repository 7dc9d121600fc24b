"""Accounts of white-box faults: the engine's own inventory against its tables and against what was written."""

from __future__ import annotations

from collections.abc import Callable

from milepost.conformance.report.case import Account, Case
from milepost.conformance.report.holding import held_since
from milepost.conformance.report.layout import count, listed, plain, span
from milepost.spec.words import NULL


def inventory_account(case: Case) -> Account:
    """Return the account of a fault that no answer showed and the inventory did."""
    return ACCOUNTS.get(case.fault.code, _told)(case)


def _proof(case: Case, *clauses: str) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...]]:
    """Return clauses with who was last given the cell and what was last written there, and the annotations."""
    proof, notes = list(clauses), []
    cell = case.fault.cell
    if cell[1] != NULL:
        named = case.history.latest(cell, "granted", "offered")
        if named is not None:
            verb = named.kind if named.kind == "granted" else "offered"
            proof.append(f"{case.operation(named.line)} {verb} {case.cell_name} to {case.short(named.request)}")
        clause, event = case.last_written(cell)
        if event is not None:
            proof.append(clause)
            notes.append(case.becomes(event))
    return tuple(proof), tuple(notes)


def _told(case: Case) -> Account:
    """Say what the detail says."""
    detail = plain(case.fault.detail) or "the inventory disagrees with the tables"
    proof, notes = _proof(case)
    return Account(f"After {case.where}, {case.cell_name}: {detail}.",
                   "The engine's own books are wrong: what it decides from them next will be, too.", proof, notes)


def _mislabelled(case: Case) -> Account:
    """An endpoint that is not the length of what is there."""
    label, length = case.fault.numbers.get("endpoint", case.fault.position), case.fault.numbers.get("content", NULL)
    name = case.cell_name
    if length < 0:
        first = f"After {case.where}, the inventory says that {name} ends at {label}; no forward of this run wrote it."
        second = f"A hit at {label} would go on from it: the output would be wrong and nothing would crash."
    else:
        seen = "has seen" if case.holds_state(case.fault.cell) else "holds"
        first = (f"After {case.where}, the inventory says that {name} ends at {label}; it {seen} "
                 f"{count(length, 'token')}.")
        between = span("token", min(label, length), max(label, length))
        what = "would never enter the recurrence" if length < label else "would already be in it"
        second = f"A hit at {label} would resume from it: {between} {what}, and nothing would crash."
    proof, notes = _proof(case)
    return Account(first, second, proof, notes)


def _leak(case: Case) -> Account:
    """Cells that are missing, or that nobody owns any more."""
    numbers = case.fault.numbers
    if "inventory" in numbers:
        listed_cells, size, pool = numbers["inventory"], numbers.get("pool", 0), plain(case.fault.cell[0])
        return Account(
            f"After {case.where}, the inventory lists {count(listed_cells, 'cell')} of pool {pool}; the pool has "
            f"{size}.",
            "What is in no list is never granted again: the pool shrinks until nothing is admitted.",
            (f"the pool was declared with {size}",),
        )
    detail = plain(case.fault.detail) or "it is private, and its owner is gone"
    owner = f" The owner was {case.name}." if case.fault.request else ""
    proof, notes = _proof(case)
    return Account(f"After {case.where}, {case.cell_name} belongs to nobody who could return it: {detail}.{owner}",
                   "It is never granted again: the pool shrinks until nothing is admitted.", proof, notes)


def _lease_underflow(case: Case) -> Account:
    """Fewer leases than readers, or fewer than none."""
    leases, readers = case.fault.numbers.get("leases"), case.fault.numbers.get("readers")
    name = case.cell_name
    tail = "It is evictable while it is being read: the reader's prefix would be overwritten under it."
    if leases is None:
        return _told(case)
    if readers is None:
        proof, notes = _proof(case, "a lease was ended that nobody held")
        return Account(f"After {case.where}, the inventory counts {leases} leases on {name}.", tail, proof, notes)
    reading = [case.short(claim.request) for claim in case.after.open_claims()
               if case.fault.cell in claim.leases | claim.restoring]
    proof, notes = _proof(case)
    names = listed(reading) if 0 < len(reading) < 8 else count(readers, "open request")
    return Account(
        f"After {case.where}, the inventory counts {count(leases, 'lease')} on {name}, which {names} "
        f"read{'s' if readers == 1 else ''}.", tail, proof, notes)


def _double_grant(case: Case) -> Account:
    """A cell whose owner by the inventory is not the one whose table names it."""
    proof, notes = _proof(case)
    detail = plain(case.fault.detail) or f"the inventory gives it to {case.other}"
    return Account(f"After {case.where}, {case.name} holds {case.cell_name}, and {detail}.",
                   "The engine may give it to a second request, and both would write it: nothing would crash.",
                   proof, notes)


def _evicted(case: Case) -> Account:
    """A cell that is read and that the inventory has as gone."""
    proof, notes = _proof(case, f"no line ends {case.name}'s lease")
    detail = plain(case.fault.detail) or "the inventory says that it is gone"
    return Account(f"After {case.where}, {case.name} reads {case.cell_name}, and {detail}.",
                   f"The next grant would overwrite {case.name}'s prefix under it, and nothing would crash.",
                   proof, notes)


def _illegal_boundary(case: Case) -> Account:
    """A frozen slot with two positions."""
    label = case.fault.numbers.get("endpoint", case.fault.position)
    table = case.fault.numbers.get("table", case.fault.position)
    proof, notes = _proof(case)
    return Account(
        f"After {case.where}, the inventory says that {case.cell_name} ends at {label}; {case.name}'s table says "
        f"{table}.",
        "One of the two labels is wrong, and a later hit would resume at it: nothing would crash.", proof, notes)


def _reads_private(case: Case) -> Account:
    """A cell of a hit that the inventory gives to another owner."""
    fault, name = case.fault, case.cell_name
    owner = case.other if fault.other else "another request"
    clauses, notes = held_since(case, fault.other, fault.cell) if fault.other else ([], [])
    said = plain(fault.detail) or f"the inventory has {owner} as the owner of {name}"
    return Account(
        f"{case.where} offers {name} to {case.name}, and the engine's inventory says that it is {owner}'s own.",
        f"{case.name} would see it change while its owner goes on: {case.name}'s output would be wrong and nothing "
        "would crash.",
        (*clauses, f"after {case.where}, {said}"), tuple(notes),
    )


ACCOUNTS: dict[str, Callable[[Case], Account]] = {
    "torn-hit": _mislabelled,
    "over-advanced": _mislabelled,
    "stale-state": _mislabelled,
    "reads-private": _reads_private,
    "leak": _leak,
    "lease-underflow": _lease_underflow,
    "double-grant": _double_grant,
    "evicted-while-leased": _evicted,
    "illegal-boundary": _illegal_boundary,
}
"""By fault code; the others are told by their detail."""
