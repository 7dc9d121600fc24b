"""The seeded source of schedules: number and seed decide everything, so a failing schedule is named by both."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from milepost.conformance.generator import SeededChooser, choose_configuration, generate
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.schedule import Schedule


class SeededSource:
    """Generates schedule `number` for a target whose `declare` tells what it can do at given sizes."""

    def __init__(
        self,
        seed: int,
        length: int,
        sizes: tuple[Configuration, ...],
        declare: Callable[[Configuration], Capabilities],
        profile: str = "",
    ) -> None:
        self.seed, self.length, self.sizes, self.declare, self.profile = seed, length, sizes, declare, profile

    def schedule(self, number: int) -> Schedule:
        """Return schedule `number` of this seed."""
        chooser = SeededChooser(random.Random(f"{self.seed}/{number}"))
        configuration = choose_configuration(chooser, self.sizes, self.profile)
        schedule = generate(chooser, self.declare(configuration), configuration, self.length)
        return replace(schedule, header=replace(schedule.header, id=f"seed-{self.seed}/{number}"))
