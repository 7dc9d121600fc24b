"""Accounts of hits and freezes at places that no resume is possible at, or that the engine itself rules out."""

from __future__ import annotations

from milepost.conformance.report.case import Account, Case
from milepost.conformance.report.layout import count, numbers
from milepost.spec.answers import Grant
from milepost.spec.geometry import lies_on
from milepost.spec.resume import aligned


def illegal_boundary(case: Case) -> Account:
    """A hit or freeze off the declared grid, or where no resume is possible."""
    fault, answer = case.fault, case.line.answer if case.line else None
    n = fault.position
    if isinstance(answer, Grant):
        return _illegal_freeze(case, answer)
    prompt, alignment = fault.numbers.get("prompt", 0), case.capabilities.hit_alignment
    if n > prompt - 1 or n < 0:
        return Account(
            f"{case.where} lets {case.name} resume at token {n} of a prompt of {count(prompt, 'token')}.",
            "The last prompt token has to be computed, it gives the first logits: there would be nothing to sample "
            "from.",
            (f"a hit on {count(prompt, 'token')} is at most {max(prompt - 1, 0)}", f"{case.where} claims {n}"),
        )
    ratio = next((one.ratio for one in case.capabilities.groups if not aligned(one.kind, n, one.ratio)), 0)
    if ratio:
        return Account(
            f"{case.where} lets {case.name} resume at token {n}, inside a compressed entry of {ratio} tokens.",
            f"A half-filled entry is not there yet: what the compressor has read since {n - n % ratio} would be lost.",
            (f"{case.where} claims {n}", f"a compressed group can end at multiples of {ratio}: "
             f"{n - n % ratio} and {n - n % ratio + ratio}"),
        )
    return Account(
        f"{case.where} lets {case.name} resume at token {n}, off the engine's own hit alignment of {alignment}.",
        "The engine's arithmetic no longer holds: chunks, pages and copies are computed for a grid that this hit is "
        "not on.",
        (f"{case.where} claims {n}", f"the engine declares hit_alignment {alignment}",
         f"the nearest multiples are {n - n % alignment} and {n - n % alignment + alignment}"),
    )


def _illegal_freeze(case: Case, answer: Grant) -> Account:
    grid, n = case.capabilities.freeze_grid, case.fault.position
    claim = case.before.claims.get(case.fault.request)
    start = claim.length if claim else 0
    tail = "The state there is not the one that its label says: a later hit would resume from another position."
    if not start <= n <= answer.length:
        return Account(
            f"{case.where} freezes {case.name} at {n}, outside its own step over tokens {start}..{answer.length - 1}.",
            tail, (f"{case.where} goes from {start} to {answer.length}", f"it claims a snapshot at {n}"),
        )
    origin = f"its start at {start}" if grid.origin == "step" else "token 0"
    reached = [at for at in range(start + 1, answer.length)
               if lies_on(grid.chunk_size, at - (start if grid.origin == "step" else 0))]
    points = f"the grid points inside the step are {numbers(reached, 30)}" if reached else (
        "no grid point lies inside the step")
    return Account(
        f"{case.where} freezes {case.name} at {n}, off the declared grid of {grid.chunk_size} from {origin}.",
        tail, (f"{case.where} goes from {start} to {answer.length}", points, f"it claims a snapshot at {n}"),
    )
