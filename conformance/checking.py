"""Judges a trace line by line: only `step` and what was answered, no cache. A file of any size takes little memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from milepost.conformance.answer_form import check_names
from milepost.conformance.errors import FormatError
from milepost.conformance.files import TraceFile, TraceHeader, TraceLine, read_trace
from milepost.conformance.outcome import Line, Outcome
from milepost.conformance.partial import Chain, Doubt, guesses
from milepost.conformance.shapes import ShapeError
from milepost.spec.answers import Grant, Hit
from milepost.spec.faults import Fault
from milepost.spec.operations import Close, Extend, Launch, Open, Operation, Preempt
from milepost.spec.payload import ZERO
from milepost.spec.schedule import Schedule
from milepost.spec.state import State, initial
from milepost.spec.step import Contradiction, step

KEPT_TOKENS = 400_000
"""Tokens of prompts up to which all lines are kept, for a report that tells the whole story."""

PROVENANCE_TOKENS = 1_000_000
"""Tokens of closed requests whose digests are kept, to say whose memory was read by mistake."""

LOOKAHEAD = 10_000
"""Lines that are read ahead for a token that the engine learnt later than it was computed with."""


@dataclass(slots=True)
class Checked:
    """A judged trace. `outcome` has all lines where `whole` is true, else none but the last.

    `counted` are the operations that were judged, `place` the number of the last line, `assumed` how many cells of
    unknown content were believed to be what their first reader took them for. `stopped` says why a recorder switched
    itself off.
    """

    outcome: Outcome
    header: TraceHeader
    counted: int = 0
    place: int = 0
    whole: bool = True
    assumed: int = 0
    stopped: str = ""


def check_trace(path: str | Path) -> Checked:
    """Judge a trace up to its first fault; FormatError where a line contradicts the protocol or an earlier line."""
    return _Checker(read_trace(path)).run()


class _Checker:
    def __init__(self, trace: TraceFile) -> None:
        header = trace.header
        self.trace, self.state = trace, initial(header.capabilities)
        self.checked = Checked(Outcome(Schedule(header.header, ()), self.state), header)
        self.operations: list[Operation] = []
        self.doubt = Doubt(bool({"attached", "rotated"} & set(header.partial)))
        self.ahead: deque[TraceLine] = deque()
        self.lines: Iterator[TraceLine] = iter(trace)
        self.chains: dict[str, Chain] = {}
        self.said: dict[str, list[int]] = {}
        self.ended: set[str] = set()
        self.kept = self.provenance = 0

    def run(self) -> Checked:
        """Judge all lines."""
        outcome = self.checked.outcome
        while outcome.fault is None and self._read():
            line = self.ahead.popleft()
            self._keep(line)
            if line.got is None:
                request = getattr(line.operation, "request", "")
                outcome.fault = Fault(line.failure, request, detail=line.text)
                break
            after = self._judge(line)
            if isinstance(after, Fault):
                outcome.fault = after
                break
            self.state = after
            self._follow(line)
        outcome.state = self.state
        outcome.schedule = replace(outcome.schedule, operations=tuple(self.operations))
        self.checked.assumed, self.checked.stopped = self.doubt.assumed, self.trace.stopped
        return self.checked

    # -- reading

    def _read(self) -> bool:
        """Have a line at hand; False at the end of the trace."""
        return bool(self.ahead) or self._read_ahead()

    def _read_ahead(self) -> bool:
        line = next(self.lines, None)
        if line is None:
            return False
        request = getattr(line.operation, "request", "")
        if line.said:
            self.said.setdefault(request, []).extend(line.said)
        if isinstance(line.operation, Close | Preempt):
            self.ended.add(request)
        self.ahead.append(line)
        return True

    def _keep(self, line: TraceLine) -> None:
        """Count a line, and keep it for the report while there is room."""
        checked = self.checked
        checked.place = line.number
        checked.counted += not line.part
        if isinstance(line.operation, Open):
            self.kept += len(line.operation.tokens) + len(line.operation.samples)
        self.kept += 8
        if checked.whole and self.kept > KEPT_TOKENS:
            checked.whole = False
            self.operations.clear()
        kept = checked.outcome.lines
        if not checked.whole:
            kept.clear()
        elif not line.part:
            self.operations.append(line.operation)
        kept.append(Line(max(checked.counted, 1), line.operation, line.got, line.part))

    # -- judging

    def _judge(self, line: TraceLine) -> State | Fault:
        try:
            if line.got is not None:
                check_names(line.got, self.state.capabilities)
            self._prepare(line)
            after = self._step(line)
            if isinstance(after, Fault) and self.chains:
                self._refresh_streams()
                after = self._step(line)
        except Contradiction as error:
            raise self._misplaced(str(error)) from error
        except ShapeError as error:
            raise self._misplaced(str(error)) from error
        except KeyError as error:
            raise self._misplaced(f"{error} is not open") from error
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise self._misplaced(f"the answer makes no sense here ({error})") from error
        return after

    def _misplaced(self, sentence: str) -> FormatError:
        return FormatError(self.trace.path, self.checked.place, 0, f"this cannot follow: {sentence}")

    def _step(self, line: TraceLine) -> State | Fault:
        assert line.got is not None
        while True:
            after = step(self.state, line.operation, line.got)
            if not isinstance(after, Fault) or not self.checked.header.partial:
                return after
            if not self.doubt.believe_reader(self.state, line.got, after):
                return after

    def _prepare(self, line: TraceLine) -> None:
        """Bring the state to what is known before a line: memory that nobody saw written, tokens that came late."""
        self.doubt.unsee(self.state, line.unseen)
        if isinstance(line.operation, Open) and isinstance(line.got, Hit) and self.checked.header.partial:
            self.doubt.believe_hit(self.state, line.operation, line.got)
        if isinstance(line.operation, Extend) and isinstance(line.got, Grant) and self.checked.header.recorded:
            self._hear(line.operation.request, line.got.length)

    def _hear(self, request: str, length: int) -> None:
        """Let a request's stream reach `length`, with what the engine learns of it in later lines."""
        claim = self.state.claims[request]
        missing = length - len(claim.stream.tokens)
        if missing <= 0:
            return
        heard = self.said.setdefault(request, [])
        while len(heard) < missing and request not in self.ended and len(self.ahead) < LOOKAHEAD:
            if not self._read_ahead():
                break
        self.provenance += missing
        told = tuple(heard[:missing])
        del heard[: len(told)]
        if len(told) < missing:
            told += guesses(missing - len(told))
        chain = self.chains.get(request)
        if chain is None:
            chain = self.chains[request] = Chain(claim.stream)
        self.state.claims[request] = replace(claim, stream=chain.grow(told))

    def _follow(self, line: TraceLine) -> None:
        """Do what is due after a line."""
        if isinstance(line.operation, Launch):
            self.doubt.unsee(self.state, line.unseen)
        if isinstance(line.operation, Close | Preempt):
            self._refresh_streams()
            request = line.operation.request
            self.chains.pop(request, None)
            self.said.pop(request, None)
            self.ended.discard(request)
        if isinstance(line.operation, Open):
            self.provenance += len(line.operation.tokens) + len(line.operation.samples)
            if self.provenance > PROVENANCE_TOKENS:
                self._forget_streams()

    def _refresh_streams(self) -> None:
        """Let reports know what grown streams hold."""
        grown = {name: chain.stream for name, chain in self.chains.items()}
        if grown:
            streams, seen = [], set[str]()
            for name, stream in reversed(self.state.streams):
                streams.append((name, grown.get(name, stream) if name not in seen else stream))
                seen.add(name)
            self.state = replace(self.state, streams=tuple(reversed(streams)))

    def _forget_streams(self) -> None:
        """Keep the streams of what is open or lies in memory, the newest of them first."""
        memory = {one for content in self.state.contents.values()
                  for one in (content if isinstance(content, tuple) else (content,)) if one and one > ZERO}
        open_names, kept, total = self.state.claims.keys(), [], 0
        for name, stream in reversed(self.state.streams):
            if name in open_names or (total < PROVENANCE_TOKENS // 2 and not memory.isdisjoint(stream.digests)):
                kept.append((name, stream))
                total += len(stream.tokens)
        self.state = replace(self.state, streams=tuple(reversed(kept)))
        self.provenance = total
