"""Shapes of JSON values: how each is read into Python, checked, and written back.

A reader gets a parsed JSON value and its path, and raises `ShapeError` with that path. Readers refuse floats and
booleans where integers belong: in Python both would pass for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Generic, TypeVar

from milepost.spec.schedule import parse_tokens, write_tokens

Value = TypeVar("Value")
Other = TypeVar("Other")

_PLAIN_KEY = re.compile(r"[\w-]+")


class ShapeError(ValueError):
    """A value that is not what belongs at its path; the text is `path: sentence`."""

    def __init__(self, path: str, sentence: str) -> None:
        super().__init__(f"{path}: {sentence}" if path else sentence)
        self.path, self.sentence = path, sentence


@dataclass(frozen=True, slots=True)
class Shape(Generic[Value]):
    """How one kind of value is read from JSON (with its path, for errors) and written to it."""

    read: Callable[[Any, str], Value]
    write: Callable[[Value], Any]


def expected(what: str, found: object, path: str) -> ShapeError:
    """Return the error `expected what, found value`, the value as JSON and cut to a readable length."""
    text = json.dumps(found, default=repr)
    return ShapeError(path, f"expected {what}, found {text if len(text) <= 60 else text[:57] + '...'}")


def member(path: str, key: str) -> str:
    """Return the path of an object's member."""
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def _same(value: Value) -> Value:
    return value


def integer(least: int | None = None, most: int | None = None) -> Shape[int]:
    """An integer that is at least `least` and at most `most`."""
    what = "an integer" if least is None else f"an integer of at least {least}"

    def read(value: Any, path: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise expected("an integer", value, path)
        if least is not None and value < least:
            raise expected(what, value, path)
        if most is not None and value > most:
            raise expected(f"an integer of at most {most}", value, path)
        return value

    return Shape(read, _same)


def _read_text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise expected("a text", value, path)
    return value


def _read_flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise expected("true or false", value, path)
    return value


def _read_tokens(value: Any, path: str) -> tuple[int, ...]:
    if isinstance(value, str):
        try:
            return parse_tokens(value)
        except ValueError as error:
            raise ShapeError(path, str(error)) from None
    return many(integer(0)).read(value, path)


TEXT: Shape[str] = Shape(_read_text, _same)
FLAG: Shape[bool] = Shape(_read_flag, _same)
TOKENS: Shape[tuple[int, ...]] = Shape(_read_tokens, write_tokens)
NAME: Shape[str] = Shape(lambda value, path: _read_text(value, path) or _refuse_empty(path), _same)


def _refuse_empty(path: str) -> str:
    raise ShapeError(path, "expected a name, found an empty text")


def one_of(names: tuple[str, ...]) -> Shape[str]:
    """One of a few names."""

    def read(value: Any, path: str) -> str:
        if value not in names:
            raise expected("one of " + ", ".join(names), value, path)
        return str(value)

    return Shape(read, _same)


def optional(shape: Shape[Value]) -> Shape[Value | None]:
    """The shape, or null."""
    return Shape(
        lambda value, path: None if value is None else shape.read(value, path),
        lambda value: None if value is None else shape.write(value),
    )


def many(shape: Shape[Value]) -> Shape[tuple[Value, ...]]:
    """A list of any length."""

    def read(value: Any, path: str) -> tuple[Value, ...]:
        if not isinstance(value, list):
            raise expected("a list", value, path)
        return tuple(shape.read(item, f"{path}[{index}]") for index, item in enumerate(value))

    return Shape(read, lambda values: [shape.write(value) for value in values])


def row(*shapes: Shape[Any]) -> Shape[Any]:
    """A list of exactly these, as a tuple."""

    def read(value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(shapes):
            raise expected(f"a list of {len(shapes)}", value, path)
        return tuple(
            shape.read(item, f"{path}[{index}]") for index, (shape, item) in enumerate(zip(shapes, value, strict=True))
        )

    return Shape(read, lambda values: [shape.write(value) for shape, value in zip(shapes, values, strict=True)])


def read_object(value: Any, path: str) -> dict[str, Any]:
    """Return the value if it is an object."""
    if not isinstance(value, dict):
        raise expected("an object", value, path)
    return value


def mapping(shape: Shape[Value]) -> Shape[dict[str, Value]]:
    """An object with any keys."""
    return Shape(
        lambda value, path: {
            key: shape.read(item, member(path, key)) for key, item in read_object(value, path).items()
        },
        lambda values: {key: shape.write(value) for key, value in values.items()},
    )


def _key_number(key: str, path: str) -> int:
    if not re.fullmatch(r"0|[1-9][0-9]{0,17}", key):
        raise expected("a whole number as key", key, path)
    return int(key)


def numbered(shape: Shape[Value]) -> Shape[dict[int, Value]]:
    """An object whose keys are whole numbers, written as text because JSON has no other keys."""
    return Shape(
        lambda value, path: {
            _key_number(key, path): shape.read(item, member(path, key))
            for key, item in read_object(value, path).items()
        },
        lambda values: {str(key): shape.write(value) for key, value in values.items()},
    )


def changed(shape: Shape[Value], after: Callable[[Value], Other], before: Callable[[Other], Value]) -> Shape[Other]:
    """The shape, with `after` applied to what is read and `before` to what is written."""
    return Shape(lambda value, path: after(shape.read(value, path)), lambda value: shape.write(before(value)))


def record(kind: type[Value], shapes: Mapping[str, Shape[Any]]) -> Shape[Value]:
    """An object with the fields of a dataclass: unknown fields are ignored, defaults are left out when writing."""
    members: tuple[Field[Any], ...] = fields(kind)  # type: ignore[arg-type]
    if missing := {one.name for one in members} ^ shapes.keys():
        raise TypeError(f"{kind.__name__}: fields and shapes differ in {sorted(missing)}")

    def read(value: Any, path: str) -> Value:
        given = read_object(value, path)
        for one in members:
            if one.name not in given and _default(one) is MISSING:
                raise ShapeError(member(path, one.name), "is missing")
        return kind(
            **{name: shape.read(given[name], member(path, name)) for name, shape in shapes.items() if name in given}
        )

    def write(value: Value) -> dict[str, Any]:
        values = ((one, getattr(value, one.name)) for one in members)
        return {one.name: shapes[one.name].write(found) for one, found in values if found != _default(one)}

    return Shape(read, write)


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default
