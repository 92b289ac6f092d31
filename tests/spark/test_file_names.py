"""Names of files: they stay what they are, since a later run finds its files by them."""

from __future__ import annotations

import pytest

from aiostorm.spark import SinkError
from aiostorm.spark.sinks.parquet_names import file_name, folder_of, is_stale, receipt_name, rows_name
from aiostorm.spark.stream.batches import ChunkDigests, MicroBatch, StreamBatches


def test_names_stay_what_they_are() -> None:
    assert (
        file_name("lines/7/3", "origin=SFO/day=1", b"abc") == "part-lines-7-3-origin-SFO-day-1-ff434bfcf2f59d39.parquet"
    )
    assert file_name("//", "", b"") == "part-chunk-367abf7b0af6992b.parquet"
    assert receipt_name("t", "a/b", 3) == "whole-a-b-19ce334e2ae7eb2e-3.tmp"


def test_names_are_bounded() -> None:
    shown = file_name("a" * 121, "b" * 17, b"").split("-")[1:3]
    assert shown == ["a" * 120, "b" * 16]
    assert rows_name("a" * 121, 1, "token", 2) == f"rows-{'a' * 120}-1-token-2.parquet"
    assert folder_of(["f"], ["x" * 253]) == "f=" + "x" * 253
    with pytest.raises(SinkError, match="too long for the name of a folder"):
        folder_of(["f"], ["x" * 254])


def test_a_temporary_file_is_stale_after_an_hour() -> None:
    assert [is_stale("a.tmp", age_s) for age_s in (3_599, 3_600, 3_600.1)] == [False, False, True]
    assert not is_stale("a.parquet", 10**6)


def test_batches_and_their_rows_are_counted() -> None:
    batches = StreamBatches("clicks", 3)
    assert (batches.done, batches.last_done, batches.rows) == (0, -1, 0)
    for batch_id in (4, 5):
        batch = batches.begin(batch_id)
        batch.begin_pass()
        assert batch.offer(0, 0, 7, 10)
        assert batch.offer(1, 0, 8, 5)
        assert batch.rows == 15
        batches.count(batch)
    assert (batches.done, batches.last_done, batches.rows) == (2, 5, 30)


def test_chunks_that_are_missing_are_named() -> None:
    digests = ChunkDigests()
    batch = MicroBatch("clicks", 1, 3, digests)
    batch.begin_pass()
    for chunk in range(2):
        batch.offer(0, chunk, chunk, 1)
    assert digests.missing({0: 1}) == "partition 0 has 1 chunks, and had 2"
    assert (digests.missing({0: 2}), digests.whole) == ("", True)
