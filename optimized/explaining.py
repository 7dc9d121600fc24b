"""Why a request got what it got, in words that stay, and how often each of them was said."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from milepost.optimized.index import FULL, RECURRENT, Match, Reason


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
    cut the hit ('' where nothing did). `recomputed` are tokens whose KV was there and could not be used. At `branch` a
    snapshot is wanted on the way, 0 for nowhere.
    """

    prompt: int
    hit: int
    offers: dict[str, int]
    reasons: dict[str, str]
    limited_by: str
    recomputed: int
    branch: int

    def sentence(self) -> str:
        """Return it for a person."""
        told = [f"hit {self.hit} of {self.prompt} tokens"]
        if self.limited_by:
            told.append(f"cut by {self.limited_by} ({self.reasons[self.limited_by]})")
        told.append(", ".join(f"{group} offers {length}" for group, length in self.offers.items()))
        if self.recomputed:
            told.append(f"{self.recomputed} tokens of KV are computed again")
        if self.branch:
            told.append(f"a snapshot is wanted at {self.branch}")
        return "; ".join(told)


def explain(match: Match, prompt: int, names: dict[str, str]) -> Explanation:
    """Return what a lookup found, for groups called `names` by kind."""
    full, state = names[FULL.value], names[RECURRENT.value]
    reasons = {full: match.reasons[FULL], state: match.reasons[RECURRENT]}
    short = {group for group, reason in reasons.items() if reason != Reason.COMPLETE}
    usable = min(match.kv_length, max(0, prompt - 1))
    limited = state if state in short else full if full in short else ""
    offers = {full: match.kv_length, state: match.length}
    return Explanation(prompt, match.length, offers, reasons, limited, usable - match.length, match.branch)


@dataclass(slots=True)
class Counts:
    """Plain counters, added to where something happens and read when somebody asks.

    `misses` by group and reason, `skipped` by reason, `refused` by verb and reason; `given_up` and `published` by
    group; `tokens` of prompts, of hits, and of KV that was there beyond the hit.
    """

    opens: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    recomputed_tokens: int = 0
    freezes: int = 0
    duplicates: int = 0
    resets: int = 0
    misses: Counter[tuple[str, str]] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    evicted: Counter[str] = field(default_factory=Counter)
    published: Counter[str] = field(default_factory=Counter)

    def found(self, explanation: Explanation) -> None:
        """Count a lookup."""
        self.opens += 1
        self.prompt_tokens += explanation.prompt
        self.hit_tokens += explanation.hit
        self.recomputed_tokens += explanation.recomputed
        for group, reason in explanation.reasons.items():
            if reason != Reason.COMPLETE:
                self.misses[group, reason] += 1
