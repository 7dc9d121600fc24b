"""Stands in for Triton: vLLM's small kernels run as the Python that they are written in, on CPU memory.

Enough of `triton` and `triton.language` for the kernels that move recurrent states and count accepted drafts. A value
is a number or an array of 64 bits, a pointer an address and a type; programs of a grid run one after another. What a
kernel copies is written down, so that the adapter reports what was really moved and not what should have been.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

Number = Any
"""A Python integer or bool, or a numpy array of them."""


@dataclass(frozen=True, slots=True)
class Type:
    """An integer type of memory."""

    bytes: int
    cell: Any


@dataclass(frozen=True, slots=True)
class PointerType:
    """The type of a pointer to a `pointee`."""

    pointee: Type


class Value:
    """A number of a kernel, or an array of them, one for each lane."""

    __slots__ = ("number",)

    def __init__(self, number: Number) -> None:
        self.number = number

    def to(self, kind: Any) -> Any:
        """Return the value as a type; as a pointer type, the pointer to that address."""
        return Pointer(self.number, kind.pointee) if isinstance(kind, PointerType) else self

    def __bool__(self) -> bool:
        return bool(self.number)

    def __index__(self) -> int:
        return int(self.number)

    def __neg__(self) -> Value:
        return Value(-self.number)


def _plain(value: Any) -> Number:
    return value.number if isinstance(value, Value) else value


def _binary(name: str) -> None:
    act: Callable[[Any, Any], Any] = getattr(operator, name)

    def forward(self: Value, other: Any) -> Any:
        return NotImplemented if isinstance(other, Pointer) else Value(act(self.number, _plain(other)))

    def backward(self: Value, other: Any) -> Any:
        return Value(act(_plain(other), self.number))

    setattr(Value, f"__{name.strip('_')}__", forward)
    setattr(Value, f"__r{name.strip('_')}__", backward)


for _name in ("add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor", "lt", "le", "gt", "ge", "eq", "ne"):
    _binary(_name)


class Pointer:
    """An address, or one for each lane, and what lies there."""

    __slots__ = ("address", "type")

    def __init__(self, address: Number, kind: Type) -> None:
        self.address, self.type = address, kind

    def to(self, kind: Any) -> Any:
        """Return the pointer as one to another type, or its address."""
        return Pointer(self.address, kind.pointee) if isinstance(kind, PointerType) else Value(self.address)

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.address + _plain(offset) * self.type.bytes, self.type)

    __radd__ = __add__


def _lanes(*arrays: Number) -> tuple[Any, ...]:
    import numpy

    return tuple(one.ravel() for one in numpy.broadcast_arrays(*arrays))


def load(pointer: Pointer, mask: Any = None, other: Any = 0) -> Value:
    """Read memory; lanes that are masked out read `other`."""
    import numpy

    cell = pointer.type.cell
    if mask is None and numpy.ndim(pointer.address) == 0:
        return Value(cell.from_address(int(pointer.address)).value)
    addresses, kept, rest = _lanes(pointer.address, True if mask is None else _plain(mask), _plain(other))
    found = numpy.array(rest, dtype=numpy.int64)
    for lane in numpy.flatnonzero(kept):
        found[lane] = cell.from_address(int(addresses[lane])).value
    return Value(found if numpy.ndim(pointer.address) else found[0])


def store(pointer: Pointer, value: Any, mask: Any = None) -> None:
    """Write memory, where the mask allows it."""
    import numpy

    cell = pointer.type.cell
    addresses, numbers, kept = _lanes(pointer.address, _plain(value), True if mask is None else _plain(mask))
    for lane in numpy.flatnonzero(kept):
        cell.from_address(int(addresses[lane])).value = int(numbers[lane])


class Grid:
    """Which program of a grid runs, and the calls that kernels made to each other since the last `take`."""

    def __init__(self) -> None:
        self.program: tuple[int, ...] = ()
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def program_id(self, axis: int) -> Value:
        """Return the number of the running program on an axis; 0 on one that the grid has not."""
        return Value(self.program[axis] if axis < len(self.program) else 0)

    def take(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the calls so far, and forget them."""
        calls, self.calls = self.calls, []
        return calls


GRID = Grid()


class Kernel:
    """A jitted function: `kernel[grid](...)` runs it for all programs, and kernels call each other directly."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__wrapped__ = function

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        GRID.calls.append((self.__name__, arguments))
        return self.function(*arguments, **named)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def run(*arguments: Any, **named: Any) -> None:
            named.pop("num_warps", None)
            given = [_argument(one) for one in arguments]
            try:
                for GRID.program in itertools.product(*map(range, map(int, grid))):
                    self.function(*given, **named)
            finally:
                GRID.program = ()

        return run


def _argument(value: Any) -> Any:
    if hasattr(value, "data_ptr"):
        return Pointer(value.data_ptr(), _BY_BYTES[value.element_size()])
    return value


def _jit(function: Any = None, **options: object) -> Any:
    return Kernel(function) if function is not None else Kernel


def _extreme(choose: str) -> Callable[[Any, Any], Value]:
    def pick(one: Any, other: Any) -> Value:
        import numpy

        return Value(getattr(numpy, choose)(_plain(one), _plain(other)))

    return pick


def _arange(start: int, stop: int) -> Value:
    import numpy

    return Value(numpy.arange(start, stop, dtype=numpy.int64))


def _cdiv(one: Any, other: Any) -> Any:
    return (one + other - 1) // other


INT32, INT64 = Type(4, ctypes.c_int32), Type(8, ctypes.c_int64)
_BY_BYTES = {1: Type(1, ctypes.c_uint8), 2: Type(2, ctypes.c_uint16), 4: INT32, 8: INT64}

LANGUAGE = SimpleNamespace(
    load=load, store=store, program_id=GRID.program_id, arange=_arange, cdiv=_cdiv, minimum=_extreme("minimum"),
    maximum=_extreme("maximum"), pointer_type=PointerType, constexpr=int, int32=INT32, int64=INT64,
    uint8=_BY_BYTES[1], uint16=_BY_BYTES[2], uint32=Type(4, ctypes.c_uint32), uint64=INT64,
)
TRITON = SimpleNamespace(jit=_jit, cdiv=_cdiv, next_power_of_2=lambda number: 1 << (number - 1).bit_length())
