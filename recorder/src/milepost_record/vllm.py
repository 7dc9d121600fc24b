"""Watches vLLM's block manager and scheduler, as of vllm 0.33.0.

What the scheduler decides is seen: hits, block tables, zeroings, block copies, steps and their results. The worker's
own copies of states between the blocks of a request follow from the tables, and are written down as they follow.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from milepost_record.guard import Building, Unknown, fail, watch
from milepost_record.settings import Settings
from milepost_record.trace import Trace
from milepost_record.vllm_tables import NULL, POOL, Claim, Group, Part, Row, block_at

TESTED = "0.33.0"
ATTRIBUTE = "_milepost_recording"


class Recording:
    """The recording of one block manager. A request that is not in the trace has None for its claim."""

    def __init__(self, manager: Any, settings: Settings, attached: bool) -> None:
        config, managers = manager.kv_cache_config, manager.coordinator.single_type_managers
        pairs = zip(config.kv_cache_groups, managers, strict=True)
        self.groups = [Group(number, group.kv_cache_spec, one) for number, (group, one) in enumerate(pairs)]
        self.claims: dict[str, Claim | None] = {}
        self.copies: list[Any] = []
        self.zeros: Sequence[int] = ()
        self.unsettled: dict[str, Claim] = {}
        self.nothing_new = manager.empty_kv_cache_blocks
        self.ran: list[Any] = []
        states = [group for group in self.groups if group.recurrent]
        self.alignment = int(states[0].manager.cache_hit_alignment_tokens) if states else 1
        self.hash_block = int(manager.block_pool.hash_block_size)
        partial = [*(["attached"] if attached else []), *(["worker"] if states else [])]
        self.trace = Trace(settings, "vllm", self._header(int(config.num_blocks) - 1, states), partial)
        self.digest_of = self.trace.digests.of_token

    def _header(self, blocks: int, states: list[Group]) -> dict[str, Any]:
        version = _version()
        faked = ["the worker's copies of states are taken from the block tables"] if states else []
        if version != TESTED:
            faked.append(f"the recorder was tested with vllm {TESTED}")
        page = next((group.size for group in self.groups if not group.recurrent), 1)
        sizes = {"pools": {POOL: blocks}, "chunk_size": states[0].size if states else 1}
        return {
            "id": "recorded/vllm", "target": "vllm", "page_size": page, **sizes,
            "capabilities": {
                "engine": "vllm", "version": version, "groups": [group.declare() for group in self.groups], **sizes,
                "issues": "https://github.com/vllm-project/vllm/issues",
                "fidelity": {"level": "in-situ", "faked": faked}, "hit_alignment": self.alignment,
                "freeze_grid": {"chunk_size": self.alignment, "origin": "zero"},
                "mid_prefill_freeze": any(group.exports for group in states), "explicit_publish": False,
                "leases_on_open": False, "overlap": 1, "preempts": True, "resets": "idle",
                "namespaces": ["adapter", "salt"], "drops_planned": ["close", "preempt"],
            },
        }

    @property
    def on(self) -> bool:
        """True while the trace is written."""
        return self.trace.on

    def fail(self, error: BaseException) -> None:
        """Switch the recording off."""
        self.claims, self.ran = {}, []
        self.trace.fail(error)

    # -- allocation

    def before_allocation(
        self, manager: Any, request: Any, num_new_tokens: int, num_new_computed_tokens: int = 0,
        new_computed_blocks: Any = None, *_: Any, **__: Any,
    ) -> list[Row] | None:
        """Note what a look-up offered, before its blocks become the request's own."""
        if request.request_id in self.claims or new_computed_blocks is None or not num_new_computed_tokens:
            return None
        return [
            [block.block_id for block in row[: -(-num_new_computed_tokens // group.size)]]
            for group, row in zip(self.groups, new_computed_blocks.blocks, strict=True)
        ]

    def after_allocation(
        self, hit: list[Row] | None, result: Any, manager: Any, request: Any, num_new_tokens: int,
        num_new_computed_tokens: int = 0, new_computed_blocks: Any = None, num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0, delay_cache_blocks: bool = False, *_: Any, **__: Any,
    ) -> None:
        """Write an extend, and before the first one of a request its open."""
        if self.ran:
            self.write_ran()
        name = request.request_id
        if num_lookahead_tokens:
            raise Unknown("speculative decoding")
        if name not in self.claims:
            if result is not None:
                foreign = num_external_computed_tokens or delay_cache_blocks or request.num_computed_tokens
                rows = [list(row) for row in manager.get_blocks(name).get_block_ids()]
                self._admit(request, num_new_tokens, num_new_computed_tokens, hit, rows, bool(foreign))
            return
        claim = self.claims[name]
        if claim is not None and request.num_computed_tokens != claim.length:
            self._lose(name, claim)  # a rollback, or tokens that came from elsewhere
            claim = None
        if claim is None:
            self._unsee(name, result.get_block_ids() if result is not None else ())
        elif result is None:
            to = claim.length + num_new_tokens
            self.trace.refuse(claim.name, to, self._said(request, claim), claim.changes(name, [0] * len(claim.parts)))
        else:
            self._run_on(request, claim, num_new_tokens, result.get_block_ids())

    def write_ran(self) -> None:
        """Write of each request that only went on by a token that it did, and what it was told before."""
        ran, self.ran = self.ran, []
        digest_of, go_on = self.digest_of, self.trace.go_on
        for claim, request in zip(ran[::2], ran[1::2], strict=True):
            known, total, told = claim.known, request.num_tokens, ""
            if total == known + 1:
                told = digest_of[request.all_token_ids[known]]
            elif total > known:
                told = ",".join([digest_of[token] for token in request.all_token_ids[known:total]])
            claim.known = total
            go_on(claim.name, claim.length, told)

    def _admit(
        self, request: Any, count: int, length: int, hit: list[Row] | None, rows: list[Row], foreign: bool
    ) -> None:
        name, trace = request.request_id, self.trace
        plain = count > 0 and not foreign and getattr(request, "prompt_embeds", None) is None
        if not plain or not trace.digests.chooses(name, trace.settings.sample):
            self.claims[name] = None
            offered = {block for row in hit or () for block in row}
            self._unsee(name, [[block for block in row if block not in offered] for row in rows])
            return
        parts = list(map(Part, self.groups, rows))
        claim = Claim(trace.new_request(), name, parts, length, request.num_tokens)
        self.claims[name] = claim
        offers = zip(claim.parts, hit, strict=True) if hit else ()
        table = {part.group.name: part.offer(row, length) for part, row in offers}
        trace.open(claim.name, self._tokens(request), self._namespace(request), length, table)
        frozen = self._step(claim, length, length + count)
        table_text, initial = f',"table":{claim.whole(name)}', self._initial(claim, length)
        trace.extend(claim.name, claim.length, "", table_text, frozen, initial)

    def _run_on(self, request: Any, claim: Claim, count: int, new: Sequence[Row]) -> None:
        start = claim.length
        for part, blocks in zip(claim.parts, new, strict=True):
            if blocks:
                part.grow(blocks)
        frozen = self._step(claim, start, start + count)
        changes = claim.changes(request.request_id, [len(blocks) for blocks in new])
        table = f',"changes":{changes}' if changes else ""
        initial = self._initial(claim, start)
        self.trace.extend(claim.name, claim.length, self._said(request, claim), table, frozen, initial)

    def _step(self, claim: Claim, start: int, stop: int) -> str:
        """Advance a claim; return the states that the kernel writes out inside it, by vLLM's own rule, as JSON."""
        frozen: list[str] = []
        for part in claim.states:
            if part.group.exports:
                offset, column = self._checkpoint(part.group, start, stop)
                if column >= 0 and block_at(part.row, column):
                    part.positions[column] = start + offset
                    frozen.append(f'["{part.group.name}",{part.row[column]},{start + offset}]')
        claim.advance(stop)
        if claim.moves or any(part.source != NULL for part in claim.states):
            self.unsettled[claim.request] = claim
        return ",".join(frozen)

    def _checkpoint(self, group: Group, start: int, stop: int) -> tuple[int, int]:
        from vllm.model_executor.layers.mamba.checkpoint import compute_mamba_prefill_checkpoints

        offsets, columns = compute_mamba_prefill_checkpoints(
            [stop], [stop - start], hash_block_size=self.hash_block, mamba_block_size=group.size,
            checkpoint_alignment=group.export_alignment, drop_eagle_block=False,
            cache_hit_alignment_tokens=self.alignment,
        )
        return offsets[0], columns[0]

    def _initial(self, claim: Claim, start: int) -> str:
        """Return the slots that the kernel reads as JSON: a cold forward starts from zeros by itself."""
        members = []
        for part in claim.states if start else ():
            block = block_at(part.row, part.group.column(claim.length))
            members.append(f'"{part.group.name}":{block or "null"}')
        return ",".join(members)

    # -- requests

    def _tokens(self, request: Any) -> str:
        digests, features = self.trace.digests, getattr(request, "mm_features", None)
        if not features:
            return digests.tokens(request.all_token_ids)
        texts = digests.tokens(request.all_token_ids)[1:-1].split(",")
        for feature in features:
            place = feature.mm_position
            for offset in range(place.length):
                texts[place.offset + offset] = digests.placeholder(str(feature.identifier), offset)
        return f"[{','.join(texts)}]"

    def _namespace(self, request: Any) -> list[list[str]]:
        lora, salt = request.lora_request, request.cache_salt
        pairs = [["adapter", self.trace.digests.name(str(lora.lora_name))]] if lora is not None else []
        return pairs + ([["salt", self.trace.digests.name(str(salt))]] if salt else [])

    def _said(self, request: Any, claim: Claim) -> str:
        """Return what the engine has learnt of the request's answer since it was last asked."""
        known, claim.known = claim.known, request.num_tokens
        if known + 1 == claim.known:
            return f',"said":[{self.digest_of[request.all_token_ids[known]]}]'
        return self.trace.said(request.all_token_ids[known : claim.known]) if known < claim.known else ""

    def _unsee(self, name: str, rows: Sequence[Row]) -> None:
        """Note what a request outside of the trace was granted, and the states that it goes on to write."""
        self.trace.unseen((POOL, block) for row in rows for block in row if block)
        for group in self.groups:
            if group.recurrent:
                self.trace.unseen((POOL, block.block_id) for block in group.held(name)[-2:] if not block.is_null)

    def _lose(self, name: str, claim: Claim) -> None:
        """Take a request out of the trace."""
        self.claims[name] = None
        self.unsettled.pop(name, None)
        self.trace.close(claim.name, "")
        self._unsee(name, [part.row for part in claim.parts])

    def before_free(self, manager: Any, request: Any, *_: Any, **__: Any) -> None:
        """Write the end of a request, or that it is preempted: it comes back under another name."""
        if self.ran:
            self.write_ran()
        claim = self.claims.pop(request.request_id, None)
        self.unsettled.pop(request.request_id, None)
        if claim is not None:
            self.trace.close(claim.name, self._said(request, claim))

    def after_reset(self, noted: None, done: bool, *_: Any, **__: Any) -> None:
        """Write a reset that was done; of one that was refused nothing follows."""
        if self.ran:
            self.write_ran()
        if done:
            self.trace.reset()

    # -- steps

    def after_copies(self, noted: None, result: Any, *_: Any, **__: Any) -> None:
        """Note the block copies of the step that is scheduled."""
        self.copies += result[0]

    def after_zeros(self, noted: None, result: Any, *_: Any, **__: Any) -> None:
        """Note the blocks that the worker zeroes before the step."""
        self.zeros = result or ()

    def before_launch(self, scheduler: Any, output: Any) -> None:
        """Write the step that the scheduler hands to its worker."""
        if self.ran:
            self.write_ran()
        names = output.num_scheduled_tokens
        claims = [(name, claim) for name, claim in self.unsettled.items() if name in names] if self.unsettled else []
        moves = [(POOL, *pair) for _, claim in claims for pair in claim.moves]
        phases: list[dict[str, Any]] = []
        if self.zeros:
            phases.append({"zeros": [(POOL, block) for block in self.zeros]})
        if self.copies:
            phases.append({"copies": [(POOL, one.src_block_id, one.dst_block_id) for one in self.copies]})
        if moves:
            phases.append({"copies": moves, "unordered": True})
        self.zeros, self.copies = (), []
        if not names and not phases:
            return
        for name, _ in claims:
            del self.unsettled[name]
        shown = [(claim.name, settled) for name, claim in claims if (settled := _settle(name, claim))]
        self.trace.launch(id(output), phases, ",".join(f'"{name}":{{{text}}}' for name, text in shown))
        if not names:
            self.trace.land(id(output))
        elif self.trace.full:
            self._rotate()

    def _rotate(self) -> None:
        self.trace.rotate()
        self.unsettled.clear()
        for name, claim in self.claims.items():
            if claim is not None:
                self.claims[name] = None
                self._unsee(name, [part.row for part in claim.parts])

    def before_landing(self, scheduler: Any, output: Any, *_: Any, **__: Any) -> None:
        """Write that the results of a step are known."""
        self.trace.land(id(output))


def _settle(name: str, claim: Claim) -> str:
    """Let go of the snapshots that a request was restored from: the step's copies have read them."""
    claim.moves.clear()
    restored = [part for part in claim.parts if part.source != NULL]
    return ",".join(f'"{part.group.name}":{part.restored(name, claim.length)}' for part in restored)


def _version() -> str:
    """Return vLLM's version from its own file: an engine that runs from a checkout is no distribution."""
    import vllm

    try:
        text = (Path(next(iter(vllm.__path__))) / "_version.py").read_text(encoding="utf-8")
    except OSError:
        return "of unknown version"
    found = re.search(r"^(?:__version__ = )?version = ['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found[1] if found else "of unknown version"


def watch_vllm(settings: Settings) -> None:
    """Record every block manager that is built in this process from now on."""
    manager, scheduler = _classes()

    def build(building: Building, noted: None, result: None, instance: Any, *_: Any, **__: Any) -> None:
        attach_vllm(instance, settings, attached=False)

    watch(manager, "__init__", lambda instance: Building(), after=build)
    _watch_methods(manager, scheduler)


def attach_vllm(engine: Any, settings: Settings, attached: bool = True) -> Recording:
    """Record a block manager, or the one of a scheduler, from now on."""
    manager = getattr(engine, "kv_cache_manager", engine)
    _watch_methods(*_classes())
    recording = Recording(manager, settings, attached)
    setattr(manager, ATTRIBUTE, recording)
    return recording


def _classes() -> tuple[Any, Any]:
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    from vllm.v1.core.sched.scheduler import Scheduler

    return KVCacheManager, Scheduler


def _watch_methods(manager: Any, scheduler: Any) -> None:
    own, through = _of_manager, _of_scheduler
    if watch(manager, "allocate_slots", own, Recording.before_allocation, Recording.after_allocation):
        _hasten(manager)
    watch(manager, "free", own, Recording.before_free)
    watch(manager, "pop_blocks_for_free", own, Recording.before_free)
    watch(manager, "reset_prefix_cache", own, after=Recording.after_reset)
    watch(manager, "take_kv_cache_block_copies", own, after=Recording.after_copies)
    watch(scheduler, "_get_new_block_ids_to_zero", through, after=Recording.after_zeros)
    watch(scheduler, "_update_after_schedule", through, Recording.before_launch)
    watch(scheduler, "update_from_output", through, Recording.before_landing)


def _hasten(owner: Any) -> None:
    """Put a shorter way before the watched allocation, for requests that are known already.

    It is taken once for each request and step. Where nothing but the length has changed it makes no table, reads no
    token and writes nothing: that is left to the step, which does it for all of them at once.
    """
    watched = owner.allocate_slots
    original = watched.__wrapped__

    @functools.wraps(watched)
    def hastened(manager: Any, request: Any, num_new_tokens: int, *more: Any, **named: Any) -> Any:
        recording = claim = None
        try:
            recording = getattr(manager, ATTRIBUTE, None)
            if recording is not None:
                claim = recording.claims.get(request.request_id)
        except Exception as error:
            fail(recording, error)
        if claim is None:
            return (original if recording is None else watched)(manager, request, num_new_tokens, *more, **named)
        assert recording is not None
        result = original(manager, request, num_new_tokens, *more, **named)
        try:
            length = claim.length
            if (
                num_new_tokens == 1 and result is recording.nothing_new and length < claim.edge
                and request.num_computed_tokens == length and not (claim.loose and claim.lets_go())
            ):
                claim.length = length + 1
                recording.ran += (claim, request)
            else:
                recording.after_allocation(None, result, manager, request, num_new_tokens, *more, **named)
        except Exception as error:
            fail(recording, error)
        return result

    owner.allocate_slots = hastened


def _of_manager(manager: Any) -> Recording | None:
    return getattr(manager, ATTRIBUTE, None)


def _of_scheduler(scheduler: Any) -> Recording | None:
    return getattr(scheduler.kv_cache_manager, ATTRIBUTE, None)
