"""Watches FreeToken's cache manager, state pool and scheduler, as of freetoken 0.2.1.

Its page table lies on the device: what is needed of it is copied behind the queued work and read a step later.
Positions of frozen states are those that the kernels are told, and never the label that is kept beside them.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

from milepost_record.guard import Building, Unknown, version_of, watch
from milepost_record.held import Held
from milepost_record.rows import ATTRIBUTE, KV, STATE, Claim, RowRecording, Tracked
from milepost_record.settings import Settings

TESTED = "0.2.1"


class Recording(RowRecording):
    """The recording of one CacheManager and of the state pool below it."""

    def __init__(self, manager: Any, settings: Settings, attached: bool) -> None:
        if manager.is_swa or manager.swa_paged:
            raise Unknown("a cache with sliding windows")
        partial = ["attached"] if attached else []
        super().__init__(
            settings, "freetoken", _header(manager), partial, int(manager.page_size), bool(manager.is_hybrid)
        )
        setattr(manager, ATTRIBUTE, self)
        if manager.is_hybrid:
            setattr(manager.linear_state_pool, ATTRIBUTE, self)

    # -- what a pass plans

    def after_prepare(self, noted: None, result: Any, scheduler: Any, batch: Any) -> None:
        """Note what a batch grants: chunks of prompts, or one token to each running request."""
        locations = Held(batch.out_loc)
        if batch.is_decode:
            claims = [self._known(request) for request in batch.reqs]
            self.go_on([(claim, self._told(claim)) for claim in claims], locations)
            return
        tracked = self._tracked(batch)
        first = 0
        for place, request in enumerate(batch.reqs):
            self._extend(scheduler, request, locations, first, tracked, place)
            first += request.extend_len

    def _extend(
        self, scheduler: Any, request: Any, locations: Held, first: int, tracked: Tracked | None, place: int
    ) -> None:
        claim, start, live = self.claims.get(request.uid), int(request.cached_len), None
        if claim is not None and claim.length != start:
            self.lose(claim)
            claim = None
        if claim is None:
            row = Held(scheduler.cache_manager.page_table[request.table_idx, :start]) if start else ()
            source = () if request.mamba_restore_src is None else (int(request.mamba_restore_src),)
            tokens = request.input_ids.tolist()
            claim = self.admit(request.uid, str(request.uid), tokens, [], start, row, source)
            live = (int(request.linear_slot_idx),) if self.states else ()
        said = self._said(request, claim)
        self.extend(claim, int(request.device_len), said, locations, first, live, tracked, place)

    def _tracked(self, batch: Any) -> Tracked | None:
        """Return what a prefill freezes: the state before a chunk of its kernels, whose number they are told."""
        arguments = batch.fla_metadata
        if not self.states or arguments is None or arguments.track_dst is None:
            return None
        from freetoken.kernel.fla.chunk import CHUNK_SIZE

        counts = (-(-request.extend_len // CHUNK_SIZE) for request in batch.reqs)
        first_rows, starts = list(accumulate(counts, initial=0)), [int(request.cached_len) for request in batch.reqs]
        return _Chunks(Held(arguments.track_dst), Held(arguments.track_h_row), first_rows, starts, CHUNK_SIZE)

    def _known(self, request: Any) -> Claim:
        claim, length = self.claims.get(request.uid), int(request.cached_len)
        if claim is None or claim.length != length:
            if claim is not None:
                self.lose(claim)
            claim = self.claims[request.uid] = Claim("", length, 0)
        return claim

    def _told(self, claim: Claim) -> str:
        """Return the digests of what was heard of a request, and forget it."""
        if not claim.heard:
            return ""
        heard, claim.heard = claim.heard, []
        return ",".join([self.trace.digests.of_token[token] for token in heard])

    def _said(self, request: Any, claim: Claim) -> list[int]:
        said, claim.heard = claim.heard, []
        if claim.name and request.input_ids.numel() > claim.told:
            said += request.input_ids[claim.told :].tolist()
            claim.told = int(request.input_ids.numel())
        return said

    # -- steps

    def after_forward(self, noted: None, result: Any, scheduler: Any, forward_input: Any) -> None:
        """Note that a batch was started; a state that was copied for a tool call is frozen by that copy."""
        batch = forward_input.batch
        prompts = batch.reqs if batch.is_prefill else ()
        anchored = [] if batch.is_prefill else [one for one in batch.reqs if one.mamba_last_track_seqlen is not None]
        self.launch(claim for request in prompts if (claim := self.claims.get(request.uid)) is not None)
        for request in anchored:
            claim = self.claims.get(request.uid)
            if claim is not None:
                slot = request.mamba_ping_pong[1 - request.mamba_next_track_idx]
                self.later(claim.freeze, int(slot), int(request.mamba_last_track_seqlen))

    def before_drain(self, scheduler: Any, data: Any) -> None:
        """Note that a step's results are being processed."""
        if data is not None:
            self.land()

    def after_drain(self, noted: None, result: Any, scheduler: Any, data: Any) -> None:
        """Note what was said, and write what came before the newest step that has landed."""
        if data is None:
            return
        for request, token in zip(data[0].batch.reqs, data[1].next_tokens_cpu.tolist(), strict=False):
            claim = self.claims.get(request.uid)
            if claim is not None and request.input_ids.numel() == claim.told + 1:
                claim.told += 1
                claim.heard.append(token)
        self.settle()

    def before_copy(self, pool: Any, source: int, target: int) -> None:
        """Note a copy of a state."""
        self.phases.copy((int(source),), (int(target),))

    # -- what the cache takes, and ends

    def before_commit(self, manager: Any, request: Any, *, finished: bool) -> int:
        """Note up to where the cache owns a request's row; a request that is finished ends here."""
        if finished:
            claim = self.claims.get(request.uid)
            if claim is not None:
                self.close(request.uid, self._said(request, claim))
        return int(request.cache_handle.cached_len)

    def after_commit(self, owned: int, result: Any, manager: Any, request: Any, *, finished: bool) -> None:
        """Note what a running request's row is after the cache took what it has."""
        claim = None if finished else self.claims.get(request.uid)
        if claim is None:
            return
        stop = int(request.cache_handle.cached_len)
        row = Held(manager.page_table[request.table_idx, owned:stop]) if stop > owned else ()
        self.publish(claim, owned, row, ())

    def after_flush(self, noted: None, freed: Any, manager: Any) -> None:
        """Note that everything published was forgotten: it is done where nothing runs."""
        self.reset()

    def before_rebuild(self, manager: Any, *_: Any, **__: Any) -> None:
        """End the recording: its header has the old sizes."""
        raise Unknown("the pools were given another size: attach to the cache again")


