"""Tables: findings as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .cells import Row
from .findings import Compared, Finding, Probed, Spread, findings, subject_of
from .harness import Run

TITLES = {
    "w1": "W1: word count",
    "w2": "W2: word count on two worker processes",
    "w3": "W3: three identity bolts in a row",
    "w4": "W4: actors",
    "w5": "W5: windows over event time",
    "slides": "Windows that slide, in a topology",
    "w6": "W6: latency at 1,000 tuples/s through three bolts",
    "w7": "W7: columns",
}
PROBES = {
    "slides": "Windows that slide, the machines alone: what a row and a result cost",
    "w9": "W9: steady state behind a bottleneck",
    "memory": "Memory",
    "replay": "What one lost tuple costs",
}
CURVE = "curve"
_LABELS = ("style", "guarantee", "tree", "loop")
_COLUMNS = (
    "what",
    *_LABELS,
    "held against",
    "ratio",
    "min – max",
    "by processor time",
    "target",
    "measured",
    "other side",
)


def of_rows(found: Sequence[Finding]) -> Iterator[str]:
    """A table for each workload, of our own rows."""
    for workload, title in TITLES.items():
        mine = [finding for finding in found if finding.row.workload == workload and not finding.row.ours]
        if mine:
            yield from table(title, _COLUMNS, map(_cells, mine))


def of_curve(rows: Iterable[Row], run: Run) -> Iterator[str]:
    """Throughput and latency of acks by size of tree and turn."""
    mine = [(row, run.of(row)) for row in rows if row.workload == CURVE]
    cells = [
        [
            row.labels["tree"],
            row.labels["turn"],
            f"**{finding.ratio.median:.3f}**",
            _range(finding.ratio),
            *(f"{subject_of(records, name).median * 1e3:.2f} ms" for name in ("p50", "p99")),
            _amount(finding.subject, row.unit, rate=True),
        ]
        for row, records in mine
        for finding in findings(row, records)
    ]
    if cells:
        columns = ("tree", "turn", "ratio to the plain loop", "min – max", "ack p50", "ack p99", "measured")
        yield from table("W1 by size of tree and turn: throughput, and latency from emit to ack", columns, cells)


def of_peers(found: Iterable[Finding], compared: Iterable[Compared], pythons: Mapping[str, str]) -> Iterator[str]:
    """Ours against every peer. `pythons`: row id → version, of rows that ran on another Python than ours."""
    times = {(one.row.id, one.metric): one for one in compared}
    cells = [
        _peer_cells(one, times.get((one.row.id, one.metric)), pythons.get(one.row.id)) for one in found if one.row.ours
    ]
    if cells:
        columns = (
            "workload",
            "peer",
            "style",
            "its guarantee",
            "loop",
            "its ratio",
            "min – max",
            "ours over it",
            "min – max",
            "target",
            "measured",
        )
        yield from table("aiostorm against peers", columns, cells)


def of_probes(found: Sequence[Probed]) -> Iterator[str]:
    """A table for each group of probes."""
    for workload, title in PROBES.items():
        mine = [one for one in found if one.probe.workload == workload]
        if mine:
            yield from table(
                title, ("what", "figure", "median", "min – max", "target", "note"), map(_probe_cells, mine)
            )


def of_missing(run: Run) -> Iterator[str]:
    """What was not measured, and why."""
    for title, reasons in (("Failed", run.failed), ("Not available on this machine", run.unavailable)):
        if reasons:
            cells = ([name, reason.replace("\n", " ").replace("|", "\\|")[:400]] for name, reason in reasons.items())
            yield from table(title, ("row", "reason"), cells)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A heading and a table."""
    yield f"\n### {title}\n"
    yield _line(columns)
    yield _line(["---"] * len(columns))
    yield from map(_line, rows)


def _cells(finding: Finding) -> list[str]:
    row, rate = finding.row, finding.metric == "rate"
    return [
        row.labels["what"] if rate else finding.metric,
        *(row.labels[label] for label in _LABELS),
        row.against_name,
        f"**{finding.ratio.median:.3f}**",
        _range(finding.ratio),
        f"{finding.cpu_ratio.median:.3f} ({_range(finding.cpu_ratio)})" if finding.cpu_ratio is not None else "–",
        _target(finding),
        _amount(finding.subject, row.unit, rate),
        _amount(finding.against, row.unit, rate),
    ]


def _peer_cells(finding: Finding, times: Compared | None, python: str | None) -> list[str]:
    row, rate = finding.row, finding.metric == "rate"
    return [
        f"{row.workload.upper()} {row.labels['what'] if rate else finding.metric}",
        row.labels["peer"] + (f" (Python {python})" if python else ""),
        row.labels["style"],
        row.labels["guarantee"],
        row.labels["loop"],
        f"{finding.ratio.median:.4f}",
        f"{finding.ratio.least:.4f} – {finding.ratio.most:.4f}",
        f"**{times.times.median:.2f}**" if times is not None else "–",
        f"{times.times.least:.2f} – {times.times.most:.2f}" if times is not None else "–",
        _target(times) if times is not None else "–",
        _amount(finding.subject, row.unit, rate),
    ]


def _probe_cells(found: Probed) -> list[str]:
    value, unit = found.value, found.figure.unit
    target = found.figure.target
    if found.met is not None:
        target += " met" if found.met else " **missed**"
    return [
        found.probe.name,
        found.figure.name,
        f"**{_number(value.median)}** {unit}",
        f"{_number(value.least)} – {_number(value.most)}",
        target,
        found.probe.note,
    ]


def _target(found: Finding | Compared) -> str:
    if found.target is None:
        return "–"
    return f"{'≥' if found.metric == 'rate' else '≤'} {found.target:g} {'met' if found.met else '**missed**'}"


def _number(value: float) -> str:
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def _range(spread: Spread) -> str:
    return f"{spread.least:.3f} – {spread.most:.3f}"


def _amount(spread: Spread, unit: str, rate: bool) -> str:
    if not rate:
        return f"{spread.median * 1e6:.0f} µs"
    return f"{spread.median / 1e6:.2f} M {unit}/s" if spread.median >= 1e6 else f"{spread.median / 1e3:.0f} k {unit}/s"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
