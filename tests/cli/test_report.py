"""Reports: any summary is rendered by its shape; JSON says the same."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cli.document import as_json, plain
from aiostorm.cli.report import RunReport, as_text, pending_text, render, snapshots_text, stopped_text, table
from aiostorm.metrics import (
    METRICS,
    ComponentMetrics,
    Histogram,
    ProgressMetrics,
    Series,
    SnapshotMetrics,
    TaskMetrics,
    TimeMetrics,
    TopologyMetrics,
)
from aiostorm.runtime import ProcessMetrics


class Pair(NamedTuple):
    name: str
    count: int


@dataclass
class Point:
    x: float
    y: float


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"words": 1234567, "rate": 0.5, "name": "x", "none": None, "yes": True},
            "words  1,234,567\nrate   0.5\nname   x\nnone   -\nyes    True",
        ),
        ({"top": [("self", 1200), ("a", 7)]}, "top\n  self  1,200\n  a         7"),
        ({"top": [Pair("b", 1)], "n": 2}, "n  2\n\ntop\n  b  1"),
        ({"counts": Counter("aab")}, "counts\n  a  2\n  b  1"),
        ({"list": ["x", "y"]}, "list\n  x\n  y"),
        ({"numbers": [1, 22]}, "numbers\n   1\n  22"),
        ({"rows": [{"a": 1, "b": "x"}, {"a": 20}]}, "rows\n   a  b\n   1  x\n  20  -"),
        ({"nothing": []}, "nothing\n  (none)"),
        ({"begun": 1_700_000_000_000, "bytes": 17_000_000_000_000}, "begun  1700000000000\nbytes  17,000,000,000,000"),
        (
            {"per minute": [("ann", 3, 1_700_000_000_000), ("bob", 1_000, 1_700_000_060_000), ("all", None, None)]},
            "per minute\n  ann      3  1700000000000\n  bob  1,000  1700000060000\n  all      -              -",
        ),
        ({"a sum": [(1_700_000_000_000,), (7,)]}, "a sum\n  1,700,000,000,000\n                  7"),
        ({"bad": "a\x1b[31mb\nc"}, "bad  a\\x1b[31mb\\nc"),
        ({"日本": 1, "ab": 2}, "日本  1\nab    2"),
        ({"object": Point(1, 2)}, "object  Point(x=1, y=2)"),
        ({}, ""),
    ],
)
def test_render(values: dict[str, Any], text: str):
    assert render(values) == text


def test_table_aligns_to_the_right_where_asked():
    assert table([("a", "1"), ("bb", "20")], ("name", "n"), right={1}) == "name   n\na      1\nbb    20"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (math.inf, None),
        (2**80, 2**80),
        ((1, (2, "x")), [1, [2, "x"]]),
        ({1: "a", ("x", 2): "b", None: "c"}, {"1": "a", '["x", 2]': "b", "null": "c"}),
        ({3, 1, 2}, [1, 2, 3]),
        (Point(1.0, math.nan), {"x": 1.0, "y": None}),
        (Pair("a", 1), ["a", 1]),
        (datetime(2024, 1, 2, tzinfo=UTC), "2024-01-02 00:00:00+00:00"),
        (b"ab", "b'ab'"),
    ],
)
def test_plain(value: Any, expected: Any):
    assert plain(value) == expected


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4))
def test_any_summary_can_be_shown(summary: dict[str, Any]):
    document = json.loads(as_json(report(summary=summary)))
    assert set(document["summary"]) == set(summary)
    text = as_text(report(summary=summary))
    assert text.replace("\n", "").isprintable(), "nothing that a terminal would take for a command"


def report(**changes: Any) -> RunReport:
    """The end of a run of a spout and a bolt."""
    spout = TaskMetrics(1, emitted=12, acked=8, failed=5, replayed=2, dead_lettered=1, trees=4, errors=1)
    bolt = TaskMetrics(2, executed=12, acked=7, failed=5)
    metrics = TopologyMetrics([ComponentMetrics("in", "spout", (spout,)), ComponentMetrics("out", "bolt", (bolt,))])
    return replace(RunReport("jobs", "finished", 2.0, metrics), **changes)


def test_counts():
    found = report(pending={"in": [1, 2]})
    assert found.messages == {
        "acked": 8,
        "failed": 5,
        "replayed": 2,
        "dead_lettered": 1,
        "forgotten": 0,
        "given_up": 2,
        "pending": 2,
    }
    assert found.lost() == [
        "1 message dead-lettered after too many failures",
        "2 messages failed and not emitted again",
        "2 messages neither acked nor failed",
    ]
    assert report(state="interrupted").messages["given_up"] == 0, "they may wait to be emitted again"
    assert (found.trees, found.error_count) == (4, 1)


def test_text():
    assert as_text(report(summary={"sum": 3})) == (
        "sum  3\n\n"
        "jobs finished after 2.0 s\n"
        "messages  8 acked, 5 failed, 2 replayed, 1 dead-lettered, 0 pending\n"
        "trees     4\n"
        "errors    1 in user code\n\n"
        "component  tasks  emitted  executed  acked  failed  per second\n"
        "in             1       12                8       5           6\n"
        "out            1        0        12      7       5           6"
    )


def test_exactly_once_has_snapshots_instead_of_acks():
    status = SnapshotMetrics(17, taken=12, duration_s=0.0125, size_bytes=2_048)
    found = report(snapshots=status, summary={"sum": 3})
    assert as_text(found) == (
        "sum  3\n\n"
        "jobs finished after 2.0 s\n"
        "rows       12 emitted by spouts, 12 executed by bolts\n"
        "snapshots  12 taken, the last is number 17: took 12 ms, 2,048 bytes\n"
        "errors     1 in user code\n\n"
        "component  tasks  emitted  executed  per second\n"
        "in             1       12                     6\n"
        "out            1        0        12           6"
    )
    document = json.loads(as_json(found))
    assert (document["messages"], document["trees"]) == (None, None)
    assert document["snapshots"]["number"] == 17
    assert stopped_text(found) == "the next run continues from snapshot 17"
    assert json.loads(as_json(report()))["snapshots"] is None


def test_rollbacks_and_failed_snapshots_are_shown():
    status = SnapshotMetrics(
        number=17,
        taken=12,
        failed=5,
        failing=2,
        problem="the disk is full",
        duration_s=1.25,
        size_bytes=1,
        age_s=0.5,
        rolled_back=3,
        reason="a died",
    )
    text = as_text(report(snapshots=status))
    assert "12 emitted by spouts, 12 executed by bolts, with those that were repeated after a rollback\n" in text
    assert "number 17: took 1.2 s, 1 byte; 2 failed since: the disk is full\n" in text
    assert "rolled back  3 times, the last because of: a died\n" in text
    assert snapshots_text(status, running=True) == (
        "12 taken, the last is number 17: 0.5 s ago, took 1.2 s, 1 byte; 2 failed since: the disk is full; "
        "rolled back 3 times"
    )
    limited = SnapshotMetrics(17, taken=12, size_bytes=99, stored_bytes=2_000, quota_bytes=1_048_576)
    assert snapshots_text(limited).endswith("took 0 ms, 99 bytes; 2,000 of 1,048,576 bytes kept")
    assert snapshots_text(SnapshotMetrics()) == "none taken"
    assert snapshots_text(SnapshotMetrics(4)) == "none taken since number 4, the first"
    assert stopped_text(report(snapshots=SnapshotMetrics())) == "the next run begins from the start"
    assert stopped_text(report()) == "pending: nothing"


def test_windows():
    open_ = TimeMetrics(live=3, watermark_ms=60_000, lag_ms=1_500, inputs=((1, 60_000),))
    tasks = (TaskMetrics(2, fired=1_000, late=1, time=open_), TaskMetrics(3, fired=440, time=open_))
    found = report(metrics=TopologyMetrics([ComponentMetrics("per minute", "bolt", tasks)]))
    assert "\nwindows   per minute: 1,440 fired, 1 tuple too late for them, 6 still open\n" in as_text(found)
    assert json.loads(as_json(found))["components"]["per minute"]["windows"] == {
        "fired": 1_440,
        "late": 1,
        "open": 6,
        "dropped_windows": 0,
        "dropped_tuples": 0,
        "watermark_ms": 60_000,
        "watermark_lag_s": 1.5,
    }
    passing = ComponentMetrics("parse", "bolt", (TaskMetrics(4, time=TimeMetrics(ended=True)),))
    assert "windows" not in as_text(report(metrics=TopologyMetrics([passing])))


def test_progress():
    tasks = (
        TaskMetrics(1, progress=ProgressMetrics("partitions", 3, 4, 1_000)),
        TaskMetrics(2, progress=ProgressMetrics("partitions", 4, 4, 200)),
        TaskMetrics(3),
    )
    found = report(metrics=TopologyMetrics([ComponentMetrics("flights", "spout", tasks)]))
    assert "\nprogress  flights: 7 of 8 partitions, 1,200 rows\n" in as_text(found)
    shown = json.loads(as_json(found))["components"]["flights"]["progress"]
    assert shown == {"unit": "partitions", "done": 7, "total": 8, "rows": 1_200, "before": 0, "note": ""}
    assert ComponentMetrics("late", "bolt", (TaskMetrics(4),)).progress is None


def test_a_run_that_an_earlier_one_had_completed_says_so():
    note = "done by an earlier run (2026-11-21 05:00 UTC); remove /data/progress to run again"
    tasks = tuple(TaskMetrics(n, progress=ProgressMetrics("partitions", 1, 1, 0, 1, note)) for n in (1, 2))
    found = report(metrics=TopologyMetrics([ComponentMetrics("flights", "spout", tasks)]))
    assert f" s: nothing was processed, all 2 partitions were {note}\n" in as_text(found)
    assert json.loads(as_json(found))["done_before"] == f"all 2 partitions were {note}"
    some = (tasks[0], TaskMetrics(2, progress=ProgressMetrics("partitions", 1, 1, 0)))
    found = report(metrics=TopologyMetrics([ComponentMetrics("flights", "spout", some)]))
    assert "nothing was processed" not in as_text(found)
    assert json.loads(as_json(found))["done_before"] is None


def test_json_has_every_declared_metric():
    numbers = [name for name, metric in METRICS.items() if metric.kind != "histogram"]
    component = ComponentMetrics("c", "bolt", (TaskMetrics(1, **dict.fromkeys(numbers, 1)),))
    found = json.loads(as_json(report(metrics=TopologyMetrics([component]))))["components"]["c"]
    for name, metric in METRICS.items():
        if metric.unit != "seconds":  # sums of seconds are shown as means
            assert (found[metric.group] if metric.group else found)[name] == 1


def test_json_has_what_was_measured():
    timed = Histogram(((-8, 99), (0, 1)), 30.0)
    own = (
        Series("hits", "counter", (("kind", "a"),), 3),
        Series("rows", "meter", (), 6, rate=0.5),
        Series("sizes", "histogram", (), 100, histogram=timed),
        Series("none", "histogram"),
    )
    task = TaskMetrics(
        1, process_latency=timed, busy_s=1.5, streams=(("default", 7),), edges=(("default", "out", 14),), own=own
    )
    metrics = TopologyMetrics(
        [ComponentMetrics("c", "bolt", (task, TaskMetrics(2, busy_s=0.5)))],
        {"local": ProcessMetrics(pid=7, rss_bytes=1000)},
    )
    document = json.loads(as_json(report(metrics=metrics)))
    found = document["components"]["c"]
    assert found["latencies"]["execute"] is None
    assert found["latencies"]["process"].pop("mean") == 0.3
    assert found["latencies"]["process"] == pytest.approx({"count": 100, "p50": 5 / 18, "p95": 5 / 18, "p99": 5 / 18})
    assert found["seconds"] == {"busy_s": 2.0, "blocked_s": 0, "idle_s": 0, "throttled_s": 0}
    assert found["streams"] == {"default": 7}
    assert found["edges"] == [{"stream": "default", "to": "out", "tuples": 14}]
    assert [(one["name"], one["kind"], one["labels"]) for one in found["metrics"]] == [
        ("hits", "counter", {"kind": "a"}),
        ("none", "histogram", {}),
        ("rows", "meter", {}),
        ("sizes", "histogram", {}),
    ]
    assert [found["metrics"][i].get("value") for i in range(4)] == [3, None, 6, None]
    assert (found["metrics"][1]["count"], found["metrics"][2]["per_s"], found["metrics"][3]["count"]) == (0, 0.5, 100)
    assert document["processes"]["local"]["pid"] == 7


def test_results_are_cut_for_people_only():
    found = report(results={"out": [{f"k{i}": i for i in range(100)}, "x"], "in": [3]})
    text = as_text(found)
    assert "out [0]\n  k0    0\n" in text
    assert "  … and 80 more\n" in text
    assert "\n\nout [1]  x\n\nin  3\n\n" in text
    assert len(json.loads(as_json(found))["results"]["out"][0]) == 100


def test_pending_text():
    assert pending_text({}) == "nothing"
    assert pending_text({"a": []}) == "nothing"
    assert pending_text({"a": ["x"], "b": list(range(7))}) == (
        "1 message of a (message ids 'x'); 7 messages of b (message ids 0, 1, 2, 3, 4, …)"
    )
    assert len(pending_text({"a": ["y" * 1000]})) < 150
