"""Loads vLLM's cache and scheduler from its own files on a machine that has none of vLLM's GPU packages.

A finder answers for every module under `vllm`. Most files run whole and unchanged. A file whose imports need packages
that are not here runs in part: the named definitions, compiled from its own text. What is neither is a module of
stand-ins: they may be named in annotations and `isinstance`, and refuse to be used. No file of the engine is changed.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from milepost.conformance.adapters import vllm_kernels
from milepost.conformance.errors import AdapterError, UsageError

VERSION = "0.33.0"
"""The one version whose scheduler loop the adapter follows."""

WHOLE = frozenset({
    "vllm.envs", "vllm.utils.hashing", "vllm.utils.math_utils", "vllm.v1.core.block_pool",
    "vllm.v1.core.encoder_cache_manager", "vllm.v1.core.kv_cache_coordinator", "vllm.v1.core.kv_cache_manager",
    "vllm.v1.core.kv_cache_metrics", "vllm.v1.core.kv_cache_utils", "vllm.v1.core.sched.async_scheduler",
    "vllm.v1.core.sched.interface", "vllm.v1.core.sched.output", "vllm.v1.core.sched.request_queue",
    "vllm.v1.core.sched.scheduler", "vllm.v1.core.sched.utils", "vllm.v1.core.single_type_kv_cache_manager",
    "vllm.v1.hisparse.block_pool", "vllm.v1.kv_cache_interface", "vllm.v1.kv_cache_layout",
    "vllm.v1.kv_cache_spec_registry", "vllm.v1.request",
})
"""Files that run from first line to last."""

PARTS: dict[str, tuple[str, ...]] = {
    "vllm.distributed.kv_events": (
        "EventBatch", "KVCacheEvent", "BlockStored", "BlockRemoved", "AllBlocksCleared", "KVEventBatch", "MEDIUM_GPU",
        "MEDIUM_CPU", "EventPublisher", "NullEventPublisher", "EventPublisherFactory",
    ),
    "vllm.model_executor.layers.mamba.checkpoint": ("compute_mamba_prefill_checkpoints",),
    "vllm.model_executor.layers.mamba.mamba_utils": (
        "get_conv_state_layout", "is_conv_state_dim_first", "MambaCopySpec", "get_conv_copy_spec",
        "get_temporal_copy_spec",
    ),
    "vllm.multimodal.utils": ("get_mm_features_in_window", "strip_covered_mm_data"),
    "vllm.utils": ("length_from_prompt_token_ids_or_embeds",),
    "vllm.utils.torch_utils": ("async_tensor_h2d", "get_dtype_size"),
    "vllm.v1.attention.backends.registry": ("_AttentionBackendEnumMeta", "MambaAttentionBackendEnum"),
    "vllm.v1.engine": (
        "FINISH_REASON_STRINGS", "FinishReason", "EngineCoreEventType", "EngineCoreEvent", "EngineCoreOutput",
        "EngineCoreOutputs",
    ),
    "vllm.v1.metrics.stats": (
        "CachingMetrics", "BaseCacheStats", "PrefixCacheStats", "KVCacheEvictionEvent", "PrefillStats",
        "KV_FETCH_WAITING_TO_START", "KV_FETCH_IN_PROGRESS", "KV_FETCH_COMPLETED_WAITING", "KV_FETCH_STAGES",
    ),
    "vllm.v1.outputs": ("ModelRunnerOutput",),
    "vllm.v1.structured_output.request": ("StructuredOutputRequest",),
    "vllm.v1.utils": (
        "T", "ConstantList", "CpuGpuBuffer", "tensor_data", "_PROFILER_FUNC", "record_function_or_nullcontext",
    ),
    "vllm.v1.worker.gpu.model_states.mamba_hybrid": (
        "MambaHybridModelState", "_scatter_num_accepted_kernel", "_fill_num_accepted_kernel",
    ),
    "vllm.v1.worker.mamba_utils": (
        "_memcpy_u64_tiled", "_reinterpret_u64_as_i64", "_copy_mamba_state_block", "postprocess_mamba_fused_kernel",
        "preprocess_mamba_align_fused_kernel", "precopy_mamba_align_fused_kernel", "_get_mamba_spec_for_layer",
        "get_mamba_group_ids", "get_mamba_groups", "validate_mamba_state_copy_funcs", "MambaSpecDecodeGPUContext",
    ),
    "vllm.v1.worker.utils": ("copy_kv_cache_blocks_inplace",),
}
"""Files that need what is not here: these definitions of theirs run, everything else is a stand-in."""


class Missing(type):
    """The kind of a stand-in: a class that can be named, subclassed and tested against, and does nothing else."""

    stands_in: str

    def __call__(cls, *arguments: object, **named: object) -> Any:
        if cls.stands_in == f"{cls.__module__}.{cls.__qualname__}":
            raise AdapterError(f"vLLM called {cls.stands_in}, which the adapter has not loaded")
        return super().__call__(*arguments, **named)

    def __bool__(cls) -> bool:
        raise AdapterError(f"vLLM asked for the truth of {cls.stands_in}, which is not loaded")

    def __getitem__(cls, item: object) -> Any:
        return cls


def missing(module: str, name: str) -> Missing:
    """Return the stand-in for one name of a module."""
    return Missing(name, (), {"__module__": module, "stands_in": f"{module}.{name}"})


class _Logger(logging.LoggerAdapter[logging.Logger]):
    """vLLM's logger without its set-up; what it says once is not said at all."""

    def _quiet(self, *arguments: object, **named: object) -> None: ...

    warning_once = info_once = debug_once = _quiet


def _init_logger(name: str) -> _Logger:
    logger = logging.getLogger(name)
    logger.setLevel(logging.ERROR)
    return _Logger(logger, {})


