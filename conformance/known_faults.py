"""known-faults.toml: faults that a project knows of, each with the URL of its issue.

    [[fault]]
    code = "torn-hit"
    fingerprint = "3f9c1a"
    url = "https://github.com/acme/engine/issues/7"

An entry matches the code and the fingerprint of the shrunk schedule, else one open bug would mask the next. It is
strict: an entry that no longer shows is an unexpected pass and fails the run.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from milepost.conformance.errors import FormatError, UsageError
from milepost.spec.faults import FAULTS
from milepost.spec.laws import PROMISES


@dataclass(frozen=True, slots=True)
class KnownFault:
    """One known fault: its code, the fingerprint of its shrunk schedule, and where it is tracked."""

    code: str
    fingerprint: str
    url: str


def read_known_faults(path: Path) -> tuple[KnownFault, ...]:
    """Read the file; FormatError with the place where it is malformed, UsageError where it is not there."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FormatError(str(path), 0, 0, "is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+), column (\d+)", str(error))
        line, column = (int(place[1]), int(place[2])) if place else (0, 0)
        raise FormatError(str(path), line, column, f"is not TOML: {str(error).split(' (at')[0]}") from error
    entries = data.get("fault", [])
    if set(data) - {"fault"} or not isinstance(entries, list):
        raise FormatError(str(path), 0, 0, "expected [[fault]] entries and nothing else")
    known = tuple(_read_entry(path, number, entry) for number, entry in enumerate(entries, 1))
    for number, one in enumerate(known, 1):
        if (one.code, one.fingerprint) in [(other.code, other.fingerprint) for other in known[: number - 1]]:
            raise FormatError(str(path), 0, 0, f"fault {number}: {one.code} {one.fingerprint} is there already")
    return known


def _read_entry(path: Path, number: int, entry: Any) -> KnownFault:
    def wrong(sentence: str) -> FormatError:
        return FormatError(str(path), 0, 0, f"fault {number}: {sentence}")

    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
        raise wrong("expected code, fingerprint and url as text")
    wanted = {"code", "fingerprint", "url"}
    if missing := wanted - set(entry):
        raise wrong(f"has no {' and no '.join(sorted(missing))}")
    if unknown := set(entry) - wanted:
        raise wrong(f"'{min(unknown)}' is none of code, fingerprint and url")
    code, promises = entry["code"], [f"promise:{name}" for name in PROMISES]
    if code not in FAULTS and code not in promises:
        near = difflib.get_close_matches(code, [*FAULTS, *promises], n=1)
        raise wrong(f"unknown code '{code}'" + (f"; did you mean {near[0]}?" if near else ""))
    if not re.fullmatch(r"[0-9a-f]{6}", entry["fingerprint"]) and f"promise:{entry['fingerprint']}" != code:
        raise wrong(f"fingerprint '{entry['fingerprint']}' is not what a report shows: six hexadecimal digits")
    if not re.match(r"https?://\S+$", entry["url"]):
        raise wrong("its url is not the address of an issue")
    return KnownFault(code, entry["fingerprint"], entry["url"])
