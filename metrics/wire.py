"""Wire: the metrics of a task as one flat row of plain values, as workers report them to their parent.

A worker reports all its tasks four times a second: as records inside records they would take eight times as long to
encode. A flat row is encoded by msgpack at once, and what is empty takes one byte.

    task id, fill, capacity, numbers…, histograms…, streams…, edges…, time…, progress…, own series…
    (a list is its length and its parts; an object that may be None is 0, or 1 and its fields)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from itertools import chain
from typing import Any, Final

from .counters import ProgressMetrics, TaskMetrics, TimeMetrics
from .declared import HISTOGRAMS, METRICS
from .histogram import Histogram
from .series import Series

WireRow = tuple[int | float | str | bool | None, ...]

_NUMBERS: Final = tuple(name for name in METRICS if name not in HISTOGRAMS)


def pack_task(task: TaskMetrics) -> WireRow:
    """The row of a task."""
    row: list[Any] = [task.task_id, task.fill, task.capacity]
    row += [getattr(task, name) for name in _NUMBERS]
    for name in HISTOGRAMS:
        _pack_rows(row, getattr(task, name).buckets)
    _pack_rows(row, task.streams)
    _pack_rows(row, task.edges)
    time, progress = task.time, task.progress
    if time is None:
        row.append(0)
    else:
        row += (1, time.live, time.watermark_ms, time.lag_ms, time.ended, time.buffered)
        _pack_rows(row, time.inputs)
        _pack_rows(row, [(idle,) for idle in time.idle])
    row += (0,) if progress is None else (1, *astuple(progress))
    row.append(len(task.own))
    for one in task.own:
        row += (one.name, one.kind, one.value, one.rate, one.combine, one.histogram.total)
        _pack_rows(row, one.labels)
        _pack_rows(row, one.histogram.buckets)
    return tuple(row)


def unpack_task(row: WireRow) -> TaskMetrics:
    """The task of a row. ValueError if it is not what `pack_task` makes."""
    parts: Iterator[Any] = iter(row)
    try:
        task = _unpack(parts)
    except (StopIteration, TypeError) as error:
        raise ValueError("a row of metrics that is too short, or not one") from error
    if next(parts, None) is not None:
        raise ValueError("a row of metrics that is too long")
    return task


def _unpack(parts: Iterator[Any]) -> TaskMetrics:
    task_id, fill, capacity = next(parts), next(parts), next(parts)
    metrics: dict[str, Any] = {name: next(parts) for name in _NUMBERS}
    for name in HISTOGRAMS:
        metrics[name] = Histogram(_unpack_rows(parts, 2), metrics[METRICS[name].total])
    streams, edges = _unpack_rows(parts, 2), _unpack_rows(parts, 3)
    time = progress = None
    if next(parts):
        live, watermark_ms, lag_ms, ended, buffered = _take(parts, 5)
        inputs, idle = _unpack_rows(parts, 2), tuple(chain.from_iterable(_unpack_rows(parts, 1)))
        time = TimeMetrics(live, watermark_ms, lag_ms, ended, inputs, idle, buffered)
    if next(parts):
        progress = ProgressMetrics(*_take(parts, 6))
    own = tuple(_unpack_series(parts) for _ in range(next(parts)))
    return TaskMetrics(
        task_id=task_id,
        fill=fill,
        capacity=capacity,
        time=time,
        progress=progress,
        streams=streams,
        edges=edges,
        own=own,
        **metrics,
    )


def _unpack_series(parts: Iterator[Any]) -> Series:
    name, kind, value, rate, combine, total = _take(parts, 6)
    labels, buckets = _unpack_rows(parts, 2), _unpack_rows(parts, 2)
    return Series(name, kind, labels, value, rate, Histogram(buckets, total), combine)


def _pack_rows(row: list[Any], rows: Sequence[Sequence[Any]]) -> None:
    row.append(len(rows))
    row.extend(chain.from_iterable(rows))


def _unpack_rows(parts: Iterator[Any], width: int) -> tuple[Any, ...]:
    return tuple([_take(parts, width) for _ in range(next(parts))])


def _take(parts: Iterator[Any], count: int) -> tuple[Any, ...]:
    return tuple([next(parts) for _ in range(count)])
