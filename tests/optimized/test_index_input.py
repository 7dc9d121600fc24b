"""What makes no sense is refused by a named error, and nothing has changed then."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from milepost.optimized.index import (
    FULL,
    RECURRENT,
    BadCell,
    BadLength,
    BadTokens,
    Broken,
    CellInUse,
    NothingNew,
    NotLeased,
    PrefixIndex,
    Running,
    StaleMatch,
    packed,
)

TOKENS = list(range(8))


def filled(**options: Any) -> PrefixIndex:
    """An index with pages of 2 and a grid of 4: pages 10 to 13, a state at 8, nobody leases."""
    index = PrefixIndex(2, 4, ghosts=8, **options)
    lease = index.lease(index.match(TOKENS))
    index.publish(lease, TOKENS, [10, 11, 12, 13], {8: "s"})
    index.release(lease)
    return index


@contextmanager
def refused(index: PrefixIndex, error: type[Exception]) -> Iterator[None]:
    """Demand that the block raises, and that the index is afterwards what it was."""
    before = index.inventory(), index.tree.clock, index.evictable(FULL), index.protected(FULL), index.events()
    with pytest.raises(error):
        yield
    index.check()
    assert before == (index.inventory(), index.tree.clock, index.evictable(FULL), index.protected(FULL), [])


@pytest.mark.parametrize(
    "tokens",
    [[], b"", b"123", [2**31], [-(2**31) - 1], ["a"], [1.5], "abc", None, np.array([2**31]), np.array([1.0]),
     np.zeros((2, 2), np.int32), np.zeros(0, np.int32)],
)  # fmt: skip
def test_tokens_that_are_none_are_refused(tokens: Any) -> None:
    index = filled()
    with refused(index, BadTokens):
        index.match(tokens)


@pytest.mark.parametrize(
    "form",
    [packed, list, tuple, lambda run: array("i", run), lambda run: np.array(run), lambda run: np.array(run, np.int32),
     lambda run: np.array(run, np.uint8), lambda run: bytearray(packed(run)), lambda run: memoryview(packed(run)),
     lambda run: np.repeat(np.array(run, np.int32), 2)[::2]],
)  # fmt: skip
def test_tokens_are_the_same_in_every_form(form: Callable[[list[int]], Any]) -> None:
    found = filled().match(form([*TOKENS, 9]))
    assert (found.length, found.cells.tolist(), found.state) == (8, [10, 11, 12, 13], "s")


def test_the_ends_of_int32_are_tokens() -> None:
    assert len(packed([2**31 - 1, -(2**31)])) == 8


def test_a_namespace_that_cannot_be_a_key_is_refused() -> None:
    index = filled()
    with refused(index, BadTokens):
        index.match(TOKENS, namespace=[])  # type: ignore[arg-type]


def test_a_cap_below_zero_is_refused() -> None:
    index = filled()
    with refused(index, BadLength):
        index.match(TOKENS, cap=-1)


def test_a_lease_is_released_once() -> None:
    index = filled()
    lease = index.lease(index.match([*TOKENS, 9]))
    index.release(lease)
    for call in (index.release, index.release_state):
        with refused(index, NotLeased):
            call(lease)
    with refused(index, NotLeased):
        index.publish(lease, TOKENS, [20, 21, 22, 23])


def test_another_index_s_lease_is_unknown() -> None:
    index, other = filled(), filled()
    with refused(index, NotLeased):
        index.release(other.lease(other.match(TOKENS)))


def test_a_match_that_is_no_longer_true_cannot_be_leased() -> None:
    index = filled()
    found = index.match([*TOKENS, 9])
    index.evict({FULL: 1})
    with refused(index, StaleMatch):
        index.lease(found)
    assert index.lease(index.refresh(found)).length == 0


def test_a_match_of_another_index_cannot_be_leased() -> None:
    index, other = filled(), filled()
    with refused(index, StaleMatch):
        index.lease(other.match([*TOKENS, 9]))


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (NothingNew, {"tokens": TOKENS, "cells": [10, 11, 12, 13]}),
        (NothingNew, {"tokens": [], "cells": []}),
        (BadLength, {"tokens": [*TOKENS, 8, 9], "cells": [1, 2, 3, 4]}),
        (BadLength, {"tokens": [*TOKENS, 8, 9], "cells": [1, 2, 3, 4, 5, 6]}),
        (BadLength, {"tokens": [8, 9], "cells": [5], "start": 10}),
        (BadLength, {"tokens": [8, 9], "cells": [5], "start": 7}),
        (BadLength, {"tokens": [8, 9], "cells": [5], "start": -2}),
        (BadLength, {"tokens": [8, 9, 1, 2], "cells": [5, 6], "start": 8, "states": {16: "t"}}),
        (BadLength, {"tokens": [8, 9, 1, 2], "cells": [5, 6], "start": 8, "states": {10: "t"}}),
        (BadLength, {"tokens": [8, 9, 1, 2], "cells": [5, 6], "start": 8, "states": {0: "t"}}),
        (BadCell, {"tokens": [8, 9], "cells": [-1], "start": 8}),
        (BadCell, {"tokens": [8, 9], "cells": [2**31], "start": 8}),
        (BadCell, {"tokens": [8, 9], "cells": ["x"], "start": 8}),
        (BadCell, {"tokens": [8, 9, 1, 2], "cells": [5, 6], "start": 8, "states": {12: []}}),
        (CellInUse, {"tokens": [8, 9], "cells": [11], "start": 8}),
        (CellInUse, {"tokens": [8, 9, 1, 2], "cells": [5, 5], "start": 8}),
        (CellInUse, {"tokens": [8, 9, 1, 2], "cells": [5, 6], "start": 8, "states": {12: "s"}}),
        (CellInUse, {"tokens": [*TOKENS, 8, 9, 1, 2], "cells": [1, 2, 3, 4, 5, 6], "states": {8: "t", 12: "t"}}),
        (BadTokens, {"tokens": [2**40, 9], "cells": [5], "start": 8}),
    ],
)
def test_a_publish_that_does_not_fit_is_refused(error: type[Exception], arguments: dict[str, Any]) -> None:
    index = filled()
    lease = index.lease(index.match([*TOKENS, 9]))
    assert lease.length == 8
    with refused(index, error):
        index.publish(lease, **arguments)


def test_an_index_without_states_takes_none() -> None:
    index = PrefixIndex(2, states=False)
    lease = index.lease(index.match(TOKENS))
    with refused(index, BadLength):
        index.publish(lease, TOKENS, [1, 2, 3, 4], {8: "s"})


@pytest.mark.parametrize("counts", [{FULL: -1}, {"window": 1}])
def test_an_eviction_of_nothing_known_is_refused(counts: dict[Any, int]) -> None:
    index = filled()
    with refused(index, BadLength):
        index.evict(counts)


def test_more_than_there_is_evicts_what_there_is() -> None:
    index = filled()
    assert index.evict({RECURRENT: 9, FULL: 9}) == [(RECURRENT, "s"), (FULL, 13), (FULL, 12), (FULL, 11), (FULL, 10)]
    assert index.evict({RECURRENT: 1, FULL: 1}) == []
    index.check()


@pytest.mark.parametrize("options", [{"page_size": 0}, {"page_size": 4, "grid": 6}, {"page_size": 4, "grid": 0},
                                     {"page_size": 4, "ghosts": -1}])  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadLength):
        PrefixIndex(**options)


def test_a_reset_keeps_what_is_leased_until_its_last_reader_goes() -> None:
    index = filled()
    first, second = (index.lease(index.match([*TOKENS, 9])) for _ in range(2))
    assert index.reset() == []
    assert (first.stale, index.protected(FULL), index.evictable(FULL)) == (True, 4, 0)
    assert index.publish(first, [*TOKENS, 9, 9], [1, 2, 3, 4, 5]).length == 8
    assert index.release(first) == []
    assert index.release_state(second) == [(RECURRENT, "s")]
    assert index.release(second) == [(FULL, 13), (FULL, 12), (FULL, 11), (FULL, 10)]
    index.check()
    assert index.inventory() == {}


def test_the_self_check_names_the_invariant() -> None:
    index = filled()
    index.tree.evictable_pages += 1
    with pytest.raises(Broken) as caught:
        index.check()
    assert caught.value.invariant == "unleased pages are counted"


def decoding(index: PrefixIndex) -> tuple[Running, int]:
    running = Running(index, 2)
    lease = index.lease(index.match([*TOKENS, 9]))
    return running, running.join(lease, [9], 20)


def test_a_step_publishes_only_full_pages() -> None:
    index = filled()
    running, row = decoding(index)
    rows, token = np.array([row]), np.array([7], np.int32)
    appended = running.append(rows, token)
    assert (appended.full, appended.published[row].length) == ([row], 10)
    running.cells[appended.full] = [21]
    assert running.append(rows, token).full == []
    assert index.match([*TOKENS, 9, 7, 7, 1]).kv_length == 10
    assert running.leave(row) == packed([7])
    index.check()


def test_a_step_under_which_a_duplicate_is_still_used_leaves_the_batch() -> None:
    index = filled()
    running, row = decoding(index)
    other = index.lease(index.match([*TOKENS, 9]))
    index.publish(other, [9, 7], [30], start=8)
    appended = running.append(np.array([row]), np.array([7], np.int32), adopt=False)
    assert (appended.left, appended.published[row].blocked) == ([row], True)
    with pytest.raises(NotLeased):
        running.leave(row)


@pytest.mark.parametrize(
    ("error", "cell", "token"),
    [(BadCell, -1, np.int32(1)), (CellInUse, 10, np.int32(1)), (BadTokens, 20, np.int64(1))],
)
def test_a_step_that_cannot_be_is_refused(error: type[Exception], cell: int, token: Any) -> None:
    index = filled()
    running, row = decoding(index)
    running.cells[row] = cell
    with refused(index, error):
        running.append(np.array([row]), np.array([token]))
    running.cells[row] = 20
    assert running.append(np.array([row]), np.array([1], np.int32)).published[row].length == 10


def test_rows_that_nobody_has_are_refused() -> None:
    index = filled()
    running, row = decoding(index)
    released = index.lease(index.match(TOKENS))
    index.release(released)
    with refused(index, NotLeased):
        running.join(released, b"")
    with refused(index, BadLength):
        running.join(index.lease(index.match(TOKENS)), [1, 2])
    with pytest.raises(NotLeased):
        running.leave(1 - row)
    with pytest.raises(BadLength):
        Running(index, 0)
