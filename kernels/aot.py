"""Compile kernels for devices that are not here, and say what came out: accesses, registers, spills.

`python -m milepost.kernels.aot` reads a JSON list of jobs and answers one of results. `compiled` runs that in a process
of its own, since a process that interprets or inspects kernels should not also hold Triton's compiler, and remembers
results by the text of the kernel, Triton's version and the job.
"""

import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}


@dataclass(frozen=True)
class Job:
    """One kernel for one target."""

    module: str
    """The dotted name of its module, or the path of a file."""
    kernel: str
    target: str
    types: dict[str, str]
    """Triton's name of each argument's type, such as `*fp32` or `i64`; constants are left out."""
    constants: dict[str, Any]
    """Numbers and names of types, such as `int64`."""
    divisible: tuple[str, ...] = ()
    """The arguments that are multiples of 16."""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What a kernel became."""

    registers: int
    """Of one thread."""
    spilled_bytes: int
    """Of one thread, in local memory or scratch."""
    shared_bytes: int
    loads: dict[str, int]
    """How many loads from global memory, by bits of one thread's access."""
    stores: dict[str, int]
    seconds: float


def compiled(jobs: Sequence[Job], cache: Path) -> list[Result]:
    """Compile these in a process of its own, apart from those whose results lie in the folder `cache`."""
    cache.mkdir(parents=True, exist_ok=True)
    places = [cache / f"{_key(job)}.json" for job in jobs]
    missing = [(job, place) for job, place in zip(jobs, places, strict=True) if not place.exists()]
    if missing:
        environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        environment |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        asked = json.dumps([asdict(job) for job, _ in missing])
        command = [sys.executable, "-P", "-m", "milepost.kernels.aot"]
        ended = subprocess.run(command, input=asked, env=environment, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise RuntimeError(f"Compiling ended with {ended.returncode}: {ended.stderr.strip()[-2000:]}")
        for (_, place), answer in zip(missing, json.loads(ended.stdout), strict=True):
            place.write_text(json.dumps(answer))
    return [Result(**json.loads(place.read_text())) for place in places]


def _key(job: Job) -> str:
    """The job, the kernel's text and the compiler: what decides the result."""
    parts = [json.dumps({**asdict(job), "module": ""}, sort_keys=True), triton.__version__]
    parts += [inspect.getsource(_kernel(job)), Path(__file__).read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _kernel(job: Job) -> Any:
    if not job.module.endswith(".py"):
        return getattr(importlib.import_module(job.module), job.kernel)
    place = importlib.util.spec_from_file_location(Path(job.module).stem, job.module)
    assert place is not None and place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return getattr(module, job.kernel)


def compile_one(job: Job) -> Result:
    """Compile in this process."""
    begun = time.perf_counter()
    function = triton.JITFunction(_kernel(job))
    names = list(inspect.signature(function.fn).parameters)
    constants = {name: getattr(tl, value, value) if isinstance(value, str) else value
                 for name, value in job.constants.items()}  # fmt: skip
    source = ASTSource(
        fn=function,
        signature={name: job.types.get(name, "constexpr") for name in names},
        constexprs=constants,
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in job.divisible},
    )
    options = {"enable_fp_fusion": True, **job.options}
    binary = triton.compile(source, target=TARGETS[job.target], options=options)
    seconds = time.perf_counter() - begun
    used = _read_amd(binary.asm["amdgcn"]) if "amdgcn" in binary.asm else _read_nvidia(binary.asm["cubin"])
    return Result(shared_bytes=binary.metadata.shared, seconds=round(seconds, 2), **used)


def _read_nvidia(cubin: bytes) -> dict[str, Any]:
    """What the disassembly says; the words of access are those of `LDG.E.128`, 32 bits where none is given."""
    program = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        usage, code = (
            subprocess.run([program, option, file], capture_output=True, text=True, check=True).stdout
            for option in ("-res-usage", "-sass")
        )
    used = {name: int(re.search(rf"{name}:(\d+)", usage)[1]) for name in ("REG", "STACK", "LOCAL")}  # type: ignore[index]
    return {
        "registers": used["REG"],
        # The stack of a kernel that calls nothing holds spills alone.
        "spilled_bytes": used["STACK"] + used["LOCAL"],
        "loads": _count(re.findall(r"\b(?:LDG|LDGSTS)((?:\.\w+)*)", code)),
        "stores": _count(re.findall(r"\bSTG((?:\.\w+)*)", code)),
    }


def _count(accesses: list[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for access in accesses:
        parts = access.split(".")
        bits = next((part for part in parts if part in ("64", "128")), None)
        bits = bits or next((part[1:] for part in parts if part in ("U8", "S8", "U16", "S16")), "32")
        counts[bits] = counts.get(bits, 0) + 1
    return counts


def _read_amd(code: str) -> dict[str, Any]:
    """What the assembly says of itself."""
    bits = {"dwordx4": "128", "dwordx3": "96", "dwordx2": "64", "dword": "32", "short": "16", "byte": "8"}
    bits |= {f"{sign}{size}": bits[size] for sign in "us" for size in ("short", "byte")}
    found: dict[str, dict[str, int]] = {"load": {}, "store": {}}
    for way, size in re.findall(r"\b(?:global|buffer|flat)_(load|store)_(\w+?)(?:_d16)?(?:_hi)?\b", code):
        found[way][bits.get(size, size)] = found[way].get(bits.get(size, size), 0) + 1
    registers, scratch = (
        int(re.search(rf"\.{name}:\s+(\d+)", code)[1])  # type: ignore[index]
        for name in ("vgpr_count", "private_segment_fixed_size")
    )
    return {"registers": registers, "spilled_bytes": scratch, "loads": found["load"], "stores": found["store"]}


if __name__ == "__main__":
    jobs = [Job(**job) for job in json.load(sys.stdin)]
    json.dump([asdict(compile_one(job)) for job in jobs], sys.stdout)
