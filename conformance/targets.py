"""Names of what can be judged, and how each is built: shipped targets, `module:make`, `stdio:./program`.

A wrong name is the person's mistake. What goes wrong while something is imported or built is the adapter's own error.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from milepost.conformance.calls import describe
from milepost.conformance.errors import AdapterError, EngineFailure, UsageError
from milepost.conformance.verifying import objections
from milepost.spec.capabilities import Configuration
from milepost.spec.seam import Adapter

Make = Callable[[Configuration], Adapter]


def nothing_to_stop() -> None:
    """Do what is needed at the end of a target that lives in this process."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """A target that comes with the kit, with the `peer` in whose environment it lives, or the `extra` that it needs."""

    name: str
    module: str
    attribute: str
    about: str
    peer: str = ""
    extra: str = ""


SHIPPED: tuple[Shipped, ...] = (
    Shipped(
        "milepost", "milepost.optimized.cache", "make", "the production cache, an index over pools of tensors",
        extra="cache",
    ),
    Shipped(
        "lockstep", "milepost.cli.lockstep", "make", "the production cache, held against the reference at every answer",
        extra="cache",
    ),
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
        "freetoken:window", "milepost.conformance.adapters.freetoken_window", "make_window",
        "FreeToken's sliding-window radix cache, pages of 1 token", "freetoken",
    ),
    Shipped(
        "freetoken:compressed", "milepost.conformance.adapters.freetoken_window", "make_compressed",
        "FreeToken's sliding-window radix cache, pages of a window, compressed rows", "freetoken",
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
        "sglang:rust-window", "milepost.conformance.adapters.sglang", "make_rust_window",
        "SGLang: its compiled tree core, window and states, pages of 1 token", "sglang",
    ),
    Shipped(
        "sglang:rust-window16", "milepost.conformance.adapters.sglang", "make_rust_window16",
        "SGLang: its compiled tree core, window and states, pages of 16 tokens", "sglang",
    ),
    Shipped(
        "sglang:rust-window-released", "milepost.conformance.adapters.sglang", "make_rust_window_released",
        "SGLang: its compiled tree core, window and states, locks released early", "sglang",
    ),
    Shipped(
        "sglang:rust-window-only", "milepost.conformance.adapters.sglang", "make_rust_window_only",
        "SGLang: its compiled tree core, a window and no states, pages of 1 token", "sglang",
    ),
    Shipped(
        "sglang:rust-window-only16", "milepost.conformance.adapters.sglang", "make_rust_window_only16",
        "SGLang: its compiled tree core, a window and no states, pages of 16 tokens", "sglang",
    ),
    Shipped(
        "sglang:python-window", "milepost.conformance.adapters.sglang", "make_python_window",
        "SGLang: its Python tree core, window and states, pages of 1 token", "sglang",
    ),
    Shipped(
        "sglang:python-window16", "milepost.conformance.adapters.sglang", "make_python_window16",
        "SGLang: its Python tree core, window and states, pages of 16 tokens", "sglang",
    ),
    Shipped(
        "sglang:python-window-released", "milepost.conformance.adapters.sglang", "make_python_window_released",
        "SGLang: its Python tree core, window and states, locks released early", "sglang",
    ),
    Shipped(
        "sglang:python-window-only", "milepost.conformance.adapters.sglang", "make_python_window_only",
        "SGLang: its Python tree core, a window and no states, pages of 1 token", "sglang",
    ),
    Shipped(
        "sglang:python-window-only16", "milepost.conformance.adapters.sglang", "make_python_window_only16",
        "SGLang: its Python tree core, a window and no states, pages of 16 tokens", "sglang",
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
    Shipped(
        "vllm:full+state+draft", "milepost.conformance.adapters.vllm", "make_full_state_draft",
        "vLLM: full attention and recurrent states, with a state for each draft position", "vllm",
    ),
    Shipped(
        "vllm:full+window+state+draft", "milepost.conformance.adapters.vllm", "make_full_window_state_draft",
        "vLLM: a third group with a sliding window, with a state for each draft position", "vllm",
    ),
    Shipped(
        "vllm:mtp", "milepost.conformance.adapters.vllm", "make_mtp",
        "vLLM: drafts of MTP modules, whose KV looks ahead", "vllm",
    ),
)

DEFAULT, LIGHT_DEFAULT = "milepost", "reference"
"""What is judged where nobody names a target, and where the production cache cannot run."""

EXTRA_PROBES = {"cache": ("numpy", "torch", "triton"), "proofs": ("z3",)}
"""The modules that an extra brings."""

PEER_PROBES = {"freetoken": "freetoken", "sglang": "sglang", "vllm": "vllm"}
"""The module whose presence shows that this interpreter has the peer."""


@dataclass(frozen=True, slots=True)
class Target:
    """One buildable cache. `sizes` are the configurations that it can be asked for; empty where it takes any.

    `stop` ends whatever runs outside this process; the target is not used after it.
    """

    name: str
    make: Make
    sizes: tuple[Configuration, ...] = ()
    peer: str = ""
    stop: Callable[[], None] = nothing_to_stop


def names_for(name: str) -> list[str]:
    """Return the configurations that a name stands for: the bare name of an engine runs all of them."""
    exact = [shipped.name for shipped in SHIPPED if shipped.name == name]
    return exact or [one.name for one in SHIPPED if one.name.startswith(f"{name}:")] or [name]


def resolve(name: str, call_seconds: float = 30.0, start_seconds: float = 300.0) -> Target:
    """Find the target called `name`; UsageError, with the nearest names, where there is none.

    A program behind `stdio:` has `start_seconds` to be ready and `call_seconds` for each answer.
    """
    shipped = next((one for one in SHIPPED if one.name == name), None)
    if shipped is not None:
        return _shipped(shipped)
    scheme, colon, rest = name.partition(":")
    if scheme == "stdio" and colon:
        return _stdio(name, rest, call_seconds, start_seconds)
    if scheme in ("mutant", "liberty") and colon:
        return _odd_reference(name, scheme, rest)
    if scheme and rest:
        return _imported(name, scheme, rest)
    raise UsageError(f"unknown target '{name}'{_hint(name)}")


def _shipped(shipped: Shipped) -> Target:
    if shipped.peer and not peer_present(shipped.peer):
        raise UsageError(f"target '{shipped.name}' needs {shipped.peer}, which is not installed here: run `make peers`")
    if lacking := missing_modules(shipped.extra):
        raise UsageError(f"target '{shipped.name}' needs {' and '.join(lacking)}: {how_to_install(shipped.extra)}")
    module = _module(shipped.module)
    sizes = tuple(getattr(module, "SIZES", {}).get(shipped.name, ()))
    return Target(shipped.name, getattr(module, shipped.attribute), sizes, shipped.peer)


def _hint(name: str) -> str:
    module = _module_of_file(name) or name.rstrip(":")
    if _module_of_file(name) or (module.isidentifier() and _is_there(module)):
        return f": name a module and its function, such as {module}:make"
    near = difflib.get_close_matches(name, [one.name for one in SHIPPED], n=3)
    return f"; did you mean {' or '.join(near)}?" if near else "; `milepost list` shows what there is"


def _module_of_file(name: str) -> str:
    """Return the module that a file's path stands for, '' where the name is no such path."""
    path = name.removeprefix("./").removesuffix(".py")
    return path.strip("/").replace("/", ".") if path != name and path else ""


