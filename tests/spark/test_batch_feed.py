"""A feed that cannot be closed: jobs left in Spark are reported, unless Spark has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from aiostorm.spark.batch.feed import Feed, FetchOpener, close_quietly
from aiostorm.spark.batch.group_size import GroupSize
from aiostorm.spark.batch.partitions import Partitions
from aiostorm.spark.calls import SparkCalls


def session(*, stopped: bool) -> Any:
    """As much of one as is asked whether it lives."""
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: stopped)))
    return SimpleNamespace(sparkContext=context)


def feed(cancel: Callable[[], None]) -> Feed:
    machine, calls = Partitions(0), SparkCalls(1)
    opener = FetchOpener(machine, lambda group: pytest.fail("nothing is read"), GroupSize(), cancel)
    return Feed(machine, opener, calls, ahead=1, max_pending=1, in_order=False, changed=lambda: None)


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_feed_that_cannot_be_closed_is_reported(stopped: bool, caplog: pytest.LogCaptureFixture) -> None:
    def cancel() -> None:
        raise ValueError("Spark says no")

    with caplog.at_level(logging.DEBUG, "aiostorm.spark"):
        lost = await asyncio.to_thread(close_quietly, feed(cancel), session(stopped=stopped), "flights[1]")
    assert lost is stopped
    [record] = caplog.records
    if stopped:
        assert (record.levelno, record.message) == (
            logging.DEBUG,
            "flights[1]: Spark was lost when its jobs were ended: Spark says no",
        )
    else:
        assert record.levelno == logging.WARNING
        assert "flights[1]: jobs left in Spark were not ended" in record.message
        assert "Spark says no" in record.message


async def test_one_that_is_closed_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "aiostorm.spark"):
        await asyncio.to_thread(close_quietly, feed(lambda: None), session(stopped=False), "flights[1]")
    assert not caplog.records
