"""Report: a run as JSON (everything) and as Markdown (a table for each workload, ratios first)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .cells import Row
from .harness import Finding, Spread

TITLES = {
    "w1": "W1: word count",
    "w3": "W3: three identity bolts in a row",
    "w4": "W4: actors",
    "w6": "W6: latency at 1,000 tuples/s through three bolts",
}
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


def as_json(
    machine: Mapping[str, Any],
    rows: Sequence[Row],
    found: Iterable[Finding],
    records: Mapping[str, Any],
    repetitions: int,
) -> str:
    """Machine, findings, rows and every record; one item a line."""
    parts: dict[str, list[tuple[str, Any]]] = {
        "machine": [("machine", machine), ("repetitions", repetitions)],
        "findings": [(f"{finding.row.id}: {finding.metric}", _figures(finding)) for finding in found],
        "rows": [(row.id, asdict(row)) for row in rows],
        "records": list(records.items()),
    }
    lines = (
        f"{json.dumps(part)}: {{\n"
        + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in items)
        + "\n}"
        for part, items in parts.items()
    )
    return "{" + ",\n".join(lines) + "}\n"


def _figures(finding: Finding) -> dict[str, Any]:
    return {
        "ratio": asdict(finding.ratio),
        "cpu_ratio": asdict(finding.cpu_ratio) if finding.cpu_ratio is not None else None,
        "subject": asdict(finding.subject),
        "against": asdict(finding.against),
        "target": finding.target,
        "met": finding.met,
        "disturbed": finding.disturbed,
        "rounds": finding.rounds,
    }


def as_markdown(machine: Mapping[str, Any], found: Sequence[Finding], repetitions: int) -> str:
    """The tables, under a line that says where and when."""
    return "\n".join(_markdown(machine, found, repetitions)) + "\n"


def _markdown(machine: Mapping[str, Any], found: Sequence[Finding], repetitions: int) -> Iterator[str]:
    changed = f" and {machine['changed_files']} changed files" if machine["changed_files"] else ""
    yield (
        f"{machine['date'][:10]}, {machine['cores']} cores of {machine['processor']}, {machine['memory_gb']} GB, "
        f"{machine['system']}, {machine['python']}, uvloop {machine['packages']['uvloop']}, "
        f"commit {machine['commit'] or 'unknown'}{changed}. "
        f"{repetitions} repetitions; the ratio is the median of theirs."
    )
    for workload, title in TITLES.items():
        mine = [finding for finding in found if finding.row.workload == workload]
        if mine:
            yield f"\n### {title}\n"
            yield _line(_COLUMNS)
            yield _line(["---"] * len(_COLUMNS))
            yield from (_line(_cells(finding)) for finding in mine)
    disturbed = sum(finding.disturbed for finding in found)
    if disturbed:
        yield (
            f"\nIn {disturbed} of {sum(finding.rounds for finding in found)} rounds the limits before and after the "
            "subject differed by more than a quarter: something else was using the machine. They count all the same."
        )


def _cells(finding: Finding) -> list[str]:
    row, rate = finding.row, finding.metric == "rate"
    target = "–"
    if finding.target is not None:
        target = f"{'≥' if rate else '≤'} {finding.target:g} {'met' if finding.met else '**missed**'}"
    return [
        row.labels["what"] if rate else finding.metric,
        *(row.labels[label] for label in _LABELS),
        row.against_name,
        f"**{finding.ratio.median:.3f}**",
        _range(finding.ratio),
        f"{finding.cpu_ratio.median:.3f} ({_range(finding.cpu_ratio)})" if finding.cpu_ratio is not None else "–",
        target,
        _amount(finding.subject, row.unit, rate),
        _amount(finding.against, row.unit, rate),
    ]


def _range(spread: Spread) -> str:
    return f"{spread.least:.3f} – {spread.most:.3f}"


def _amount(spread: Spread, unit: str, rate: bool) -> str:
    if not rate:
        return f"{spread.median * 1e6:.0f} µs"
    return f"{spread.median / 1e6:.2f} M {unit}/s" if spread.median >= 1e6 else f"{spread.median / 1e3:.0f} k {unit}/s"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write(folder: Path, name: str, json_text: str, markdown: str) -> tuple[Path, Path]:
    """Put both files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{name}.json", folder / f"{name}.md"
    for path, text in zip(paths, (json_text, markdown), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths
