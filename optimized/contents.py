"""Tokens as the index sees them: what a placeholder stands for has an identity that no token has."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import numpy

from milepost.optimized.errors import BadInput
from milepost.optimized.index.packing import TOKEN_BYTES


class ContentIds:
    """Gives each content a negative number; token ids start at 0."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def pack(self, tokens: Sequence[int], first: int, content: Mapping[int, str]) -> bytes:
        """Return tokens from position `first` on as bytes of int32; BadInput where an id is negative or too large."""
        try:
            numbers = array("i", tokens)
        except (OverflowError, TypeError):
            raise BadInput("token ids are integers from 0 to 2147483647") from None
        assert numbers.itemsize == TOKEN_BYTES
        if numbers and numpy.frombuffer(numbers, numpy.int32).min() < 0:
            raise BadInput("token ids are integers from 0 to 2147483647")
        for position, one in content.items() if content else ():
            if first <= position < first + len(numbers):
                numbers[position - first] = self._ids.setdefault(one, -1 - len(self._ids))
        return numbers.tobytes()

    def forget(self) -> None:
        """Forget all contents: nothing that was packed before may be compared with what is packed later."""
        self._ids.clear()
