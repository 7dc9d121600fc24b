"""Seeded walks over everything that an index can be asked."""

from __future__ import annotations

import random
from array import array

from milepost.optimized.index import FULL, RECURRENT
from milepost.spec.policies import LeastRecentlyUsed, SupersededFirst

from .index_pair import Pair, Request, Sizes


def sizes_for(seed: int) -> Sizes:
    """Return a configuration; seeds cover grids, small ghost lists, both policies, and an index without states."""
    pick = random.Random(seed)
    page_size = pick.choice((1, 2, 3))
    pages = pick.choice((6, 12, 24))
    return Sizes(
        page_size, page_size * pick.choice((1, 2)), pick.random() < 0.85, pick.choice((0, 2, pages, pages)), pages,
        pick.choice((1, 3, 8)), pick.choice((LeastRecentlyUsed(), SupersededFirst())),
    )  # fmt: skip


class Walk:
    """One pair and one source of randomness."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair, self.pick = pair, random.Random(seed)
        self.seen: list[bytes] = [b""]

    def prompt(self) -> bytes:
        """Return a prompt that often goes on from, or leaves, one that was seen."""
        known = self.pick.choice(self.seen)
        cut = self.pick.choice((len(known), 4 * self.pick.randint(0, len(known) // 4)))
        fresh = array("i", [self.pick.randint(0, 1) for _ in range(self.pick.randint(1, 8))]).tobytes()
        self.seen = [*self.seen[-7:], (known[:cut] + fresh)[: 4 * 40]]
        return self.seen[-1]

    def request(self) -> Request | None:
        return self.pick.choice(self.pair.requests) if self.pair.requests else None

    def step(self) -> None:
        """Do one thing, refresh who waits, and compare everything."""
        pick, pair, request = self.pick, self.pair, self.request()
        cap = pick.choice((None, None, None, pick.randint(0, 20)))
        namespace = pick.choice(((), (), ("salt", "a")))
        verbs, weights = ("open", "wait", "publish", "close", "evict", "state", "reset"), (6, 3, 14, 5, 4, 3, 0.5)
        match pick.choices(verbs, weights)[0]:
            case "open" if len(pair.requests) < 5:
                pair.open(self.prompt(), namespace, cap)
            case "wait":
                pair.wait(self.prompt(), namespace, cap)
            case "publish" if request:
                self.publish(request)
            case "close" if request:
                pair.close(request)
            case "evict":
                pair.evict({pick.choice((FULL, RECURRENT)): pick.randint(0, 3)})
            case "state" if request:
                pair.has_state(request, pick.randint(1, 10) * pair.sizes.page_size)
                if pick.random() < 0.5:
                    pair.release_state(request)
            case "reset":
                pair.reset()
        pair.refresh()
        pair.compare()

    def publish(self, request: Request) -> None:
        pick = self.pick
        if pick.random() < 0.3:
            self.pair.generate(request, [pick.randint(0, 1) for _ in range(pick.randint(1, 4))])
            self.seen[-1] = request.tokens
        states = [pick.randint(1, 10) * self.pair.sizes.grid for _ in range(pick.randint(0, 2))]
        self.pair.publish(request, pick.randint(0, 6), pick.random() < 0.8, states, pick.random() < 0.5)
