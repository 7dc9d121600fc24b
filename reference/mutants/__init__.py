"""Caches with one illegal edit each: the kit must catch every one. Importing a file here lists its mutants."""

from milepost.reference.mutants import (
    components,
    corners,
    drafts,
    joints,
    keys,
    labels,
    landing,
    leaks,
    leases,
    progress,
    windows,
)
from milepost.reference.mutants.registry import MUTANTS, Mutant

__all__ = [
    "MUTANTS", "Mutant", "components", "corners", "drafts", "joints", "keys", "labels", "landing", "leaks", "leases",
    "progress", "windows",
]