def _is_there(module: str) -> bool:
    _look_in_current_folder()
    return importlib.util.find_spec(module) is not None


def _stdio(name: str, command: str, call_seconds: float, start_seconds: float) -> Target:
    from milepost.conformance.programs import Programs

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"'{name}' cannot be split into words: {str(error).lower()}") from None
    if not words:
        raise UsageError(f"'{name}' names no program: write stdio:./program and its arguments")
    programs = Programs(command, call_seconds, start_seconds)
    return Target(name, programs, stop=programs.stop)


def _odd_reference(name: str, scheme: str, rest: str) -> Target:
    from milepost.reference.liberties import LIBERTIES
    from milepost.reference.mutants import MUTANTS

    makers: dict[str, Any] = {one: LIBERTIES[one] for one in LIBERTIES}
    listing = "--liberties"
    if scheme == "mutant":
        makers, listing = {mutant: MUTANTS[mutant].make for mutant in MUTANTS}, "--mutants"
    if rest not in makers:
        near = difflib.get_close_matches(rest, list(makers), n=3)
        meant = f"did you mean {' or '.join(near)}?" if near else f"`milepost list {listing}` shows what there is"
        raise UsageError(f"unknown {scheme} '{rest}'; {meant}")
    return Target(name, makers[rest])


def usual_profile(name: str) -> str:
    """Return the profile without which an odd reference shows nothing, '' for any other target."""
    scheme, _, rest = name.partition(":")
    if scheme not in ("mutant", "liberty"):
        return ""
    from milepost.reference.liberties import LIBERTY_PROFILES
    from milepost.reference.mutants import MUTANTS

    if scheme == "liberty":
        return LIBERTY_PROFILES.get(rest, "")
    return MUTANTS[rest].profile if rest in MUTANTS else ""


