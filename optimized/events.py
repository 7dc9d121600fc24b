"""KV events in the schema that vLLM and SGLang emit, with the one field that it lacks: the endpoint of a snapshot.

A block is a page. One of a window or a compressed group is a block of its own group under the hash of the full page on
which it hangs, or where their sizes differ under one that is made from that. A stored state is a block of its own group
under the hash of the page that ends where it does; its `endpoint` is the position that its slot was written at, as the
step was told, and never the place where it was filed: where the two differ, `milepost check --events` sees it. Contents
have negative ids among `token_ids`.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from milepost.optimized.index import FULL, RECURRENT, Cleared, Event, PagesStored, Removed, SideStored, StateStored
from milepost.optimized.index.packing import TOKEN_BYTES
from milepost.optimized.pools import CellPool
from milepost.spec.layout import Layout
from milepost.spec.words import GroupKind

SPEC_KINDS = {
    GroupKind.FULL: "full_attention",
    GroupKind.WINDOW: "sliding_window",
    GroupKind.COMPRESSED: "compressed",
    GroupKind.RECURRENT: "mamba",
}
"""The engines' words for the kinds of groups, and ours where they have none."""


@dataclass(frozen=True, slots=True)
class Block:
    """A page as events name it: its hash and its parent's, its tokens packed, its namespace."""

    hash: int
    parent: int | None
    tokens: bytes
    namespace: Hashable


class EventWriter:
    """Turns what the index tells into events, at once: a slot's endpoint is read while it is still that slot's."""

    def __init__(self, layout: Layout, slots: CellPool, medium: str) -> None:
        self.page_size, self.slots, self.medium = layout.full.page_size, slots, medium
        self.page_sizes = {group.name: group.page_size for group in layout.sides}
        keys = (FULL.value, *self.page_sizes, *([RECURRENT.value] if layout.recurrent else []))
        self.group_indices = {key: number for number, key in enumerate(keys)}
        self.kinds = {key: SPEC_KINDS[group.kind] for key, group in zip(keys, layout.groups, strict=True)}
        self.pages: dict[Hashable, Block] = {}
        self.hashes: dict[tuple[str, Hashable], int] = {}
        self.written: list[dict[str, Any]] = []

    def write(self, told: Iterable[Event]) -> None:
        """Add the events for what the index told."""
        for one in told:
            if isinstance(one, PagesStored):
                self._store_pages(one)
            elif isinstance(one, StateStored):
                self._store_state(one)
            elif isinstance(one, SideStored):
                self._store_side(one)
            elif isinstance(one, Removed):
                self._remove(one.kind, one.cell)
            elif isinstance(one, Cleared):
                self.pages.clear()
                self.hashes.clear()
                self.written.append({"type": "AllBlocksCleared"})

    def take(self) -> list[dict[str, Any]]:
        """Return the events since the last call."""
        taken, self.written = self.written, []
        return taken

    def _store_pages(self, one: PagesStored) -> None:
        parent = None if one.parent is None else self.pages[one.parent].hash
        first, blocks, size = parent, [], self.page_size * TOKEN_BYTES
        for place, cell in enumerate(one.cells):
            tokens = one.tokens[place * size : (place + 1) * size]
            block = Block(block_hash(parent, tokens, one.namespace), parent, tokens, one.namespace)
            self.pages[cell] = block
            blocks.append(block)
            parent = block.hash
        self._stored(FULL, blocks, first, self.page_size)

    def _store_state(self, one: StateStored) -> None:
        block = self.pages[one.page]
        self.hashes[RECURRENT, one.cell] = block.hash
        assert isinstance(one.cell, int)
        endpoint = self.slots.endpoints[one.cell]
        self._stored(RECURRENT, [block], block.parent, self.page_size, endpoint=endpoint)

    def _store_side(self, one: SideStored) -> None:
        """Tell of a page that comes and goes by itself: it has no tokens and no parent of its own."""
        page, size = self.pages[one.page], self.page_sizes[one.group]
        made = page.hash if size == self.page_size else block_hash(page.hash, b"%d" % one.length, one.group)
        self.hashes[one.group, one.cell] = made
        self._stored(one.group, [Block(made, None, b"", page.namespace)], None, size)

    def _stored(self, key: str, blocks: list[Block], parent: int | None, size: int, **more: Any) -> None:
        numbers = array("i")
        for block in blocks:
            numbers.frombytes(block.tokens)
        namespace = blocks[0].namespace
        pairs = list(namespace) if isinstance(namespace, tuple) else []
        salts = [list(pair) for pair in pairs if pair[0] != "adapter"]
        self.written.append({
            "type": "BlockStored",
            "block_hashes": [block.hash for block in blocks],
            "parent_block_hash": parent,
            "token_ids": numbers.tolist(),
            "block_size": size,
            "lora_id": None,
            "medium": self.medium,
            "lora_name": next((value for kind, value in pairs if kind == "adapter"), None),
            "extra_keys": [salts] * len(blocks) if salts else None,
            "group_idx": self.group_indices[key],
            "kv_cache_spec_kind": self.kinds[key],
            **more,
        })

    def _remove(self, key: str, cell: Hashable) -> None:
        one = self.pages.pop(cell).hash if key == FULL else self.hashes.pop((key, cell))
        self.written.append({
            "type": "BlockRemoved",
            "block_hashes": [one],
            "medium": self.medium,
            "group_idx": self.group_indices[key],
        })


def block_hash(parent: int | None, tokens: bytes, namespace: Hashable) -> int:
    """Return a positive number for a page, its namespace, and all that is before it."""
    digest = blake2b(repr((parent, namespace)).encode() + tokens, digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
