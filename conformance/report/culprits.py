"""One clear paragraph for the two culprits that are not the engine: the adapter, and the kit itself."""

from __future__ import annotations

from milepost.conformance.errors import KitBug
from milepost.conformance.report.layout import wrap


def adapter_error_text(sentence: str, target: str = "", width: int = 80) -> str:
    """Return the paragraph for an adapter that broke the protocol; the engine is not judged by it."""
    whose = f" of target {target}" if target else ""
    paragraph = (
        f"{_sentence(sentence)} This is the adapter{whose}, not the engine: no law was judged on this answer, and the "
        "run ends here with exit code 3. What an answer may say is in the documentation of the seam."
    )
    return "\n".join(["ADAPTER ERROR", *wrap(paragraph, width, "  ")])


def kit_bug_text(error: BaseException, version: str, replay: str = "", width: int = 80) -> str:
    """Return the paragraph for an error inside the kit; neither engine nor adapter is to blame."""
    kind = "" if isinstance(error, KitBug) else f"{type(error).__name__}: "  # a child process has said it already
    text = f"{kind}{str(error).strip() or 'no text'}"
    again = f" Replay it with: {replay}" if replay else ""
    paragraph = (
        f"{_sentence(text)} Milepost {version} failed at its own work: this says nothing about the engine or its "
        f"adapter, and the run ends here with exit code 3. Please report it with the traceback.{again}"
    )
    return "\n".join(["KIT BUG", *wrap(paragraph, width, "  ")])


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
