"""docs/grafana.json: each expression asks for metrics and labels that `aiostorm.metrics.render` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from aiostorm.metrics import (
    PLAIN_TEXT,
    ComponentMetrics,
    Histogram,
    SnapshotMetrics,
    TaskMetrics,
    TimeMetrics,
    TopologyMetrics,
    render,
)
from aiostorm.runtime import ProcessMetrics

DASHBOARD: Final = Path(__file__).parents[2] / "docs" / "grafana.json"
_SAMPLE: Final = re.compile(r"(?P<name>\w+)\{(?P<labels>.*)\} ")
_SELECTED: Final = re.compile(r"\b(aiostorm_\w+)\b(?:\{([^}]*)\})?")
_GROUPED: Final = re.compile(r"\b(?:by|on) \(([^)]*)\)")
_RATED: Final = re.compile(r"\b(?:rate|increase)\((\w+)")


def exported() -> dict[str, set[str]]:
    """Name of each sample → its labels."""
    latency = Histogram(((0, 1),), 1.0)
    task = TaskMetrics(
        1,
        streams=(("default", 1),),
        edges=(("default", "b", 1),),
        time=TimeMetrics(1, 5, 5),
        execute_latency=latency,
        process_latency=latency,
        complete_latency=latency,
    )
    metrics = TopologyMetrics(
        [ComponentMetrics("c", "bolt", (task,))], {"local": ProcessMetrics(1, 1.0, 1, 1)}, SnapshotMetrics(1, 1)
    )
    found: dict[str, set[str]] = {}
    for line in render({"t": metrics}, PLAIN_TEXT).splitlines():
        if sample := _SAMPLE.match(line):
            found.setdefault(sample["name"], set()).update(re.findall(r'(\w+)="', sample["labels"]))
    return found


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """(expression, legend) of each target, and the queries of the variables."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield re.sub(r"label_values\((.*), (\w+)\)", r"sum by (\2) (\1)", variable["definition"]), ""


@pytest.mark.parametrize(("expression", "legend"), list(expressions()))
def test_an_expression_asks_for_what_is_exported(expression: str, legend: str) -> None:
    known = exported()
    selected = _SELECTED.findall(expression)
    assert selected
    labels = set.intersection(*(known[name] for name, _ in selected))
    for name, matchers in selected:
        assert set(re.findall(r"(\w+)=", matchers)) <= known[name], name
    for group in _GROUPED.findall(expression):
        assert {label.strip() for label in group.split(",")} <= labels
    grouped = [{label.strip() for label in group.split(",")} for group in re.findall(r"\bby \(([^)]*)\)", expression)]
    shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert shown <= (set.intersection(*grouped) if grouped else labels), "of a sum only its labels are left"
    for name in _RATED.findall(expression):
        assert name.endswith(("_total", "_bucket")), "only what grows has a rate"
    assert expression.count("(") == expression.count(")")


def test_the_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert all(0 <= x < 24 for x, _ in cells)


def test_only_its_own_variables_are_used() -> None:
    known = {variable["name"] for variable in dashboard()["templating"]["list"]} | {"__rate_interval"}
    used = set(re.findall(r"\$\{?(\w+)", DASHBOARD.read_text(encoding="utf-8")))
    assert used == known
