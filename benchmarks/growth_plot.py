"""The curves of `benchmarks.growth`, a panel for each question. Needs matplotlib.

Both axes are logarithmic: what is linear has a slope of 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # files only: there may be no screen
import matplotlib.pyplot as plt

Series = Mapping[str, Sequence[tuple[float, float]]]
"""Name of a series → (place on the axis, what was measured)."""

PANELS = {
    "by tasks": ("tasks of split and count", "ns of CPU a word"),
    "by keys": ("distinct words", "ns of CPU a word"),
    "by messages": ("messages", "ns of CPU a word"),
    "start": ("tasks", "seconds from submit to running"),
}


def draw(series: Series, path: Path) -> None:
    """Write the picture."""
    shown = [panel for panel in PANELS if any(panel in name for name in series)]
    figure, axes = plt.subplots(1, max(1, len(shown)), figsize=(4 * max(1, len(shown)), 3.6), squeeze=False)
    for panel, axis in zip(shown, axes[0], strict=True):
        for name, points in series.items():
            if panel in name:
                axis.plot(*zip(*points, strict=True), marker="o", label=name.partition(",")[0])
        axis.set(xscale="log", yscale="log", xlabel=PANELS[panel][0], ylabel=PANELS[panel][1])
        axis.set_ylim(bottom=axis.get_ylim()[0] / 2, top=axis.get_ylim()[1] * 2)
        axis.grid(alpha=0.3, which="both")
        axis.legend(frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
