"""Plots of a run, as PNG: W1 of all systems, W1 by size of tree and turn, W6, W9. They need matplotlib (group `bench`).

1. A plot shows what the tables say: medians, and the range of the repetitions as a line.
2. Ours is blue, others are grey, targets are orange: distinct for everyone. Sizes of turns go from light to dark.
3. What was not measured is left out; a plot with nothing to show is not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullLocator

from .cells import Row
from .findings import Finding, findings, subject_of
from .report import Report
from .rows_probes import REPLAY
from .tables import CURVE
from .w9 import Sample, rates

OURS, OTHERS, TARGET, INK, GRID = "#0072B2", "#9a9a9a", "#D55E00", "#222222", "#e4e4e4"
TURN_COLOURS = ("#8cc5e3", "#3b8fc2", "#0b3c5d")
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#777777",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.dpi": 100,
}


def draw(report: Report, stem: Path) -> list[Path]:
    """Draw what there is: `<stem>-w1.png` and so on. The paths of what was drawn."""
    drawn = []
    with plt.rc_context(STYLE):
        for name, plot in PLOTS.items():
            figure = plot(report)
            if figure is not None:
                path = stem.with_name(f"{stem.name}-{name}.png")
                figure.savefig(path, bbox_inches="tight")
                plt.close(figure)
                drawn.append(path)
    return drawn


# -- W1: all systems ---------------------------------------------------------------------------------------------------


def _w1(report: Report) -> Any:
    found = [finding for finding in report.findings() if _is_system(finding)]
    found.sort(key=lambda finding: finding.ratio.median)
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(8.6, 0.9 + 0.3 * len(found)))
    places = range(len(found))
    medians = [finding.ratio.median for finding in found]
    colours = [OTHERS if finding.row.ours else OURS for finding in found]
    axes.barh(places, medians, color=colours, height=0.62)
    for place, finding in zip(places, found, strict=True):
        ratio = finding.ratio
        axes.plot((ratio.least, ratio.most), (place, place), color=INK, linewidth=1)
        axes.text(max(ratio.most, ratio.median) + max(medians) * 0.012, place, f"{ratio.median:.3f}", va="center")
    axes.set_yticks(list(places), [_system(finding.row) for finding in found])
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, max(finding.ratio.most for finding in found) * 1.12)
    axes.set_xlabel("words/s as a share of a plain Python loop in the same process (median; line: least to greatest)")
    axes.set_title("W1, word count in one process: aiostorm (blue) and other systems")
    return figure


def _is_system(finding: Finding) -> bool:
    """W1 against the plain loop, on the default settings."""
    row = finding.row
    return row.workload == "w1" and finding.metric == "rate" and row.against_name == "plain loop"


def _system(row: Row) -> str:
    guarantee = row.labels["guarantee"]
    shown = "no guarantee" if guarantee == "none" else guarantee
    loop = ", asyncio's loop" if not row.ours and row.labels["loop"] == "asyncio" else ""
    return f"{row.labels.get('peer', 'aiostorm')}: {row.labels['style']}{loop} – {shown}"


# -- W1: trees and turns -----------------------------------------------------------------------------------------------


def _curve(report: Report) -> Any:
    by_turn: dict[int, list[Row]] = {}
    for row in report.rows:
        if row.workload == CURVE and report.run.of(row):
            by_turn.setdefault(int(row.labels["turn"]), []).append(row)
    if not by_turn:
        return None
    figure, (speed, latency, replay) = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
    for colour, (turn, rows) in zip(TURN_COLOURS, sorted(by_turn.items()), strict=False):
        trees = [int(row.labels["tree"]) for row in rows]
        spreads = [next(findings(row, report.run.of(row))).ratio for row in rows]
        speed.plot(trees, [spread.median for spread in spreads], "o-", ms=4, color=colour, label=f"turns of {turn}")
        speed.vlines(trees, [s.least for s in spreads], [s.most for s in spreads], color=colour, linewidth=1)
        for quantile, dashes in (("p50", "o-"), ("p99", "o:")):
            shown = [subject_of(report.run.of(row), quantile).median * 1e3 for row in rows]
            latency.plot(trees, shown, dashes, ms=4, color=colour)
    lost = [found for found in report.probed() if found.probe.workload == REPLAY]
    trees = [int(found.probe.subject.options["tree"]) for found in lost]
    replay.plot(trees, [found.value.median for found in lost], "o-", ms=4, color=OURS)
    speed.set(title="W1 throughput", ylabel="share of the plain loop", ylim=(0, None))
    latency.set(title="W1 latency of acks under full load", ylabel="milliseconds from emit to ack", yscale="log")
    replay.set(title="Over-replay", ylabel="messages that fail for one lost tuple", yscale="log")
    speed.legend()
    for quantile, dashes in (("p50", "-"), ("p99", ":")):
        latency.plot([], [], dashes, color=INK, label=quantile)
    latency.legend()
    for axes in (speed, latency, replay):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("messages that may share a tree")
        axes.set_xticks(trees or [1, 3, 16, 64, 256])
        axes.xaxis.set_major_formatter(FuncFormatter(_plain))
        axes.xaxis.set_minor_locator(NullLocator())
    for axes in (latency, replay):
        axes.yaxis.set_major_formatter(FuncFormatter(_plain))
        axes.yaxis.set_minor_formatter(FuncFormatter(_coarse))
    return figure


# -- W6 ----------------------------------------------------------------------------------------------------------------


def _w6(report: Report) -> Any:
    by_row: dict[str, dict[str, Finding]] = {}
    for finding in report.findings():
        if finding.row.workload == "w6":
            by_row.setdefault(finding.row.id, {})[finding.metric] = finding
    found = sorted(by_row.values(), key=lambda metrics: -metrics["p50"].ratio.median)
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(9.5, 1.3 + 0.3 * len(found)), layout="constrained")
    for place, metrics in enumerate(found):
        for metric, marker, up in (("p50", "o", 0.13), ("p99", "D", -0.13)):
            ratio = metrics[metric].ratio
            colour = OTHERS if metrics[metric].row.ours else OURS
            axes.plot((ratio.least, ratio.most), (place + up, place + up), color=colour, linewidth=1.5)
            axes.plot(ratio.median, place + up, marker, ms=6, color=colour, mfc=colour if metric == "p50" else "white")
    axes.axvline(1, color=INK, linewidth=1)
    for bound, name, dashes in ((1.5, "target p50", "--"), (2.0, "target p99", ":")):
        axes.axvline(bound, color=TARGET, linewidth=1, linestyle=dashes, label=name)
    axes.plot([], [], "o", color=INK, label="p50")
    axes.plot([], [], "D", color=INK, mfc="white", label="p99")
    names = [f"{_system(m['p50'].row)}{_loop_of_ours(m['p50'].row)}" for m in found]
    axes.set_yticks(range(len(found)), names)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.xaxis.set_minor_formatter(FuncFormatter(_coarse))
    axes.set_xlabel("latency as a multiple of a chain of three asyncio.Queues, paced by the same code (1 = the chain)")
    axes.set_title("W6, latency at 1,000 tuples/s: aiostorm (blue) and other systems")
    figure.legend(ncols=4, loc="outside lower center")
    return figure


def _loop_of_ours(row: Row) -> str:
    return ", uvloop" if not row.ours and row.labels["loop"] == "uvloop" else ""


# -- W9 ----------------------------------------------------------------------------------------------------------------


def _w9(report: Report) -> Any:
    probes = [item for item in report.items if item.workload == "w9" and report.run.of(item)]
    if not probes:
        return None
    figure, axes = plt.subplots(
        3, len(probes), figsize=(4.6 * len(probes) + 0.6, 6), sharex="col", layout="constrained", squeeze=False
    )
    for place, probe in enumerate(probes):
        records = [record["probed"]["seen"] for record in report.run.of(probe)]
        _w9_column([row[place] for row in axes], f"W9, {probe.name.partition(',')[0]}", records)
    axes[0][0].set_ylabel("share of own rate")
    axes[1][0].set_ylabel("resident, MB")
    axes[2][0].set_ylabel("share that is full")
    handles = {name: handle for rate in axes[0] for handle, name in zip(*rate.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), ncols=4, loc="outside lower center")
    return figure


def _w9_column(axes: Sequence[Any], title: str, records: Sequence[Any]) -> None:
    """One probe: rates, memory and mailbox of all its repetitions."""
    rate, memory, fill = axes
    rate.axhspan(0.9, 1.1, color=TARGET, alpha=0.12, linewidth=0, label="±10 %")
    rate.axhline(1, color=TARGET, linewidth=1, linestyle="--", label="the bottleneck's own rate")
    for record in records:
        samples = [Sample(*sample) for sample in record["samples"]]
        at_s = [sample.at_s for sample in samples]
        own = record["bottleneck"]
        if "emits" in record:
            emits = [(at, found / own) for at, found in record["emits"]]
            rate.plot(*zip(*emits, strict=True), color=OTHERS, linewidth=0.8, label="the spout emits")
        does = [(at, found / own) for at, found in rates(samples)]
        rate.plot(*zip(*does, strict=True), color=OURS, linewidth=1, label="the bolt does")
        memory.plot(at_s, [sample.rss_mb for sample in samples], color=OURS, linewidth=1)
        fill.plot(at_s, [sample.fill / record["capacity"] for sample in samples], color=OURS, linewidth=0.7)
    rate.set_title(f"{title}: rate, {len(records)} run{'s' if len(records) > 1 else ''}")
    rate.set_ylim(0, min(3.0, max(1.25, rate.get_ylim()[1])))
    memory.set(title="Memory of the bolt's process", ylim=(0, 1.25 * memory.get_ylim()[1]))
    fill.set(title="Mailbox of the bolt", xlabel="seconds", ylim=(0, 1.05))


def _plain(value: float, _place: Any = None) -> str:
    return f"{value:g}"


def _coarse(value: float, _place: Any = None) -> str:
    """Between powers of ten only these are named."""
    shown = f"{value:g}"
    return shown if shown.strip("0.") in ("2", "3", "5") else ""


PLOTS: dict[str, Callable[[Report], Any]] = {"w1": _w1, "trees": _curve, "w6": _w6, "w9": _w9}
