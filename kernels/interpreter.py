"""Triton's interpreter, with two repairs: without them it rounds as no device does, or refuses a loop."""

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl
from triton.runtime import interpreter


def interpreted(kernel: Callable[..., None]) -> Any:
    """The kernel as Triton launches it, to run on the CPU with tensors of the CPU."""
    return interpreter.InterpretedFunction(kernel)


def _round_to_nearest() -> None:
    """Triton's interpreter (3.6 to 3.9) cuts float32 down to bfloat16; devices round to the nearest, ties to even."""
    cast = interpreter.InterpreterBuilder.cast_impl

    def cast_rounded(self: Any, source: Any, kind: Any) -> Any:
        if source.dtype.scalar != tl.float32 or kind.scalar != tl.bfloat16:
            return cast(self, source, kind)
        bits = source.data.view("uint32").astype("uint64")
        nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        nearest[source.data != source.data] = 0x7FC0
        return interpreter.TensorHandle(nearest.astype("uint16"), tl.bfloat16)

    interpreter.InterpreterBuilder.cast_impl = cast_rounded


def _let_loops_count() -> None:
    """Triton 3.6 interprets `range(0, n)` through an index that NumPy 2.4 refuses for arrays of one element."""
    patch = interpreter._patch_lang_tensor

    def patch_and_repair(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    interpreter._patch_lang_tensor = patch_and_repair


_round_to_nearest()
if triton.__version__.startswith("3.6."):
    _let_loops_count()
