"""Edits of vLLM's code, made in memory: breaks that the kit must notice, and repairs that end what it has found.

`vllm_edits:NAME` is a target, vLLM with that edit. Run as a script in vLLM's environment, this tries each break in turn
and prints how it was noticed as a JSON line.
"""

from __future__ import annotations

import inspect
import json
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from milepost.conformance.adapters import vllm
from milepost.conformance.adapters.vllm_loader import load
from milepost.conformance.driver import Driver
from milepost.conformance.files import read_schedule
from milepost.conformance.targets import Make, Target, resolve
from milepost.conformance.worker import Bench, task_generate
from milepost.spec.capabilities import Configuration
from milepost.spec.seam import Adapter


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of one function's source and what it is replaced by; `owner` is `module` or `module:Class`."""

    owner: str
    function: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of one target, and the codes that it may be noticed as: which comes first depends on the schedule."""

    target: str
    codes: tuple[str, ...]
    pieces: tuple[Piece, ...]


_CORE = "vllm.v1.core."
_POOL = _CORE + "block_pool:BlockPool"
_MANAGER = _CORE + "kv_cache_manager:KVCacheManager"
_COORDINATOR = _CORE + "kv_cache_coordinator:HybridKVCacheCoordinator"
_STATES = _CORE + "single_type_kv_cache_manager:MambaManager"
_SINGLE = _CORE + "single_type_kv_cache_manager:SingleTypeKVCacheManager"
_WINDOW = _CORE + "single_type_kv_cache_manager:SlidingWindowManager"
_SCHEDULER = _CORE + "sched.scheduler:Scheduler"
_HASHES = _CORE + "kv_cache_utils"
_INTERFACE = "vllm.v1.kv_cache_interface"
_KERNELS = "vllm.v1.worker.mamba_utils"
_MODEL = "vllm.v1.worker.gpu.model_states.mamba_hybrid"

_DRAFTS = "vllm:full+state+draft"
_ANY_STATE = ("torn-hit", "over-advanced", "stale-state", "uninitialized-read")

BREAKS: dict[str, Edit] = {
    "hits_reconciled_with_max": Edit("vllm:full+state", ("torn-hit", "illegal-boundary"), (
        Piece(_COORDINATOR, "find_longest_cache_hit", "curr_hit_length = _new_hit_length",
              "curr_hit_length = max(curr_hit_length, _new_hit_length) if idx else _new_hit_length"),
    )),
    "block_copies_dropped": Edit("vllm:unit16", ("uninitialized-read", "read-before-landing", "stale-kv", "leak"), (
        Piece(_MANAGER, "take_kv_cache_block_copies", "for source_block, cow_block in pending_copies",
              "for source_block, cow_block in ()"),
    )),
    "freed_while_referenced": Edit("vllm:full+state", ("evicted-while-leased", "double-grant", "leak", "crash"), (
        Piece(_POOL, "free_blocks", "if block.ref_cnt == 0:", "if True:"),
    )),
    "hits_not_referenced": Edit("vllm:full+state", ("evicted-while-leased", "double-grant", "crash"), (
        Piece(_POOL, "touch", "block.ref_cnt += 1", "pass"),
    )),
    "states_of_this_step_hit": Edit("vllm:full+state", ("read-before-landing", "uninitialized-read"), (
        Piece(_STATES, "get_num_blocks_to_allocate", "in self.cached_blocks_this_step", "in ()"),
    )),
    "entry_left_with_the_running_block": Edit("vllm:unit16", ("over-advanced",), (
        Piece(_STATES, "allocate_new_blocks", "self.block_pool.move_block_hashes(source_block, cow_block)", "pass"),
    )),
    "chunks_run_past_a_block": Edit("vllm:full+state", ("torn-hit",), (
        Piece(_SCHEDULER, "_mamba_block_aligned_split", "end = aligned_end", "next_block_boundary = 0"),
        Piece(_SCHEDULER, "_mamba_block_aligned_split", "next_block_boundary = (start // block_size + 1) * block_size",
              "next_block_boundary = 0"),
    )),
    "window_slid_too_far": Edit("vllm:window-even", ("window-gap",), (
        Piece(_WINDOW, "get_num_skipped_tokens", "self.sliding_window + 1", "self.sliding_window + 9"),
    )),
    "salt_not_hashed": Edit("vllm:full+state", ("cross-namespace",), (
        Piece(_HASHES, "generate_block_hash_extra_keys", "start_token_idx == 0 and request.cache_salt", "False"),
    )),
    "evicted_blocks_still_found": Edit("vllm:full+state", ("stale-kv", "stale-state", "uninitialized-read", "crash"), (
        Piece(_POOL, "get_new_blocks", "self._maybe_evict_cached_block(block)", "pass"),
    )),
    "checkpoint_labelled_a_unit_short": Edit("vllm:checkpoint", ("over-advanced", "crash"), (
        Piece(_STATES, "_cache_partial_tail_block", "num_tokens=checkpoint_position,",
              "num_tokens=max(checkpoint_position - hash_block_size, hash_block_size),"),
    )),
    "last_block_never_freed": Edit("vllm:full+state", ("leak",), (
        Piece(_SINGLE, "pop_blocks_for_free", "return trim_null_head(req_blocks)",
              "return trim_null_head(req_blocks)[:-1]"),
    )),
    "reset_forgets_only_blocks": Edit("vllm:full+state", ("reset-survivor", "stale-kv", "crash"), (
        Piece(_POOL, "reset_prefix_cache", "self.cached_block_hash_to_block = BlockHashToBlockMap()", "pass"),
    )),
    "accepted_column_not_followed": Edit(_DRAFTS, ("torn-hit",), (
        Piece(_KERNELS, "preprocess_mamba_align_fused_kernel", "src_off = tl.maximum(num_accepted - 1, 0)",
              "src_off = num_accepted - num_accepted"),
    )),
    "accepted_column_off_by_one": Edit(_DRAFTS, _ANY_STATE, (
        Piece(_KERNELS, "_copy_mamba_state_block", "src_col + token_bias).to", "src_col + token_bias + 1).to"),
    )),
    "accepted_window_not_shifted": Edit(_DRAFTS, ("stale-state",), (
        Piece(_KERNELS, "_copy_mamba_state_block",
              "src_addr = src_block_addr + token_bias.to(tl.int64) * token_bytes", "src_addr = src_block_addr"),
    )),
    "accepted_count_kept_over_a_boundary": Edit(_DRAFTS, _ANY_STATE, (
        Piece(_KERNELS, "preprocess_mamba_align_fused_kernel", "mask=mask & should_reset",
              "mask=mask & (state_idx < -1)"),
    )),
    "accepted_counts_by_row": Edit(_DRAFTS, _ANY_STATE, (
        Piece(_MODEL, "_scatter_num_accepted_kernel", "tl.store(num_accepted_ptr + req_state_idx",
              "tl.store(num_accepted_ptr + row"),
    )),
    "accepted_count_of_another_tenant": Edit(_DRAFTS, _ANY_STATE, (
        Piece(_MODEL + ":MambaHybridModelState", "add_request", "super().add_request(req_index, new_req_data)", "pass"),
        Piece(_MODEL + ":MambaHybridModelState", "add_request",
              "self.num_accepted_tokens_gpu[req_index].fill_(1)", "pass"),
    )),
    "boundary_inside_drafts_not_saved": Edit(_DRAFTS, ("torn-hit", "over-advanced"), (
        Piece(_KERNELS, "postprocess_mamba_fused_kernel", "aligned_new_computed >= num_tokens_running_state",
              "aligned_new_computed < 0"),
    )),
    "boundary_inside_drafts_a_column_late": Edit(_DRAFTS, ("torn-hit", "over-advanced", "stale-state"), (
        Piece(_KERNELS, "postprocess_mamba_fused_kernel", "aligned_new_computed // block_size - 1",
              "aligned_new_computed // block_size"),
    )),
    "page_hashed_before_its_last_token_is_computed": Edit(_DRAFTS, ("stale-kv", "uninitialized-read"), (
        Piece(_SCHEDULER, "update_from_output", "request.num_computed_tokens - request.num_in_flight_tokens",
              "request.num_tokens"),
    )),
    "relocated_draft_block_lost": Edit(_DRAFTS, ("torn-hit", "leak"), (
        Piece(_STATES, "_relocate_speculative_block", "req_blocks.append(block)",
              "req_blocks.append(self._null_block)"),
    )),
    "too_few_columns_for_drafts": Edit(_DRAFTS, _ANY_STATE, (
        Piece(_STATES, "allocate_new_blocks", "cdiv(num_tokens, self.block_size) + self.num_speculative_blocks",
              "cdiv(num_tokens, self.block_size) + min(self.num_speculative_blocks, 1)"),
    )),
    "freed_by_what_is_hoped_for": Edit(_DRAFTS, ("torn-hit", "crash"), (
        Piece(_MANAGER, "allocate_slots", "max(0, total_computed_tokens - request.num_in_flight_tokens)",
              "total_computed_tokens + num_new_tokens"),
    )),
}
"""Illegal edits: each breaks a law."""

_BOUNDARY = Piece(
    _INTERFACE, "is_mamba_prefill_checkpoint_valid", "query_start % hash_block_size == 0",
    "query_start % mamba_block_size == 0",
)
_PASSED_OVER = Piece(
    _STATES, "allocate_new_blocks", "# Record the last state block\n",
    "if num_required_blocks > prev_block_len:\n"
    "                    self.num_cached_block[request_id] = max(\n"
    "                        self.num_cached_block.get(request_id, 0), prev_block_len)\n",
)
_CHAIN = Piece(
    _SINGLE, "get_num_blocks_to_allocate", "num_new_blocks += 1",
    "copied = any(target is new_computed_blocks[-1] for _, target in self._pending_cow_copies); "
    "num_new_blocks += self.block_pool.num_gpu_blocks if copied else 1",
)
_GRID = Piece(
    _SCHEDULER, "_mamba_block_aligned_split", "block_size = self.cache_config.block_size",
    "block_size = self.cache_config.mamba_block_size",
)

PADDING = Piece(
    _SCHEDULER, "schedule", "and (scheduled_running_reqs or num_computed_tokens > 0)", "and num_computed_tokens > 0"
)
"""The change that ends finding 4, in vLLM's loop; the adapter follows that loop in a function of its own."""

