"""The cache's counters and occupancy for Prometheus: read when they are scraped, so that nothing is paid before.

Groups are called `full`, `recurrent`, and by their own names; where several share a pool, its cells are of all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from milepost.optimized.pools import PUBLISHED

if TYPE_CHECKING:
    from milepost.optimized.cache import PrefixCache

PAGE_STATES, SLOT_STATES = ("shared_leased", "shared"), ("protected", "donated")
"""The ownership states of published cells: with leases and without."""


class CacheCollector(Collector):
    """Reads one cache; register it in the registry that is scraped."""

    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield from self._totals()
        yield from self._labelled()
        yield self._occupancy()

    def _totals(self) -> Iterator[Metric]:
        counts = self._cache.counts
        for name, value, about in (
            ("opens", counts.opens, "Requests that were looked up and admitted."),
            ("prompt_tokens", counts.prompt_tokens, "Tokens of their prompts."),
            ("hit_tokens", counts.hit_tokens, "Tokens that they resumed from."),
            ("recomputed_tokens", counts.recomputed_tokens, "Tokens whose KV was there, beyond the hit."),
            ("freezes", counts.freezes, "Snapshots that steps or callers were granted."),
            ("duplicate_pages", counts.duplicates, "Pages freed because another request had published the same."),
            ("resets", counts.resets, "Times that everything published was forgotten."),
            ("stray_writes", counts.stray_writes, "Times that an audit found a published slot written."),
        ):
            yield CounterMetricFamily(f"milepost_{name}", about, value=value)

    def _labelled(self) -> Iterator[Metric]:
        counts = self._cache.counts
        misses = CounterMetricFamily("milepost_misses", "Lookups that a group cut short.", labels=("group", "reason"))
        keys = self._cache.index_names
        for (group, reason), value in counts.misses.items():
            misses.add_metric((keys[group], reason), value)
        yield misses
        skipped = CounterMetricFamily("milepost_skipped", "Snapshots and pages that were not kept.", labels=("reason",))
        for reason, value in counts.skipped.items():
            skipped.add_metric((reason,), value)
        yield skipped
        refused = CounterMetricFamily("milepost_refused", "Operations that were refused.", labels=("verb", "reason"))
        for labels, value in counts.refused.items():
            refused.add_metric(labels, value)
        yield refused
        for name, counted, about in (
            ("published_cells", counts.published, "Cells that became matchable."),
            ("evicted_cells", counts.evicted, "Cells that were evicted."),
        ):
            family = CounterMetricFamily(f"milepost_{name}", about, labels=("group",))
            for group, key in keys.items():
                family.add_metric((key,), counted[group])
            yield family

    def _occupancy(self) -> Metric:
        family = GaugeMetricFamily("milepost_cells", "Cells by ownership state.", labels=("group", "state"))
        for name, counts in self._cache.account().items():
            pool = self._cache.pools[name]
            states = Counter(pool.states)
            del states[PUBLISHED]
            leased, idle = SLOT_STATES if pool is self._cache.slots else PAGE_STATES
            states[leased], states[idle] = counts["protected"], counts["evictable"]
            for state, value in sorted(states.items()):
                family.add_metric(("+".join(self._cache.sharing[name]), state), value)
        return family


def prometheus_text(cache: PrefixCache) -> str:
    """Return the cache's figures in the text format that scrapers read."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CacheCollector(cache))
    return generate_latest(registry).decode()
