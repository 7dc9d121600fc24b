"""One request as FreeToken holds it, from its admission to the drain that ends it, and the table of what it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple
from zlib import crc32

import torch
from freetoken.core import SamplingParams
from freetoken.message import UserMsg
from freetoken.mm import mm_pad_value
from freetoken.scheduler.prefill import ChunkedReq

from milepost.conformance.adapters.freetoken_engine import Step
from milepost.spec.answers import Pages, Slots, Table
from milepost.spec.words import NULL

EMPTY: Table = {"kv": Pages(), "state": Slots()}

FREED = -1
"""What FreeToken leaves in `table_idx` of a request whose cells it has taken back (scheduler.py:651)."""

USUAL_ANSWER = 8


class Admission(NamedTuple):
    """What `PrefillAdder._try_allocate_one` returns: match, row of the page table, live slot, ping-pong, source."""

    match: Any
    row: int
    live: int
    ping_pong: tuple[int, int]
    source: int | None


@dataclass(slots=True, eq=False)
class Request:
    """A request of the harness. `req` is FreeToken's `Req` of its newest chunk, None before the first one.

    `restored` is set once its first step was launched, by which the snapshot of its hit has been read.
    """

    name: str
    pending: Any
    admission: Admission
    req: Any = None
    restored: bool = False

    @property
    def in_prompt(self) -> bool:
        """True while its next step is one of the prompt."""
        return self.req is None or isinstance(self.req, ChunkedReq)

    @property
    def freed(self) -> bool:
        """True once FreeToken has ended it: aborted, or at a stop token or the end of its budget."""
        return self.req is not None and self.req.table_idx == FREED

    @property
    def length(self) -> int:
        """Tokens that are cached or launched."""
        return int(self.admission.match.cached_len if self.req is None else self.req.cached_len)

    @property
    def tree_length(self) -> int:
        """Tokens whose pages belong to the tree and are locked for this request."""
        return int((self.admission.match if self.req is None else self.req.cache_handle).cached_len)


@dataclass(frozen=True, slots=True)
class Flight:
    """A launched step that was not drained, with its requests in batch order."""

    number: int
    step: Step
    requests: list[Request]


def user_message(uid: int, tokens: tuple[int, ...], content: Mapping[int, str], pool_tokens: int) -> UserMsg:
    """Return the message that brings a prompt to the scheduler.

    A picture is the pseudo id of its content, as FreeToken's tokenizer side would have put it there. How much may be
    said, and whether a stop token counts, is drawn from the prompt: a shrunk schedule then asks for the same.
    """
    ids = list(tokens)
    for position, picture in content.items():
        digest = blake2b(picture.encode(), digest_size=8).digest()
        ids[position] = mm_pad_value(int.from_bytes(digest, "big"))
    lot = crc32(repr(ids).encode())
    usual = max(USUAL_ANSWER, pool_tokens // 16)
    budget = (usual, usual, usual, usual, usual, usual, 3, 1)[lot % 8]
    asked = SamplingParams(max_tokens=budget, ignore_eos=bool(lot // 8 % 2))
    return UserMsg(uid=uid, input_ids=torch.tensor(ids, dtype=torch.int32), sampling_params=asked)


def table(request: Request, rows: torch.Tensor, page: int, planned: Any = None) -> Table:
    """Return what a request names; `planned` is a copy of its `Req` that already has what its next step will freeze."""
    admission, req = request.admission, planned or request.req
    source = NULL if admission.source is None or request.restored else admission.source
    if req is None:
        return {"kv": _pages(rows[admission.row], request.length, page), "state": Slots(admission.live, (), source)}
    if req.table_idx == FREED:
        return EMPTY
    slots = Slots(req.linear_slot_idx, _frozen(req), source)
    return {"kv": _pages(rows[req.table_idx], request.length, page), "state": slots}


def _pages(row: torch.Tensor, length: int, page: int) -> Pages:
    """Return the pages of the first `length` tokens of a row, which has a location for each token."""
    return Pages(tuple(location // page for location in row[: -(-length // page) * page : page].tolist()))


def _frozen(req: Any) -> tuple[tuple[int, int], ...]:
    """Return the snapshot that waits for its donation: always the ping-pong slot that is not written next."""
    if req.mamba_last_track_seqlen is None or req.mamba_ping_pong is None:
        return ()
    return ((req.mamba_last_track_seqlen, req.mamba_ping_pong[1 - req.mamba_next_track_idx]),)