SEED = (
    Piece(_MODEL + ":MambaHybridModelState", "add_request", "super().add_request(req_index, new_req_data)", "pass"),
    Piece(_MODEL + ":MambaHybridModelState", "add_request", "mamba_block_size = self.cache_config.mamba_block_size",
          "mamba_block_size = self.cache_config.block_size"),
)
"""The line of #55600 as it was before 0.33.0: the running column is counted in blocks of another group."""

_PADDING = Piece("milepost.conformance.adapters.vllm_scheduler:Vllm", "_padding", "(running or hit)", "hit")

REPAIRS: dict[str, Edit] = {
    "checkpoint_only_from_a_boundary": Edit("vllm:checkpoint", (), (_BOUNDARY, _CHAIN)),
    "chunk_grid_of_the_states": Edit("vllm:uneven", (), (_GRID, _CHAIN)),
    "all_three": Edit("vllm:window", (), (_BOUNDARY, _CHAIN, _GRID)),
    "copies_of_this_step_not_copied": Edit("vllm:unit16", (), (_CHAIN,)),
    "padded_only_behind_a_state": Edit("vllm:full+state+draft", (), (_PADDING,)),
    "padded_only_behind_a_state_window": Edit("vllm:full+window+state+draft", (), (_PADDING,)),
    "padded_only_behind_a_state_mtp": Edit("vllm:mtp", (), (_PADDING,)),
    "passed_over_blocks_not_cached": Edit("vllm:checkpoint", (), (_PASSED_OVER, _CHAIN)),
    "passed_over_blocks_not_cached_uneven": Edit("vllm:uneven", (), (_PASSED_OVER, _CHAIN)),
    "passed_over_blocks_not_cached_window": Edit("vllm:window", (), (_PASSED_OVER, _CHAIN)),
}
"""Changes that end the findings in docs/findings/vllm.md."""


