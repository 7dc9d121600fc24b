"""Runs functions of `spec` as they stand over terms, so that nothing of them is written again.

Numbers and conditions stand for unknown ones. Where the code asks whether a condition is true, it is run once for
each answer; the results are joined under the conditions that lead to them. `gcd`, `min` and `all`, which look inside
their arguments, are given as terms.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import z3

from milepost.proofs.scope import Term


@dataclass
class Trail:
    """The answers that one run was given, and the conditions that were asked for."""

    answers: list[bool] = field(default_factory=list)
    asked: list[Term] = field(default_factory=list)

    def answer(self, condition: Term) -> bool:
        """Return the next answer; True where nobody has chosen yet."""
        if len(self.asked) == len(self.answers):
            self.answers.append(True)
        self.asked.append(condition)
        return self.answers[len(self.asked) - 1]

    def condition(self) -> Term:
        """Return what is true on this trail."""
        return z3.And(*(one if answer else z3.Not(one) for one, answer in zip(self.asked, self.answers, strict=True)))

    def next_trail(self) -> Trail | None:
        """Return the trail on which the last True was False, None where there is none."""
        answers = list(self.answers)
        while answers and not answers[-1]:
            answers.pop()
        return Trail([*answers[:-1], False]) if answers else None


@dataclass(frozen=True, eq=False)
class Condition:
    """An unknown truth value: asking for it forks the run."""

    term: Term
    trail: Trail

    def __bool__(self) -> bool:
        return self.trail.answer(self.term)


@dataclass(frozen=True, eq=False)
class Number:
    """An unknown integer; division and remainder are those of Python for positive divisors."""

    term: Term
    trail: Trail

    def _made(self, term: Term) -> Number:
        return Number(term, self.trail)

    def __add__(self, other: object) -> Number:
        return self._made(self.term + bare(other))

    def __sub__(self, other: object) -> Number:
        return self._made(self.term - bare(other))

    def __mul__(self, other: object) -> Number:
        return self._made(self.term * bare(other))

    def __floordiv__(self, other: object) -> Number:
        return self._made(self.term / bare(other))

    def __mod__(self, other: object) -> Number:
        return self._made(self.term % bare(other))

    def __rsub__(self, other: object) -> Number:
        return self._made(bare(other) - self.term)

    def __rfloordiv__(self, other: object) -> Number:
        return self._made(bare(other) / self.term)

    def __rmod__(self, other: object) -> Number:
        return self._made(bare(other) % self.term)

    def __neg__(self) -> Number:
        return self._made(-self.term)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return Condition(self.term == bare(other), self.trail)

    def __lt__(self, other: object) -> Condition:
        return Condition(self.term < bare(other), self.trail)

    def __le__(self, other: object) -> Condition:
        return Condition(self.term <= bare(other), self.trail)

    def __gt__(self, other: object) -> Condition:
        return Condition(self.term > bare(other), self.trail)

    def __ge__(self, other: object) -> Condition:
        return Condition(self.term >= bare(other), self.trail)


def bare(value: object) -> Term:
    """Return the term of a number or condition, those of a tuple or list, and anything else as it is."""
    if isinstance(value, tuple | list):
        return tuple(map(bare, value))
    return value.term if isinstance(value, Number | Condition) else value


Divisor = Callable[[Term, Term], Term]


def interpret(function: Callable[..., Any], *arguments: object, gcd: Divisor | None = None) -> Term:
    """Return what a function of `spec` gives for arguments of which terms are unknown integers or truths."""
    found = list(outcomes(function, *arguments, gcd=gcd))
    joined = found[-1][1]
    for condition, result in reversed(found[:-1]):
        joined = z3.If(condition, result, joined)
    return joined


def outcomes(
    function: Callable[..., Any], *arguments: object, gcd: Divisor | None = None, **known: Callable[..., Term]
) -> Iterator[tuple[Term, Any]]:
    """Yield each way through a function: its condition and its result. `known` stand for functions that it calls."""
    trail: Trail | None = Trail()
    while trail is not None:
        given = [lifted(one, trail) for one in arguments]
        result = _rebound(function, trail, gcd, known)(*given)
        yield trail.condition(), bare(result)
        trail = trail.next_trail()


def lifted(value: object, trail: Trail) -> object:
    """Return a term as an unknown of this trail; in a list each, and the results of a function of terms."""
    if isinstance(value, z3.ArithRef):
        return Number(value, trail)
    if isinstance(value, z3.BoolRef):
        return Condition(value, trail)
    if isinstance(value, list):
        return [lifted(one, trail) for one in value]
    if isinstance(value, FunctionType):
        return lambda *at: lifted(value(*map(bare, at)), trail)
    return value


def _rebound(
    function: Callable[..., Any], trail: Trail, gcd: Divisor | None, known: Mapping[str, Callable[..., Term]]
) -> Callable[..., Any]:
    """Return the function with its own code, in which `all`, `min` and `gcd` understand unknowns."""
    assert isinstance(function, FunctionType)

    def every(conditions: Iterable[object]) -> object:
        return Condition(z3.And(*(bare(one) for one in conditions)), trail)

    def least(one: object, other: object) -> object:
        return one if one <= other else other  # type: ignore[operator]

    def divisor(one: object, other: object) -> object:
        assert gcd is not None
        return Number(gcd(bare(one), bare(other)), trail)

    def as_known(name: str) -> Callable[..., object]:
        return lambda *at: lifted(known[name](*map(bare, at)), trail)

    names = {"all": every, "min": least, "gcd": divisor, "__builtins__": builtins}
    names |= {name: as_known(name) for name in known}
    return FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__,
                        function.__defaults__, function.__closure__)
