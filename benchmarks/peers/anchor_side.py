"""What no cache can beat: comparing the same bytes with memcmp, and the pauses of a machine that does nothing else.

Run by the project's interpreter; see `side` for what it is asked.
"""

from __future__ import annotations

import ctypes
import platform
import random
from array import array

from contexts import leaf, tokens
from side import Case, Measure, now, serve, since


def idle(size: int) -> Measure:
    """1,000 times: a loop about as long as our operation; contexts are made in between."""
    chance = random.Random(3)

    def once() -> list[float]:
        taken: list[float] = []
        for _ in range(1000):
            array("i", leaf(chance.randrange(size)))
            started = now()
            for _ in range(550):
                pass
            taken.append(since(started))
        return taken

    return once


def memory_compare(size: int) -> Measure:
    """memcmp of the C library over that many tokens."""
    one, other = (array("i", tokens(size, 1)).tobytes() for _ in range(2))
    compare = ctypes.CDLL(None).memcmp
    compare.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]

    def once() -> int:
        started = now()
        differs = compare(one, other, size * 4)
        taken = since(started)
        assert not differs
        return taken

    return once


CASES: dict[str, Case] = {"match": memory_compare, "match-tokens": memory_compare, "tail": idle}

if __name__ == "__main__":
    serve({"python": platform.python_version()}, CASES)
