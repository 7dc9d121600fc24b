"""Watches SGLang's radix cache, pools, batches and scheduler, as of sglang 0.5.23.

Its tables lie on the device: they are copied behind the queued work and read a step later. What is seen is what the
engine gives its kernels: rows of locations, slots, where a state is tracked, and the copies and zeroings of states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from milepost_record.guard import Building, Unknown, version_of, watch
from milepost_record.held import Held, Picked
from milepost_record.rows import ATTRIBUTE, KV, STATE, Claim, Ints, RowRecording, Tracked
from milepost_record.settings import Settings

TESTED = "0.5.23"
SPACES = ("cache_salt", "extra_key")


class Recording(RowRecording):
    """The recording of one UnifiedRadixCache and of the pools below it."""

    def __init__(self, tree: Any, settings: Settings, attached: bool) -> None:
        self.pool, self.tree = tree.req_to_token_pool, tree
        states = bool(tree.supports_mamba())
        kinds = {component.name for component in tree.tree_components}
        if not kinds <= {"FULL", "MAMBA"}:
            raise Unknown(f"a cache with components {', '.join(sorted(kinds))}")
        if states and type(self.pool.mamba_pool).__name__ != "MambaPool":
            raise Unknown(f"states in a {type(self.pool.mamba_pool).__name__}")
        partial = ["attached"] if attached else []
        super().__init__(settings, "sglang", _header(tree, states), partial, int(tree.page_size), states)
        for owner in (tree, self.pool, *((self.pool.mamba_pool,) if states else ())):
            setattr(owner, ATTRIBUTE, self)
        self.restored: list[bool] = []
        self.decoded: dict[int, Tracked] = {}

    # -- what a pass plans

    def before_extend(self, batch: Any) -> None:
        """Note who is to be restored: the batch takes it from its requests."""
        if not batch.spec_algorithm.is_none() or batch.is_dllm():
            raise Unknown("speculative decoding")
        self.restored = [self.states and request.kv.mamba_cow_src_index is not None for request in batch.reqs]

    def after_extend(self, noted: None, result: Any, batch: Any) -> None:
        """Note the prompts, or chunks of prompts, of a batch."""
        locations, tracked = Held(batch.out_cache_loc), self._tracked(batch)
        sources, first = Held(batch.mamba_cow_src_indices) if any(self.restored) else None, 0
        for place, request in enumerate(batch.reqs):
            before = sum(self.restored[:place])  # the batch has the sources of those that are restored, in their order
            source = Picked(sources, before) if sources is not None and self.restored[place] else ()
            self._extend(request, locations, first, tracked, place, source)
            first += batch.extend_lens[place]

    def _extend(
        self, request: Any, locations: Held, first: int, tracked: Tracked | None, place: int, source: Ints
    ) -> None:
        claim, start, kv = self.claims.get(request.rid), int(request.prefix_len), request.kv
        live: Held | tuple[()] | None = None
        if claim is not None and claim.length != start:
            self.lose(claim)
            claim = None
        if claim is None:
            tokens, length = list(request.full_untruncated_fill_ids), start
            spaces = [[kind, str(name)] for kind in SPACES if (name := getattr(request, kind)) is not None]
            row = Held(self.pool.req_to_token[kv.req_pool_idx, :length]) if length else ()
            foreign = bool(request.host_hit_length) or getattr(request, "input_embeds", None) is not None
            claim = self.admit(request.rid, request.rid, tokens, spaces, length, row, source, foreign)
            live = Held(kv.mamba_pool_idx) if self.states else ()
        said = self._said(request, claim)
        self.extend(claim, int(request.extend_end), said, locations, first, live, tracked, place)

    def _tracked(self, batch: Any) -> Tracked | None:
        """Return what a prefill freezes, as its kernels are told: the last state, or one before a chunk of theirs."""
        mask = getattr(batch, "mamba_prefill_track_mask_cpu", None)
        if not mask or not any(mask):
            return None
        from sglang.srt.layers.attention.mamba.prefill_track_metadata import build_prefill_track_plan

        chunk, positions = getattr(batch.model_config.hf_text_config, "mamba_chunk_size", 64), {}
        for place, marked in enumerate(mask):
            if marked:
                start, length = batch.prefix_lens[place], batch.extend_lens[place]
                plan = build_prefill_track_plan(
                    [True], [batch.mamba_track_seqlens_cpu[place]], [length], [start], chunk, mamba2=False
                )
                positions[place] = start + (length if plan.final_rows else plan.h_src[0] * chunk)
        return Tracked(Held(batch.mamba_track_indices), positions)

    def after_decode(self, noted: None, result: Any, batch: Any) -> None:
        """Note a decode step: each request is granted one token."""
        if not batch.spec_algorithm.is_none():
            raise Unknown("speculative decoding")
        claims, told, digest_of = self.claims, [], self.trace.digests.of_token
        for request, length in zip(batch.reqs, batch.seq_lens_cpu.tolist(), strict=True):
            claim = claims.get(request.rid)
            if claim is None or claim.length + 1 != length:
                claim = self._found(request.rid, claim, length - 1)
            said = self._said(request, claim)
            told.append((claim, ",".join([digest_of[token] for token in said]) if said and claim.name else ""))
        tracked, mask = None, getattr(batch, "mamba_track_mask_cpu", None)
        if mask and any(mask):
            places = (place for place, marked in enumerate(mask) if marked)
            lengths = batch.seq_lens_cpu.tolist()
            tracked = Tracked(Held(batch.mamba_track_indices), {place: lengths[place] for place in places})
            self.decoded[id(batch)] = tracked
        self.go_on(told, Held(batch.out_cache_loc), tracked)

    def before_mix(self, batch: Any, running: Any) -> None:
        """Strike what a decode would freeze: in a mixed step it freezes nothing."""
        tracked = self.decoded.pop(id(running), None)
        if tracked is not None:
            tracked.places.clear()

    def _found(self, name: str, claim: Claim | None, length: int) -> Claim:
        """Return a claim outside of the trace for a request that went on unseen, or was open before."""
        if claim is not None:
            self.lose(claim)
        found = self.claims[name] = Claim("", length, 0)
        return found

    def _said(self, request: Any, claim: Claim) -> Sequence[int]:
        known = claim.told - len(request.origin_input_ids)
        if not claim.name or len(request.output_ids) <= known:
            return ()
        said = list(request.output_ids[max(known, 0) :])
        claim.told += len(said)
        return said

    # -- steps

    def after_run(self, noted: None, result: Any, scheduler: Any, batch: Any, *_: Any, **__: Any) -> None:
        """Note that a batch was started."""
        self.decoded.clear()
        if not _computes(batch):
            return
        prompts = batch.reqs if batch.forward_mode.is_extend() else ()
        self.launch(claim for request in prompts if (claim := self.claims.get(request.rid)) is not None)

    def before_result(self, scheduler: Any, batch: Any, *_: Any, **__: Any) -> None:
        """Note that a step's results are known."""
        if _computes(batch):
            self.land()

    def after_result(self, noted: None, result: Any, *_: Any, **__: Any) -> None:
        """Write what came before the newest step that has landed."""
        self.settle()

    def before_copy(self, states: Any, sources: Any, targets: Any) -> None:
        """Note a copy of states."""
        self.phases.copy(Held(sources), Held(targets))

    def before_clear(self, states: Any, slots: Any) -> None:
        """Note a zeroing of states."""
        self.phases.zero(Held(slots))

    # -- what the cache takes, and ends

    def before_checkpoint(self, tree: Any, request: Any, *_: Any, **__: Any) -> int:
        """Note up to where the cache owns a request's row."""
        return int(request.kv.cache_protected_len)

    def after_checkpoint(self, owned: int, result: Any, tree: Any, request: Any, *_: Any, **__: Any) -> None:
        """Note what a running request's row and tracking slots are after the cache took what it has."""
        claim, kv = self.claims.get(request.rid), request.kv
        if claim is None or request.finished() or not kv.holds_kv:
            return
        stop = int(kv.cache_protected_len)
        row = Held(self.pool.req_to_token[kv.req_pool_idx, owned:stop]) if stop > owned else ()
        buffer = getattr(kv, "mamba_ping_pong_track_buffer", None)
        self.publish(claim, owned, row, Held(buffer) if buffer is not None else ())

    def before_free(self, pool: Any, request: Any, *_: Any, **__: Any) -> None:
        """Note the end of a request, or that it is retracted: it comes back under another name."""
        claim = self.claims.get(request.rid)
        if claim is not None:
            self.close(request.rid, self._said(request, claim))

    def after_claim_row(self, noted: None, kept: Any, tree: Any, request: Any, *_: Any, **__: Any) -> None:
        """Lose a request whose row a streaming session keeps."""
        claim = self.claims.pop(request.rid, None) if kept else None
        if claim is not None:
            self.lose(claim)

    def after_reset(self, noted: None, result: Any, *_: Any, **__: Any) -> None:
        """Note that everything was forgotten."""
        self.reset()