CHANGES = {"checkpoint-from-a-boundary": _BOUNDARY, "passed-over-not-cached": _PASSED_OVER, "no-copy-of-a-copy": _CHAIN,
           "grid-of-the-states": _GRID, "padded-only-behind-a-state": _PADDING}
"""The same one by one, as the page names them."""

SIZES = {name: vllm.SIZES[edit.target] for name, edit in (BREAKS | REPAIRS).items()}


@contextmanager
def edited(edit: Edit) -> Iterator[None]:
    """Make an edit for as long as this lasts; a piece that is not there is an error.

    A function of a module is replaced wherever a module of vLLM has imported it.
    """
    kept: list[tuple[Any, str, Any]] = []
    texts: dict[tuple[str, str], str] = {}
    try:
        for piece in edit.pieces:
            module, _, class_name = piece.owner.partition(":")
            owner = getattr(import_module(module), class_name) if class_name else import_module(module)
            original = inspect.getattr_static(owner, piece.function)
            changed = _recompiled(piece, original, texts)
            places = [owner] if class_name else [
                one for name, one in sys.modules.items()
                if name.startswith("vllm") and vars(one).get(piece.function) is original
            ]
            for place in places:
                kept.append((place, piece.function, original))
                setattr(place, piece.function, changed)
        yield
    finally:
        for place, function, original in reversed(kept):
            setattr(place, function, original)


