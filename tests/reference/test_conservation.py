"""Random operations, and after each of them every cell is where exactly one table says."""

import random

import pytest

from milepost.conformance.choosers import SeededChooser
from milepost.conformance.layouts import LAYOUTS
from milepost.reference.cache import ReferenceCache, make, make_explicit
from milepost.reference.liberties import LIBERTIES
from milepost.spec.capabilities import Configuration

from .player import Player, inconsistencies

SEEDS = range(40)
KEEPS_THE_TABLES = sorted(set(LIBERTIES) - {"hands-over-last-copy", "one-pool", "reuse-behind-queue"})
"""Liberties whose tables and pools are the reference's own."""


class RandomPlayer(Player):
    """Plays legal operations by chance on few texts, so that prefixes are shared and pools run short."""

    def __init__(self, cache: ReferenceCache, seed: int) -> None:
        super().__init__(cache)
        self.chance = random.Random(seed)
        self.opened = 0
        self.verbs = (
            self.open_one, self.extend_one, self.extend_one, self.launch, self.land_oldest, self.publish_one,
            self.freeze_one, self.close_one, self.preempt_one, self.evict_some, self.reset_rarely,
        )

    def act(self) -> None:
        """Do one thing that the cache's caller may do now."""
        self.chance.choice(self.verbs)()

    def some_request(self) -> str | None:
        names = list(self.cache.requests)
        return self.chance.choice(names) if names else None

    def open_one(self) -> None:
        self.opened += 1
        shared = self.chance.choice(("a" * 24, "b" * 24, "ab" * 12))[: self.chance.randint(0, 24)]
        text = shared + "".join(self.chance.choice("xy") for _ in range(self.chance.randint(1, 6)))
        self.try_open(f"r{self.opened}", text, "z" * 8)

    def extend_one(self) -> None:
        name = self.some_request()
        if name is None or self.cache.requests[name].planned:
            return
        claim = self.cache.requests[name]
        to = min(claim.length + self.chance.randint(1, 16), max(claim.prompt, len(claim.tokens)))
        if to > claim.length and len(self.cache.flights) < 2:
            most = self.cache.capabilities.speculates
            self.cache.extend(name, to, self.chance.randint(0, most) if most else 0)

    def launch(self) -> None:
        if self.cache.planned and len(self.cache.flights) < 2:
            self.cache.launch()

    def land_oldest(self) -> None:
        if self.cache.flights:
            flight = self.cache.flights[0]
            accepted = {claim.name: self.chance.randint(0, claim.drafted) for claim, _, _ in flight.spans
                        if claim.serial in flight.drafting}
            sampled = {
                claim.name: tuple(map(ord, "z")) * (1 + accepted.get(claim.name, 0))
                for claim, _, stop in flight.spans if stop >= len(claim.tokens)
            }
            self.cache.land(flight.step, accepted, sampled)

    def publish_one(self) -> None:
        if (name := self.some_request()) and not self.cache.requests[name].in_flight:
            self.cache.publish(name)

    def freeze_one(self) -> None:
        if name := self.some_request():
            self.cache.freeze(name)

    def close_one(self) -> None:
        if name := self.some_request():
            self.cache.close(name, self.chance.random() < 0.7)

    def preempt_one(self) -> None:
        name = self.some_request()
        if name and self.chance.random() < 0.3 and not self.cache.requests[name].in_flight:
            self.cache.preempt(name)

    def evict_some(self) -> None:
        if self.chance.random() < 0.3:
            groups = self.cache.capabilities.independent_evict
            self.cache.evict(self.chance.choice(groups), self.chance.randint(1, 3))

    def reset_rarely(self) -> None:
        if self.chance.random() < 0.1:
            self.cache.reset()

    def finish(self) -> None:
        """Close and land everything."""
        for name in list(self.cache.requests):
            self.cache.close(name, keep=False)
        while self.cache.flights:
            self.land_oldest()


def play(cache: ReferenceCache, seed: int) -> None:
    """Play, check after every operation, and expect every cell back at the end."""
    player = RandomPlayer(cache, seed)
    for _ in range(150):
        player.act()
        assert not inconsistencies(cache)
    player.finish()
    cache.reset()
    assert {one.state for one in cache.inventory().values()} == {"free"}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cell_is_accounted_for_after_every_operation(seed: int) -> None:
    sizes = Configuration(4, 8, {"kv": 8 + seed % 9, "state": 3 + seed % 4}, 3)
    play((make, make_explicit)[seed % 2](sizes), seed)


@pytest.mark.parametrize("profile", LAYOUTS)
def test_every_cell_is_accounted_for_whatever_the_groups(profile: str) -> None:
    for seed in range(12):
        play(make(LAYOUTS[profile](SeededChooser(random.Random(seed)))), seed)


@pytest.mark.parametrize("name", KEEPS_THE_TABLES)
def test_liberties_conserve_cells_too(name: str) -> None:
    for seed in range(3):
        cache = LIBERTIES[name](Configuration(4, 8, {"kv": 12, "state": 5}, 3))
        assert isinstance(cache, ReferenceCache)
        play(cache, seed)


def test_a_player_reaches_what_matters() -> None:
    cache = make(Configuration(4, 8, {"kv": 12, "state": 5}, 3))
    player = RandomPlayer(cache, 1)
    hits = grants = 0
    for _ in range(600):
        player.act()
        hits += any(claim.hit for claim in cache.requests.values())
        grants += any(claim.frozen for claim in cache.requests.values())
    assert hits
    assert grants
    assert cache.steps > 10
