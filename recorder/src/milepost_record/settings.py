"""What a recorder is told: where to write, how much, and how many requests of all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True)
class Settings:
    """Where and how much is recorded.

    `folder` is created where it is missing. Of all requests the share `sample` is recorded. A file ends after
    `file_bytes` and the oldest of more than `files` is deleted, so that no more than their product lies there. Equal
    tokens have equal digests under one `salt`, which is never written.
    """

    folder: str
    sample: Fraction = Fraction(1)
    file_bytes: int = 64 << 20
    files: int = 8
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)

    def __post_init__(self) -> None:
        if not self.folder:
            raise ValueError("the recorder needs a folder to write to")
        if not 0 <= self.sample <= 1:
            raise ValueError(f"the share of requests is between 0 and 1, not {self.sample}")
        if self.file_bytes < 1 or self.files < 1:
            raise ValueError("the recorder needs room for one file of one byte at least")


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings | None:
    """Read MILEPOST_RECORD and its companions; None where nothing is to be recorded.

    ValueError where a value makes no sense.
    """
    folder = environment.get("MILEPOST_RECORD", "")
    if not folder:
        return None
    salt = {"salt": text.encode()} if (text := environment.get("MILEPOST_RECORD_SALT", "")) else {}
    return Settings(
        folder, Fraction(_read(environment, "SAMPLE", Fraction, "a share such as 1/10", Settings.sample)),
        int(_read(environment, "BYTES", int, "a whole number", Settings.file_bytes)),
        int(_read(environment, "FILES", int, "a whole number", Settings.files)), **salt,
    )


def _read(
    environment: Mapping[str, str], name: str, parse: Callable[[str], int | Fraction], form: str, usual: int | Fraction
) -> int | Fraction:
    text = environment.get(f"MILEPOST_RECORD_{name}", "")
    try:
        return parse(text) if text else usual
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"MILEPOST_RECORD_{name} is {form}, not {text!r}") from None
