"""OpenMetrics: what is rendered is what prometheus-client's parsers read, with the same numbers."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import LocalCluster
from aiostorm.metrics import (
    OPENMETRICS,
    PLAIN_TEXT,
    ComponentMetrics,
    Histogram,
    ProgressMetrics,
    Series,
    SnapshotMetrics,
    TaskMetrics,
    TimeMetrics,
    TopologyMetrics,
    content_type,
    render,
)
from aiostorm.metrics.openmetrics import families, families_table
from aiostorm.runtime import ProcessMetrics
from aiostorm.testing import FixedSpout, Recorder

from ..tasks.parts import line, rows

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
SNAPSHOTS = SnapshotMetrics(3, 2, 1, duration_s=0.5, size_bytes=99, age_s=7.0, stored_bytes=120, quota_bytes=1000)
LATENCY = Histogram(((-88, 3), (0, 2), (4, 1)), 4.5)


def parsed(text: str, kind: str = OPENMETRICS) -> dict[str, Any]:
    if kind == OPENMETRICS:
        parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    else:
        parser = pytest.importorskip("prometheus_client.parser")
    families = list(parser.text_string_to_metric_families(text))
    found = {family.name: family for family in families}
    assert len(found) == len(families)
    return found


def samples(family: Any) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = {(one.name, frozenset(one.labels.items())): one.value for one in family.samples}
    assert len(found) == len(family.samples)
    return found


def labelled(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset({"topology": "t", "component": "c", **labels}.items())


def one(*own: Series, **more: Any) -> TopologyMetrics:
    task = TaskMetrics(
        1,
        executed=7,
        emitted=5,
        execute_latency=LATENCY,
        execute_s=4.5,
        busy_s=1.5,
        fill=1,
        capacity=4,
        streams=(("default", 5),),
        edges=(("default", "out", 10),),
        time=TimeMetrics(2, 5, 1500),
        progress=ProgressMetrics("files", 3, 10),
        own=own,
    )
    return TopologyMetrics([ComponentMetrics("c", "bolt", (task, TaskMetrics(2, executed=1)))], **more)


@pytest.mark.parametrize("kind", [OPENMETRICS, PLAIN_TEXT])
def test_the_numbers(kind: str) -> None:
    processes = {"worker-1": ProcessMetrics(7, 1.5, 1000, None, 0.25, 4, 0.5)}
    text = render({"t": one(processes=processes, snapshots=SNAPSHOTS)}, kind)
    found = parsed(text, kind)
    expected = [
        ("aiostorm_tuples_executed", "_total", {}, 8),
        ("aiostorm_tuples_emitted", "_total", {"stream": "default"}, 5),
        ("aiostorm_tuples_transferred", "_total", {"stream": "default", "target": "out"}, 10),
        ("aiostorm_task_busy_seconds", "_total", {}, 1.5),
        ("aiostorm_execute_duration_seconds", "_count", {}, 6),
        ("aiostorm_execute_duration_seconds", "_sum", {}, 4.5),
        ("aiostorm_execute_duration_seconds", "_bucket", {"le": "1.0"}, 3),
        ("aiostorm_execute_duration_seconds", "_bucket", {"le": "4.0"}, 6),
        ("aiostorm_execute_duration_seconds", "_bucket", {"le": "+Inf"}, 6),
        ("aiostorm_mailbox_fill_ratio", "", {}, 0.25),
        ("aiostorm_watermark_lag_seconds", "", {}, 1.5),
        ("aiostorm_window_open", "", {}, 2),
        ("aiostorm_spout_left", "", {"unit": "files"}, 7),
    ]
    for name, suffix, labels, value in expected:
        assert samples(found[name])[name + suffix, labelled(**labels)] == value, name
    of_worker = frozenset({"topology": "t", "worker": "worker-1"}.items())
    assert samples(found["aiostorm_event_loop_lag_seconds"]) == {("aiostorm_event_loop_lag_seconds", of_worker): 0.25}
    assert "aiostorm_worker_open_files" not in found
    assert (
        samples(found["aiostorm_snapshots_taken"])["aiostorm_snapshots_taken_total", frozenset({("topology", "t")})]
        == 2
    )
    for name, value in (("stored", 120), ("quota", 1000)):
        found_bytes = samples(found[f"aiostorm_snapshots_{name}_bytes"])
        assert found_bytes == {(f"aiostorm_snapshots_{name}_bytes", frozenset({("topology", "t")})): value}
    assert text.endswith("# EOF\n") == (kind == OPENMETRICS)
    assert found["aiostorm_tuples_executed"].type == "counter"
    assert found["aiostorm_tuples_executed"].documentation == "Tuples executed."
    assert found["aiostorm_execute_duration_seconds"].type == "histogram"


def test_what_components_measure() -> None:
    own = (
        Series("hits", "counter", (("kind", 'a"\\\nä'),), 3),
        Series("open", "gauge", (), math.nan),
        Series("rows", "meter", (), 6, rate=0.5),
        Series("sizes", "histogram", (), 6, histogram=LATENCY),
    )
    found = parsed(render({"t": one(*own)}))
    assert samples(found["aiostorm_user_hits"]) == {("aiostorm_user_hits_total", labelled(kind='a"\\\nä')): 3}
    assert math.isnan(found["aiostorm_user_open"].samples[0].value)
    assert samples(found["aiostorm_user_rows"]) == {("aiostorm_user_rows_total", labelled()): 6}
    assert samples(found["aiostorm_user_sizes"])["aiostorm_user_sizes_bucket", labelled(le="4.0")] == 6


def test_two_topologies_that_use_a_name_for_two_kinds() -> None:
    one_kind, other = one(Series("x", "counter", (), 1)), one(Series("x", "gauge", (), 2.0))
    found = parsed(render({"t": one_kind, "u": other}))
    assert samples(found["aiostorm_user_x"]) == {("aiostorm_user_x_total", labelled()): 1}
    assert samples(found["aiostorm_user_x_gauge"]) == {("aiostorm_user_x_gauge", labelled(topology="u")): 2}
    assert len(samples(found["aiostorm_tuples_executed"])) == 2


@given(st.text(max_size=20), st.text(max_size=20), st.floats())
def test_any_text_and_number_is_read_as_it_was(topology: str, label: str, value: float) -> None:
    topology, label = (text.encode("utf-8", "replace").decode() for text in (topology, label))
    found = parsed(render({topology: one(Series("x", "gauge", (("k", label),), value))}))
    (sample,) = found["aiostorm_user_x"].samples
    assert (sample.labels["topology"], sample.labels["k"]) == (topology, label)
    assert sample.value == value or math.isnan(sample.value) == math.isnan(value)


def test_the_page_of_metrics_has_all_families() -> None:
    own = [Series(f"k{i}", "counter", (), 1) for i in range(2)]
    processes = {"worker-1": ProcessMetrics(7, 1.5, 1000, 4, 0.25, 4, 0.5)}
    metrics = one(*own, processes=processes, snapshots=SNAPSHOTS)
    latencies = TaskMetrics(3, process_latency=LATENCY, complete_latency=LATENCY)
    metrics = TopologyMetrics(
        [*metrics.values(), ComponentMetrics("d", "spout", (latencies,))], metrics.processes, metrics.snapshots
    )
    page = PAGE.read_text("utf-8")
    assert families_table() in page
    known = set(re.findall("`(aiostorm_[a-z_]+)`", page))
    assert known == {family.name for family in families({"t": metrics}) if "_user_" not in family.name}


def test_nothing() -> None:
    assert render({}) == "# EOF\n"
    assert render({}, PLAIN_TEXT) == "\n"
    assert parsed(render({"t": TopologyMetrics(())})) == {}


async def test_of_a_topology_that_runs(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(FixedSpout(rows(range(10)), "n"), sink=Recorder()))
    await running.wait_finished()
    found = parsed(render({"t": running.metrics()}))
    executed = samples(found["aiostorm_tuples_executed"])
    assert executed["aiostorm_tuples_executed_total", labelled(component="sink")] == 10
    latency = samples(found["aiostorm_complete_duration_seconds"])
    assert latency["aiostorm_complete_duration_seconds_count", labelled(component="spout")] == 10
    assert ("aiostorm_mailbox_capacity", labelled(component="__acker")) in samples(found["aiostorm_mailbox_capacity"])


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", PLAIN_TEXT),
        ("*/*", PLAIN_TEXT),
        ("text/plain", PLAIN_TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1",
            OPENMETRICS,
        ),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.5", PLAIN_TEXT),
        ("application/openmetrics-text;q=0", PLAIN_TEXT),
        ("application/openmetrics-text;q=x", PLAIN_TEXT),
        ("text/html", PLAIN_TEXT),
    ],
)
def test_the_format_is_negotiated(accept: str, kind: str) -> None:
    assert content_type(accept) == kind
