"""Engines that run under the recorder, each imported once for all tests of a worker."""

from collections.abc import Callable, Iterator

import pytest

from .drives import Drives


@pytest.fixture(scope="session")
def drives_of() -> Iterator[Callable[[str], Drives]]:
    """Return the drives of an engine by its name."""
    begun: dict[str, Drives] = {}

    def begin(engine: str) -> Drives:
        if engine not in begun:
            begun[engine] = Drives(engine)
        return begun[engine]

    yield begin
    for drives in begun.values():
        drives.end()