class _Chunks(Tracked):
    """What the chunked kernels freeze: a row of their states by chunk, and the slot that it is copied to."""

    def __init__(self, slots: Held, rows: Held, first_rows: list[int], starts: list[int], chunk: int) -> None:
        self._held, self._first_rows, self._starts, self._chunk = (slots, rows), first_rows, starts, chunk
        self._found: dict[int, tuple[int, int]] | None = None

    @property
    def places(self) -> dict[int, tuple[int, int]]:  # type: ignore[override]  # read when it is written
        """The slots and positions by the place of their requests."""
        if self._found is None:
            self._found = {}
            for slot, row in zip(*(one.values() for one in self._held), strict=True):
                place = bisect_right(self._first_rows, row) - 1
                position = self._starts[place] + (row - self._first_rows[place]) * self._chunk
                self._found[place] = slot, position
        return self._found

    def look(self, place: int) -> tuple[int, int]:
        """Return the slot and the position of one of `places`."""
        return self.places[place]


def _header(manager: Any) -> dict[str, Any]:
    version, page = version_of("freetoken"), int(manager.page_size)
    faked = [] if version == TESTED else [f"the recorder was tested with freetoken {TESTED}"]
    sizes, chunk = {KV: int(manager.num_pages)}, 1
    groups: list[dict[str, Any]] = [{"name": KV, "kind": "full", "pool": KV, "page_size": page}]
    if manager.is_hybrid:
        from freetoken.kernel.fla.chunk import CHUNK_SIZE

        sizes[STATE], chunk = int(manager.linear_state_pool.num_slots) - 1, int(CHUNK_SIZE)
        groups.append({"name": STATE, "kind": "recurrent", "pool": STATE})
    return {
        "id": "recorded/freetoken", "target": "freetoken", "page_size": page, "pools": sizes, "chunk_size": chunk,
        "capabilities": {
            "engine": "FreeToken", "version": version, "groups": groups, "pools": sizes, "chunk_size": chunk,
            "issues": "https://github.com/FlashML-org/FreeToken/issues",
            "fidelity": {"level": "in-situ", "faked": faked}, "hit_alignment": page,
            "freeze_grid": {"chunk_size": chunk, "origin": "step"}, "end_donation": "any" if page == 1 else "page",
            "mid_prefill_freeze": bool(manager.is_hybrid), "explicit_publish": False, "leases_on_open": False,
            "overlap": 1, "resets": "idle",
        },
    }


def watch_freetoken(settings: Settings) -> None:
    """Record every cache manager that is built in this process from now on."""
    from freetoken.scheduler.cache import CacheManager

    def build(building: Building, noted: None, result: None, manager: Any, *_: Any, **__: Any) -> None:
        attach_freetoken(manager, settings, attached=False)

    watch(CacheManager, "__init__", lambda manager: Building(), after=build)
    _watch_methods(CacheManager)


def attach_freetoken(engine: Any, settings: Settings, attached: bool = True) -> Recording:
    """Record a cache manager, or the one of a scheduler, from now on."""
    manager = getattr(engine, "cache_manager", engine)
    recording = Recording(manager, settings, attached)
    _watch_methods(type(manager))
    return recording


def _watch_methods(manager: Any) -> None:
    from freetoken.kvcache.linear_state_pool import LinearStatePool
    from freetoken.scheduler.scheduler import Scheduler

    watch(manager, "cache_req", _own, Recording.before_commit, Recording.after_commit)
    watch(manager, "flush", _own, after=Recording.after_flush)
    watch(manager, "rebuild", _own, Recording.before_rebuild)
    watch(LinearStatePool, "copy_from", _own, Recording.before_copy)
    watch(Scheduler, "_prepare_batch", _of_scheduler, after=Recording.after_prepare)
    watch(Scheduler, "_forward", _of_scheduler, after=Recording.after_forward)
    watch(Scheduler, "_process_last_data", _of_scheduler, Recording.before_drain, Recording.after_drain)


def _of_scheduler(scheduler: Any) -> Recording | None:
    return getattr(scheduler.cache_manager, ATTRIBUTE, None)


def _own(owner: Any) -> Recording | None:
    return getattr(owner, ATTRIBUTE, None)
