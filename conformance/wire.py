"""The target `stdio:./program`: a cache in any language that answers JSON lines, protocol 1.

Before the end of the handshake whatever fails is the adapter's fault. After it, a program that dies or reports an
error is the engine's `crash`, one that does not answer in time its `hang`; an answer that cannot be read stays the
adapter's fault.
"""

from __future__ import annotations

import shlex
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from milepost.conformance.codec import CONTENT, COUNT, COUNTS, INVENTORY, read_answer, read_capabilities
from milepost.conformance.errors import AdapterError, EngineCrash, EngineFailure
from milepost.conformance.program import Program
from milepost.conformance.shapes import Shape, ShapeError
from milepost.spec.answers import Answer, Evicted, Frozen, Grant, Hit, Landing, Launched, Refused, ResetDone
from milepost.spec.capabilities import Capabilities, Configuration, complaints
from milepost.spec.payload import Content
from milepost.spec.seam import Holding
from milepost.spec.words import Cell, Namespace

PROTOCOL = 1
CALL_SECONDS = 30.0
START_SECONDS = 300.0
"""Building an engine may load a model runner; answering a call may not."""

Value = TypeVar("Value")


class StdioAdapter:
    """One cache in a program of its own, by the methods of `spec.seam.Adapter`.

    `command` is split as a shell would. A program that answers `hello` with `"again": true` can build a new cache
    when it gets another hello: it then goes to `idle` when this adapter is shut down or forgotten, and is taken from
    there instead of starting another one. Whether `account`, `inventory`, `read` and `write` may be called is said
    by the capabilities.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        configuration: Configuration,
        *,
        call_seconds: float = CALL_SECONDS,
        start_seconds: float = START_SECONDS,
        environment: Mapping[str, str] | None = None,
        idle: list[Program] | None = None,
    ) -> None:
        words = shlex.split(command) if isinstance(command, str) else list(command)
        self._seconds = call_seconds
        self._program = _take(idle or []) or Program(words, environment)
        try:
            hello = self._program.ask("hello", {"protocol": PROTOCOL, "config": asdict(configuration)}, start_seconds)
            self._capabilities = _read_hello(hello)
        except (EngineFailure, AdapterError) as error:
            self._program.stop()
            raise AdapterError(f"no handshake with '{words[0]}': {error}") from None
        pool = idle if hello.get("again") is True else None
        self._finalizer = weakref.finalize(self, _let_go, self._program, pool)

    @property
    def capabilities(self) -> Capabilities:
        """What the program declared."""
        return self._capabilities

    def shutdown(self) -> None:
        """Let go of the program; a second time does nothing."""
        self._finalizer()

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        """Send `open`, with `content` as an object of positions where there is any."""
        identities = {"content": {str(position): identity for position, identity in content.items()}} if content else {}
        fields = {"request": request, "tokens": tokens, "namespace": namespace, **identities}
        return self._answer_or_refusal("open", fields, Hit)

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        """Send `extend`."""
        fields = {"request": request, "to": to, **({"draft": draft} if draft else {})}
        return self._answer_or_refusal("extend", fields, Grant)

    def launch(self) -> Launched:
        """Send `launch`."""
        return self._answer("launch", {}, Launched)

    def land(self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]) -> Landing:
        """Send `land`."""
        fields = {"step": step, "accepted": dict(accepted), "sampled": dict(sampled)}
        return self._answer("land", fields, Landing)

    def freeze(self, request: str) -> Frozen | Refused:
        """Send `freeze`."""
        return self._answer_or_refusal("freeze", {"request": request}, Frozen)

    def publish(self, request: str) -> Landing | Refused:
        """Send `publish`."""
        return self._answer_or_refusal("publish", {"request": request}, Landing)

    def preempt(self, request: str) -> Landing:
        """Send `preempt`."""
        return self._answer("preempt", {"request": request}, Landing)

    def close(self, request: str, keep: bool) -> Landing:
        """Send `close`."""
        return self._answer("close", {"request": request, "keep": keep}, Landing)

    def reset(self) -> ResetDone:
        """Send `reset`."""
        return self._answer("reset", {}, ResetDone)

    def evict(self, group: str, cells: int) -> Evicted:
        """Send `evict`."""
        return self._answer("evict", {"group": group, "cells": cells}, Evicted)

    def account(self) -> dict[str, dict[str, int]]:
        """Send `account`."""
        return self._value("account", {}, COUNTS)

    def inventory(self) -> dict[Cell, Holding]:
        """Send `inventory`, answered by a list of [pool, index, {"state": ..., ...}]."""
        return self._value("inventory", {}, INVENTORY)

    def read(self, cell: Cell, group: str) -> Content:
        """Send `read`."""
        return self._value("read", {"cell": cell, "group": group}, CONTENT)

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Send `write`; that it was answered is enough."""
        self._call("write", {"cell": cell, "group": group, "content": content})

    def _answer(self, call: str, fields: Mapping[str, Any], kind: type[Value]) -> Value:
        answer = self._any_answer(call, fields)
        if not isinstance(answer, kind):
            raise AdapterError(f"{call} cannot be answered with '{answer.tag}'")
        return answer

    def _answer_or_refusal(self, call: str, fields: Mapping[str, Any], kind: type[Value]) -> Value | Refused:
        answer = self._any_answer(call, fields)
        if not isinstance(answer, kind | Refused):
            raise AdapterError(f"{call} cannot be answered with '{answer.tag}'")
        return answer

    def _any_answer(self, call: str, fields: Mapping[str, Any]) -> Answer:
        found = self._call(call, fields)
        try:
            return read_answer(found)
        except ShapeError as error:
            raise AdapterError(f"{call} was answered with nonsense: {error}") from None

    def _value(self, call: str, fields: Mapping[str, Any], shape: Shape[Value]) -> Value:
        found = self._call(call, fields)
        try:
            if call not in found:
                raise ShapeError(call, "is missing")
            return shape.read(found[call], call)
        except ShapeError as error:
            raise AdapterError(f"{call} was answered with nonsense: {error}") from None

    def _call(self, call: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        found = self._program.ask(call, fields, self._seconds)
        if found.get("unsupported") is True:
            raise AdapterError(f"{call} is not supported, and the capabilities declare that it is")
        if "adapter_error" in found:
            raise AdapterError(f"{call}: {found['adapter_error']}")
        if "error" in found:
            self._program.healthy = False  # what a cache can do after an error is nobody's promise
            raise EngineCrash(str(found["error"]))
        return found


@dataclass(frozen=True, slots=True)
class StdioTarget:
    """`make(configuration)` for one command, which starts as few programs as the program allows."""

    command: str
    call_seconds: float = CALL_SECONDS
    start_seconds: float = START_SECONDS
    environment: Mapping[str, str] = field(default_factory=dict)
    idle: list[Program] = field(default_factory=list)

    def __call__(self, configuration: Configuration) -> StdioAdapter:
        """Build one cache; AdapterError where the handshake fails."""
        return StdioAdapter(
            self.command,
            configuration,
            call_seconds=self.call_seconds,
            start_seconds=self.start_seconds,
            environment=self.environment,
            idle=self.idle,
        )


def _take(idle: list[Program]) -> Program | None:
    while idle:
        program = idle.pop()
        if program.alive:
            return program
        program.stop()
    return None


def _let_go(program: Program, idle: list[Program] | None) -> None:
    if idle is not None and program.healthy:
        idle.append(program)
    else:
        program.stop()


def _read_hello(answer: dict[str, Any]) -> Capabilities:
    if "capabilities" not in answer:
        raise AdapterError(str(answer.get("error") or answer.get("adapter_error") or "hello got no capabilities"))
    try:
        protocol = COUNT.read(answer.get("protocol", PROTOCOL), "protocol")
        capabilities = read_capabilities(answer["capabilities"])
    except ShapeError as error:
        raise AdapterError(str(error)) from None
    if protocol > PROTOCOL:
        raise AdapterError(f"the program speaks protocol {protocol}, this kit {PROTOCOL}")
    if found := complaints(capabilities):
        raise AdapterError(f"it declares what cannot be: {'; '.join(found)}")
    return capabilities
