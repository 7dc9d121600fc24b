"""Holds the adapter to vLLM's own `schedule()`: what that decides and hands to its worker, the adapter must too.

vLLM's scheduler runs random traffic by itself; every request, preemption and landing is then repeated on the adapter,
and each step's tokens, block tables, zeroed blocks and copies are compared. Run as a script in vLLM's environment, it
prints how much was compared as a JSON line.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from typing import Any

from milepost.conformance.adapters.vllm import TARGETS, make
from milepost.conformance.adapters.vllm_engine import Settings, build_scheduler, make_request
from milepost.spec.answers import Grant, Hit, Launched, Refused

LETTERS = "ab"
FURTHER = 1 << 20
"""More tokens than there are: the step's budget decides how far a request gets, as in vLLM."""


class Difference(AssertionError):
    """The adapter and vLLM's own scheduler part ways."""


class Pair:
    """vLLM's scheduler beside the adapter, both fresh and with the same settings."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.random = random.Random(seed)
        self.own = build_scheduler(settings)
        self.ours = make(settings)
        self.rows: dict[str, list[list[int]]] = {}
        self.tokens: dict[str, tuple[int, ...]] = {}
        self.flights: list[Any] = []
        self.drafts: dict[str, int] = {}
        self.most_in_flight = 0 if settings.drafts else 1
        self.compared: Counter[str] = Counter()

    def run(self, requests: int, steps: int) -> Counter[str]:
        """Let vLLM schedule; requests come, end after some decoded tokens, and share prefixes."""
        for _ in range(steps):
            if len(self.tokens) < requests and self.random.random() < 0.5:
                self._arrive()
            self._draft()
            out = self.own.schedule()
            if out.total_num_scheduled_tokens or out.preempted_req_ids:
                self._repeat(out)
            if out.total_num_scheduled_tokens:
                self.flights.append(out)
            self._land(self.random.randint(0, self.most_in_flight))
            for name in [one for one in self.own.requests if self._is_over(one)]:
                self._finish(name)
        return self.compared

    def _arrive(self) -> None:
        known = list(self.tokens.values())
        start = self.random.choice(known)[: self.random.randint(1, 80)] if known and self.random.random() < 0.8 else ()
        length = min(self.own.max_model_len - 16, len(start) + self.random.randint(1, 40))
        more = (ord(self.random.choice(LETTERS)) for _ in range(length - len(start)))
        name = f"r{len(self.tokens)}"
        self.tokens[name] = (*start[:length], *more)
        lookahead = self.own.num_hash_lookahead_tokens
        self.own.add_request(make_request(name, self.tokens[name], self.own.hash_block_size, None, None, lookahead))

    def _draft(self) -> None:
        """Let the drafter propose fewer tokens than it may, as some do."""
        for request in self.own.running:
            request.spec_token_ids = request.spec_token_ids[: self.random.randint(0, 4)]
        self.drafts = {request.request_id: len(request.spec_token_ids) for request in self.own.running}

    def _is_over(self, name: str) -> bool:
        request = self.own.requests[name]
        return bool(request.num_output_tokens >= 1 + int(name[1:]) * 7 % 10)

    def _finish(self, name: str) -> None:
        request = self.own.requests[name]
        if request.num_in_flight_tokens and self.random.random() < 0.5:
            return
        self.own.finish_requests(name, type(request.status).FINISHED_STOPPED)
        if name in self.ours.claims:
            self.ours.close(name, keep=True)

    def _repeat(self, out: Any) -> None:
        victims = set(out.preempted_req_ids or ())
        self._repeat_running(out, victims)
        self._same("victims", sorted(victims), [])
        admitted = {new.req_id: new for new in out.scheduled_new_reqs}
        for name, new in ((name, admitted[name]) for name in out.num_scheduled_tokens if name in admitted):
            stop = self.own.requests[name].num_computed_tokens
            tokens = tuple(self.own.requests[name].all_token_ids)
            hit = self.ours.open(name, tokens, (), {})
            self._same("hit", hit.length if isinstance(hit, Hit) else hit, new.num_computed_tokens)
            self.rows[name] = [list(row) for row in new.block_ids]
            self.compared["hits" if new.num_computed_tokens else "misses"] += 1
            self.compared["resumed"] += tokens != self.tokens[name]
            self._granted(name, self.ours.extend(name, FURTHER), stop)
        if not out.total_num_scheduled_tokens:
            return
        launched = self.ours.launch()
        assert isinstance(launched, Launched)
        zeros = [block for phase in launched.phases for _, block in phase.zeros]
        copies = [move[1:] for phase in launched.phases if not phase.unordered for move in phase.copies]
        self._same("zeros", zeros, out.new_block_ids_to_zero or [])
        self._same("copies", copies, [(one.src_block_id, one.dst_block_id) for one in out.kv_cache_block_copies or ()])
        self.compared["steps"] += 1
        self.compared["copies"] += len(copies)

    def _repeat_running(self, out: Any, victims: set[str]) -> None:
        """Go through the running requests in order; where blocks are short the last one is preempted, as vLLM does."""
        cached = dict(zip(out.scheduled_cached_reqs.req_ids, out.scheduled_cached_reqs.new_block_ids, strict=True))
        for name in [request.request_id.split("#")[0] for request in self.ours.scheduler.running]:
            if name not in cached and name not in victims:
                continue
            while name in self.ours.claims:
                grant = self.ours.extend(name, FURTHER, self.drafts[name])
                if not victims or not isinstance(grant, Refused) or grant.reason != "no-page":
                    break
                last = self.ours.scheduler.running[-1].request_id.split("#")[0]
                victims.remove(last)
                self.ours.preempt(last)
                self.compared["preempted"] += 1
            if name in cached:
                for row, added in zip(self.rows[name], cached[name] or (), strict=False):
                    row.extend(added)
                self._granted(name, grant, self.own.requests[name].num_computed_tokens)

    def _granted(self, name: str, grant: object, stop: int) -> None:
        self._same("grant", grant.length + grant.draft if isinstance(grant, Grant) else grant, stop)
        self.compared["drafts"] += grant.draft if isinstance(grant, Grant) else 0
        self._same("rows", self.ours.claims[name].worker.rows, self.rows[name])

    def _land(self, keep: int) -> None:
        from vllm.v1.outputs import ModelRunnerOutput

        while len(self.flights) > keep:
            out = self.flights.pop(0)
            names = list(out.num_scheduled_tokens)
            said = {name: self._sampled(name, out) for name in names}
            step = self.ours.flights[0][0]
            self.own.update_from_output(
                out, ModelRunnerOutput(names, {name: at for at, name in enumerate(names)}, [said[one] for one in names])
            )
            accepted = {name: len(tokens) - 1 for name, tokens in said.items() if len(tokens) > 1}
            self.ours.land(step, accepted, {name: tuple(tokens) for name, tokens in said.items() if tokens})
            self.compared["accepted"] += sum(accepted.values())

    def _sampled(self, name: str, out: Any) -> list[int]:
        """Return a token where the step reached the last one that was known, and one more for each accepted draft."""
        request = self.own.requests.get(name)
        if request is None or request.is_finished():
            return []
        start = {one.req_id: one.num_computed_tokens for one in out.scheduled_new_reqs}
        start.update(zip(out.scheduled_cached_reqs.req_ids, out.scheduled_cached_reqs.num_computed_tokens, strict=True))
        reached = start[name] + out.num_scheduled_tokens[name]
        if reached < request.num_tokens:
            return []
        drafts = len(out.scheduled_spec_decode_tokens.get(name, ()))
        return [ord(self.random.choice(LETTERS)) for _ in range(1 + self.random.randint(0, drafts))]

    def _same(self, what: str, ours: object, own: object) -> None:
        if ours != own:
            raise Difference(f"step {self.compared['steps']}: {what} {ours}, by vLLM's schedule() {own}")


def main() -> None:
    """Compare every setting of every target, on as many seeds as the first argument says."""
    total: Counter[str] = Counter()
    for settings in [one for target in TARGETS.values() for one in target]:
        for seed in range(int(sys.argv[1])):
            total += Pair(settings, seed).run(requests=14, steps=60)
    print(json.dumps(total))


if __name__ == "__main__":
    main()
