"""The corpus: handwritten schedules of public faults, in the package."""

from __future__ import annotations

from importlib import resources

from milepost.conformance.files import parse_schedule
from milepost.spec.schedule import Schedule


def load_corpus() -> list[Schedule]:
    """Return the schedules of the corpus, in the order of their file names."""
    folder = resources.files("milepost.conformance.schedules")
    names = sorted(one.name for one in folder.iterdir() if one.name.endswith(".jsonl"))
    return [parse_schedule(folder.joinpath(name).read_text(encoding="utf-8"), name) for name in names]
