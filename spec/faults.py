"""The fault registry: stable codes, the law that each breaks, and which code wins when several fit one read."""

from __future__ import annotations

from dataclasses import dataclass, field

from milepost.spec.payload import Provenance
from milepost.spec.words import NULL


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One code, never renamed: the law it breaks, what happened, what follows, and a public precedent."""

    code: str
    law: int
    happened: str
    consequence: str
    precedent: str = ""


FAULT_KINDS: tuple[FaultKind, ...] = (
    FaultKind("uninitialized-read", 8, "memory is read that nothing has written since it was granted",
              "whatever the last tenant left there enters the answer", "vllm#56524"),
    FaultKind("read-before-landing", 8, "memory is read before the step that writes it has taken effect",
              "the reader sees what was there before, and nothing crashes", "vllm#29387"),
    FaultKind("late-write", 8, "a step's effect lands in a cell that has since been granted to another",
              "the new owner reads what the old step wrote", "vllm#45357"),
    FaultKind("reset-survivor", 3, "memory computed before a reset is offered after it",
              "answers mix old and new weights or adapters", "NeMo-RL#4018"),
    FaultKind("cross-namespace", 3, "memory of another namespace is offered",
              "one tenant's or adapter's memory enters another's answer", "vllm#44701"),
    FaultKind("torn-hit", 4, "a state that has read fewer tokens than the hit claims is offered",
              "the tokens between would never enter the recurrence: the output would be wrong and nothing would crash",
              "vllm#46453"),
    FaultKind("over-advanced", 4, "a state that has read more tokens than the hit claims is offered",
              "it has read tokens that the request does not contain", "sglang#38815"),
    FaultKind("kv-gap", 4, "KV entries below the hit are missing", "attention would read nothing there",
              "vllm#53505"),
    FaultKind("window-gap", 4, "entries inside the window below the hit are missing",
              "window attention would read nothing there", "sglang#30845"),
    FaultKind("stale-kv", 3, "a KV entry holds another prefix's payload", "attention reads another request's tokens",
              "vllm#38606"),
    FaultKind("stale-state", 3, "a state holds another prefix's payload", "the recurrence goes on from another text",
              "sglang#35957"),
    FaultKind("double-grant", 1, "a cell is granted while another request holds it", "two requests write one cell",
              "mini-sglang#142"),
    FaultKind("evicted-while-leased", 5, "a cell is granted or evicted while a request reads it",
              "the reader's prefix is overwritten under it", "mini-sglang#52"),
    FaultKind("write-to-published", 2, "an entry or slot that another request may read is written",
              "every later reader of that prefix gets the writer's content", "vllm#56196"),
    FaultKind("reads-private", 1, "a cell that belongs to another request is offered",
              "the reader sees it change while its owner goes on", "MTPLX#247"),
    FaultKind("leak", 6, "after a drain, less can be granted than on a fresh instance",
              "the pool shrinks until nothing is admitted", "sglang#12693"),
    FaultKind("lease-underflow", 5, "a lease is released more often than it was taken",
              "cells that are being read become evictable", "sglang#24153"),
    FaultKind("torn-refusal", 7, "an operation refused, and still changed what an open request relies on",
              "the caller goes on as if nothing had happened", "sglang#34676"),
    FaultKind("illegal-boundary", 4, "a hit or freeze lies where no resume is possible, or off the declared grid",
              "the engine's own arithmetic no longer holds", "TensorRT-LLM#15653"),
    FaultKind("crash", 7, "the engine raised or died", "the server goes down with every open request",
              "sglang#30019"),
    FaultKind("hang", 7, "the engine did not answer in time", "the server stops without a word", "sglang#30314"),
)

FAULTS: dict[str, FaultKind] = {kind.code: kind for kind in FAULT_KINDS}

READ_PRECEDENCE: tuple[str, ...] = (
    "uninitialized-read", "read-before-landing", "reset-survivor", "cross-namespace", "torn-hit", "over-advanced",
    "kv-gap", "window-gap", "stale-kv", "stale-state",
)
"""When several codes fit one read, the first wins."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken law: the code, who is affected where, and what was found against what the law demands.

    `position` is the length that the reader claims or the token that is read; `found` is None where nothing known was
    there. `cell` is (pool, index); index NULL where nothing was named.
    """

    code: str
    request: str
    group: str = ""
    cell: tuple[str, int] = ("", NULL)
    position: int = 0
    expected: Provenance | None = None
    found: Provenance | None = None
    other: str = ""
    detail: str = ""
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def kind(self) -> FaultKind:
        """The registry's entry for this code."""
        return FAULTS[self.code]
