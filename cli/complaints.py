"""What a person reads of an error: who is to blame, what happened, and how to see it again."""

from __future__ import annotations

import shlex

from milepost import __version__
from milepost.conformance.calls import describe
from milepost.conformance.errors import AdapterError, KitBug, KitError
from milepost.conformance.report.culprits import adapter_error_text, kit_bug_text


def complaint(error: Exception) -> str:
    """Return the text for an error; one that is no KitError is a bug of the kit."""
    if isinstance(error, AdapterError):
        text = adapter_error_text(str(error))
    elif isinstance(error, KitError) and not isinstance(error, KitBug):
        return f"milepost: {error}"
    else:
        bug = error if isinstance(error, KitBug) else KitBug(describe(error))
        text = kit_bug_text(bug, __version__) + "\n  MILEPOST_DEBUG=1 shows the traceback."
    replay = getattr(error, "replay", "")
    return f"{text}\n  replay  milepost replay {shlex.quote(replay)}" if replay else text
