"""Judges the KV events that vLLM and SGLang emit: what they prove, and what no event can.

A line is an event, as an object with a `type` or as a list that begins with it, or a batch of them. Hashes are compared
and never recomputed: each engine has its own function. A stored state may say its `endpoint`, the tokens that it has
read: then it is compared with the length of the text that its hash stands for. Milepost's own cache says it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from milepost.conformance.errors import FormatError
from milepost.conformance.lines import parse_json, read_lines
from milepost.conformance.shapes import Shape, ShapeError, integer, many, optional, read_object

FIELDS: dict[str, tuple[str, ...]] = {
    "BlockStored": ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"),
    "BlockRemoved": ("block_hashes", "medium"),
    "AllBlocksCleared": (),
}
"""The events, and their fields in the order in which engines write them without names."""

KEEP_ALL = ("", "full_attention", "mla_attention")
"""Kinds of groups that keep every block of a text; '' where events name no kind, as SGLang's."""

REMEMBERED = 1_000_000
"""Removed blocks whose text is remembered, so that a log of any size takes little memory."""

NO_ENDPOINT = "that a state has read exactly the tokens its block stands for: no event has the endpoint of a snapshot"
TOLD_ENDPOINT = "that memory holds what a state's endpoint says: an event has what the engine believes"

LIMITS = (
    NO_ENDPOINT,
    "what a request was offered, read or wrote: no event names a request or a cell",
    "that a block was written when it was announced, or was not overwritten later",
    "anything about blocks whose events were dropped: a log has no gaps that show",
)
"""What no sequence of these events can prove, whatever is in it."""

Hash = int | str
Key = tuple[str, int, Hash]


def _read_hash(value: Any, path: str) -> Hash:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ShapeError(path, f"expected a hash, an integer or a text, found {value!r}")
    return value


_SIZE = integer(1)
_TOKENS = many(integer())
_HASH: Shape[Hash] = Shape(_read_hash, lambda value: value)


@dataclass(slots=True)
class EventReport:
    """What a log showed. `fault` is the text of the first contradiction, '' where there is none."""

    counts: Counter[str] = field(default_factory=Counter)
    fault: str = ""

    def lines(self) -> list[str]:
        """Return what was verified and what cannot be, for a person."""
        counts = self.counts
        told = [f"{counts['BlockStored']} stores of {counts['stored']} blocks, {counts['BlockRemoved']} removals of "
                f"{counts['removed']}, {counts['AllBlocksCleared']} clearings"]
        if not self.fault:
            told.append("no contradiction: one text for each hash, one parent, no removal of what was not there")
        if counts["before the log"]:
            told.append(f"  {counts['before the log']} parents or removals were of blocks stored before the log began")
        if counts["recurrent"]:
            told.append(f"  {counts['recurrent']} of the stored blocks hold recurrent states")
        if counts["some"]:
            told.append(f"  {counts['some']} stores name some of the blocks that their tokens fill: which, is not said")
        if counts["endpoints"]:
            told.append(f"  {counts['endpoints']} of their endpoints are where their block ends")
        if counts["unplaced"]:
            told.append(f"  {counts['unplaced']} endpoints could not be compared: their text began before the log")
        proved = counts["recurrent"] and counts["endpoints"] == counts["recurrent"]
        limits = (TOLD_ENDPOINT, *LIMITS[1:]) if proved else LIMITS
        return [*told, "These events cannot show", *(f"  - {limit}" for limit in limits)]


def check_events(path: str | Path) -> EventReport:
    """Judge a log of events up to its first contradiction; FormatError, with the line, where one is malformed."""
    judge, name = _Judge(), str(path)
    for number, text in read_lines(path):
        try:
            for event in _events(parse_json(text, name, number)):
                sentence = judge.take(event)
                if sentence:
                    judge.report.fault = f"CONTRADICTION   {name}:{number}\n  {sentence}"
                    return judge.report
        except ShapeError as error:
            raise FormatError(name, number, 0, str(error)) from None
    if not judge.report.counts:
        raise FormatError(name, 0, 0, "there is no event in this file")
    return judge.report


