"""Mutants that find a prefix by less than what its memory depends on (F17), or after it was forgotten (F18)."""

from __future__ import annotations

from milepost.reference.mutants.registry import Unguarded, mutant
from milepost.reference.requests import Key, Request
from milepost.spec.answers import ResetDone

KEY_CODES = ("stale-kv", "stale-state", "torn-hit", "over-advanced")


@mutant("F17", "cross-namespace", precedent="vllm#44701")
class SaltAndAdapterShareAKey(Unguarded):
    """Keeps the values of a namespace and forgets their kinds."""

    def key(self, claim: Request, length: int) -> Key:
        return tuple(sorted(value for _, value in claim.namespace)), claim.identities(length)


@mutant("F17", "cross-namespace", precedent="sglang#24638")
class NamespaceIsLeftOut(Unguarded):
    """Finds a prefix by its tokens, whoever sent them."""

    def key(self, claim: Request, length: int) -> Key:
        return (), claim.identities(length)


@mutant("F17", "stale-kv", "stale-state", precedent="LMCache#3301")
class ImagesShareTheirPlaceholder(Unguarded):
    """Finds a prefix by its token ids, which are the same for every image."""

    def key(self, claim: Request, length: int) -> Key:
        return claim.namespace, tuple(claim.tokens[:length])


@mutant("F17", *KEY_CODES, precedent="Megatron-LM#4158")
class RollingHashCollides(Unguarded):
    """Finds a prefix by a polynomial of its tokens, and never compares the tokens."""

    def key(self, claim: Request, length: int) -> Key:
        digest = 0
        for identity in claim.identities(length):
            digest = (31 * digest + hash(identity)) % 7
        return claim.namespace, length, digest


@mutant("F17", *KEY_CODES, precedent="vllm#12621")
class KeyForgetsWhatCameBefore(Unguarded):
    """Finds a page by its place and its own tokens."""

    def key(self, claim: Request, length: int) -> Key:
        return claim.namespace, length, claim.identities(length)[-self.page_size :]


@mutant("F18", "reset-survivor", precedent="NeMo-RL#4018")
class ResetKeepsThePages(Unguarded):
    """Forgets the snapshots at a reset and keeps the pages, which later requests take for duplicates of their own."""

    def forget_all(self) -> None:
        pages, self.pages = self.pages, {}
        super().forget_all()
        self.pages = pages


@mutant("F18", "reset-survivor", precedent="lmdeploy#4917")
class ResetIsAnsweredAndNotDone(Unguarded):
    """Says that everything was forgotten while requests are open, and forgets nothing then."""

    def reset(self) -> ResetDone:
        return ResetDone(True) if self.requests else super().reset()


@mutant("F18", "reset-survivor", precedent="vllm#42125")
class OldRequestPublishesAfterReset(Unguarded):
    """Publishes what a request of before the reset has computed."""

    def publishable(self, claim: Request) -> int:
        return claim.known()
