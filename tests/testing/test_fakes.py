"""Resources that a test gives: to one bolt, to a whole topology, to one that is tracked. They are never opened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aiostorm import BasicBolt, LocalCluster, Topology, TopologyBuilder
from aiostorm.testing import FeederSpout, FixedSpout, ScriptError, bolt_harness, complete_topology, track_topology


class Save(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.saved: list[int] = context.resource("db")

    def execute(self, tup: Any, collector: Any) -> None:
        if tup["n"] < 0:
            raise ValueError("below nothing")
        self.saved.append(tup["n"])


def refuses() -> Iterator[None]:
    raise ConnectionRefusedError("a test must not reach it")
    yield


opened: list[str] = []


def clock() -> Iterator[str]:
    opened.append("clock")
    yield "clock"


def topology(source: Any) -> Topology:
    builder = TopologyBuilder()
    builder.resource("db", refuses)
    builder.resource("clock", clock)
    builder.set_spout("numbers", source)
    builder.set_bolt("save", Save, 2).shuffle_grouping("numbers")
    return builder.create_topology()


async def test_one_bolt() -> None:
    saved: list[int] = []
    async with bolt_harness(Save, fields="n", resources={"db": saved}) as h:
        await h.execute(1)
        await h.execute(2)
        assert h.acked == [(1,), (2,)]
    assert saved == [1, 2]


async def test_a_bolt_without_a_resource_gets_an_error_with_the_remedy() -> None:
    with pytest.raises(Exception, match=r"no resource 'db' is declared: .*resources={name: …} gives one to a test"):
        async with bolt_harness(Save, fields="n"):
            """It cannot be prepared."""


async def test_a_whole_topology() -> None:
    del opened[:]
    saved: list[int] = []
    done = await complete_topology(topology(FixedSpout([1, 2, 3], "n")), resources={"db": saved})
    assert sorted(saved) == [1, 2, 3]
    assert done.acked == 3
    assert opened == ["clock"], "what is not given is opened"


async def test_a_tracked_resource(local_cluster: LocalCluster) -> None:
    saved: list[int] = []
    feeder = FeederSpout("n")
    tracked = await track_topology(local_cluster, topology(feeder), resources={"db": saved, "clock": None})
    await feeder.feed_all([4, 5])
    await tracked.wait_all_acked()
    assert sorted(saved) == [4, 5]


@pytest.mark.parametrize(("name", "hint"), [("bd", "there are: db, clock"), ("clok", "did you mean 'clock'")])
async def test_an_unknown_resource_is_refused(name: str, hint: str) -> None:
    with pytest.raises(ScriptError, match=f"no resource '{name}'; {hint}"):
        await complete_topology(topology(FixedSpout([1], "n")), resources={name: None})
