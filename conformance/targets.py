"""Names of what can be judged, and how each is built: shipped targets, `module:make`, `stdio:./program`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from milepost.conformance.errors import AdapterError, UsageError
from milepost.spec.capabilities import Configuration, complaints
from milepost.spec.seam import Adapter

Make = Callable[[Configuration], Adapter]


@dataclass(frozen=True, slots=True)
class Shipped:
    """A target that comes with the kit. `peer` names the environment that its engine lives in."""

    name: str
    module: str
    attribute: str
    about: str
    peer: str = ""


SHIPPED: tuple[Shipped, ...] = (
    Shipped("reference", "milepost.reference.cache", "make", "the specification's own cache, two dictionaries"),
    Shipped(
        "reference:explicit", "milepost.reference.cache", "make_explicit", "the same, freezing only when it is asked"
    ),
    Shipped(
        "freetoken:page1", "milepost.conformance.adapters.freetoken", "make_page1",
        "FreeToken's hybrid radix cache, pages of 1 token", "freetoken",
    ),
    Shipped(
        "freetoken:page16", "milepost.conformance.adapters.freetoken", "make_page16",
        "FreeToken's hybrid radix cache, pages of 16 tokens", "freetoken",
    ),
    Shipped(
        "sglang:rust", "milepost.conformance.adapters.sglang", "make_rust",
        "SGLang: its compiled tree core, extra_buffer, pages of 1 token", "sglang",
    ),
    Shipped(
        "sglang:rust-no-buffer", "milepost.conformance.adapters.sglang", "make_rust_no_buffer",
        "SGLang: its compiled tree core, no_buffer, no overlap", "sglang",
    ),
    Shipped(
        "sglang:rust-page16", "milepost.conformance.adapters.sglang", "make_rust_page16",
        "SGLang: its compiled tree core, extra_buffer, pages of 16 tokens", "sglang",
    ),
    Shipped(
        "sglang:rust-page64", "milepost.conformance.adapters.sglang", "make_rust_page64",
        "SGLang: its compiled tree core, extra_buffer, pages of 64 tokens", "sglang",
    ),
    Shipped(
        "sglang:rust-mixed", "milepost.conformance.adapters.sglang", "make_rust_mixed",
        "SGLang: its compiled tree core, extra_buffer, mixed chunks, pages of 1 token", "sglang",
    ),
    Shipped(
        "sglang:rust-mixed16", "milepost.conformance.adapters.sglang", "make_rust_mixed16",
        "SGLang: its compiled tree core, extra_buffer, mixed chunks, pages of 16 tokens", "sglang",
    ),
    Shipped(
        "sglang:python", "milepost.conformance.adapters.sglang", "make_python",
        "SGLang: its Python tree core, extra_buffer, pages of 1 token", "sglang",
    ),
    Shipped(
        "sglang:python-no-buffer", "milepost.conformance.adapters.sglang", "make_python_no_buffer",
        "SGLang: its Python tree core, no_buffer, no overlap", "sglang",
    ),
    Shipped(
        "sglang:python-page16", "milepost.conformance.adapters.sglang", "make_python_page16",
        "SGLang: its Python tree core, extra_buffer, pages of 16 tokens", "sglang",
    ),
    Shipped(
        "sglang:python-page64", "milepost.conformance.adapters.sglang", "make_python_page64",
        "SGLang: its Python tree core, extra_buffer, pages of 64 tokens", "sglang",
    ),
    Shipped(
        "sglang:python-mixed", "milepost.conformance.adapters.sglang", "make_python_mixed",
        "SGLang: its Python tree core, extra_buffer, mixed chunks, pages of 1 token", "sglang",
    ),
    Shipped(
        "sglang:python-mixed16", "milepost.conformance.adapters.sglang", "make_python_mixed16",
        "SGLang: its Python tree core, extra_buffer, mixed chunks, pages of 16 tokens", "sglang",
    ),
    Shipped(
        "vllm:full+state", "milepost.conformance.adapters.vllm", "make_full_state",
        "vLLM: full attention and recurrent states in blocks of the same tokens", "vllm",
    ),
    Shipped(
        "vllm:uneven", "milepost.conformance.adapters.vllm", "make_uneven",
        "vLLM: attention and states in blocks of different tokens", "vllm",
    ),
    Shipped(
        "vllm:unit16", "milepost.conformance.adapters.vllm", "make_unit16",
        "vLLM: prefix_match_unit of 16 tokens, in larger blocks", "vllm",
    ),
    Shipped(
        "vllm:checkpoint", "milepost.conformance.adapters.vllm", "make_checkpoint",
        "vLLM: states written out inside a prefill, with and without a unit", "vllm",
    ),
    Shipped(
        "vllm:window", "milepost.conformance.adapters.vllm", "make_window",
        "vLLM: a third group with a sliding window and a smaller block", "vllm",
    ),
    Shipped(
        "vllm:window-even", "milepost.conformance.adapters.vllm", "make_window_even",
        "vLLM: a third group with a sliding window, all blocks of the same tokens", "vllm",
    ),
)

PEER_PROBES = {"freetoken": "freetoken", "sglang": "sglang", "vllm": "vllm"}
"""The module whose presence shows that this interpreter has the peer."""


@dataclass(frozen=True, slots=True)
class Target:
    """One buildable cache. `sizes` are the configurations that it can be asked for; empty where it takes any."""

    name: str
    make: Make
    sizes: tuple[Configuration, ...] = ()
    peer: str = ""


def names_for(name: str) -> list[str]:
    """Return the configurations that a name stands for: the bare name of an engine runs all of them."""
    exact = [shipped.name for shipped in SHIPPED if shipped.name == name]
    return exact or [one.name for one in SHIPPED if one.name.startswith(f"{name}:")] or [name]


def resolve(name: str) -> Target:
    """Find the target called `name`; UsageError, with the nearest names, where there is none."""
    shipped = next((one for one in SHIPPED if one.name == name), None)
    if shipped is not None:
        if shipped.peer and not peer_present(shipped.peer):
            raise UsageError(f"target '{name}' needs {shipped.peer}, which is not installed here: run `make peers`")
        module = importlib.import_module(shipped.module)
        sizes = tuple(getattr(module, "SIZES", {}).get(name, ()))
        return Target(name, getattr(module, shipped.attribute), sizes, shipped.peer)
    scheme, _, rest = name.partition(":")
    if scheme == "stdio" and rest:
        return _stdio(name, rest)
    if scheme in ("mutant", "liberty") and rest:
        return _odd_reference(name, scheme, rest)
    if rest:
        return _imported(name, scheme, rest)
    near = difflib.get_close_matches(name, [one.name for one in SHIPPED], n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `milepost list` shows what there is"
    raise UsageError(f"unknown target '{name}'{hint}")


def _stdio(name: str, command: str) -> Target:
    from milepost.conformance.wire import StdioTarget

    return Target(name, StdioTarget(command))


def _odd_reference(name: str, scheme: str, rest: str) -> Target:
    from milepost.reference.liberties import LIBERTIES
    from milepost.reference.mutants import MUTANTS

    makers: dict[str, Any] = {one: LIBERTIES[one] for one in LIBERTIES}
    if scheme == "mutant":
        makers = {mutant: MUTANTS[mutant].make for mutant in MUTANTS}
    if rest not in makers:
        near = difflib.get_close_matches(rest, list(makers), n=3)
        raise UsageError(f"unknown {scheme} '{rest}'" + (f"; did you mean {' or '.join(near)}?" if near else ""))
    return Target(name, makers[rest])


def _imported(name: str, module_name: str, attribute: str) -> Target:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.startswith(error.name):
            raise UsageError(f"unknown target '{name}': there is no module '{module_name}'") from error
        raise AdapterError(f"module '{module_name}' cannot be imported: {error}") from error
    except Exception as error:  # an adapter's module may raise anything while it is imported
        raise AdapterError(f"module '{module_name}' cannot be imported: {type(error).__name__}: {error}") from error
    make = getattr(module, attribute, None)
    if not callable(make):
        raise UsageError(f"target '{name}': module '{module_name}' has no function '{attribute}'")
    return Target(name, make, tuple(getattr(module, "SIZES", {}).get(attribute, ())))


def build(target: Target, configuration: Configuration) -> Adapter:
    """Build one cache and verify what it declares; AdapterError where that fails."""
    try:
        adapter = target.make(configuration)
        capabilities = adapter.capabilities
    except (AdapterError, UsageError):
        raise
    except Exception as error:  # a failing make is the adapter's own error
        raise AdapterError(f"make failed for '{target.name}': {type(error).__name__}: {error}") from error
    found = complaints(capabilities)
    if found:
        raise AdapterError(f"'{target.name}' declares what cannot be: {'; '.join(found)}")
    return adapter


def peer_present(peer: str) -> bool:
    """Tell whether this interpreter has the engine."""
    return importlib.util.find_spec(PEER_PROBES[peer]) is not None


def peer_python(peer: str) -> Path | None:
    """Return the interpreter of a peer's environment, where `make peers` has made one."""
    folders = [Path(os.environ.get("MILEPOST_PEERS", ".peers")), Path(__file__).resolve().parent.parent / ".peers"]
    for folder in folders:
        python = folder / peer / "bin" / "python"
        if python.exists():
            return python.absolute()
    return None
