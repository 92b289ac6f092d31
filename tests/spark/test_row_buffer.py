"""The buffer of a sink: when it is full, and which tick takes what is in it."""

from __future__ import annotations

from aiostorm.spark.sinks.row_buffer import RowBuffer


def test_it_is_full_at_its_rows_or_its_bytes() -> None:
    buffer: RowBuffer[str] = RowBuffer(10, 100)
    assert (buffer.rows, buffer.size_bytes) == (0, 0)
    assert [buffer.add("a", 4, 1), buffer.add("b", 5, 1), buffer.add("c", 1, 1)] == [False, False, True]
    assert (buffer.rows, buffer.size_bytes) == (10, 3)
    assert buffer.take() == ["a", "b", "c"]
    assert (buffer.rows, buffer.size_bytes) == (0, 0)
    assert [buffer.add("d", 1, 99), buffer.add("e", 1, 1), buffer.add("f", 0, 0)] == [False, True, True]
    assert buffer.take() == ["d", "e", "f"]
    assert buffer.take() == []


def test_a_tick_takes_what_was_there_at_the_tick_before() -> None:
    buffer: RowBuffer[str] = RowBuffer(10, 100)
    buffer.add("a", 1, 1)
    assert [buffer.tick(), buffer.tick(), buffer.tick()] == [False, True, True]
    buffer.take()
    assert [buffer.tick(), buffer.tick()] == [False, False]
    buffer.add("b", 1, 1)
    assert not buffer.tick()
    buffer.take()
    buffer.add("c", 1, 1)
    assert not buffer.tick(), "it has not waited a whole interval"
    assert buffer.tick()
