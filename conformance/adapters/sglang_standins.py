"""Stand-ins for packages that SGLang imports and that exist only where a GPU is.

The engine's files are as its package ships them. A stand-in answers every name with an empty class, so a module that
only mentions one loads, and a call that would compute something with one returns nothing useful.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

ABSENT = (
    "compressed_tensors", "cuda", "deep_ep", "deep_gemm", "flash_attn", "flashinfer", "sgl_kernel", "torchvision",
    "xgrammar",
)
"""Top-level packages that are replaced; all of them compute on a GPU or wrap what does."""


class _Named(type):
    """Makes empty classes that have every attribute: one may be subclassed, called, or asked for more names."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        inner = empty_class(name)
        setattr(cls, name, inner)
        return inner


def _accepts_anything(self: object, *positional: object, **named: object) -> None:
    """A constructor for whatever is passed."""


def _pydantic_schema(cls: type, source: object, handler: object) -> Any:
    """Some of the engine's records name these classes in annotations that pydantic reads."""
    from pydantic_core import core_schema

    return core_schema.any_schema()


def empty_class(name: str) -> Any:
    """Return a class of that name that takes any arguments and has any attribute."""
    members = {"__init__": _accepts_anything, "__get_pydantic_core_schema__": classmethod(_pydantic_schema)}
    return _Named(name, (), members)


class _StandIn(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        inner = empty_class(name)
        setattr(self, name, inner)
        return inner


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in ABSENT:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


def install() -> None:
    """Put the stand-ins in front of everything that is imported from now on; a second call changes nothing."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    # transformers decides once, by version, whether torchvision is there: it has to ask before a stand-in answers.
    from transformers.utils import import_utils

    import_utils.is_torchvision_available()
    sys.meta_path.insert(0, _Finder())
