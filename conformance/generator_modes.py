"""Modes: which stories a schedule tells, how often, and what its prompts are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mode:
    """Actions and kinds of prompts, each repeated by its weight."""

    actions: tuple[str, ...]
    prompts: tuple[str, ...]


def _weighted(**weights: int) -> tuple[str, ...]:
    return tuple(name for name, weight in weights.items() for _ in range(weight))


MODES: dict[str, Mode] = {
    "everyday": Mode(
        _weighted(turn=8, begin=3, go_on=6, end=3, settle=4, batch=5, in_flight=2, twins=1, squeeze=1, preempt=1,
                  evict=2, reset=2, noise=1),
        _weighted(system=3, same=3, continuation=2, branch=3, fresh=1, edit=1),
    ),
    "conversation": Mode(
        _weighted(turn=12, go_on=3, end=2, settle=2, batch=2, preempt=1, squeeze=1, evict=1),
        _weighted(continuation=7, system=2, same=2, branch=2),
    ),
    "branches": Mode(
        _weighted(turn=8, settle=5, begin=3, go_on=4, end=3, twins=3, batch=2, evict=2),
        _weighted(branch=6, system=4, same=2, edit=2),
    ),
    "overlap": Mode(
        _weighted(batch=8, in_flight=6, go_on=3, end=2, settle=2, turn=2, preempt=1, noise=2, evict=1),
        _weighted(same=4, system=3, branch=2, continuation=1),
    ),
    "squeeze": Mode(
        _weighted(squeeze=3, turn=6, begin=2, go_on=2, evict=2, batch=2, in_flight=2, preempt=1, twins=1),
        _weighted(same=4, system=2, continuation=2, branch=2, fresh=1),
    ),
    "upheaval": Mode(
        _weighted(reset=5, preempt=4, turn=6, begin=2, go_on=3, end=2, settle=2, evict=2, batch=2, drain=1),
        _weighted(same=4, system=2, continuation=2, branch=2),
    ),
    "anything": Mode(
        _weighted(begin=3, go_on=5, end=2, settle=2, turn=2, batch=2, in_flight=1, twins=1, squeeze=1, preempt=1,
                  evict=1, reset=1, noise=2),
        _weighted(system=1, same=1, continuation=1, branch=1, fresh=1, edit=1),
    ),
}
