"""Plots: for each kind of slowness the ways beside each other, as PNG and SVG. They need matplotlib.

emit rate, the bolt's rate, what it can bear      each second, and the same scale for all
latency from emit to ack, p50 and p99
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

from ..plots import INK, OTHERS, OURS, STYLE, TARGET
from .figures import per_second, seconds_of
from .slowness import KINDS
from .ways import WAYS

SVG = {"svg.hashsalt": "backpressure", "path.simplify": True}


def draw(records: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Draw what there is: `backpressure-slow.png`, `.svg` and so on. The paths of what was drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with plt.rc_context(STYLE | SVG):
        for name in KINDS:
            mine = [record for record in records if record["slowness"] == name]
            if mine:
                figure = _figure(mine)
                for path, more in (
                    (folder / f"backpressure-{name}.png", {}),
                    (folder / f"backpressure-{name}.svg", {"metadata": {"Date": None}}),
                ):
                    figure.savefig(path, bbox_inches="tight", **more)
                    drawn.append(path)
                plt.close(figure)
    return drawn


def _figure(records: Sequence[Mapping[str, Any]]) -> Any:
    slowness = KINDS[records[0]["slowness"]](records[0]["seconds"])
    figure, axes = plt.subplots(
        2, len(records), figsize=(3.7 * len(records) + 0.6, 5), sharex=True, sharey="row", layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for place, record in enumerate(records):
        rates, latency = axes[0][place], axes[1][place]
        seconds = seconds_of(record)
        at_s = [second.at_s - 0.5 for second in seconds]
        emits = per_second([second.emitted + second.replayed for second in seconds], seconds)
        does = per_second([second.done + second.again for second in seconds], seconds)
        bears = [slowness.rate(at) for at in at_s]
        rates.plot(at_s, bears, color=TARGET, linewidth=2.5, alpha=0.45, label="the bolt can bear")
        rates.plot(at_s, emits, color=OURS, linewidth=1, label="spouts emit")
        rates.plot(at_s, does, color=INK, linewidth=1, linestyle="--", label="the bolt does")
        rates.set_title(WAYS[record["way"]].title)
        for name, values, dashes in (
            ("p50", [second.p50_s for second in seconds], "-"),
            ("p99", [second.p99_s for second in seconds], ":"),
        ):
            shown = [float("nan") if value is None else value for value in values]
            latency.plot(at_s, shown, dashes, color=OURS, linewidth=1.2, label=f"latency {name}")
        latency.set_xlabel("seconds")
        latency.axvspan(0, record["warm_s"], color=OTHERS, alpha=0.12, linewidth=0)
        rates.axvspan(0, record["warm_s"], color=OTHERS, alpha=0.12, linewidth=0)
    axes[0][0].set(ylabel="tuples a second", ylim=(0, None), xlim=(0, records[0]["seconds"]))
    axes[1][0].set(ylabel="seconds from emit to ack", ylim=(0, None))
    handles, names = (
        list(each) for each in zip(*(axes[row][0].get_legend_handles_labels() for row in (0, 1)), strict=True)
    )
    figure.legend([*handles[0], *handles[1]], [*names[0], *names[1]], ncols=5, loc="outside lower center")
    figure.suptitle(f"The slow bolt: {slowness.title}", x=0.01, ha="left", fontsize=11, weight="bold")
    return figure
