"""Salted digests in place of tokens and names: equal ones stay equal, and none can be looked up without the salt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from hashlib import blake2b

TOKEN_BYTES = 6
"""Two of a vocabulary of a quarter million tokens share a digest once in ten thousand salts."""


class _Known(dict[int, str]):
    """The digest of each token that was met, as it is written; bounded by the vocabulary."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def __missing__(self, token: int) -> str:
        digest = blake2b(b"t%d" % token, digest_size=TOKEN_BYTES, key=self._salt).digest()
        self[token] = text = str(int.from_bytes(digest, "big"))
        return text


class Digests:
    """Digests under one salt of at most 64 bytes; `of_token` has that of each token."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt[:64]
        self.of_token: Mapping[int, str] = _Known(self._salt)

    def tokens(self, tokens: Iterable[int]) -> str:
        """Return the digests of tokens as a JSON list."""
        return f"[{','.join(map(self.of_token.__getitem__, tokens))}]"

    def placeholder(self, identity: str, offset: int) -> str:
        """Return the digest of one position of something that is no text: an image, a sound."""
        digest = blake2b(f"p{offset} {identity}".encode(), digest_size=TOKEN_BYTES, key=self._salt).digest()
        return str(int.from_bytes(digest, "big"))

    def name(self, name: str) -> str:
        """Return the digest of a name: a cache salt, an adapter."""
        return blake2b(b"n" + name.encode(), digest_size=8, key=self._salt).hexdigest()

    def chooses(self, request: str, share: Fraction) -> bool:
        """Tell whether a request is among the share that is recorded; the same request always is or is not."""
        drawn = int.from_bytes(blake2b(b"r" + request.encode(), digest_size=4, key=self._salt).digest(), "big")
        return drawn * share.denominator < share.numerator << 32
