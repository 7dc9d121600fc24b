"""Schedules that a solver finds, for goals that chance rarely meets: the order by search, the numbers by Z3."""

from milepost.proofs.schedules import goals_of_kinds, pressure
from milepost.proofs.schedules.goals import GOALS, Goal

__all__ = ["GOALS", "Goal", "goals_of_kinds", "pressure"]
