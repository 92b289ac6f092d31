"""Rows of a sink between their tuple and its ack: buffered, written in order, held while the store is unavailable."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.spark import OutputExistsError, SinkError
from aiostorm.spark.sinks.held_writes import FIRST_S
from aiostorm.spark.sinks.parquet_files import DatasetSchema
from aiostorm.spark.sinks.pending_writes import FlushLimits, PendingWrites
from aiostorm.topology import ColumnRows, Fields, Origin, Segment

from .parquet_parts import chunk, pa

ORIGIN = Origin("source", 1, "default", Fields("k", "word", "one"))


class Collector:
    """What the sink did with its tuples, by chunk."""

    def __init__(self) -> None:
        self.acked: list[str] = []
        self.failed: dict[str, str] = {}
        self.reported: list[str] = []
        self.restarted = 0

    def ack(self, tuples: Any) -> None:
        self.acked += map(name_of, tuples.segments)

    def fail(self, tuples: Any, error: str) -> None:
        self.failed |= dict.fromkeys(map(name_of, tuples.segments), error)

    def report_error(self, error: Exception) -> None:
        self.reported.append(str(error))

    def reset_timeout(self, tup: Any) -> None:
        self.restarted += 1


def name_of(segment: Any) -> str:
    return str(segment.items.batch.column("k")[0].as_py() // 20)


def segment(number: int, *, named: bool = True, batch: Any = None) -> Segment:
    made = chunk(number) if batch is None else batch
    made = made if named else made.replace_schema_metadata(None)
    return Segment(ORIGIN, ColumnRows(made, False))


def pending(max_rows: int = 1000, schema: Any = None) -> tuple[PendingWrites, Any]:
    collector: Any = Collector()
    limits = FlushLimits(max_rows, 1 << 20, FIRST_S)
    return PendingWrites(collector, DatasetSchema(schema, ()), limits, lambda: 1.0), collector


def unavailable() -> SinkError:
    error = SinkError("the disk is full")
    error.temporary = True
    return error


def test_a_chunk_is_a_write_of_its_own_or_is_buffered_with_other_rows() -> None:
    writes, collector = pending()
    assert writes.add(segment(0), buffers_chunks=False)
    writes.done()
    assert collector.acked == ["0"]
    assert not writes.add(segment(1), buffers_chunks=True)
    assert not writes.add(segment(2, named=False), buffers_chunks=True)
    assert not writes.tick()
    assert writes.tick()
    [write] = writes.writes
    assert [rows.identity for rows in write.rows] == [{b"aiostorm.chunk": b"s/0/1"}, {}]
    writes.done()
    assert (collector.acked, writes.writes) == (["0", "1", "2"], ())


def test_a_full_buffer_is_a_write_at_once() -> None:
    writes, _ = pending(max_rows=40)
    assert not writes.add(segment(0, named=False), buffers_chunks=False)
    assert writes.add(segment(1, named=False), buffers_chunks=False)
    assert [len(write.rows) for write in writes.writes] == [2]


def test_while_the_store_is_unavailable_writes_are_held_in_order_and_do_not_time_out() -> None:
    writes, collector = pending()
    assert writes.add(segment(0), buffers_chunks=False)
    assert not writes.failed(unavailable())
    assert collector.reported == ["the disk is full; held, and tried again in 0.1 s"]
    assert not writes.add(segment(1), buffers_chunks=False), "it waits for the first"
    assert writes.tick()
    assert collector.restarted == 2
    assert not writes.failed(unavailable())
    assert not writes.tick(), "the second wait is longer"
    assert writes.tick()
    for _ in range(2):
        writes.done()
    assert (collector.acked, collector.failed) == (["0", "1"], {})


def test_rows_that_can_never_be_written_fail_alone() -> None:
    writes, collector = pending()
    for number in range(2):
        writes.add(segment(number), buffers_chunks=False)
    assert writes.failed(SinkError("too long"))
    writes.done()
    other = chunk(2).set_column(2, "one", pa.array(["x"] * 20))
    assert not writes.add(segment(2, batch=other), buffers_chunks=False)
    assert collector.acked == ["1"]
    assert collector.failed["0"] == "SinkError: too long"
    assert "column 'one' came as string" in collector.failed["2"]


def test_an_error_of_the_whole_output_is_raised_and_the_end_fails_what_is_left() -> None:
    writes, collector = pending()
    writes.add(segment(0), buffers_chunks=False)
    with pytest.raises(OutputExistsError):
        writes.failed(OutputExistsError("it has other data"))
    assert writes.give_up("not until the end")
    assert collector.failed == {"0": "SinkError: not until the end"}
    assert not writes.give_up("nothing is left")
