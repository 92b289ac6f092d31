"""Parts of reports: the graph with its numbers, the table of components, and numbers as text."""

from __future__ import annotations

import pytest

from aiostorm.backpressure import Backpressure, ComponentPressure, TaskPressure
from aiostorm.cluster.report.card import card
from aiostorm.cluster.report.parts import components, duration, facts, graph, number, per_second, table
from aiostorm.metrics import TaskMetrics
from aiostorm.topology import Arrow, Box, draw_graph

from .parts import Shown, metrics, shown, taking


async def test_the_graph_has_the_numbers_of_components_and_edges() -> None:
    calm, blocked = TaskPressure(3, 0.5, False, 0.0, 0.0), TaskPressure(4, 0.9, True, 0.0, 0.0)
    remote = await shown(
        tasks=(("numbers", (1, 2)), ("half", (3, 4)), ("sink", (5,))),
        pressure=Backpressure(components={"half": ComponentPressure(0.9, (calm, blocked))}),
        metrics=metrics(
            numbers=[TaskMetrics(1, emitted=3000, executed=7, edges=(("default", "half", 2500), ("x", "half", 9)))],
            half=[TaskMetrics(3, emitted=7, executed=20, edges=(("default", "sink", 5),)), TaskMetrics(4)],
        ),
    )
    drawn = graph("t", remote.topology, remote.plan, remote.metrics(), remote.backpressure(), 10.0)
    boxes = [
        Box("numbers", "spout", ("2 tasks", "3,000 tuples, 300/s")),
        Box("half", "bolt", ("2 tasks", "20 tuples, 2/s"), 0.9, "blocked"),
        Box("sink", "bolt", ("1 task",), 0.0),
    ]
    arrows = [Arrow("numbers", "half", ("250/s",)), Arrow("half", "sink", ("0.5/s",))]
    assert drawn == draw_graph("t", boxes, arrows)


async def test_a_graph_of_what_has_not_reported_yet() -> None:
    remote = await shown(pressure=Backpressure(components={"half": ComponentPressure(0.4)}), metrics=())
    drawn = graph("t", remote.topology, remote.plan, remote.metrics(), remote.backpressure(), 10.0)
    boxes = [
        Box("numbers", "spout", ("2 tasks",)),
        Box("half", "bolt", ("2 tasks",), 0.4),
        Box("sink", "bolt", ("1 task",), 0.0),
    ]
    assert drawn == draw_graph("t", boxes, [Arrow("numbers", "half", ("0/s",)), Arrow("half", "sink", ("0/s",))])


async def test_a_row_for_each_component() -> None:
    complete, process = taking(0.25, 4, 1), taking(0.002, 4, 1)
    remote = await shown(
        metrics=metrics(
            numbers=[
                TaskMetrics(1, emitted=3000, executed=8, acked=5, failed=1, complete_latency=complete),
                TaskMetrics(2, errors=2, process_latency=process),
            ],
            half=[
                TaskMetrics(3, emitted=7, executed=20, process_latency=process, complete_latency=complete),
                TaskMetrics(4, busy_s=0.25, blocked_s=0.5, idle_s=0.25),
            ],
            sink=[TaskMetrics(5)],
            acker=[TaskMetrics(6, executed=8)],
        ),
    )
    head, *rows = Shown(components(remote.metrics(), 10.0)).rows
    names = ("component", "tasks", "emitted", "executed", "acked", "failed", "errors", "per second")
    assert head == [*names, "p50", "p99", "busy"]
    assert complete.quantile(0.5) < complete.quantile(0.99)
    of_spout = [duration(complete.quantile(q)) for q in (0.5, 0.99)]
    of_bolt = [duration(process.quantile(q)) for q in (0.5, 0.99)]
    assert rows == [
        ["numbers", "2", "3,000", "", "5", "1", "2", "300", *of_spout, ""],
        ["half", "2", "7", "20", "0", "0", "0", "2", *of_bolt, "25%"],
        ["sink", "1", "0", "0", "0", "0", "0", "0", "", "", ""],
    ]


async def test_a_card_has_the_state_and_the_counts() -> None:
    remote = await shown(
        started_s=100.0,
        metrics=metrics(
            numbers=[TaskMetrics(1, acked=40, failed=3, pending=6, errors=1), TaskMetrics(2, acked=2)],
            half=[TaskMetrics(3, acked=99, failed=99, errors=4)],
        ),
    )
    known = {"state": "ACTIVE", "acked": "42, 4.2 a second", "pending": "6", "failed": "3", "errors": "5"}
    drawn = card(remote, 110.0)
    assert Shown(drawn).facts == known | {"since": "10 s"}
    assert drawn.count("<svg") == 1
    assert [row[0] for row in Shown(drawn).rows] == ["component", "numbers", "half"]
    assert "300" not in drawn
    assert "href" not in drawn
    early = Shown(card(remote, 90.0)).facts
    assert (early["since"], early["acked"]) == ("0 µs", "42, 0 a second"), "the clock was set back"
    remote = await shown(degraded="worker-2 does not start")
    facts_ = Shown(card(remote, 0.0, "https://host:1/x")).facts
    assert facts_["state"] == "ACTIVE, degraded: worker-2 does not start"


async def test_a_card_links_to_a_page_alone() -> None:
    remote = await shown()
    for page in ("http://host:1/x", "https://host:1/x"):
        assert f'<a href="{page}">{page}</a>' in card(remote, 0.0, page)
    for page in ("", "javascript:alert(1)", "httpx://host"):
        assert "href" not in card(remote, 0.0, page)


def test_cells_are_escaped_and_cut() -> None:
    drawn = table(("<a>", "b"), [("<c>", "x" * 2001), ("", "d")], "<cap>")
    assert Shown(drawn).rows == [["<a>", "b"], ["<c>", "x" * 1999 + "…"], ["", "d"]]
    assert "<caption>&lt;cap&gt;</caption>" in drawn
    assert facts({"<a>": "<b>", "none": "", "long": "x" * 2001}) == (
        f"<dl><dt>&lt;a&gt;</dt><dd>&lt;b&gt;</dd><dt>long</dt><dd>{'x' * 1999}…</dd></dl>"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 µs"),
        (0.00085, "850 µs"),
        (0.001, "1 ms"),
        (0.0012, "1.2 ms"),
        (0.9, "900 ms"),
        (1.0, "1 s"),
        (3.5, "3.5 s"),
        (119.0, "119 s"),
        (120.0, "2 min"),
        (252.0, "4.2 min"),
        (7140.0, "119 min"),
        (7200.0, "2 h"),
        (9000.0, "2.5 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "seconds", "text"),
    [
        (0, 5.0, "0"),
        (7, 0.0, "0"),
        (1, 8.0, "0.12"),
        (1, 0.5, "2"),
        (19, 2.0, "9.5"),
        (25, 2.0, "12"),
        (123_456, 10.0, "12,346"),
    ],
)
def test_tuples_a_second(count: int, seconds: float, text: str) -> None:
    assert per_second(count, seconds) == text


def test_numbers() -> None:
    assert (number(12345.0), number(0)) == ("12,345", "0")
