"""Edits of FreeToken's code, made in memory: breaks that the kit must notice, and repairs that end what it has found.

`freetoken_edits:NAME` is a target, FreeToken with that edit; `repaired_window` and `repaired_compressed` are its
sliding-window caches with all repairs, and with these the breaks of that cache are made. Run as a script in
FreeToken's environment, this tries each break in turn and prints how it was noticed as a JSON line.
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

from milepost.conformance.adapters import freetoken, freetoken_window
from milepost.conformance.targets import Make, Target, resolve
from milepost.conformance.worker import Bench, task_generate
from milepost.spec.capabilities import Configuration
from milepost.spec.seam import Adapter


@dataclass(frozen=True, slots=True)
class Edit:
    """Pieces of one function's source and what they are replaced by; `owner` is `module` or `module:Class`."""

    owner: str
    function: str
    pieces: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Break:
    """An illegal edit, and the codes that it may be noticed as: which comes first depends on the schedule."""

    codes: tuple[str, ...]
    edits: tuple[Edit, ...]
    target: str = "freetoken:page1"


_TREE = "freetoken.kvcache.hybrid_radix_cache:HybridRadixCache"
_NODE = "freetoken.kvcache.radix_cache:RadixTreeNode"
_MANAGER = "freetoken.scheduler.cache:CacheManager"
_POOL = "freetoken.kvcache.linear_state_pool:LinearStatePool"
_LINEAR = "freetoken.attention.linear"
_SCHEDULER = "freetoken.scheduler.scheduler"

WINDOW = "freetoken:window"
_WINDOW_TREE = "freetoken.kvcache.swa_radix_cache:SWARadixCache"
_WINDOW_POOL = "freetoken.kvcache.hybrid_swa_pool:HybridSWAKVCache"


def _in_window(codes: tuple[str, ...], owner: str, function: str, *pieces: tuple[str, str]) -> Break:
    return Break(codes, (Edit(owner, function, pieces),), WINDOW)


BREAKS: dict[str, Break] = {
    "snapshot_not_locked_on_a_hit": Break(
        ("evicted-while-leased",),
        (Edit(_TREE, "inc_lock", (("if node.mamba_value is not None:", "if False:"),)),),
    ),
    "snapshot_moved_by_a_split": Break(
        ("over-advanced",),
        (Edit(_NODE, "split_at", ((
            "new_node.ref_count = self.ref_count",
            "new_node.ref_count = self.ref_count; new_node.mamba_value, self.mamba_value = self.mamba_value, None",
        ),)),),
    ),
    "hit_as_long_as_the_kv": Break(
        ("torn-hit",),
        (Edit(_TREE, "match_prefix", ((
            "HybridMatch(self._collect_kv(cur), end_len, cur.mamba_value, cur)",
            "HybridMatch(self._collect_kv(node), self._path_len(node), cur.mamba_value, node)",
        ),)),),
    ),
    "donated_slot_kept": Break(
        ("write-to-published", "double-grant", "crash", "over-advanced", "evicted-while-leased"),
        (Edit(_MANAGER, "_cache_req_hybrid", (("pp[frozen_idx] = pool.alloc(1)[0]", "pp[frozen_idx] = frozen"),)),),
    ),
    "only_the_node_locked": Break(
        ("crash", "leak", "evicted-while-leased", "stale-kv"),
        (
            Edit(_TREE, "inc_lock", (("cur = cur.parent", "break"),)),
            Edit(_TREE, "dec_lock", (("cur = cur.parent", "break"),)),
        ),
    ),
    "convolution_part_not_copied": Break(
        ("stale-state",),
        (Edit(_POOL, "copy_from", (("self.conv_states[:, dst].copy_(self.conv_states[:, src])", "pass"),)),),
    ),
    "label_counted_from_token_0": Break(
        ("over-advanced",),
        (Edit(_LINEAR, "_build_track_metadata", ((
            "boundary = r.cached_len + c * CHUNK_SIZE",
            "boundary = (r.cached_len // CHUNK_SIZE + c) * CHUNK_SIZE",
        ),)),),
    ),
    "final_state_donated_off_a_page": Break(
        ("over-advanced",),
        (Edit(_MANAGER, "_cache_req_hybrid", (
            ("if insert_len == req.cached_len and insert_len > 0:", "if insert_len > 0:"),
            ("keep_live = not mamba_exist", "self._free(page_indices[insert_len:]); keep_live = not mamba_exist"),
        )),),
        target="freetoken:page16",
    ),
    "row_not_repointed_at_a_commit": Break(
        ("double-grant", "stale-kv", "write-to-published"),
        (Edit(_MANAGER, "_cache_req_hybrid", (("if prefix_len > old_handle.cached_len:", "if False:"),)),),
    ),
    "freed_pages_kept_as_views": Break(
        ("double-grant", "stale-kv", "evicted-while-leased", "write-to-published"),
        (Edit(_MANAGER, "lazy_free_region", (("[:: self.page_size].clone()", "[:: self.page_size]"),)),),
    ),
    "anchor_labelled_a_token_late": Break(
        ("torn-hit",),
        (Edit(_MANAGER, "snapshot_toolcall_anchor", (
            ("r.mamba_last_track_seqlen = a", "r.mamba_last_track_seqlen = a + 1"),
        )),),
    ),
    "convolution_cut_a_token_late": Break(
        ("stale-state",),
        (Edit(_LINEAR, "_build_track_metadata", (("CHUNK_SIZE - km1 + j", "CHUNK_SIZE - km1 + j + 1"),)),),
    ),
    "fresh_requests_read_their_slot": Break(
        ("uninitialized-read",),
        (Edit(_SCHEDULER, "build_fla_metadata", (("[r.cached_len > 0 for r in reqs]", "[True for r in reqs]"),)),),
    ),
}


