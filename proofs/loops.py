"""Cuts a function of `spec` at its loops, so that each straight piece of its own source is run over unknowns once.

What must hold wherever a loop comes round is given with the theorem; the pieces have to keep it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, TypeVar

Piece = Callable[..., Any]
Kind = TypeVar("Kind", bound=ast.stmt)


@dataclass(frozen=True)
class Source:
    """The text of one function, and what its names stand for."""

    text: str
    known: Mapping[str, Any]

    def statements(self) -> list[ast.stmt]:
        """Return the statements of the function but its docstring."""
        function = ast.parse(self.text).body[0]
        assert isinstance(function, ast.FunctionDef)
        return function.body[1:] if ast.get_docstring(function) else function.body

    def piece(self, statements: list[ast.stmt], takes: str, gives: str = "") -> Piece:
        """Return statements as a function of the names that they take, which ends with the values of other names."""
        ending = ast.parse(f"def piece():\n    return {gives or 'None'}").body[0]
        assert isinstance(ending, ast.FunctionDef)
        arguments = ast.arguments([], [ast.arg(name) for name in takes.split()], kwonlyargs=[], kw_defaults=[],
                                  defaults=[])
        function = ast.FunctionDef("piece", arguments, [*statements, *ending.body], [])
        module = ast.fix_missing_locations(ast.Module([function], []))
        made: dict[str, Any] = {}
        exec(compile(module, "piece of spec", "exec"), dict(self.known), made)  # our own source
        return made["piece"]  # type: ignore[no-any-return]

    def value(self, expression: ast.expr, takes: str) -> Piece:
        """Return an expression as a function of the names that it takes."""
        return self.piece([ast.Return(expression)], takes)


def source_of(function: Callable[..., object]) -> Source:
    """Return the source of a function as it stands."""
    return Source(dedent(inspect.getsource(function)), inspect.getmodule(function).__dict__)


def around(statements: list[ast.stmt], kind: type[Kind]) -> tuple[list[ast.stmt], Kind, list[ast.stmt]]:
    """Return the one loop of a kind among statements, with what is before and behind it; ValueError for another."""
    found = [index for index, one in enumerate(statements) if isinstance(one, kind)]
    if len(found) != 1:
        raise ValueError(f"expected one {kind.__name__.lower()} loop, found {len(found)}")
    loop = statements[found[0]]
    assert isinstance(loop, kind)
    return statements[: found[0]], loop, statements[found[0] + 1 :]