def _imported(name: str, module_name: str, attribute: str) -> Target:
    if shipped := [one.name for one in SHIPPED if one.name.startswith(f"{module_name}:")]:
        raise UsageError(f"unknown target '{name}'; there are {', '.join(shipped)}")
    if file := _module_of_file(module_name):
        raise UsageError(f"unknown target '{name}': name the module, not its file, such as {file}:{attribute}")
    _look_in_current_folder()
    try:
        module = _module(module_name)
    except ModuleNotFoundError:
        near = difflib.get_close_matches(module_name, [path.stem for path in Path().glob("*.py")], n=1)
        meant = f"; did you mean {near[0]}:{attribute}?" if near else ""
        raise UsageError(f"unknown target '{name}': there is no module '{module_name}'{meant}") from None
    make = getattr(module, attribute, None)
    if not callable(make):
        near = difflib.get_close_matches(attribute, [one for one in dir(module) if callable(getattr(module, one))], n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"target '{name}': module '{module_name}' has no function '{attribute}'{meant}")
    return Target(name, make, tuple(getattr(module, "SIZES", {}).get(attribute, ())))


def _look_in_current_folder() -> None:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def _module(name: str) -> ModuleType:
    """Import a module; ModuleNotFoundError where there is none, AdapterError where it fails in any way."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # a module may raise anything
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent and (name == absent or name.startswith(f"{absent}.")):
            raise
        raise AdapterError(f"module '{name}' cannot be imported: {describe(error)}") from error


def build(target: Target, configuration: Configuration) -> Adapter:
    """Build one cache and verify what it declares; AdapterError where that fails."""
    try:
        adapter = target.make(configuration)
        found = objections(adapter, adapter.capabilities)
    except (AdapterError, UsageError):
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # a failing make is the adapter's own error
        what = str(error) if isinstance(error, EngineFailure) else describe(error)
        raise AdapterError(f"make failed for '{target.name}': {what} ({_asked(configuration)})") from error
    if found:
        cannot_be = "; ".join(found)
        raise AdapterError(f"'{target.name}' declares what cannot be: {cannot_be} ({_asked(configuration)})")
    return adapter


def _asked(configuration: Configuration) -> str:
    pools = " ".join(f"{pool}={cells}" for pool, cells in configuration.pools.items())
    return f"asked for page {configuration.page_size}, chunk {configuration.chunk_size}, pools {pools}"


def peer_present(peer: str) -> bool:
    """Tell whether this interpreter has the engine."""
    return importlib.util.find_spec(PEER_PROBES[peer]) is not None


def missing_modules(extra: str) -> list[str]:
    """Return which modules of an extra this interpreter lacks; none where no extra is named."""
    return [module for module in EXTRA_PROBES.get(extra, ()) if importlib.util.find_spec(module) is None]


def how_to_install(extra: str) -> str:
    """Return the command that brings an extra."""
    return f"`pip install 'milepost[{extra}]'`"


def peer_python(peer: str) -> Path | None:
    """Return the interpreter of a peer's environment, where `make peers` has made one."""
    folders = [Path(os.environ.get("MILEPOST_PEERS", ".peers")), Path(__file__).resolve().parent.parent / ".peers"]
    for folder in folders:
        python = folder / peer / "bin" / "python"
        if python.exists():
            return python.absolute()
    return None
