"""What a cell holds, by meaning: the digest of the whole prefix that its content was computed from.

A KV entry of token p holds the digest of tokens [0, p + 1); a state that has read n tokens holds the digest of [0, n).
Namespace, epoch and content identities (images) enter at the root and along the way, so two prefixes share a digest
only when everything that a model's memory depends on is equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from milepost.spec.words import Namespace

ZERO = 0
"""The payload of zeroed memory; for a state it means: has read no token."""

GARBAGE = -1
"""Memory whose layers or parts disagree, or that holds what no forward of the run wrote."""

Entries = tuple[int | None, ...]
"""The payload of a page, one digest for each entry; None where nothing was written since the cell was granted."""

Content = Entries | int | None
"""What a cell holds: a page's entries, a state's digest, or None: not written since it was granted."""


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The tokens of one claim, prompt first and then what the model will say, with a digest for each length.

    `digests[n]` names tokens [0, n) in this namespace and epoch; it is a positive 63-bit integer.
    """

    namespace: Namespace
    epoch: int
    tokens: tuple[int, ...]
    identities: tuple[int | str, ...]
    digests: tuple[int, ...]


def make_stream(
    namespace: Iterable[tuple[str, str]],
    epoch: int,
    tokens: tuple[int, ...],
    content: Mapping[int, str] | None = None,
) -> Stream:
    """Build the stream of `tokens`; `content` gives placeholder positions an identity that is not their token id."""
    spaces = tuple(sorted(set(namespace)))
    identities: tuple[int | str, ...] = tokens
    if content:
        identities = tuple(content.get(position, token) for position, token in enumerate(tokens))
    chain = blake2b(repr((spaces, epoch)).encode(), digest_size=8)
    digests = [_positive(chain.digest())]
    for identity in identities:
        chain.update(b"%d," % identity if isinstance(identity, int) else repr(identity).encode() + b",")
        digests.append(_positive(chain.digest()))
    return Stream(spaces, epoch, tokens, identities, tuple(digests))


def _positive(digest: bytes) -> int:
    return (int.from_bytes(digest, "big") >> 1) or 1


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a payload came from: the first `length` tokens of `stream`, as first written for `request`."""

    request: str
    stream: Stream
    length: int


def find_provenance(streams: Iterable[tuple[str, Stream]], digest: int) -> Provenance | None:
    """Find the stream and length that `digest` names; None for bytes that no forward of the run wrote."""
    for request, stream in streams:
        if digest in stream.digests:
            return Provenance(request, stream, stream.digests.index(digest))
    return None
