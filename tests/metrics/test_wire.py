"""Wire: what a worker reports of a task is what its parent reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.metrics import (
    METRICS,
    Histogram,
    ProgressMetrics,
    Series,
    TaskMetrics,
    TimeMetrics,
    pack_task,
    unpack_task,
)
from aiostorm.metrics.declared import HISTOGRAMS
from aiostorm.transport import pack_value, unpack_value

count = st.integers(0, 2**60)
text = st.text(max_size=8)
buckets = st.lists(st.tuples(st.integers(-89, 168), count), max_size=5).map(tuple)
histograms = st.builds(Histogram, buckets, st.floats(0, 1e9))
times = st.builds(
    TimeMetrics,
    live=count,
    watermark_ms=st.none() | count,
    lag_ms=st.none() | count,
    ended=st.booleans(),
    inputs=st.lists(st.tuples(count, st.none() | count), max_size=3).map(tuple),
    idle=st.lists(count, max_size=3).map(tuple),
    buffered=st.booleans(),
)
series = st.builds(
    Series,
    name=text,
    kind=st.sampled_from(["counter", "gauge", "meter", "histogram"]),
    labels=st.lists(st.tuples(text, text), max_size=3).map(tuple),
    value=count | st.floats(allow_nan=False),
    rate=st.floats(0, 1e9),
    histogram=histograms,
    combine=st.sampled_from(["sum", "max", "min"]),
)


@st.composite
def tasks(draw: Any) -> TaskMetrics:
    metrics = {name: draw(count) for name in METRICS}
    for name in HISTOGRAMS:
        metrics[name] = Histogram(draw(buckets), metrics[METRICS[name].total])
    return TaskMetrics(
        task_id=draw(count),
        fill=draw(count),
        capacity=draw(count),
        time=draw(st.none() | times),
        progress=draw(st.none() | st.builds(ProgressMetrics, text, count, count, count, count, text)),
        streams=draw(st.lists(st.tuples(text, count), max_size=3).map(tuple)),
        edges=draw(st.lists(st.tuples(text, text, count), max_size=3).map(tuple)),
        own=draw(st.lists(series, max_size=3).map(tuple)),
        **metrics,
    )


@given(tasks())
def test_a_task_is_read_as_it_was(task: TaskMetrics) -> None:
    assert unpack_task(unpack_value(pack_value(pack_task(task)))) == task


def test_an_empty_task_takes_little() -> None:
    assert len(pack_value(pack_task(TaskMetrics(7)))) < 120


@given(tasks(), st.integers(0, 30))
def test_another_row_is_refused(task: TaskMetrics, cut: int) -> None:
    row = pack_task(task)
    with pytest.raises(ValueError, match="too short"):
        unpack_task(row[: min(cut, len(row) - 1)])
    with pytest.raises(ValueError, match="too long"):
        unpack_task((*row, 1))
