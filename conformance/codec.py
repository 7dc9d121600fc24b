"""Operations, answers and capabilities as JSON and back.

Every reader ignores unknown fields and raises `ShapeError`, whose text names the path of what is wrong:
`landing.tables.r1.kv[2]: expected an integer, found "x"`. Every writer leaves defaults out.
"""

from __future__ import annotations

from typing import Any

from milepost.conformance.shapes import (
    FLAG,
    NAME,
    TEXT,
    TOKENS,
    Shape,
    ShapeError,
    changed,
    expected,
    integer,
    many,
    mapping,
    member,
    numbered,
    one_of,
    optional,
    read_object,
    record,
    row,
)
from milepost.spec.answers import (
    ANSWERS,
    Answer,
    Drained,
    Evicted,
    Frozen,
    Grant,
    GroupTable,
    Hit,
    Landing,
    Launched,
    Pages,
    Phase,
    Refused,
    ResetDone,
    Slots,
)
from milepost.spec.capabilities import Capabilities, Configuration, Fidelity, FreezeGrid, Group
from milepost.spec.operations import (
    OPERATIONS,
    RESERVED,
    Close,
    Drain,
    Evict,
    Extend,
    Freeze,
    Land,
    Launch,
    Open,
    Operation,
    Preempt,
    Publish,
    Reset,
)
from milepost.spec.payload import GARBAGE, Content
from milepost.spec.schedule import Header
from milepost.spec.seam import Holding
from milepost.spec.words import NULL, GroupKind

COUNT = integer(0)
SIZE = integer(1)
LENGTH = integer(1, 1 << 20)
"""Tokens of a page or a chunk: the judge keeps a digest for each entry of a page."""

CELLS = integer(1, 1 << 24)
"""Cells of a pool: a mistyped size must not fill the memory."""

INDEX = integer(NULL)
CELL = row(NAME, COUNT)
NAMESPACE = changed(many(row(TEXT, TEXT)), lambda pairs: tuple(sorted(pairs)), lambda pairs: pairs)


DIGEST = optional(integer(GARBAGE))


def _read_content(value: Any, path: str) -> Content:
    return many(DIGEST).read(value, path) if isinstance(value, list) else DIGEST.read(value, path)


CONTENT: Shape[Content] = Shape(_read_content, lambda content: list(content) if isinstance(content, tuple) else content)
READINGS = changed(
    many(row(NAME, COUNT, CONTENT)),
    lambda rows: {(pool, index): content for pool, index, content in rows},
    lambda readings: tuple((pool, index, content) for (pool, index), content in readings.items()),
)
PAGES = changed(many(INDEX), Pages, lambda pages: pages.columns)
SLOTS = record(
    Slots,
    {
        "live": INDEX,
        "frozen": changed(numbered(COUNT), lambda slots: tuple(sorted(slots.items())), dict),
        "source": INDEX,
        "drafts": many(INDEX),
    },
)


def _read_group_table(value: Any, path: str) -> GroupTable:
    if isinstance(value, list):
        return PAGES.read(value, path)
    if isinstance(value, dict):
        return SLOTS.read(value, path)
    raise expected("a list of page columns or an object of slots", value, path)


TABLE = mapping(
    Shape(_read_group_table, lambda part: PAGES.write(part) if isinstance(part, Pages) else SLOTS.write(part))
)
TABLES = mapping(TABLE)
PHASES = many(
    record(
        Phase,
        {
            "copies": many(row(NAME, COUNT, COUNT)),
            "zeros": many(CELL),
            "unordered": FLAG,
            "at": one_of(("queue", "now")),
        },
    )
)

OPERATION_SHAPES: dict[type[Operation], Shape[Any]] = {
    Open: record(
        Open,
        {"request": NAME, "tokens": TOKENS, "samples": TOKENS, "namespace": NAMESPACE, "content": numbered(TEXT)},
    ),
    Extend: record(Extend, {"request": NAME, "to": COUNT, "draft": COUNT}),
    Launch: record(Launch, {}),
    Land: record(Land, {"step": optional(COUNT), "accepted": mapping(COUNT)}),
    Freeze: record(Freeze, {"request": NAME}),
    Publish: record(Publish, {"request": NAME}),
    Preempt: record(Preempt, {"request": NAME}),
    Close: record(Close, {"request": NAME, "keep": FLAG}),
    Reset: record(Reset, {}),
    Evict: record(Evict, {"group": NAME, "cells": COUNT}),
    Drain: record(Drain, {}),
}

ANSWER_SHAPES: dict[type[Answer], Shape[Any]] = {
    Hit: record(
        Hit, {"length": COUNT, "table": TABLE, "tables": TABLES, "phases": PHASES, "readings": READINGS}
    ),
    Grant: record(
        Grant,
        {
            "length": COUNT,
            "table": TABLE,
            "frozen": many(row(NAME, COUNT, COUNT)),
            "initial_state": mapping(optional(COUNT)),
            "tables": TABLES,
            "draft": COUNT,
        },
    ),
    Launched: record(Launched, {"step": COUNT, "phases": PHASES, "tables": TABLES, "readings": READINGS}),
    Landing: record(Landing, {"tables": TABLES, "phases": PHASES, "readings": READINGS}),
    Frozen: record(
        Frozen,
        {
            "position": COUNT,
            "cells": many(row(NAME, COUNT)),
            "table": TABLE,
            "tables": TABLES,
            "phases": PHASES,
            "readings": READINGS,
        },
    ),
    Refused: record(Refused, {"reason": TEXT, "text": TEXT, "tables": TABLES}),
    ResetDone: record(ResetDone, {"done": FLAG, "tables": TABLES}),
    Evicted: record(Evicted, {"cells": many(CELL), "listed": FLAG, "tables": TABLES}),
    Drained: record(Drained, {"granted": COUNT, "fresh": COUNT, "comparable": FLAG}),
}