WINDOW_BREAKS: dict[str, Break] = {
    "window_locked_at_its_end": _in_window(
        ("evicted-while-leased", "window-gap", "double-grant"), _WINDOW_TREE, "inc_lock",
        ("if swa_locked < self.sliding_window_size", "if swa_locked < 1"),
        ("if swa_locked >= self.sliding_window_size", "if swa_locked >= 1"),
    ),
    "tombstone_handed_out": _in_window(
        ("window-gap",), _WINDOW_TREE, "match_prefix", ("match_since_tomb = 0\n", "pass\n"),
    ),
    # One token less than FreeToken asks for is still enough: the window counts the query's own.
    "window_two_tokens_short": _in_window(
        ("window-gap",), _WINDOW_TREE, "match_prefix",
        ("if match_since_tomb >= self.sliding_window_size:\n        best_value_len",
         "if match_since_tomb >= self.sliding_window_size - 2:\n        best_value_len"),
    ),
    "decode_frees_inside_its_window": _in_window(
        ("window-gap", "crash"), _MANAGER, "maybe_free_swa_out_of_window",
        ("- window - self.page_size", "- window + 2"),
    ),
    "prefill_frees_inside_its_window": _in_window(
        ("window-gap", "crash"), _MANAGER, "free_swa_out_of_window_extend",
        ("- window - self.page_size", "- window + 2"),
    ),
    "prefill_frees_what_it_shares": _in_window(
        ("window-gap", "evicted-while-leased", "double-grant", "stale-kv", "crash"), _MANAGER,
        "free_swa_out_of_window_extend",
        ("floor = req.cache_handle.cached_len", "floor = 0"),
    ),
    "revived_with_the_old_cells": _in_window(
        ("window-gap",), _WINDOW_TREE, "insert",
        ("freed.append(child.value)\n                    child.set_key_value(child._key, seg_kv.clone())",
         "freed.append(seg_kv.clone())"),
    ),
    "revived_under_its_reader": _in_window(
        ("double-grant", "evicted-while-leased", "stale-kv", "write-to-published"), _WINDOW_TREE, "insert",
        ("if child.ref_count > 0:", "if False:"),
    ),
    "window_cell_freed_twice": _in_window(
        ("double-grant", "evicted-while-leased", "stale-kv", "write-to-published"), _WINDOW_POOL, "free_swa",
        ("self.full_to_swa_index_mapping[fi] = 0", "pass"),
    ),
    "window_evicted_under_its_lease": _in_window(
        ("evicted-while-leased", "window-gap", "double-grant", "crash"), _WINDOW_TREE, "evict_swa",
        ("self._swa_nodes() if n.swa_ref_count == 0", "self._swa_nodes()"),
        ("node.swa_tombstone or node.swa_ref_count != 0", "node.swa_tombstone"),
    ),
    "commit_forgets_what_slid_out": _in_window(
        ("window-gap",), _MANAGER, "_cache_req_swa",
        ("swa_evicted_seqlen=req.swa_evicted_seqlen", "swa_evicted_seqlen=0"),
    ),
    "row_not_repointed_to_the_tree": _in_window(
        ("double-grant", "window-gap", "stale-kv"), _MANAGER, "_cache_req_swa",
        ("if m.cached_len > 0:", "if False:"),
    ),
    "evicted_pages_keep_their_window": _in_window(
        ("leak", "crash"), _MANAGER, "_evict", ("self._free_swa(ev.swa_indices)", "pass"),
    ),
    "window_of_others_unlocked": _in_window(
        ("evicted-while-leased", "window-gap", "double-grant", "crash"), _MANAGER, "unlock",
        ("self.prefix_cache.dec_lock(handle.node, handle.swa_uuid)", "self.prefix_cache.dec_lock(handle.node, None)"),
    ),
    "finish_trims_a_locked_window": _in_window(
        ("window-gap", "evicted-while-leased", "double-grant", "crash"), _WINDOW_TREE, "trim_head_swa",
        ("and child.swa_ref_count == 0 and", "and"),
    ),
}
BREAKS |= WINDOW_BREAKS