def _events(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the events of a line as objects with a `type`."""
    if isinstance(value, list) and value and isinstance(value[0], str):
        kind = value[0]
        yield {"type": kind, **dict(zip(FIELDS.get(kind, ()), value[1:], strict=False))}
    elif isinstance(value, list) and len(value) > 1 and isinstance(value[1], list):
        for event in value[1]:
            yield from _events(event)
    elif isinstance(value, dict) and isinstance(value.get("events"), list):
        for event in value["events"]:
            yield from _events(event)
    else:
        yield read_object(value, "")


class _Judge:
    """Blocks that are announced, by medium, group and hash."""

    def __init__(self) -> None:
        self.report = EventReport()
        self.present: Counter[Key] = Counter()
        self.texts: dict[Key, bytes] = {}
        self.gone: dict[Key, None] = {}
        self.lengths: dict[tuple[str, Hash], int] = {}
        self.kinds: dict[tuple[str, int], str] = {}
        self.complete = False

    def take(self, event: dict[str, Any]) -> str:
        """Judge one event; return the contradiction that it makes, '' for none."""
        kind = event.get("type")
        if kind not in FIELDS:
            raise ShapeError("type", f"expected one of {', '.join(FIELDS)}, found {kind!r}")
        self.report.counts[kind] += 1
        if kind == "AllBlocksCleared":
            self.present.clear()
            self.texts.clear()
            self.gone.clear()
            self.lengths.clear()
            self.complete = True
            return ""
        place = str(event.get("medium") or ""), integer().read(event.get("group_idx") or 0, "group_idx")
        hashes = list(many(_HASH).read(event.get("block_hashes"), "block_hashes"))
        if kind == "BlockRemoved":
            return next((found for one in hashes if (found := self._remove((*place, one)))), "")
        return self._store(event, place, hashes)

    def _store(self, event: dict[str, Any], place: tuple[str, int], hashes: list[Hash]) -> str:
        tokens = _TOKENS.read(event.get("token_ids", []), "token_ids")
        size = _SIZE.read(event.get("block_size"), "block_size")
        parent = optional(_HASH).read(event.get("parent_block_hash"), "parent_block_hash")
        # vLLM leaves the kind out where a block is stored in part; it is the group's all the same.
        kind = self.kinds[place] = str(event.get("kv_cache_spec_kind") or self.kinds.get(place, ""))
        if len(tokens) > size * len(hashes):
            if kind in KEEP_ALL:
                return f"{len(hashes)} blocks of {size} tokens are stored with {len(tokens)} tokens"
            return self._store_some(place, hashes, recurrent=kind == "mamba")
        if parent is not None and (*place, parent) not in self.texts:
            self.report.counts["before the log"] += 1
            # Groups that keep few blocks store a block whose parent was never kept: only full ones keep all.
            if self.complete and kind in KEEP_ALL:
                return f"block {hashes[0] if hashes else '?'} is stored under a parent {parent} that never was"
        for index, one in enumerate(hashes):
            text = _text(parent, tokens[index * size : (index + 1) * size], size, event, index)
            if self.texts.setdefault((*place, one), text) != text:
                return f"block {one} is stored a second time with another text, parent, size or adapter"
            self._add((*place, one), recurrent=kind == "mamba")
            self._measure(place[0], parent, one, len(tokens[index * size : (index + 1) * size]))
            parent = one
        endpoint = optional(integer()).read(event.get("endpoint"), "endpoint")
        return "" if endpoint is None or not hashes else self._place(place[0], hashes[-1], endpoint)

    def _store_some(self, place: tuple[str, int], hashes: list[Hash], recurrent: bool) -> str:
        """Note a store that names some of the blocks that its tokens fill: which ones, it does not say."""
        self.report.counts["some"] += 1
        for one in hashes:
            self._add((*place, one), recurrent)
        return ""

    def _add(self, key: Key, recurrent: bool) -> None:
        self.gone.pop(key, None)
        self.present[key] += 1
        self.report.counts["stored"] += 1
        self.report.counts["recurrent"] += recurrent

    def _measure(self, medium: str, parent: Hash | None, one: Hash, tokens: int) -> None:
        """Note how long the text of a block is; groups of one block size have their hashes in common."""
        before = 0 if parent is None else self.lengths.get((medium, parent))
        if before is not None:
            self.lengths.setdefault((medium, one), before + tokens)

    def _place(self, medium: str, one: Hash, endpoint: int) -> str:
        """Compare the tokens that a state has read with the length of its block's text."""
        length = self.lengths.get((medium, one))
        self.report.counts["unplaced" if length is None else "endpoints"] += 1
        if length is None or length == endpoint:
            return ""
        return f"the state of block {one} has read {endpoint} tokens, and its block ends after {length}"

    def _remove(self, key: Key) -> str:
        self.report.counts["removed"] += 1
        if not self.present[key]:
            del self.present[key]
            if self.complete:
                return f"block {key[2]} is removed, and it is not there"
            self.report.counts["before the log"] += 1
            return ""
        self.present[key] -= 1
        if not self.present[key]:
            del self.present[key]
            self.gone[key] = None
            if len(self.gone) > REMEMBERED:
                forgotten = next(iter(self.gone))
                del self.gone[forgotten]
                self.texts.pop(forgotten, None)
                self.lengths.pop((forgotten[0], forgotten[2]), None)
        return ""


def _text(parent: Hash | None, tokens: tuple[int, ...], size: int, event: dict[str, Any], index: int) -> bytes:
    """Return a digest of all that a block's hash stands for."""
    extra = event.get("extra_keys")
    own = extra[index] if isinstance(extra, list) and index < len(extra) else None
    named = parent, tokens, size, own, event.get("lora_name") or event.get("lora_id")
    return blake2b(repr(named).encode(), digest_size=12).digest()
