"""Tokens as bytes of little-endian int32: what the index stores, compares and is fastest given."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from milepost.optimized.index.errors import BadTokens

TOKEN_BYTES = 4

Tokens = bytes | Sequence[int] | Any
"""bytes of int32, a numpy array of integers, an `array`, or any sequence of ints. Only bytes are not copied."""


def packed(tokens: Tokens) -> bytes:
    """Return tokens as bytes of int32; BadTokens where they are empty, no integers, or outside int32."""
    if type(tokens) is not bytes:
        tokens = _converted(tokens)
    if not tokens or len(tokens) % TOKEN_BYTES:
        raise BadTokens("there are no tokens" if not tokens else f"{len(tokens)} bytes are no whole int32 tokens")
    return tokens


def _converted(tokens: Tokens) -> bytes:
    if isinstance(tokens, bytearray | memoryview):
        return bytes(tokens)
    if isinstance(tokens, np.ndarray):
        return _from_numpy(tokens)
    try:
        return array("i", tokens).tobytes()
    except OverflowError:
        raise BadTokens("a token id is outside int32") from None
    except TypeError:
        raise BadTokens(f"tokens are integers, not {type(tokens).__name__}") from None


def _from_numpy(tokens: np.ndarray) -> bytes:
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise BadTokens(f"tokens are one row of integers, not {tokens.ndim} dimensions of {tokens.dtype}")
    if tokens.dtype != np.int32 and tokens.size:
        bounds = np.iinfo(np.int32)
        if int(tokens.min()) < bounds.min or int(tokens.max()) > bounds.max:
            raise BadTokens("a token id is outside int32")
    return tokens.astype("<i4").tobytes()


def whole(*values: object) -> bool:
    """Tell whether all values are whole numbers, as Python and numpy have them."""
    return all(hasattr(value, "__index__") for value in values)
