"""The plots of a comparison: how cost grows with the prompt and with the tree, on double logarithmic axes."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "milepost"

from comparison import ANCHOR, NAMES, OURS, PEERS, Figures  # noqa: E402  # the back end is chosen first
from matplotlib import pyplot  # noqa: E402

PLOTS = {
    "match": ("match with page ids", "tokens of the prompt"),
    "evict-state": ("evict one state", "leaves in the tree"),
    "evict-page": ("evict one leaf's KV", "leaves in the tree"),
    "lease": ("lease, evictable, release", "snapshots on the path"),
}


def draw(rows: list[Figures], folder: Path) -> list[Path]:
    """Draw a plot for each case that was measured at several sizes; return the files."""
    folder.mkdir(exist_ok=True)
    written = []
    for case, (title, axis) in PLOTS.items():
        measured = sorted((figures for figures in rows if figures.row.case == case), key=lambda one: one.row.size)
        if len(measured) > 1:
            written.append(_plot(measured, title, axis, folder / f"{case}.svg"))
    return written


def _plot(measured: list[Figures], title: str, axis: str, path: Path) -> Path:
    figure, axes = pyplot.subplots(figsize=(6, 4))
    for side in (OURS, *PEERS, ANCHOR):
        points = [(one.row.size, one.median(side)) for one in measured if side in one.on]
        if points:
            style = "--" if side == ANCHOR else "-"
            label = "memcmp" if side == ANCHOR else NAMES[side]
            axes.plot(*zip(*points, strict=True), style, marker="o", markersize=3, label=label,
                      linewidth=2.5 if side == OURS else 1)
    axes.set(title=title, xlabel=axis, ylabel="microseconds", xscale="log", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path
