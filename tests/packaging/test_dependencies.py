"""Every dependency is pinned, with all that it brings, and CONTRIBUTING says why it is here."""

import re
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@pytest.fixture(scope="module")
def direct(pyproject: dict[str, Any]) -> list[str]:
    """What pyproject.toml asks for, in all extras."""
    extras: dict[str, list[str]] = pyproject["project"]["optional-dependencies"]
    lines = [*pyproject["project"]["dependencies"], *(line for extra in extras.values() for line in extra)]
    return [canonicalize_name(Requirement(line).name) for line in lines]


def with_all_they_bring(names: list[str]) -> set[str]:
    """These distributions and what they require in this environment, to the end."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            wanted = [Requirement(line) for line in requires(name) or []]
            needed = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
            waiting += [canonicalize_name(one.name) for one in needed]
    return seen


def test_the_constraints_pin_exactly_what_is_needed(root: Path, direct: list[str]) -> None:
    lines = (root / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    pinned = {canonicalize_name(line.split("==")[0]) for line in pins}
    assert pinned == with_all_they_bring(direct)


def test_every_dependency_has_its_reason_in_contributing(root: Path, direct: list[str]) -> None:
    reasons = re.findall(r"^- `([\w-]+)`: \S", (root / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    assert sorted(reasons) == sorted(direct)
