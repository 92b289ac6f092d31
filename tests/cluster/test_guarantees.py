"""A topology says once which guarantee it runs with, if a restart would lose what it keeps."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from aiostorm import BasicBolt, Config, LocalCluster, TopologyBuilder, TopologyError, spout
from aiostorm.state import KeyedState


@spout("word")
def words() -> Iterator[str]:
    yield "a"


class Count(BasicBolt):
    state = KeyedState(key="word")

    def execute(self, tup: Any, collector: Any) -> None: ...


def topology() -> Any:
    builder = TopologyBuilder()
    builder.set_spout("words", words)
    builder.set_bolt("count", Count, parallelism=2).fields_grouping("words", "word")
    return builder.create_topology()


async def test_state_that_a_restart_loses_is_a_warning(
    local_cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "aiostorm")
    running = await local_cluster.submit("t", topology())
    await running.wait_finished()
    (text,) = caplog.messages
    assert text.startswith("topology t: only in memory with at-least-once, its guarantee: state of 'count'. After a ")
    await local_cluster.submit("chosen", topology(), Config(guarantee="at-least-once"))
    assert caplog.messages == [text]


async def test_what_the_guarantee_forbids_is_refused_before_anything_starts(local_cluster: LocalCluster) -> None:
    with pytest.raises(TopologyError, match=r"spout 'words': @spout function 'words' is called again after a failure"):
        await local_cluster.submit("t", topology(), Config(guarantee="exactly-once"))
    assert not local_cluster.topologies
