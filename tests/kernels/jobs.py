"""How each kernel is compiled in the tests: with the types, sizes and hints of a real model's launch."""

from dataclasses import replace

import torch

from milepost.kernels.aot import Job
from milepost.kernels.delta import CHUNK, sizes_for

KINDS = {"fp32": torch.float32, "bf16": torch.bfloat16}

MOVES = {
    "tile_words": 1024,
    "word": "int64",
    "words_aligned": 2,
}
SIZES = {"width": 128, "value_width": 128}
STRIDES = ("query_stride", "key_stride", "value_stride", "decay_stride", "beta_stride", "slot_stride")


def _types(pointers: dict[str, str], numbers: str) -> dict[str, str]:
    kinds = {"slot_stride": "i64", "scale": "fp32"}
    return {**pointers, **{name: kinds.get(name, "i32") for name in numbers.split()}}


def move(name: str) -> Job:
    """Copies, zeroing and fingerprints: int64 words, all at multiples of 16 bytes."""
    pointers = {"entries": "*i64"} | ({"digests": "*i64"} if name == "fingerprint" else {})
    types = _types(pointers, "tensors tiles")
    return Job(f"milepost.kernels.{name}", f"{name}_kernel", "sm_90", types, MOVES, ("entries",))


def convolution(kind: str) -> Job:
    """8,192 channels and four taps."""
    pointers = dict.fromkeys(("inputs", "weights", "bias", "windows", "outputs"), f"*{kind}") | {"table": "*i64"}
    types = _types(pointers, "requests channels slot_stride")
    constants = {"biased": False, "width": 4, "tile_tokens": 64, "tile_channels": 256}
    divisible = (*pointers, "channels", "slot_stride")
    return Job("milepost.kernels.convolution", "convolution_kernel", "sm_90", types, constants, divisible)


def _rule(module: str, kernel: str, pointers: dict[str, str], numbers: str, constants: dict[str, object]) -> Job:
    types = _types({**pointers, "table": "*i64"}, numbers)
    divisible = (*pointers, "table", *(name for name in STRIDES if name in types and "decay" not in name))
    return Job(f"milepost.kernels.{module}", kernel, "sm_90", types, {**SIZES, **constants}, divisible)


def _dots(kind: str, precision: str) -> dict[str, object]:
    return {"chunk": CHUNK, "precision": precision, "operand": {"fp32": "float32", "bf16": "bfloat16"}[kind]}


def _sized(job: Job, sizes: dict[str, int]) -> Job:
    """With the tiles and warps of a launch."""
    options = {name: size for name, size in sizes.items() if name.startswith("num_")}
    constants = {name: size for name, size in sizes.items() if not name.startswith("num_")}
    return replace(job, constants={**job.constants, **constants}, options=options)


PREPARED = ("asking", "adding", "far", "near", "updates")


def prepare(kind: str, precision: str) -> Job:
    """Of 32 heads of 128 x 128."""
    pointers = dict.fromkeys(("queries", "keys", "values", "decays", "betas", *PREPARED), f"*{kind}")
    pointers |= dict.fromkeys(("rates", "biases", "fading"), "*fp32")
    numbers = "requests heads heads_per_key query_stride key_stride value_stride decay_stride beta_stride scale"
    job = _rule("delta", "prepare_kernel", pointers, numbers, _dots(kind, precision))
    return _sized(job, sizes_for(KINDS[kind], 128, 128)[0])


def scan(kind: str, precision: str) -> Job:
    """Of 32 heads of 128 x 128."""
    pointers = dict.fromkeys((*PREPARED, "outputs"), f"*{kind}") | dict.fromkeys(("fading", "states"), "*fp32")
    job = _rule("delta", "scan_kernel", pointers, "heads slot_stride", _dots(kind, precision))
    return _sized(job, sizes_for(KINDS[kind], 128, 128)[1])


def decode(kind: str) -> Job:
    """Of 32 heads of 128 x 128."""
    pointers = dict.fromkeys(("queries", "keys", "values", "decays", "betas", "outputs"), f"*{kind}")
    pointers |= dict.fromkeys(("rates", "biases", "states"), "*fp32")
    numbers = "heads heads_per_key query_stride key_stride value_stride decay_stride beta_stride slot_stride scale"
    return _rule("decode", "decode_kernel", pointers, numbers, {"tile_values": 32})


def on(job: Job, target: str) -> Job:
    """The job for this target; AMD's dots of float32 have no parts."""
    constants = dict(job.constants)
    if target == "gfx942" and constants.get("precision") == "tf32x3":
        constants["precision"] = "ieee"
    return replace(job, target=target, constants=constants)