def _recompiled(piece: Piece, original: Any, texts: dict[tuple[str, str], str]) -> Any:
    """Compile a function from its source with a piece replaced; `texts` keeps the source for the next piece of it."""
    key = (piece.owner, piece.function)
    source = texts.get(key) or textwrap.dedent(inspect.getsource(original))
    if piece.before not in source:
        raise LookupError(f"{piece.owner}, {piece.function}: {piece.before!r} is not there")
    texts[key] = source.replace(piece.before, piece.after)
    made: dict[str, Any] = {}
    names = inspect.unwrap(original).__globals__  # a kernel wraps its function
    exec(compile(texts[key], f"<edited {piece.function}>", "exec"), names, made)
    return made[piece.function]


def __getattr__(name: str) -> Make:
    """Return the `make` of the target `vllm_edits:NAME`; its edit stays until the process ends."""
    if name not in BREAKS | REPAIRS:
        raise AttributeError(name)
    edit = (BREAKS | REPAIRS)[name]

    def make(configuration: Configuration) -> Adapter:
        adapter = resolve(edit.target).make(configuration)
        if name not in _lasting:
            _lasting[name] = edited(edit)
            _lasting[name].__enter__()
        return adapter

    return make


_lasting: dict[str, Any] = {}


def first_codes(name: str, schedules: int, seed: int, wanted: int) -> tuple[Counter[str], int]:
    """Run generated schedules on a broken vLLM until `wanted` have failed; return how, and how many ran.

    It makes no promises here: the laws alone have to notice.
    """
    edit = (BREAKS | REPAIRS)[name]
    whole = resolve(edit.target)

    def make(configuration: Configuration) -> Adapter:
        adapter: Any = whole.make(configuration)
        adapter.capabilities = replace(adapter.capabilities, promises=())
        return adapter  # type: ignore[no-any-return]  # a Vllm

    bench = Bench(Target(name, make, whole.sizes))
    load()
    for module in (_SCHEDULER.partition(":")[0], _MODEL):
        import_module(module)  # vLLM is imported before its source is looked for
    codes: Counter[str] = Counter()
    with edited(edit):
        for ran, done in enumerate(task_generate(bench, seed, range(schedules), 40), 1):
            codes.update([done.code] if done.code else [])
            if codes.total() == wanted:
                return codes, ran
    return codes, schedules


def replays(paths: list[str]) -> None:
    """Print one JSON line for each schedule: its code with no change, and with each change alone."""
    load()
    import_module(_SCHEDULER.partition(":")[0])
    for path in paths:
        schedule = read_schedule(path)
        target = resolve(schedule.header.target)
        codes = {"none": Driver(target.make(schedule.header.configuration)).run(schedule).code}
        for name, piece in CHANGES.items():
            with edited(Edit(schedule.header.target, (), (piece,))):
                codes[name] = Driver(target.make(schedule.header.configuration)).run(schedule).code
        print(json.dumps(codes), flush=True)


def main() -> None:
    """Print one JSON line for each break: its name, how often each code came, and the schedules that it took."""
    if sys.argv[1] == "replay":
        return replays(sys.argv[2:])
    schedules, seed, wanted = (int(argument) for argument in sys.argv[1:4])
    for name in sys.argv[4:] or BREAKS:
        codes, ran = first_codes(name, schedules, seed, wanted)
        print(json.dumps({"name": name, "codes": codes, "schedules": ran}), flush=True)
    return None


if __name__ == "__main__":
    main()
