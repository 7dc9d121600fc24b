"""The three ways in which a kernel runs: its plain torch twin, Triton's interpreter, or compiled for a device.

Kernel sources are plain functions. They are decorated here, so that one process can run the same source more than one
way. For that they call no library function of `triton.language` (`tl.sum`, `tl.zeros`, `tl.cdiv`), only its builtins:
library functions are decorated once, when Triton is imported.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import cache
from typing import Any

import torch
import triton

from milepost.kernels.interpreter import interpreted


class Backend(StrEnum):
    """One of the three ways."""

    TORCH = "torch"
    INTERPRET = "interpret"
    TRITON = "triton"


_asked_for: ContextVar[Backend | None] = ContextVar("asked_for", default=None)


@contextmanager
def running(backend: Backend | str) -> Iterator[None]:
    """Run the kernels that are called inside this way; without it the twin serves CPU tensors and Triton all others."""
    token = _asked_for.set(Backend(backend))
    try:
        yield
    finally:
        _asked_for.reset(token)


def backend_for(device: torch.device) -> Backend:
    """The way in which a kernel on tensors of this device runs now.

    Raises ValueError where it was asked to run a way that cannot reach such tensors.
    """
    on_host = device.type == "cpu"
    backend = _asked_for.get() or (Backend.TORCH if on_host else Backend.TRITON)
    if backend is Backend.TRITON and on_host:
        raise ValueError("Compiled kernels need tensors on a device, and these are on the CPU.")
    if backend is Backend.INTERPRET and not on_host:
        raise ValueError(f"The interpreter needs tensors on the CPU, and these are on {device}.")
    return backend


@cache
def decorated(kernel: Callable[..., None], backend: Backend) -> Any:
    """The kernel as Triton launches it: `decorated(kernel, backend)[programs](*arguments)`."""
    return interpreted(kernel) if backend is Backend.INTERPRET else triton.JITFunction(kernel)


def launch(kernel: Callable[..., None], device: torch.device, programs: int, *arguments: Any, **options: Any) -> None:
    """Run a kernel source on tensors of this device, interpreted or compiled; options are constants and `num_warps`."""
    # Contraction into fused multiply-adds is said aloud: Triton's default for it changes between versions.
    decorated(kernel, backend_for(device))[(programs,)](*arguments, enable_fp_fusion=True, **options)
