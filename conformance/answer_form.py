"""Holds an answer in process to what one behind a wire is held to, before the judge sees it.

An index that is no integer would be a cell that nobody else has; a list that the engine goes on to change would change
the judge's memory behind its back; a pool that was never declared would read as unwritten, and the engine be blamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from milepost.conformance.codec import read_answer, write_answer
from milepost.conformance.shapes import ShapeError
from milepost.spec.answers import ANSWERS, Answer, Evicted, Frozen, Grant, Pages, Slots
from milepost.spec.capabilities import Capabilities

_KINDS = frozenset(ANSWERS.values())


def checked(answer: Any, capabilities: Capabilities) -> Answer:
    """Return the answer as its written form is read back; ShapeError where it has none or names what is not there.

    Two slots that are frozen at one position have no written form: such an answer is checked and stays as it is.
    """
    try:
        shortened = _check_tables(answer)
        settled = read_answer(write_answer(answer))
        check_names(settled, capabilities)
    except ShapeError:
        raise
    except ValueError:
        raise ShapeError("", f"a row is too short or too long: {_short(answer)}") from None
    except (TypeError, AttributeError) as error:
        raise ShapeError("", f"{error}: {_short(answer)}") from None
    return answer if shortened else settled


def _check_tables(answer: Any) -> bool:
    """Refuse what is no answer or no table; tell whether the written form leaves out a slot."""
    shortened = False
    if type(answer) not in _KINDS:
        names = ", ".join(sorted(kind.__name__ for kind in _KINDS))
        raise ShapeError("", f"expected one of {names}; found {_short(answer)}")
    for path, group, part in _parts(answer):
        if type(part) is Slots:
            shortened |= len(part.frozen) > 1 and len(dict(part.frozen)) < len(part.frozen)
        elif type(part) is not Pages:
            raise ShapeError(f"{path}.{group}", f"expected Pages or Slots, found {_short(part)}")
    return shortened


def _parts(answer: Any) -> Iterator[tuple[str, Any, Any]]:
    for group, part in getattr(answer, "table", {}).items():
        yield "table", group, part
    for request, table in getattr(answer, "tables", {}).items():
        for group, part in table.items():
            yield f"tables.{request}", group, part


def check_names(answer: Answer, capabilities: Capabilities) -> None:
    """ShapeError where an answer names a group or a pool that was not declared."""
    groups = {group for _, group, _ in _parts(answer)}
    pools: set[str] = set()
    if isinstance(answer, Grant):
        groups.update(answer.initial_state, (group for group, _, _ in answer.frozen))
    elif isinstance(answer, Frozen):
        groups.update(group for group, _ in answer.cells)
    elif isinstance(answer, Evicted):
        pools.update(pool for pool, _ in answer.cells)
    for phase in getattr(answer, "phases", ()):
        pools.update((copy[0] for copy in phase.copies), (pool for pool, _ in phase.zeros))
    _check_declared("group", groups, {group.name for group in capabilities.groups})
    _check_declared("pool", pools, set(capabilities.pools))


def _check_declared(word: str, names: set[str], declared: set[str]) -> None:
    if not names <= declared:
        known = ", ".join(sorted(declared))
        raise ShapeError("", f"it names the {word} '{min(names - declared)}', declared are {known}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
