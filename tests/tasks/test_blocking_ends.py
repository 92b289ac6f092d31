"""A bolt that blocks emits and acks outside of its turns, too: when it is prepared, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, LocalCluster

from .parts import Notes, Numbers, line

pytestmark = pytest.mark.sockets


class Keeper(Bolt):
    """Says hello when it is prepared; acks what it has, and says how many that were, when it ends."""

    outputs = "said"
    blocking = True

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.kept: list[Any] = []
        collector.emit(("hello",))

    def execute(self, tup: Any) -> None:
        self.kept.append(tup)

    def cleanup(self) -> None:
        for tup in self.kept:
            self.collector.ack(tup)
        self.collector.emit((len(self.kept),))


class Receive(BasicBolt):
    def __init__(self) -> None:
        self.outcomes = Notes()

    def execute(self, tup: Any, collector: Any) -> None:
        self.outcomes.append(tup["said"])


async def test_emits_and_acks_of_the_end_are_received():
    spout, receive = Numbers(3), Receive()
    async with LocalCluster() as cluster:
        running = await cluster.submit(
            "t", line(spout, keep=Keeper(), receive=receive), {"topology.message.timeout.secs": 30}
        )
        await until(lambda: running.metrics()["keep"].executed == 3 and bool(receive.outcomes))
        await running.kill(0.2)
        assert not running.errors()
    assert receive.outcomes == ["hello", 3]


async def until(ready: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not ready():  # noqa: ASYNC110 - metrics do not say when they change
            await asyncio.sleep(0.001)
