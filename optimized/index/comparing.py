"""How far two runs of tokens agree, at the speed of memory."""

from __future__ import annotations

import numpy as np

STRIDE_BYTES = 16_384
"""Compared at once before it is looked where they part: long enough for memcmp, short enough to search."""


def common_pages(run: bytes, at: int, edge: bytearray, start: int, pages: int, page_bytes: int) -> int:
    """Return how many whole pages of run[at:] and edge[start:] are the same, at most `pages`; offsets in bytes."""
    limit = min(pages, (len(run) - at) // page_bytes, (len(edge) - start) // page_bytes) * page_bytes
    same = 0
    while same < limit:
        step = min(STRIDE_BYTES, limit - same)
        if run[at + same : at + same + step] != edge[start + same : start + same + step]:
            left = np.frombuffer(run, np.int8, step, at + same)
            right = np.frombuffer(edge, np.int8, step, start + same)
            return (same + int((left != right).argmax())) // page_bytes
        same += step
    return same // page_bytes
