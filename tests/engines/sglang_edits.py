"""Illegal edits of SGLang's code, made in memory: each must be noticed by the laws.

`sglang_edits:NAME` is a target, SGLang with that edit in its Python core or around it. Run as a script in SGLang's
environment, this tries each edit in turn and prints how it was noticed as a JSON line.
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

from milepost.conformance.adapters import sglang
from milepost.conformance.adapters.sglang_modules import modules
from milepost.conformance.targets import Make, Target, resolve
from milepost.conformance.worker import Bench, task_generate
from milepost.spec.capabilities import Configuration
from milepost.spec.seam import Adapter


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece of one function's source and what replaces it; `owner` is `module:Class`, or a module.

    `codes` are those that it may be noticed as: which comes first depends on the schedule. `target` is where it shows.
    """

    owner: str
    function: str
    before: str
    after: str
    codes: tuple[str, ...]
    target: str = "sglang:python"


_CACHE = "sglang.srt.mem_cache.unified_cache.components.mamba:MambaComponent"
_TREE = "sglang.srt.mem_cache.unified_radix_cache:UnifiedRadixCache"
_STATES = "sglang.srt.mem_cache.memory_pool:MambaPool"
_ROWS = "sglang.srt.mem_cache.memory_pool:HybridReqToTokenPool"
_BATCH = "sglang.srt.managers.schedule_batch:ScheduleBatch"
_KEY = "sglang.srt.mem_cache.radix_cache:RadixKey"
_WINDOW = "sglang.srt.mem_cache.unified_cache.components.swa:SWAComponent"
_PEERS = "sglang.srt.mem_cache.allocator.swa:SWATokenToKVPoolAllocator"
_WITH_WINDOW = "sglang:python-window"

