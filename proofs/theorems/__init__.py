"""The theorems, one a module, stated in its docstring in the law's own words."""

from __future__ import annotations

import importlib

from milepost.proofs.prover import Theorem

NAMES = (
    "one_owner", "snapshots_never_change", "leases_read_their_own_prefix", "endpoints_are_exact",
    "snapshots_end_at_boundaries", "leased_cells_stay_published", "leases_never_fall_below_zero",
    "protected_snapshots_keep_their_path", "dropping_one_kind_keeps_the_others", "drafts_count_only_when_accepted",
    "every_cell_is_accounted_for", "every_cell_finds_its_way_back",
    "refusals_change_nothing", "landing", "running_requests_keep_their_state",
    "preemption_returns_everything", "steps_follow_the_table",
    "rows_exclude_each_other", "rows_allow_what_the_lifecycle_needs",
    "resume_is_sound", "resume_asks_for_no_more", "the_hit_is_the_deepest", "shrinking_ends_at_the_deepest",
    "whole_pages_hold_what_is_needed", "the_trailing_window_suffices", "all_grids_have_a_common_one",
    "boundaries_are_the_common_multiples", "flooring_gives_the_greatest_below", "unaligned_ends_are_not_donated",
    "off_grid_resumes_stay_off", "a_longer_state_is_refused",
)
"""In the order of the laws: ownership, immutability, provenance and so on; then the resume rule and the arithmetic."""


def theorem(name: str) -> Theorem:
    """Return the theorem of a module of this folder."""
    module = importlib.import_module(f"{__name__}.{name}")
    sentence = " ".join((module.__doc__ or "").strip().split("\n\n")[0].split())
    return Theorem(name.replace("_", "-"), sentence, getattr(module, "BOUND", "unbounded"), module.OBLIGATIONS)


def all_theorems() -> list[Theorem]:
    """Return all theorems in their order."""
    return [theorem(name) for name in NAMES]
