"""Why a request got what it got, in words that stay, and how often each of them was said."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from milepost.optimized.index import FULL, RECURRENT, Reason
from milepost.spec.resume import Cut


class Skipped:
    """Why a step left no snapshot where one was wanted, or something computed was not kept. The names are stable."""

    ALREADY_STORED = "already-stored"
    """The entry has a snapshot."""
    FROZEN_IN_FLIGHT = "frozen-in-flight"
    """The request's frozen slot is still being written by a step in flight."""
    NO_SLOT = "no-slot"
    """Every slot is held by somebody."""
    TAKEN = "taken"
    """Somebody else has given the entry its snapshot meanwhile."""
    NO_PAGE = "no-page"
    """No published page ends where the state does."""
    UNALIGNED = "unaligned"
    """The request ended off the grid: nothing shorter is claimed for its state."""
    DUPLICATE_IN_FLIGHT = "duplicate-in-flight"
    """A page is published already, and a step in flight uses the request's own: it is kept until that has landed."""
    BEFORE_RESET = "before-reset"
    """The request was opened before a reset: what it computes is its own."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a lookup found. Lengths in tokens.

    `offers` has what each group could have offered at most, `reasons` why it was not more, `limited_by` the group that
    cut the hit to what it is ('' where nothing did), `cuts` every group that shortened it on the way, from which length
    to which. `recomputed` are tokens whose KV was there and could not be used. At `branch` a snapshot is wanted on the
    way, 0 for nowhere.
    """

    prompt: int
    hit: int
    offers: dict[str, int]
    reasons: dict[str, str]
    limited_by: str
    recomputed: int
    branch: int
    cuts: tuple[Cut, ...] = ()

    def sentence(self) -> str:
        """Return it for a person."""
        told = [f"hit {self.hit} of {self.prompt} tokens"]
        if self.limited_by:
            told.append(f"cut by {self.limited_by} ({self.reasons[self.limited_by]})")
        if len(self.cuts) > 1:
            told.append("on the way " + ", ".join(f"{cut.name} from {cut.before} to {cut.after}" for cut in self.cuts))
        told.append(", ".join(f"{group} offers {length}" for group, length in self.offers.items()))
        if self.recomputed:
            told.append(f"{self.recomputed} tokens of KV are computed again")
        if self.branch:
            told.append(f"a snapshot is wanted at {self.branch}")
        return "; ".join(told)


@dataclass(slots=True)
class Lookup:
    """What is kept of a match for as long as its request lives; explained only when somebody asks.

    `reasons` and `cuts` name groups as the index does, `names` has the names of the groups by those. `offers` are
    empty where there are only full KV and states.
    """

    prompt: int
    hit: int
    kv_length: int
    branch: int
    reasons: dict[str, str]
    offers: dict[str, int]
    cuts: tuple[Cut, ...]
    names: dict[str, str]

    def explain(self) -> Explanation:
        """Return it in words."""
        offers = self.offers or {FULL.value: self.kv_length} | ({RECURRENT.value: self.hit} if self._has_states else {})
        return Explanation(
            self.prompt,
            self.hit,
            offers={self.names[key]: length for key, length in offers.items()},
            reasons={self.names[key]: reason for key, reason in self.reasons.items()},
            limited_by=self._limited_by(),
            recomputed=self.recomputed,
            branch=self.branch,
            cuts=tuple(cut._replace(name=self.names[cut.name]) for cut in self.cuts),
        )

    def _limited_by(self) -> str:
        """Return the group that had the last word, else the one that is short."""
        if self.cuts:
            return self.names[self.cuts[-1].name]
        short = [key for key, reason in self.reasons.items() if reason != Reason.COMPLETE]
        return self.names[short[-1]] if short else ""

    @property
    def _has_states(self) -> bool:
        return RECURRENT in self.reasons

    @property
    def recomputed(self) -> int:
        """Tokens whose KV is there beyond the hit, but for the last one, which is always computed."""
        return min(self.kv_length, self.prompt - 1) - self.hit


@dataclass(slots=True)
class Counts:
    """Plain counters of a cache with these `groups`, added to where something happens and read when somebody asks.

    `outcomes` by the reasons of all groups, `skipped` by reason, `refused` by verb and reason, cells that were
    `published` and `evicted` by group; `tokens` of prompts, of hits, and of KV that was there beyond the hit.
    """

    groups: tuple[str, ...]
    opens: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    recomputed_tokens: int = 0
    freezes: int = 0
    duplicates: int = 0
    resets: int = 0
    stray_writes: int = 0
    outcomes: Counter[tuple[str, ...]] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    published: Counter[str] = field(default_factory=Counter)
    evicted: Counter[str] = field(default_factory=Counter)

    def found(self, lookup: Lookup) -> None:
        """Count a lookup."""
        self.opens += 1
        self.prompt_tokens += lookup.prompt
        self.hit_tokens += lookup.hit
        self.recomputed_tokens += lookup.recomputed
        self.outcomes[tuple(lookup.reasons.values())] += 1

    @property
    def misses(self) -> Counter[tuple[str, str]]:
        """Lookups that a group cut short, by group and reason."""
        missed: Counter[tuple[str, str]] = Counter()
        for reasons, count in self.outcomes.items():
            for group, reason in zip(self.groups, reasons, strict=True):
                if reason != Reason.COMPLETE:
                    missed[group, reason] += count
        return missed
