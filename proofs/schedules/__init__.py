"""Schedules that a solver finds, for goals that chance rarely meets: the order by search, the numbers by Z3."""

from milepost.proofs.schedules import pressure
from milepost.proofs.schedules.goals import GOALS, Goal

__all__ = ["GOALS", "Goal", "pressure"]
