"""Where a command writes: looked at before the work, since a run is too long to be lost to a mistyped folder."""

from __future__ import annotations

import os
from pathlib import Path

from milepost.conformance.errors import UsageError


def require_folder(folder: Path) -> None:
    """UsageError where `folder` is no folder that can be written to, or made; nothing is made."""
    there = folder.absolute()
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise UsageError(f"{folder}: cannot be written to: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{folder}: cannot be written to: {there} is write-protected")


def require_file(path: Path) -> None:
    """UsageError where `path` cannot become a file."""
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, and a file is to be written there")
    require_folder(path.parent)