POOLS = mapping(CELLS)
GROUP = record(
    Group,
    {
        "name": NAME,
        "kind": changed(one_of(tuple(GroupKind)), GroupKind, str),
        "pool": NAME,
        "page_size": LENGTH,
        "window": COUNT,
        "ratio": SIZE,
        "layers": SIZE,
        "executes": one_of(("shadow", "engine")),
        "same_step_reads": FLAG,
    },
)
CONFIGURATION = record(
    Configuration,
    {
        "page_size": LENGTH,
        "chunk_size": LENGTH,
        "pools": POOLS,
        "max_live": SIZE,
        "anchor": optional(COUNT),
        "groups": many(GROUP),
        "speculates": COUNT,
    },
)
HEADER = record(
    Header,
    {
        "id": NAME,
        "page_size": LENGTH,
        "chunk_size": LENGTH,
        "pools": POOLS,
        "needs": many(NAME),
        "origin": TEXT,
        "about": TEXT,
        "anchor": optional(COUNT),
        "max_live": SIZE,
        "target": TEXT,
        "groups": many(GROUP),
        "speculates": COUNT,
    },
)
COUNTS = mapping(mapping(COUNT))
_HOLDING: dict[str, Shape[Any]] = {"state": NAME, "owner": TEXT, "endpoint": COUNT, "leases": COUNT}
INVENTORY = changed(
    many(row(NAME, COUNT, record(Holding, _HOLDING))),
    lambda rows: {(pool, index): holding for pool, index, holding in rows},
    lambda holdings: tuple((pool, index, holding) for (pool, index), holding in holdings.items()),
)
_FIDELITY = record(Fidelity, {"level": TEXT, "faked": many(TEXT)})
_FIDELITY_OR_LEVEL: Shape[Fidelity] = Shape(
    lambda value, path: Fidelity(value) if isinstance(value, str) else _FIDELITY.read(value, path), _FIDELITY.write
)
CAPABILITIES = record(
    Capabilities,
    {
        "engine": NAME,
        "version": TEXT,
        "groups": many(GROUP),
        "pools": POOLS,
        "issues": TEXT,
        "fidelity": _FIDELITY_OR_LEVEL,
        "chunk_size": SIZE,
        "hit_alignment": SIZE,
        "freeze_grid": record(FreezeGrid, {"chunk_size": SIZE, "origin": TEXT}),
        "end_donation": TEXT,
        "smallest_cacheable": COUNT,
        "max_live": SIZE,
        "overlap": COUNT,
        "speculates": COUNT,
        "resets": TEXT,
        "cells_per_request": mapping(COUNT),
        **dict.fromkeys(("drops_planned", "independent_evict", "namespaces", "promises"), many(NAME)),
        **dict.fromkeys(
            (
                "mid_prefill_freeze", "explicit_freeze", "explicit_publish", "leases_on_open", "ordered_steps",
                "batched_steps", "evicts", "accounts", "inventories", "contents", "anchor", "aborts", "preempts",
            ),
            FLAG,
        ),
    },
)


def read_operation(value: Any, path: str = "") -> Operation:
    """Read `{"op": verb, ...}`."""
    verb = TEXT.read(read_object(value, path).get("op", ""), member(path, "op"))
    if verb in RESERVED:
        raise ShapeError(member(path, "op"), f"'{verb}' is reserved for a later version of the format")
    if verb not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise ShapeError(member(path, "op"), f"unknown verb '{verb}', known are {known}" if verb else "is missing")
    operation: Operation = OPERATION_SHAPES[OPERATIONS[verb]].read(value, path)
    return operation


def write_operation(operation: Operation) -> dict[str, Any]:
    """Return `{"op": verb, ...}`."""
    return {"op": operation.verb, **OPERATION_SHAPES[type(operation)].write(operation)}


def read_answer(value: Any, path: str = "") -> Answer:
    """Read an object with one answer under its tag; other fields are ignored. A plain `{"reset": true}` will do."""
    given = read_object(value, path)
    tags = [tag for tag in ANSWERS if tag in given]
    if len(tags) != 1:
        found = " and ".join(tags) if tags else ", ".join(given) or "nothing"
        raise ShapeError(path, f"expected one answer of {', '.join(ANSWERS)}, found {found}")
    kind, body, inner = ANSWERS[tags[0]], given[tags[0]], member(path, tags[0])
    if kind is ResetDone and isinstance(body, bool):
        return ResetDone(body)
    answer: Answer = ANSWER_SHAPES[kind].read(body, inner)
    return answer


def write_answer(answer: Answer) -> dict[str, Any]:
    """Return `{tag: {...}}`."""
    return {answer.tag: ANSWER_SHAPES[type(answer)].write(answer)}


def read_capabilities(value: Any, path: str = "capabilities") -> Capabilities:
    """Read a declaration; whether it is sound is asked of `spec.capabilities.complaints`."""
    return CAPABILITIES.read(value, path)


def write_capabilities(capabilities: Capabilities) -> dict[str, Any]:
    """Return a declaration without what is at its default."""
    declared: dict[str, Any] = CAPABILITIES.write(capabilities)
    return declared