EDITS: dict[str, Edit] = {
    "snapshot_moved_by_a_split": Edit(
        _CACHE, "redistribute_on_node_split",
        "new_parent.component_data[ct].value = None",
        "new_parent.component_data[ct].value = child.component_data[ct].value",
        ("over-advanced", "crash"),
    ),
    "donated_slot_kept": Edit(
        _ROWS, "donate_mamba_ping_pong_slot",
        "self.set_mamba_ping_pong_slot(req, donate_idx, new_slot[0])", "pass",
        ("write-to-published", "over-advanced", "stale-state", "double-grant", "evicted-while-leased"),
    ),
    "convolution_part_not_copied": Edit(
        _STATES, "copy_from",
        "for i in range(len(self.mamba_cache.conv)):", "for i in ():",
        ("stale-state", "uninitialized-read", "torn-hit"),
    ),
    "checkpoint_labelled_a_chunk_late": Edit(
        _BATCH, "_mamba_radix_cache_v2_req_prepare_for_extend",
        "req.kv.mamba_last_track_seqlen = mamba_track_seqlen_aligned",
        "req.kv.mamba_last_track_seqlen = min(seq_end, mamba_track_seqlen_aligned + cache_chunk_size)",
        ("torn-hit", "stale-state"),
    ),
    "branch_point_labelled_as_the_end": Edit(
        _BATCH, "_mamba_radix_cache_v2_req_prepare_for_extend",
        "mamba_track_seqlen_aligned = req.mamba_branching_seqlen", "pass",
        ("torn-hit",),
    ),
    "row_not_repointed_at_a_checkpoint": Edit(
        _TREE, "checkpoint_into_tree",
        "self.req_to_token_pool.write(\n", "(lambda *ignored: None)(\n",
        ("stale-kv", "double-grant", "write-to-published", "evicted-while-leased", "crash"),
    ),
    "namespace_left_out_of_the_key": Edit(
        _KEY, "child_key_at", "if self.extra_key is None else", "if True else",
        ("cross-namespace", "crash"),
    ),
    "window_not_asked_for_at_a_match": Edit(
        _WINDOW, "create_match_validator",
        'return state["len"] >= sliding_window_size', "return True",
        ("window-gap",), _WITH_WINDOW,
    ),
    "window_locked_at_its_end_only": Edit(
        _WINDOW, "acquire_component_lock",
        "sliding_window_size = self.sliding_window_size", "sliding_window_size = 1",
        ("window-gap",), _WITH_WINDOW,
    ),
    "window_freed_a_page_early": Edit(
        "sglang.srt.mem_cache.common", "free_swa_out_of_window_slots",
        "evict_threshold = pre_len - ceil_align(", "evict_threshold = pre_len + page_size - ceil_align(",
        ("window-gap",), _WITH_WINDOW,
    ),
    "freed_part_of_a_window_published": Edit(
        _WINDOW, "_clip_to_window",
        "live_start = max(start, window_start)", "live_start = start",
        ("window-gap", "crash"), _WITH_WINDOW,
    ),
    "window_branch_point_cuts_the_key_of_a_state": Edit(  # as it was before sgl-project/sglang/pull/37584
        _WINDOW, "prepare_for_caching_req",
        "if self.cache.is_mamba_enabled:", "if False:",
        ("over-advanced", "crash"), _WITH_WINDOW,
    ),
    "recovered_window_not_mapped": Edit(
        _WINDOW, "_set_swa",
        "allocator.set_full_to_swa_mapping(kept_full, swa_value)", "pass",
        ("window-gap", "crash"), _WITH_WINDOW,
    ),
    "freed_window_page_still_mapped": Edit(
        _PEERS, "_free_swa_pages_none_cuda",
        "self.clear_full_to_swa_mapping(mapping_indices)", "pass",
        ("double-grant", "evicted-while-leased", "write-to-published", "stale-kv", "crash"), _WITH_WINDOW,
    ),
    "freed_window_pages_freed_again": Edit(
        "sglang.srt.mem_cache.base_prefix_cache:BasePrefixCache", "free_kv_row",
        "swa_evicted_seqlen=kv.get_evicted_seqlen(ComponentType.SWA)", "swa_evicted_seqlen=0",
        ("window-gap", "double-grant", "crash"), _WITH_WINDOW,
    ),
    "window_lock_released_inside_the_window": Edit(
        _BATCH, "maybe_evict_swa",
        "req.decode_batch_idx >= retain_window", "req.decode_batch_idx >= 0",
        ("window-gap",), "sglang:python-window-released",
    ),
}


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Make one edit for as long as this lasts; a piece that is not there exactly once is an error."""
    modules()
    edit = EDITS[name]
    module, _, class_name = edit.owner.partition(":")
    owner = getattr(import_module(module), class_name) if class_name else import_module(module)
    original = vars(owner)[edit.function]
    setattr(owner, edit.function, _recompiled(edit, original))
    try:
        yield
    finally:
        setattr(owner, edit.function, original)


def _recompiled(edit: Edit, original: Any) -> Any:
    function = inspect.unwrap(original)
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(edit.before) != 1:
        raise LookupError(f"{edit.owner}, {edit.function}: {edit.before!r} is there {source.count(edit.before)} times")
    made: dict[str, Any] = {}
    code = compile(source.replace(edit.before, edit.after), f"<edited {edit.function}>", "exec")
    exec(code, function.__globals__, made)
    return made[edit.function]


def __getattr__(name: str) -> Make:
    """Return the `make` of the target `sglang_edits:NAME`; its edit stays until the process ends."""
    if name not in EDITS:
        raise AttributeError(name)

    def make(configuration: Configuration) -> Adapter:
        if name not in _lasting:
            _lasting[name] = broken(name)
            _lasting[name].__enter__()
        return _maker(name)(configuration)

    return make


def _maker(name: str) -> Make:
    """Return the `make` of the target that an edit shows in."""
    return resolve(EDITS[name].target).make


_lasting: dict[str, Any] = {}


def first_codes(name: str, schedules: int, seed: int) -> tuple[Counter[str], int]:
    """Run generated schedules on an edited SGLang until one fails; return how, and how many ran.

    It makes no promises here: the laws alone have to notice.
    """

    def make(configuration: Configuration) -> Adapter:
        adapter: Any = _maker(name)(configuration)
        adapter.capabilities = replace(adapter.capabilities, promises=())
        return adapter  # type: ignore[no-any-return]  # an SGLang

    bench = Bench(Target(name, make, small_sizes(EDITS[name].target)))
    codes: Counter[str] = Counter()
    with broken(name):
        for ran, done in enumerate(task_generate(bench, seed, range(schedules), 40), 1):
            codes.update([done.code] if done.code else [])
            if codes:
                return codes, ran
    return codes, schedules


def small_sizes(target: str) -> tuple[Configuration, ...]:
    """Return sizes without the chunk of 2 tokens, at which the engine as shipped fails (docs/findings/sglang.md)."""
    return tuple(one for one in sglang.SIZES[target] if one.chunk_size == 8)


def main() -> None:
    """Print one JSON line for each edit: its name, the code that came first, and the schedules that it took."""
    schedules, seed = (int(argument) for argument in sys.argv[1:3])
    for name in sys.argv[3:] or EDITS:
        codes, ran = first_codes(name, schedules, seed)
        print(json.dumps({"name": name, "codes": codes, "schedules": ran}), flush=True)


if __name__ == "__main__":
    main()
