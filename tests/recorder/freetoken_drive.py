"""Runs in FreeToken's environment: its own `overlap_loop` under a recorder, with requests that share prefixes.

SETTINGS holds sizes as JSON.
"""

import json
import os
import random
import warnings
from typing import Any

import milepost_record

os.environ.setdefault("LOG_LEVEL", "CRITICAL")
warnings.simplefilter("ignore")

from freetoken.core import SamplingParams  # noqa: E402 - FreeToken reads its log level when it is imported
from freetoken.message import AbortBackendMsg, FlushCacheBackendMsg, UserMsg  # noqa: E402

from milepost.conformance.adapters.freetoken_engine import STOP, Engine  # noqa: E402
from milepost.spec.capabilities import Configuration  # noqa: E402

SIZES = {"page": 1, "chunk": 8, "tokens": 400, "slots": 18, "running": 4, "budget": 24}


class Loop(Engine):
    """FreeToken's scheduler, whose messages come from a seeded user, and whose model says seeded tokens."""

    def __init__(self, seed: int, sizes: dict[str, int]) -> None:
        self.random, self.serial, self.sent = random.Random(seed), 0, 0
        pools = {"kv": sizes["tokens"] // sizes["page"], "state": sizes["slots"]}
        super().__init__(Configuration(sizes["page"], sizes["chunk"], pools, sizes["running"], ord("!")))
        self.prefill_budget, self.widest = sizes["budget"], 7

    def receive_msg(self, blocking: bool) -> list[Any]:
        """Bring requests, aborts and flushes: FreeToken asks at the top of each iteration."""
        messages: list[Any] = []
        live = [one.uid for one in self.decode_manager.running_reqs] + [
            one.uid for one in self.prefill_manager.pending_list
        ]
        if self.random.random() < 0.5 and len(live) < self.widest:
            messages.append(self.ask())
        if live and self.random.random() < 0.04:
            messages.append(AbortBackendMsg(uid=self.random.choice(sorted(live))))
        if self.random.random() < 0.02:
            messages.append(FlushCacheBackendMsg(request_id=f"f{self.serial}", timeout=0.0))
        return messages

    def ask(self) -> UserMsg:
        import torch

        self.serial += 1
        roots = [[1] * 24, [1] * 16 + [2] * 16, [3] * 8]
        tokens = self.random.choice(roots) + [self.random.randrange(4, 9) for _ in range(self.random.randrange(1, 20))]
        asked = SamplingParams(max_tokens=self.random.randrange(1, 24), ignore_eos=False)
        return UserMsg(uid=self.serial, input_ids=torch.tensor(tokens, dtype=torch.int32), sampling_params=asked)

    def _model(self, batch: Any, arguments: Any) -> Any:
        output = super()._model(batch, arguments)
        for place in range(len(batch.reqs)):
            output.next_tokens_cpu[place] = self.random.choice([4, 5, 6, 7, ord("!"), STOP])
        output.next_tokens_gpu.copy_(output.next_tokens_cpu)
        return output

    def run(self, steps: int) -> None:
        data = None
        for _ in range(steps):
            data = self.overlap_loop(data)
        while data is not None:
            data = self.overlap_loop(data)


def restore_the_first_state_always() -> None:
    """An illegal edit: every hit is restored from the state that the first one was."""
    from freetoken.scheduler.cache import CacheManager

    original, known = CacheManager.match_req, []

    def edited(manager: Any, *more: Any, **named: Any) -> Any:
        found = original(manager, *more, **named)
        if found.mamba_value is not None:
            known.append(found.mamba_value)
            return type(found)(found.cuda_handle, mamba_value=known[0])
        return found

    CacheManager.match_req = edited


def prepare() -> None:
    """Do nothing: everything is imported above."""


def drive(seed: int, folder: str, edit: str) -> None:
    sizes = {**SIZES, **json.loads(os.environ.get("SETTINGS", "{}"))}
    milepost_record.register_freetoken()
    loop = Loop(seed, sizes)
    if edit == "attach":
        loop.run(40)
        assert milepost_record.attach(loop, folder, salt=b"test")
    if edit == "fault":
        restore_the_first_state_always()
    if edit == "crash":
        from milepost_record.freetoken import Recording

        setattr(Recording, "_said", lambda recording, request, claim: 1 // 0)  # noqa: B010
    if edit == "full":
        from milepost_record.files import Files

        def refuse(files: Any) -> None:
            raise OSError("no space left on device")

        setattr(Files, "_flush", refuse)  # noqa: B010
    loop.run(200)
    print(f"{loop.serial} requests")
