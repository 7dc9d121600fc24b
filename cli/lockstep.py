"""The target `lockstep`: the production cache and the reference asked the same, and compared after every operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from milepost.cli.comparison import Comparison, Difference
from milepost.reference.cache import make as make_reference
from milepost.spec.answers import Evicted, Frozen, Grant, Hit, Landing, Launched, Refused, ResetDone
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.payload import Content
from milepost.spec.seam import Accounted, Adapter, Inventoried
from milepost.spec.words import Cell, Namespace


class Shown(Adapter, Inventoried, Accounted, Protocol):
    """A cache that shows what it holds."""


class Lockstep:
    """An adapter that asks two caches and answers with what the second says, as long as the first says the same.

    Memory is the second's; where the harness need not reach it, `remembers=False` makes a run a third faster.
    """

    def __init__(self, reference: Shown, cache: Shown, remembers: bool = True) -> None:
        self.reference, self.cache = reference, cache
        self.operations = 0
        declared = reference.capabilities
        self._comparison = Comparison({group.name: group.pool for group in declared.groups})
        groups = cache.capabilities.groups
        groups = groups if remembers else tuple(replace(group, executes="shadow") for group in groups)
        self._capabilities = replace(cache.capabilities, engine="milepost lockstep", groups=groups)
        self._check_declarations()

    @property
    def capabilities(self) -> Capabilities:
        """What both caches are and can do."""
        return self._capabilities

    def _check_declarations(self) -> None:
        """Verify that both declare the same, but for a name and where payloads are kept."""
        ours, theirs = (
            replace(
                declared, engine="", groups=tuple(replace(one, executes="shadow") for one in declared.groups),
                fidelity=self._capabilities.fidelity,
            )
            for declared in (self.reference.capabilities, self.cache.capabilities)
        )
        if ours != theirs:
            raise Difference(f"capabilities: the reference declares {ours}, the cache {theirs}")

    def _both(self, verb: str, *arguments: Any) -> Any:
        self.operations += 1
        place = f"operation {self.operations}, {verb} {arguments[0] if arguments else ''}".rstrip()
        ours = _answer_of(self.reference, verb, arguments)
        theirs = _answer_of(self.cache, verb, arguments)
        if isinstance(ours, Exception) or isinstance(theirs, Exception):
            self._raise(place, ours, theirs)
        self._comparison.operation(place, ours, theirs, (self.reference.inventory(), self.cache.inventory()))
        mine, other = self.reference.account(), self.cache.account()
        if mine != other:
            raise Difference(f"{place}, account: the reference counts {mine}, the cache {other}")
        return theirs

    def _raise(self, place: str, ours: Any, theirs: Any) -> None:
        """Both may fail, since both were asked something impossible; one alone may not."""
        if isinstance(ours, Exception) and isinstance(theirs, Exception):
            raise theirs
        raise Difference(f"{place}: the reference says {ours!r}, the cache {theirs!r}") from (
            theirs if isinstance(theirs, Exception) else ours
        )

    def open(
        self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]
    ) -> Hit | Refused:
        """Look up the longest prefix in both."""
        answer: Hit | Refused = self._both("open", request, tokens, namespace, content)
        return answer

    def extend(self, request: str, to: int, draft: int = 0) -> Grant | Refused:
        """Plan tokens in both."""
        answer: Grant | Refused = self._both("extend", request, to, draft)
        return answer

    def launch(self) -> Launched:
        """Start the step of both."""
        answer: Launched = self._both("launch")
        return answer

    def land(
        self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]
    ) -> Landing:
        """Land the step of both."""
        answer: Landing = self._both("land", step, accepted, sampled)
        return answer

    def freeze(self, request: str) -> Frozen | Refused:
        """Snapshot in both."""
        answer: Frozen | Refused = self._both("freeze", request)
        return answer

    def publish(self, request: str) -> Landing | Refused:
        """Publish in both."""
        answer: Landing | Refused = self._both("publish", request)
        return answer

    def preempt(self, request: str) -> Landing:
        """Give up all cells of a request in both."""
        answer: Landing = self._both("preempt", request)
        return answer

    def close(self, request: str, keep: bool) -> Landing:
        """End a request in both."""
        answer: Landing = self._both("close", request, keep)
        return answer

    def reset(self) -> ResetDone:
        """Forget everything published in both."""
        answer: ResetDone = self._both("reset")
        return answer

    def evict(self, group: str, cells: int) -> Evicted:
        """Evict in both."""
        answer: Evicted = self._both("evict", group, cells)
        return answer

    def inventory(self) -> dict[Cell, Any]:
        """Return what the cache holds."""
        return self.cache.inventory()

    def account(self) -> dict[str, dict[str, int]]:
        """Return what the cache counts."""
        return self.cache.account()

    def read(self, cell: Cell, group: str) -> Content:
        """Return what the cache's memory holds."""
        content: Content = self.cache.read(cell, group)  # type: ignore[attr-defined]
        return content

    def write(self, cell: Cell, group: str, content: Content) -> None:
        """Write into the cache's memory."""
        self.cache.write(cell, group, content)  # type: ignore[attr-defined]


def _answer_of(cache: Shown, verb: str, arguments: tuple[Any, ...]) -> Any:
    """Return what a cache answers, or raises."""
    try:
        return getattr(cache, verb)(*arguments)
    except Exception as error:  # what it raises is what it says
        return error


def lockstep(
    make: Callable[[Configuration], Shown],
    reference: Callable[[Configuration], Shown] = make_reference,
    remembers: bool = True,
) -> Callable[[Configuration], Lockstep]:
    """Return a factory that holds the caches of `make` against those of `reference`."""
    return lambda configuration: Lockstep(reference(configuration), make(configuration), remembers)


def make(configuration: Configuration) -> Lockstep:
    """Build the production cache and the reference beside it."""
    from milepost.optimized.cache import make as make_cache

    return Lockstep(make_reference(configuration), make_cache(configuration))
