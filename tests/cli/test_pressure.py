"""Backpressure for people: a line while a topology runs, and a page of its own."""

from __future__ import annotations

import io
import json
import time

import pytest

from aiostorm.backpressure import Backpressure, ComponentPressure, PressureEvent, SpoutPacing, TaskPressure
from aiostorm.cli.document import as_json
from aiostorm.cli.pressure import SHOWN_EVENTS, as_document, as_text, duration, paced_text
from aiostorm.cli.progress import PlainLines, Rates, live_table
from aiostorm.cli.report import RunReport
from aiostorm.cli.report import as_text as report_text
from aiostorm.cluster import StatusResponse
from aiostorm.metrics import TopologyMetrics

NOW_S = 1_700_000_000.0


def waits(component: str, wait_s: float, *why: str, task_id: int = 1) -> SpoutPacing:
    return SpoutPacing(component, task_id, wait_s, NOW_S - 10, why)


THROTTLED = Backpressure(
    enabled=True,
    state="THROTTLED",
    since_s=NOW_S - 125,
    components={
        "split": ComponentPressure(0.124),
        "count": ComponentPressure(
            0.97,
            (
                TaskPressure(4, 0.97, True, NOW_S - 12, 0.0012),
                TaskPressure(5, 0.03, False, NOW_S - 2, 0.009),
                TaskPressure(6, 0.9, True, NOW_S - 0.5, 0.0008),
            ),
        ),
    },
    spouts=(waits("lines", 0.0012, "count"),),
    events=(
        PressureEvent(NOW_S - 12, "BLOCKED", "count", "task 4 is full"),
        PressureEvent(NOW_S - 11, "THROTTLED", "", "1 spout is paced"),
    ),
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 µs"),
        (0.000_85, "850 µs"),
        (0.0012, "1.2 ms"),
        (0.002, "2 ms"),
        (0.0123, "12 ms"),
        (3.5, "3.5 s"),
        (12.3, "12 s"),
        (119.0, "119 s"),
        (125.0, "2.1 min"),
        (7200.0, "2 h"),
        (90_000.0, "25 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("spouts", "text"),
    [
        ((), ""),
        ((waits("lines", 0.0012, "count"),), "lines waits 1.2 ms a tuple, because count cannot keep up"),
        (
            (waits("lines", 0.0012, "count"), waits("lines", 0.0005, "split", "count", task_id=2)),
            "lines waits 500 µs to 1.2 ms a tuple, because count and split cannot keep up",
        ),
        (
            (waits("lines", 0.001, "count"), waits("words", 0.002, "a", "b", "c")),
            (
                "lines waits 1 ms a tuple, because count cannot keep up; "
                "words waits 2 ms a tuple, because a, b and c cannot keep up"
            ),
        ),
        ((waits("a\x1b[2J", 0.001),), "a\\x1b[2J waits 1 ms a tuple"),
    ],
)
def test_one_line_names_the_waiting_spouts_and_the_reason(spouts: tuple[SpoutPacing, ...], text: str) -> None:
    assert paced_text(Backpressure(spouts=spouts)) == text


def status(pressure: Backpressure) -> StatusResponse:
    return StatusResponse("word-count", 7, "ACTIVE", NOW_S, {}, pressure)


def test_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert as_text(status(THROTTLED)).splitlines() == [
            "word-count (pid 7) ACTIVE, its backpressure is THROTTLED for 2.1 min",
            "",
            "component  fill  blocked tasks             a tuple takes",
            "split       12%",
            "count       97%  4 for 12 s, 6 for 500 ms         1.2 ms",
            "",
            "spout      waits a tuple   for  because of",
            "lines [1]         1.2 ms  10 s  count",
            "",
            "at        event      component",
            "22:13:08  BLOCKED    count      task 4 is full",
            "22:13:09  THROTTLED             1 spout is paced",
        ]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_page_without_backpressure() -> None:
    assert as_text(status(Backpressure())) == "word-count (pid 7) ACTIVE, its backpressure is NORMAL"
    off = as_text(status(Backpressure(enabled=False)))
    assert off == "word-count (pid 7) ACTIVE, and is not paced: topology.backpressure.enable is false"


def test_the_page_has_an_end() -> None:
    tasks = tuple(TaskPressure(i, 1.0, True, NOW_S - 1, 0.001) for i in range(50))
    events = tuple(PressureEvent(NOW_S, "BLOCKED", "count", f"number {i}") for i in range(50))
    text = as_text(status(Backpressure(components={"count": ComponentPressure(1.0, tasks)}, events=events)))
    assert "0 for 1 s, 1 for 1 s, 2 for 1 s, 3 for 1 s, and 46 more" in text
    assert f"number {50 - SHOWN_EVENTS}" in text
    assert f"number {49 - SHOWN_EVENTS}" not in text


def test_the_json_document_has_all_fields() -> None:
    document = json.loads(json.dumps(as_document(status(THROTTLED))))
    assert document["topology"] == "word-count"
    assert (document["topology_state"], document["state"]) == ("ACTIVE", "THROTTLED")
    assert document["components"]["count"]["tasks"][0]["execute_s"] == 0.0012
    assert document["spouts"][0]["why"] == ["count"]
    assert document["events"][0]["kind"] == "BLOCKED"


# -- while it runs, and at its end -------------------------------------------------------------------------------------


def test_progress_says_so_while_a_spout_waits(capsys: pytest.CaptureFixture[str]) -> None:
    rates = Rates(0.0)
    PlainLines().show(rates.snapshot(TopologyMetrics(()), 1.0, paced_text(THROTTLED)))
    PlainLines().show(rates.snapshot(TopologyMetrics(()), 2.0, paced_text(Backpressure())))
    first, paced, second = capsys.readouterr().err.splitlines()
    assert paced == "  paced: lines waits 1.2 ms a tuple, because count cannot keep up"
    assert (first.split(" s ")[0], second.split(" s ")[0]) == ("1.0", "2.0")


def test_the_live_table_says_so_below() -> None:
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=100)
    console.print(live_table(Rates(0.0).snapshot(TopologyMetrics(()), 1.0, "[b]a waits"), "t", 0.8))
    console.print(live_table(Rates(0.0).snapshot(TopologyMetrics(()), 1.0), "t", 0.8))
    assert console.file.getvalue().count("paced: [b]a waits") == console.file.getvalue().count("paced") == 1


def test_the_report_says_so_if_it_was_so_at_the_end() -> None:
    report = RunReport("t", "timed out", 1.0, TopologyMetrics(()), pressure=THROTTLED, paced=paced_text(THROTTLED))
    assert "paced     lines waits 1.2 ms a tuple, because count cannot keep up\n" in report_text(report)
    assert json.loads(as_json(report))["backpressure"]["state"] == "THROTTLED"
    calm = RunReport("t", "finished", 1.0, TopologyMetrics(()), pressure=Backpressure())
    assert "paced" not in report_text(calm)
    assert json.loads(as_json(calm))["backpressure"]["spouts"] == []
