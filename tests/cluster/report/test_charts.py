"""Charts: where each point, line and number of the scale is."""

from __future__ import annotations

import math
import re

import pytest

from aiostorm.cluster.report.charts import COLOURS, MOST_LINES, ceiling, chart


def shown(value: float) -> str:
    return f"{value:g} <rows>"


def test_every_point_is_in_its_place() -> None:
    lines = {
        "none": [(0.0, 0.0), (99.0, 0.0)],
        "lower": [(15.0, 1.0), (25.0, 3.0)],
        "higher": [(10.0, 0.0), (20.0, 2.0), (30.0, 4.0)],
        "empty": [],
    }
    drawn = chart("Rows & more", lines, shown)
    assert re.findall(r'<polyline points="([^"]*)" fill="none" stroke="(#\w+)"', drawn) == [
        ("64.0,156.0 388.0,98.4 712.0,40.8", COLOURS[0]),
        ("226.0,127.2 550.0,69.6", COLOURS[1]),
    ]
    assert re.findall(r"<li>(.*?)</li>", drawn) == [
        f'<span style="background:{COLOURS[0]}"></span>higher (at most 4 &lt;rows&gt;)',
        f'<span style="background:{COLOURS[1]}"></span>lower (at most 3 &lt;rows&gt;)',
    ]
    assert re.findall(r'd="(M[^"]*)"', drawn) == ["M64 156.0 H712", "M64 84.0 H712", "M64 12.0 H712"]
    assert re.findall(r'<text class="axis" (.*?)</text>', drawn) == [
        'x="58" y="160.0" text-anchor="end">0 &lt;rows&gt;',
        'x="58" y="88.0" text-anchor="end">2.5 &lt;rows&gt;',
        'x="58" y="16.0" text-anchor="end">5 &lt;rows&gt;',
        'x="64" y="174">0 s',
        'x="712" y="174" text-anchor="end">20 s',
    ]
    assert drawn.startswith("<figure><figcaption>Rows &amp; more</figcaption>")
    assert 'viewBox="0 0 720 180" aria-label="Rows &amp; more"' in drawn


def test_the_time_is_that_of_all_lines_also_of_those_that_are_left_out() -> None:
    lines = {f"c{i}": [(10.0, float(i)), (20.0, float(i))] for i in range(2, MOST_LINES + 2)}
    lines |= {"low": [(0.0, 1.0), (40.0, 0.0)], "zero": [(-99.0, 0.0), (99.0, 0.0)]}
    drawn = chart("t", lines, shown)
    ends = re.findall(r'points="([\d.]+),[\d.]+ ([\d.]+),[\d.]+"', drawn)
    assert ends == [("226.0", "388.0")] * MOST_LINES
    assert drawn.count("<polyline") == MOST_LINES
    assert re.findall(r"<li>(and .*?)</li>", drawn) == ["and 1 more, which stay below"]
    assert "more" not in chart("t", {"a": [(0.0, 1.0)]}, shown)
    assert ">low " not in drawn


def test_without_values_there_is_no_chart() -> None:
    for lines in ({}, {"a": []}, {"a": [(0.0, 0.0)], "b": [(1.0, -1.0)]}):
        assert chart("t", lines, shown) == ""


def test_one_moment_is_at_the_left() -> None:
    drawn = chart("t", {"a": [(7.0, 1.0)]}, shown)
    assert 'points="64.0,12.0"' in drawn
    assert ">0 s</text>" in drawn


@pytest.mark.parametrize(
    ("value", "top"),
    [
        (0.2, 0.2),
        (0.3, 0.5),
        (0.7, 1.0),
        (1.0, 1.0),
        (1.5, 2.0),
        (2.0, 2.0),
        (3.0, 5.0),
        (5.0, 5.0),
        (7.0, 10.0),
        (10.0, 10.0),
        (1000.0, 1000.0),
        (1001.0, 2000.0),
        (1.5e-299, 2e-299),
        (5e-324, 1.0),
        (0.0, 1.0),
        (-3.0, 1.0),
        (math.inf, 1.0),
        (math.nan, 1.0),
    ],
)
def test_the_top_of_a_scale(value: float, top: float) -> None:
    assert ceiling(value) == pytest.approx(top, rel=1e-12, abs=0.0)