def _computes(batch: Any) -> bool:
    return bool(batch.forward_mode.is_extend() or batch.forward_mode.is_decode())


def _header(tree: Any, states: bool) -> dict[str, Any]:
    version, page, pool = version_of("sglang"), int(tree.page_size), tree.req_to_token_pool
    faked = [] if version == TESTED else [f"the recorder was tested with sglang {TESTED}"]
    sizes = {KV: int(tree.token_to_kv_pool_allocator.size) // page}
    groups: list[dict[str, Any]] = [{"name": KV, "kind": "full", "pool": KV, "page_size": page}]
    chunk = 1
    if states:
        from sglang.srt.runtime_context import mamba_cache_chunk_size

        sizes[STATE], chunk = int(pool.mamba_pool.size), int(mamba_cache_chunk_size())
        groups.append({"name": STATE, "kind": "recurrent", "pool": STATE})
    return {
        "id": "recorded/sglang", "target": "sglang", "page_size": page, "pools": sizes, "chunk_size": chunk,
        "capabilities": {
            "engine": "SGLang", "version": version, "groups": groups, "pools": sizes, "chunk_size": chunk,
            "issues": "https://github.com/sgl-project/sglang/issues",
            "fidelity": {"level": "in-situ", "faked": faked}, "hit_alignment": page,
            "freeze_grid": {"chunk_size": 1, "origin": "step"}, "end_donation": "any" if page == 1 else "page",
            "mid_prefill_freeze": states, "explicit_publish": False, "leases_on_open": False, "overlap": 1,
            "preempts": True, "resets": "idle", "namespaces": list(SPACES),
        },
    }


def watch_sglang(settings: Settings) -> None:
    """Record every radix cache that is built in this process from now on."""
    from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

    def build(building: Building, noted: None, result: None, tree: Any, *_: Any, **__: Any) -> None:
        attach_sglang(tree, settings, attached=False)

    watch(UnifiedRadixCache, "__init__", lambda tree: Building(), after=build)
    _watch_batches()


def attach_sglang(engine: Any, settings: Settings, attached: bool = True) -> Recording:
    """Record a radix cache, or the one of a scheduler, from now on."""
    tree = getattr(engine, "tree_cache", engine)
    recording = Recording(tree, settings, attached)
    _watch_batches()
    _watch_cache(tree)
    return recording


def _watch_batches() -> None:
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.managers.scheduler import Scheduler

    watch(ScheduleBatch, "prepare_for_extend", _of_tree, Recording.before_extend, Recording.after_extend)
    watch(ScheduleBatch, "prepare_for_decode", _of_tree, after=Recording.after_decode)
    watch(ScheduleBatch, "mix_with_running", _of_tree, Recording.before_mix)
    watch(Scheduler, "run_batch", _of_tree, after=Recording.after_run)
    watch(Scheduler, "process_batch_result", _of_tree, Recording.before_result, Recording.after_result)


def _watch_cache(tree: Any) -> None:
    pool = tree.req_to_token_pool
    watch(type(tree), "checkpoint", _own, Recording.before_checkpoint, Recording.after_checkpoint)
    watch(type(tree), "claim_kv_row", _own, after=Recording.after_claim_row)
    watch(type(tree), "reset", _own, after=Recording.after_reset)
    watch(type(pool), "free", _own, Recording.before_free)
    if tree.supports_mamba():
        watch(type(pool.mamba_pool), "copy_from", _own, Recording.before_copy)
        watch(type(pool.mamba_pool), "clear_slots", _own, Recording.before_clear)


def _of_tree(holder: Any) -> Recording | None:
    return getattr(holder.tree_cache, ATTRIBUTE, None)


def _own(owner: Any) -> Recording | None:
    return getattr(owner, ATTRIBUTE, None)
