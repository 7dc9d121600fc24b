"""The benchmarks are programs, not packages: their folder is put on the path while one of them is imported."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def _load(name: str) -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="session")
def bench() -> ModuleType:
    """The program that `make bench` runs."""
    return _load("bench")


@pytest.fixture(scope="session")
def comparison() -> ModuleType:
    """The rows, the pairing, the goals and the table."""
    return _load("comparison")


@pytest.fixture(scope="session")
def plots() -> ModuleType:
    """The plots."""
    return _load("plots")


@pytest.fixture(scope="session")
def sides() -> ModuleType:
    """The processes."""
    return _load("sides")
