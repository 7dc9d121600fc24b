"""Runs one schedule on one cache: clamps what cannot be, asks, plays the model runner, and lets `step` judge.

Every subsequence of a schedule is a schedule: unknown requests are skipped, lengths clamped, operations that the
cache does not offer skipped and counted. An extend is planned for a batch if a `launch` follows it with only open,
extend, evict, close and preempt between; else it launches alone. Where a cache leases nothing on open, an open waits
for its first extend: the two are one operation then, and nothing comes between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from milepost.conformance.answer_form import checked
from milepost.conformance.calls import call, describe
from milepost.conformance.errors import AdapterError, EngineFailure, KitError
from milepost.conformance.memory import Memory
from milepost.conformance.outcome import Broken, Line, Outcome
from milepost.conformance.sampling import accepted_drafts, sampled_tokens
from milepost.conformance.shapes import ShapeError
from milepost.spec.answers import Answer, Frozen, Grant, Hit, Landing, Launched, Refused
from milepost.spec.faults import Fault
from milepost.spec.operations import (
    Close,
    Drain,
    Evict,
    Extend,
    Freeze,
    Land,
    Launch,
    Open,
    Operation,
    Preempt,
    Publish,
    Reset,
)
from milepost.spec.schedule import Schedule
from milepost.spec.seam import Adapter
from milepost.spec.state import Claim, State, initial
from milepost.spec.step import Contradiction, step

BATCHED = (Open, Extend, Evict, Close, Preempt)


class Observer(Protocol):
    """Sees every judged line, for marks and white-box checks; a fault or broken promise that it gives ends the run."""

    def __call__(self, before: State, line: Line, after: State) -> Fault | Broken | None: ...


class Stop(Exception):
    """Ends a schedule: a fault was found."""


class Driver:
    """One schedule on one fresh cache."""

    def __init__(
        self, adapter: Adapter, observers: Sequence[Observer] = (), beat: Callable[[int], None] | None = None
    ) -> None:
        self.adapter = adapter
        self.beat = beat
        self.capabilities = adapter.capabilities
        self.memory = Memory(adapter, self.capabilities)
        self.observers = observers
        self.state = initial(self.capabilities)
        self.preempted: dict[str, Open] = {}
        self.waiting: dict[str, Open] = {}
        self.drafts: dict[str, int] = {}
        self.awaits_results = False
        self.outcome: Outcome
        self._index = 0
        self._part = ""

    def run(self, schedule: Schedule, fill: Callable[[Driver], None] | None = None) -> Outcome:
        """Run the schedule to its end or its first fault; `fill` carries out a drain (see `drain`)."""
        self.outcome = Outcome(schedule, self.state)
        operations = schedule.operations
        try:
            for position, operation in enumerate(operations):
                self._index, self._part = position + 1, ""
                self._one(operation, operations[position + 1 :], fill)
            self._part = "end"
            self._launch_planned()
            self.land_down_to(0)
            for request in list(self.waiting):
                self._extend(Extend(request, 1), planned=False)
        except Stop:
            pass
        self.outcome.state = self.state
        return self.outcome

    # -- one operation of the schedule

    def _one(self, operation: Operation, rest: Sequence[Operation], fill: Callable[[Driver], None] | None) -> None:
        match operation:
            case Open():
                self._open(operation)
            case Extend():
                self._extend(operation, planned=_launch_follows(rest))
            case Launch():
                self._launch_planned(part="")
            case Land():
                self._land(operation)
            case Freeze() | Publish():
                self._settled(operation)
            case Preempt():
                self._preempt(operation)
            case Close():
                self._close(operation)
            case Reset():
                self._offered(operation, self.capabilities.resets != "never")
            case Evict():
                groups = {group.name for group in self.capabilities.groups}
                self._offered(operation, self.capabilities.evicts and operation.group in groups)
            case Drain():
                self.drain(fill)

    def _skip(self, reason: str) -> None:
        self.outcome.skipped[reason] += 1

    def _offered(self, operation: Operation, offered: bool) -> None:
        if offered:
            self.ask(operation)
        else:
            self._skip(f"{operation.verb} is not offered")

    def claim(self, request: str) -> Claim | None:
        """Return the open claim of a request, None where it is not open."""
        claim = self.state.claims.get(request)
        return None if claim is None or claim.closed else claim

    def _open(self, operation: Open) -> None:
        if self.claim(operation.request) or operation.request in self.waiting:
            return self._skip("the request is open already")
        operation = self.preempted.get(operation.request, operation)
        if not operation.tokens:
            return self._skip("the prompt is empty")
        if {kind for kind, _ in operation.namespace} - set(self.capabilities.namespaces):
            return self._skip("the namespace is not offered")
        if operation.content and not self.capabilities.contents:
            return self._skip("contents are not offered")
        if self.capabilities.leases_on_open:
            return self._ask_open(operation)
        self.waiting[operation.request] = operation
        return None

    def _ask_open(self, operation: Open) -> None:
        if operation.request in self.state.claims:
            self._land_request(operation.request)
        self._ask_scheduler(operation)
        if operation.request in self.state.claims:
            self.preempted.pop(operation.request, None)

    def _extend(self, operation: Extend, planned: bool) -> None:
        draft = min(operation.draft, self.capabilities.speculates)
        if operation.draft and not draft:
            self._skip("drafts are not offered")
        opening = self.waiting.pop(operation.request, None)
        if opening is not None:
            self._keep_overlap()
            self._ask_open(opening)
        claim = self.claim(operation.request)
        if claim is None:
            return None if opening else self._skip("the request is not open")
        if claim.planned:
            self._launch_planned()
        goal = min(operation.to, len(claim.stream.tokens))
        if opening is not None:
            goal = max(goal, claim.length + 1)  # an open that leases nothing is nothing without its extend
        if self._length(operation.request) >= goal:
            return self._skip("the request is that long already")
        batch = planned and self.capabilities.batched_steps
        while self._length(operation.request) < goal:
            if not self._plan(operation.request, goal, draft) or batch:
                return None
            self._launch_planned()
            if self._length(operation.request) < claim.prompt:
                return None  # the engine granted less of the prompt: the schedule decides whether to go on
        return None

    def _length(self, request: str) -> int:
        claim = self.claim(request)
        return claim.length if claim else 10**9

    def _plan(self, request: str, goal: int, draft: int) -> bool:
        """Plan one step: the prompt as far as asked, or one decoded token, since no more is sampled yet.

        The last step speculates; nothing is planned behind drafts before their landing.
        """
        if any(request in flight.drafts for flight in self.state.flights):
            self._land_request(request)
        self._keep_overlap()
        claim = self.state.claims[request]
        to = min(goal, max(claim.prompt, claim.length + 1))
        self.drafts[request] = asked = draft if claim.prompt <= to == goal else 0
        return to <= claim.length or isinstance(self._ask_scheduler(Extend(request, to, asked)), Grant)

    def _ask_scheduler(self, operation: Open | Extend) -> Answer:
        """Ask; an engine that schedules only with an earlier step's results gets them, from its first refusal on."""
        if self.awaits_results and not self.state.planned():
            self.land_down_to(self.capabilities.overlap)
        answer = self.ask(operation)
        late = len(self.state.flights) > self.capabilities.overlap
        if late and isinstance(answer, Refused) and answer.reason == "in-flight":
            self.awaits_results = True
            answer = self._ask_scheduler(operation)
        return answer

    def _keep_overlap(self) -> None:
        """With no overlap the results of a step are known before the next is planned, as a scheduler would."""
        if self.capabilities.overlap == 0 and not self.state.planned():
            self.land_down_to(0)

    def _launch_planned(self, part: str = "implied") -> None:
        if not self.state.planned():
            return
        if self.state.flights:
            self.land_down_to(self.capabilities.overlap)
        kept, self._part = self._part, self._part or part
        self.ask(Launch())
        self._part = kept

    def land_down_to(self, count: int) -> None:
        while len(self.state.flights) > count:
            self._imply(Land(self.state.flights[0].step))

    def _land_request(self, request: str) -> None:
        while self.state.in_flight(request):
            self._imply(Land(self.state.flights[0].step))

    def _imply(self, operation: Operation) -> None:
        part, self._part = self._part, self._part or "implied"
        self.ask(operation)
        self._part = part

    def _land(self, operation: Land) -> None:
        steps = [flight.step for flight in self.state.flights]
        if not steps or operation.step not in (None, *steps):
            return self._skip("nothing is in flight")
        if operation.step is None or self.capabilities.ordered_steps:
            operation = replace(operation, step=steps[0])
        self.ask(replace(operation, accepted=accepted_drafts(self.state, operation, self.drafts)))
        return None

    def _settled(self, operation: Freeze | Publish) -> None:
        claim = self.claim(operation.request)
        frozen = isinstance(operation, Freeze)
        offered = self.capabilities.explicit_freeze if frozen else self.capabilities.explicit_publish
        if claim is None or not offered:
            return self._skip("the request is not open" if offered else f"{operation.verb} is not offered")
        if claim.planned:
            self._launch_planned()
        if not self._length(operation.request):
            return self._skip("nothing is computed yet")
        self._land_request(operation.request)
        self.ask(operation)
        return None

    def _preempt(self, operation: Preempt) -> None:
        claim = self.claim(operation.request)
        if claim is None or not self.capabilities.preempts:
            return self._skip("preempt is not offered" if claim else "the request is not open")
        self._drop_or_launch(claim, "preempt")
        self._land_request(operation.request)
        claim = self.state.claims[operation.request]
        tokens, stream = claim.stream.tokens, claim.stream
        content = {at: str(one) for at, one in enumerate(stream.identities) if one != tokens[at]}
        self.preempted[operation.request] = Open(
            operation.request, tokens[: claim.known], tokens[claim.known :], stream.namespace, content
        )
        self.ask(operation)
        return None

    def _close(self, operation: Close) -> None:
        claim = self.claim(operation.request)
        if self.waiting.pop(operation.request, None):
            return self._skip("the request was never extended")
        if claim is None:
            return self._skip("the request is not open")
        self._drop_or_launch(claim, "close")
        if not self.capabilities.aborts:
            self._land_request(operation.request)
        self.ask(operation)
        return None

    def _drop_or_launch(self, claim: Claim, verb: str) -> None:
        if claim.planned and verb not in self.capabilities.drops_planned:
            self._launch_planned()

    # -- drain

    def drain(self, fill: Callable[[Driver], None] | None) -> None:
        """Close everything, land, reset; then `fill` asks for as much as on a fresh instance and compares."""
        self._part = "drain"
        self._launch_planned()
        if not self.capabilities.aborts:
            self.land_down_to(0)
        for claim in list(self.state.open_claims()):
            self.ask(Close(claim.request, keep=False))
        self.land_down_to(0)
        self.preempted.clear()
        self.waiting.clear()
        if fill is not None:
            fill(self)
        self._part = ""

    def judge_drain(self, answer: Answer) -> None:
        """Judge the comparison that a drain ends with."""
        part, self._part = self._part, ""
        self._judge(Drain(), answer)
        self._part = part

    # -- asking and judging

    def ask(self, operation: Operation) -> Answer:
        """Ask the cache, let the judge see the answer, and return it; raise Stop at the first fault."""
        self._before_call(operation)
        if self.beat is not None:
            self.beat(self._index)
        state = self.memory.accept(self.state, operation) if isinstance(operation, Land) else self.state
        earlier = self.memory.before(state)
        started = time.perf_counter()
        try:
            sampled = sampled_tokens(self.state, operation) if isinstance(operation, Land) else {}
            answer = call(self.adapter, operation, sampled)
            self.outcome.engine_seconds += time.perf_counter() - started
            answer = checked(answer, self.capabilities)
        except ShapeError as error:
            raise self._adapter_error(operation, f"an answer that makes no sense: {error}") from None
        except EngineFailure as error:
            raise self._engine_failed(operation, error) from error
        except AdapterError as error:
            raise self._adapter_error(operation, str(error)) from error
        except KitError:
            raise
        except Exception as error:  # whatever the engine raises is the engine's fault
            raise self._engine_failed(operation, error) from error
        readings = self.memory.differences(state, answer, earlier)
        if readings and isinstance(answer, Hit | Launched | Landing | Frozen):
            answer = replace(answer, readings=readings)
        self._judge(operation, answer)
        if isinstance(operation, Launch):
            self.memory.hold_back(self.state)
        return answer

    def _before_call(self, operation: Operation) -> None:
        if not isinstance(operation, Close | Reset | Evict | Extend):
            self.memory.flush()

    def _judge(self, operation: Operation, answer: Answer) -> None:
        line = Line(self._index, operation, answer, self._part)
        self.outcome.lines.append(line)
        started = time.perf_counter()
        try:
            after = step(self.state, operation, answer)
        except (Contradiction, LookupError, TypeError, AttributeError) as error:
            text = str(error) if isinstance(error, Contradiction) else f"an answer that makes no sense: {error!r}"
            raise self._adapter_error(operation, text) from error
        finally:
            self.outcome.judging_seconds += time.perf_counter() - started
        if isinstance(after, Fault):
            self._fail(after)
        assert isinstance(after, State)
        for observer in self.observers:
            seen = observer(self.state, line, after)
            if seen is not None:
                self._fail(seen)
        self.state = after

    def _adapter_error(self, operation: Operation, text: str) -> AdapterError:
        return AdapterError(f"operation {self._index}, {operation.verb}: {text}")

    def _engine_failed(self, operation: Operation, error: Exception) -> Stop:
        self.outcome.lines.append(Line(self._index, operation, None, self._part))
        code = error.code if isinstance(error, EngineFailure) else "crash"
        self.outcome.fault = Fault(code, getattr(operation, "request", ""), detail=describe(error))
        return Stop()

    def _fail(self, found: Fault | Broken) -> None:
        if isinstance(found, Fault):
            self.outcome.fault = found
        else:
            self.outcome.broken = found
        raise Stop

    def break_promise(self, promise: str, sentence: str) -> None:
        """End the run with a broken promise."""
        self._fail(Broken(promise, sentence))


def _launch_follows(rest: Sequence[Operation]) -> bool:
    for operation in rest:
        if isinstance(operation, Launch):
            return True
        if not isinstance(operation, BATCHED):
            return False
    return False