REPAIRS: tuple[Edit, ...] = (
    # Finding 1: nothing is committed that could not be read back, up to its end, through what others have locked.
    Edit(_MANAGER, "_cache_req_swa", ((
        "    freed = page_indices[:0]\n",
        """    node, at, gap = self.prefix_cache.root, 0, 0
    while not finished and at < insert_len:
        rest = req.input_ids[at:insert_len]
        node = node.children.get(self.prefix_cache.key_fn(rest))
        shared = align_down(node.get_match_len(rest), self.page_size) if node else 0
        at += shared
        if shared and node.swa_tombstone and node.ref_count > 0 and at > old_handle.cached_len:
            gap = at
        if not shared or shared < node.length:
            break
    if gap and insert_len - gap < self.sliding_window_size:
        return
    freed = page_indices[:0]
""",
    ),)),
    # Finding 2: a hit locks a window, as a commit does, and not the whole node that it ends in.
    Edit(_MANAGER, "match_req", ((
        "        m = self.prefix_cache.match_prefix(ids)\n        return MatchResult(SWACacheHandle",
        """        m = self.prefix_cache.match_prefix(ids)
        keep_from = align_down(max(m.cached_len - self.sliding_window_size - _SWA_RETAIN_GAP, 0), self.page_size)
        if keep_from > 0:
            self.prefix_cache.match_prefix(ids[:keep_from])
            m = self.prefix_cache.match_prefix(ids[:m.cached_len])
        return MatchResult(SWACacheHandle""",
    ),)),
    # And a chunk leaves a cell to each request for the decode step that is launched before the chunk's commit.
    Edit("freetoken.scheduler.prefill:PrefillAdder", "_add_one_req", (
        (
            "swa_budget = cm.swa_available_size + self_reclaim - self.reserved_swa",
            "swa_budget = cm.swa_available_size + self_reclaim - self.reserved_swa - ps * cm.page_table.shape[0]",
        ),
        ("if 0 < chunk_size < remain_len:\n            aligned = align_down(cached_len + chunk_size, ps) - cached_len",
         "if chunk_size < remain_len:\n            aligned = align_down(cached_len + chunk_size, ps) - cached_len"),
    )),
)


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Make one break for as long as this lasts; a piece that is not there exactly once is an error."""
    kept: list[tuple[Any, str, Any]] = []
    try:
        for edit in _edits_of(name):
            module, _, class_name = edit.owner.partition(":")
            owner = getattr(import_module(module), class_name) if class_name else import_module(module)
            original = vars(owner)[edit.function]
            kept.append((owner, edit.function, original))
            setattr(owner, edit.function, _recompiled(edit, original))
        yield
    finally:
        for owner, function, original in kept:
            setattr(owner, function, original)


def _edits_of(name: str) -> list[Edit]:
    """Return the edits of a break, one for each function, on top of the repairs of its target."""
    merged: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {}
    repairs = REPAIRS if _target(name) in freetoken_window.SIZES else ()
    for edit in (*repairs, *(BREAKS[name].edits if name in BREAKS else ())):
        place = edit.owner, edit.function
        merged[place] = (*merged.get(place, ()), *edit.pieces)
    return [Edit(*place, pieces) for place, pieces in merged.items()]


def _recompiled(edit: Edit, original: Any) -> Any:
    function = inspect.unwrap(original)
    source = textwrap.dedent(inspect.getsource(function))
    for before, after in edit.pieces:
        if source.count(before) != 1:
            raise LookupError(f"{edit.owner}, {edit.function}: {before!r} is there {source.count(before)} times")
        source = source.replace(before, after)
    made: dict[str, Any] = {}
    exec(compile(source, f"<edited {edit.function}>", "exec"), function.__globals__, made)
    return made[edit.function]


def __getattr__(name: str) -> Make:
    """Return the `make` of the target `freetoken_edits:NAME`; its edits stay until the process ends."""
    if name not in BREAKS and name not in SIZES:
        raise AttributeError(name)

    def make(configuration: Configuration) -> Adapter:
        adapter = _maker(name)(configuration)
        if name not in _lasting:
            _lasting[name] = broken(name)
            _lasting[name].__enter__()
        return adapter

    return make


_lasting: dict[str, Any] = {}
SIZES = {f"repaired_{name.partition(':')[2]}": sizes for name, sizes in freetoken_window.SIZES.items()}


def _target(name: str) -> str:
    return BREAKS[name].target if name in BREAKS else f"freetoken:{name.partition('_')[2]}"


def _maker(name: str) -> Make:
    return resolve(_target(name)).make


def first_codes(name: str, schedules: int, seed: int, wanted: int) -> tuple[Counter[str], int]:
    """Run generated schedules on a broken FreeToken until `wanted` have failed; return how, and how many ran.

    It makes no promises here: the laws alone have to notice.
    """

    def make(configuration: Configuration) -> Adapter:
        adapter: Any = _maker(name)(configuration)
        adapter.capabilities = replace(adapter.capabilities, promises=())
        return adapter  # type: ignore[no-any-return]  # a FreeTokenCache

    sizes = {**freetoken.SIZES, **freetoken_window.SIZES}[_target(name)]
    bench = Bench(Target(name, make, sizes))
    bench.target.make(sizes[0])  # FreeToken is imported before its source is looked for
    codes: Counter[str] = Counter()
    with broken(name):
        for ran, done in enumerate(task_generate(bench, seed, range(schedules), 40), 1):
            codes.update([done.code] if done.code else [])
            if codes.total() == wanted:
                return codes, ran
    return codes, schedules


def main() -> None:
    """Print one JSON line for each break: its name, how often each code came, and the schedules that it took."""
    schedules, seed, wanted = (int(argument) for argument in sys.argv[1:4])
    for name in sys.argv[4:] or BREAKS:
        codes, ran = first_codes(name, schedules, seed, wanted)
        print(json.dumps({"name": name, "codes": codes, "schedules": ran}), flush=True)


if __name__ == "__main__":
    main()