class _ModelState:
    """vLLM's state of a model for its requests, of which the part for recurrent states needs only this."""

    def __init__(self, vllm_config: Any, model: Any, encoder_cache: None, device: Any) -> None:
        self.vllm_config, self.model, self.device = vllm_config, model, device
        self.max_num_reqs = vllm_config.scheduler_config.max_num_seqs

    def add_request(self, index: int, request: object) -> None: ...


REPLACED: dict[str, dict[str, Any]] = {
    "vllm.logger": {"init_logger": _init_logger},
    "vllm.platforms": {
        "current_platform": SimpleNamespace(
            register_custom_kv_cache_specs=lambda _: None, is_xpu=lambda: False, is_cuda_alike=lambda: False
        )
    },
    "vllm.triton_utils": {"tl": vllm_kernels.LANGUAGE, "triton": vllm_kernels.TRITON},
    "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": contextlib.nullcontext},
    "vllm.utils.torch_utils": {"PIN_MEMORY": False},
    "vllm.v1.worker.gpu.model_states.default": {"DefaultModelState": _ModelState},
    "vllm.v1.worker.mamba_utils": {"_TEMPORAL_TILES": 1},
}
"""Names that are given other values: a plain logger, a platform without a device, no pinned memory.

Triton's kernels run as Python, a state is copied in one tile and not in 16, and nothing of a model has its state.
"""


class _PartLoader(Loader):
    """Runs the imports and the kept definitions of one file, and answers for all other names with stand-ins."""

    def __init__(self, name: str, base: Path) -> None:
        self.name = name
        candidates = (base.with_suffix(".py"), base / "__init__.py")
        self.path = next((path for path in candidates if path.is_file()), None)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(REPLACED.get(self.name, {}))
        if self.name in PARTS:
            assert self.path is not None
            module.__file__ = str(self.path)
            self._run_parts(module, ast.parse(self.path.read_text()), self.path)
        module.__dict__["__getattr__"] = self._stand_in(module)

    def _run_parts(self, module: ModuleType, tree: ast.Module, path: Path) -> None:
        wanted = set(PARTS[self.name])
        kept = [node for node in tree.body if _defined(node) & wanted]
        absent = wanted - {name for node in kept for name in _defined(node)}
        if absent:
            raise AdapterError(f"vLLM's {self.name} has no {', '.join(sorted(absent))}")
        used = {one.id for node in kept for one in ast.walk(node) if isinstance(one, ast.Name)}
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom) and _bound(node) & used:
                self._import(module, node, path)
            elif node not in kept:
                absent = (_defined(node) & used) - module.__dict__.keys()
                module.__dict__.update({name: missing(self.name, name) for name in absent})
        # Annotations stay text: they may name what is not here.
        body: list[ast.stmt] = [*ast.parse("from __future__ import annotations").body, *kept]
        exec(compile(ast.Module(body, []), str(path), "exec"), module.__dict__)

    def _import(self, module: ModuleType, node: ast.Import | ast.ImportFrom, path: Path) -> None:
        try:
            exec(compile(ast.Module([node], []), str(path), "exec"), module.__dict__)
        except ModuleNotFoundError:
            module.__dict__.update({name: missing(self.name, name) for name in _bound(node)})

    def _stand_in(self, module: ModuleType) -> Callable[[str], Any]:
        def find(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if self.path is None or self.path.name == "__init__.py":
                with contextlib.suppress(ModuleNotFoundError):
                    return importlib.import_module(f"{self.name}.{name}")
            module.__dict__[name] = missing(self.name, name)
            return module.__dict__[name]

        return find


def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a top-level statement binds."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return {name}
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def _bound(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the names that an import binds."""
    return {(alias.asname or alias.name).split(".")[0] for alias in node.names}


class Finder(MetaPathFinder):
    """Answers for `vllm` and everything under it, from the engine's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how the module is loaded: whole, in part, or as stand-ins; None outside of `vllm`."""
        if fullname.split(".")[0] != "vllm":
            return None
        base = self.folder.joinpath(*fullname.split(".")[1:])
        if fullname in WHOLE:
            return importlib.util.spec_from_file_location(fullname, base.with_suffix(".py"))
        if not base.is_dir() and not base.with_suffix(".py").is_file():
            return None
        spec = ModuleSpec(fullname, _PartLoader(fullname, base), is_package=base.is_dir())
        if base.is_dir():
            spec.submodule_search_locations = [str(base)]
        return spec


def find_engine() -> Path:
    """Return the folder of the installed vLLM; say in one line where there is none, or another version."""
    spec = importlib.util.find_spec("vllm") if "vllm" not in sys.modules else sys.modules["vllm"].__spec__
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not folders:
        raise UsageError("vLLM is not installed here: run `make peers`")
    found = installed_version(Path(folders[0]))
    if found != VERSION:
        raise AdapterError(f"this adapter was written for vLLM {VERSION}, found {found}")
    return Path(folders[0])


def installed_version(folder: Path) -> str:
    """Return the version that the engine's folder names."""
    path = folder / "_version.py"
    for node in ast.walk(ast.parse(path.read_text())) if path.is_file() else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return node.value.value
    return "one of unknown version"


def load() -> Finder:
    """Put the finder in place, once in a process, and return it."""
    present = next((one for one in sys.meta_path if isinstance(one, Finder)), None)
    if present is not None:
        return present
    if any(name.split(".")[0] == "vllm" for name in sys.modules):
        raise AdapterError("vllm is imported already in this process; its scheduler cannot be loaded beside it")
    finder = Finder(find_engine())
    sys.meta_path.insert(0, finder)
    return finder
