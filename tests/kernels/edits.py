"""Faults planted in the text of a kernel's module, which is then imported beside the real one."""

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True)
class Edit:
    """One piece of text that stands in a module once, and what stands there instead."""

    module: str
    old: str
    new: str

    def write(self, folder: Path) -> Path:
        """The edited module as a file: Triton reads kernels from their files."""
        text = Path(str(importlib.import_module(f"milepost.kernels.{self.module}").__file__)).read_text()
        assert text.count(self.old) == 1, f"{self.old!r} stands {text.count(self.old)} times in {self.module}"
        file = folder / f"{self.module}_edited.py"
        file.write_text(text.replace(self.old, self.new))
        return file

    def load(self, folder: Path) -> ModuleType:
        """The edited module."""
        file = self.write(folder)
        place = importlib.util.spec_from_file_location(file.stem, file)
        assert place is not None and place.loader is not None
        module = importlib.util.module_from_spec(place)
        place.loader.exec_module(module)
        return module


EDITS = {
    "a mask dropped": Edit("copy", "mask=held), mask=held)", "mask=held))"),
    "a 32-bit offset": Edit(
        "copy",
        "tl.load(cells + 1) * tl.multiple_of(tl.load(row + 9), words_aligned)",
        "tl.load(cells + 1).to(tl.int32) * tl.load(row + 9).to(tl.int32)",
    ),
    "a layer skipped": Edit("copy", "target += layer *", "target += tl.maximum(layer, 1) *"),
    "the source's slot for all tensors": Edit("copy", "layer * tl.multiple_of(tl.load(row + 5), words_aligned)", "0"),
    "a layer not zeroed": Edit("zero", "target += layer *", "target += tl.maximum(layer, 1) *"),
    "a digest without places": Edit(
        "fingerprint", "places = (tl.load(row + 3) + 1 + layer * words + offsets)", "places = layer"
    ),
    "a layer not digested": Edit("fingerprint", "source += layer *", "source += tl.maximum(layer, 1) *"),
    "the boundary's row off by one": Edit(
        "delta", "if number * chunk + count == boundary", "if (number + 1) * chunk + count == boundary"
    ),
    "the state at the end for the one at the boundary": Edit(
        "delta", "if number * chunk + count == boundary", "if number * chunk + count == length"
    ),
    "half of the frozen state": Edit(
        "delta", "tl.store(states + freeze * slot_stride + high", "tl.store(states + freeze * slot_stride + low"
    ),
    "the window one step late": Edit(
        "convolution", "at = position + column - (width - 1)", "at = position - 1 + column - (width - 1)"
    ),
    "the live window written first": Edit(
        "convolution",
        "slot = tl.load(row + 4 - side)\n            position = tl.where(side == 0,",
        "slot = tl.load(row + 3 + side)\n            position = tl.where(side == 1,",
    ),
    "the window before the step forgotten": Edit(
        "convolution", "started = tl.where(initial >= 0, channels, 0)", "started = tl.where(initial >= 0, 0, 0)"
    ),
    "a decode step that freezes nothing": Edit("decode", "mask=frozen)", "mask=place < 0)"),
    "the divisibility hint of the length lost": Edit(
        "copy", "words = tl.multiple_of(tl.load(row + 2), words_aligned)", "words = tl.load(row + 2)"
    ),
}
